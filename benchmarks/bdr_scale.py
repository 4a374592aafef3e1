"""BDR by NUTS where there are many bags: as many as the faces, and a million of 10^7 points.

python benchmarks/bdr_scale.py                          both, 4 chains x (300 + 1000)
python benchmarks/bdr_scale.py --case bags --bags 1e5
python benchmarks/bdr_scale.py --case bags --bags 16000 --median 60 --rows both
python benchmarks/bdr_scale.py --case bags --bags 1e6 --median 250 --folder points
python benchmarks/bdr_scale.py --case bags --bags 1000 --median 20 --columns 10 --kernel rbf
PYTHONPATH=../before python benchmarks/bdr_scale.py --case bags --bags 16000 --kernel rbf
                                       times of another tree, which lies in ../before

Points lie in a memory map in a temporary folder, or in --folder, 20 bytes each: with a median of
250, 10^6 bags take 8 GB. Wall times are those of a quiet machine alone; processor times and
leapfrog steps of any. The time of a gradient is that of steps of one length, without the start of
the program.
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from bdr_stan import BDR, Bags
from bdr_stan.cmdstan.programs import compile_program

BAGS_AT_ONCE = 10_000


def heavy_tailed_sizes(rng, n, smallest=3.5):
    """10 points on average; of infinite variance, up to 20,000."""
    return np.clip(smallest / rng.random(n) ** (2 / 3), 1, 20_000).astype(int)


def lognormal_sizes(rng, n, median):
    """Sizes of which most differ."""
    return np.ceil(rng.lognormal(np.log(median), 1, n)).astype(int)


def bags_and_labels(rng, sizes, n_features, folder):
    """Points around a centre of each bag, in whose coordinates the label is not linear."""
    n = len(sizes)
    centre = rng.standard_normal((n, n_features), dtype=np.float32)
    with open(folder / "points", "wb") as file:
        for first in range(0, n, BAGS_AT_ONCE):
            some = slice(first, first + BAGS_AT_ONCE)
            points = rng.standard_normal((sizes[some].sum(), n_features), dtype=np.float32)
            points += 0.6 * np.repeat(centre[some], sizes[some], axis=0)
            points.tofile(file)
    y = np.sin(1.5 * centre[:, 0]) + 0.5 * centre[:, 1] * centre[:, 2] + 0.2 * rng.normal(size=n)
    points = np.memmap(folder / "points", np.float32, "r", shape=(sizes.sum(), n_features))
    return Bags.from_points(points, sizes=sizes), y.astype(float)


def milliseconds_of_gradient(model, training, y):
    """Processor time of a leapfrog step of one chain, from two runs of different lengths."""
    steps, seconds = [], []
    for draws in (20, 220):
        before = _children()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these are no draws to use
            model.fit_features(
                training, y, chains=1, warmup=0, draws=draws, seed=0,
                adapt_engaged=False, step_size=0.01, max_treedepth=4,
            )  # fmt: skip
        seconds.append(_children() - before)
        steps.append(model.idata["sample_stats"]["n_steps"].values.sum())
    return 1e3 * np.diff(seconds)[0] / np.diff(steps)[0]


def report(name, model, bags, y, *, chains, warmup, draws):
    """Fit once, and print what it took."""
    begin = time.perf_counter()
    training = model.training_features(bags, seed=0)
    embedded = time.perf_counter()
    before = _children()
    model.fit_features(training, y, chains=chains, warmup=warmup, draws=draws, seed=0)
    fitted = time.perf_counter()
    found = model.diagnostics()
    steps = model.idata["sample_stats"]["n_steps"].values
    print(
        f"{name}: {len(bags)} bags of {len(np.unique(bags.sizes))} sizes, {len(bags.points)} "
        f"points, {model.n_landmarks} landmarks"
    )
    print(f"  landmarks and embedding {embedded - begin:.1f} s, fit {fitted - embedded:.1f} s")
    print(
        f"  chains {_children() - before:.1f} s of processor time, "
        f"{steps.mean():.1f} leapfrog steps a draw"
    )
    for key, value in found.items():
        print(f"  {key}: {value:.4g}" if isinstance(value, float) else f"  {key}: {value}")
    print(f"  a gradient {milliseconds_of_gradient(model, training, y):.3g} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak memory {peak:.0f} MB", flush=True)


def _children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", choices=["faces", "bags", "both"], default="both")
    parser.add_argument("--bags", type=float, default=1e6)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--median", type=float, help="of lognormal sizes; default heavy tails")
    parser.add_argument(
        "--rows", choices=["compressed", "all", "both"], default="compressed",
        help="rows that the program gets: compressed ones, one per bag, or first these, then those",
    )  # fmt: skip
    parser.add_argument("--kernel", default="auto", help="its name, such as rbf")
    parser.add_argument("--columns", type=int, default=5, help="features of a point")
    parser.add_argument("--folder", type=Path, help="for the points; default a temporary one")
    parser.add_argument("--quick", action="store_true", help="1,000 bags, 10 landmarks")
    args = parser.parse_args()

    run = {"chains": args.chains, "warmup": args.warmup, "draws": 200 if args.quick else args.draws}
    compile_program("bdr")
    if args.case != "bags" and not args.quick:
        from bdr_fit import training_bags  # needs the experiments of this tree

        with tempfile.TemporaryDirectory() as folder:
            bags, y = training_bags(True, folder)
        report("faces", BDR(128, bandwidth="median", bandwidth_scale=0.75), bags, y, **run)
    if args.case != "faces":
        n = 1000 if args.quick else int(args.bags)
        rng = np.random.default_rng(0)
        sizes = lognormal_sizes(rng, n, args.median) if args.median else heavy_tailed_sizes(rng, n)
        n_landmarks = 10 if args.quick else 60
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            bags, y = bags_and_labels(rng, sizes, args.columns, Path(folder))
            for rows in ("all", "compressed"):
                if args.rows in (rows, "both"):
                    model = BDR(n_landmarks, kernel=args.kernel, compress=rows == "compressed")
                    report(f"bags, {rows} rows", model, bags, y, **run)


if __name__ == "__main__":
    main()
