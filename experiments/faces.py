"""The IMDb-WIKI protocol of Law et al. (2018), section 5.2, full BDR included.

    python experiments/faces.py                simulated data of its size (6.5 GB, then removed)
    python experiments/faces.py --features feats.npy --bags person.npy --ages age.npy
    python experiments/faces.py --quick        a small simulation

For each bandwidth, one pass over the images embeds all bags; Shrinkage chooses the bandwidth on the
validation bags; then BLR, Shrinkage and BDR are fitted to the training bags alone and scored on the
test bags. Landmarks, median distance, mean embedding and all labels come from the training bags.
The within-bag covariance of the features needs no labels and is computed from all bags in the pass.
"""

import os
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from bdr_stan import BDR, BLR, Shrinkage, plots
from bdr_stan.bags.record import BagsRecord
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import RBF, LandmarkFeatures, median_bandwidth
from bdr_stan.metrics import calibration, table_by_size
from data_gen.faces import best_predictive, draw_people, write_faces
from experiments.paper_data import load_faces, nested_split
from experiments.report import arguments, markdown, peak_memory

LEVELS = (0.5, 0.8, 0.95)
IN_FIGURE, EDGES = ("BLR", "BDR"), (1, 20)  # models, and classes of 1, 2-20 and more images
BUFFER = 1 << 24  # bytes per read, in the plain read that the pass is compared with


def main():
    args = parse_arguments()
    seconds = {}
    with ExitStack() as stack:
        files, people = args.files, None
        if files is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with timed(seconds, "simulate the data"):
                files = write_faces(folder, seed=args.seed, **args.size)
            people = draw_people(args.size["n_bags"], seed=args.seed)
        bags, y = load_faces(files["features"], files["bags"], files["ages"])
        print(f"{bags}\nlabels: mean {y.mean():.1f}, sd {y.std():.1f} years", flush=True)
        split = nested_split(len(bags), seed=args.seed)
        with timed(seconds, "landmarks and median distance"):
            landmarks, bandwidth = basis_of(bags, split["train"], max(args.landmarks), args.seed)
        features, scales = choose_bandwidth(bags, y, split, landmarks, bandwidth, args, seconds)
        compare_pass(files["features"], bags.points, len(landmarks), seconds)
    fitted, results = fit_all(features, y, split, args, seconds)
    if people is not None:
        results["best possible"] = best_predictive(people, split["test"])
    report(bags, y, split, scales, seconds, fitted, results, args)


def parse_arguments():
    parser = arguments(
        __doc__,
        quick="300 bags, 64 features, short chains",
        output="folder for faces.md and faces.png",
    )
    add_files(parser)
    parser.add_argument("--landmarks", type=int, nargs="+", help="default 64 128; BDR: the largest")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.files = files_of(parser, args)
    if args.output is not None and not args.output.is_dir():
        parser.error(f"there is no folder {args.output}: create it first")
    args.size = {"n_bags": 300, "n_features": 64} if args.quick else {"n_bags": 19_545}
    args.landmarks = sorted(args.landmarks or ([8, 16] if args.quick else [64, 128]))
    args.scales = (1.0, 2.0) if args.quick else (1.0, 2.0, 4.0)
    args.chains = {"warmup": 200, "draws": 200} if args.quick else {}
    return args


def add_files(parser):
    """The options for features of your own."""
    parser.add_argument("--features", help=".npy file, one row per image")
    parser.add_argument("--bags", help=".npy or .csv file, the person of each image")
    parser.add_argument("--ages", help=".npy or .csv file, the age in each image")


def files_of(parser, args):
    """The files given, by option, or None; some without the others end the program."""
    files = {"features": args.features, "bags": args.bags, "ages": args.ages}
    if any(files.values()) and not all(files.values()):
        parser.error("give --features, --bags and --ages together")
    return files if all(files.values()) else None


@contextmanager
def timed(seconds, name):
    """Wall and processor seconds of a step, including its child processes."""
    start, before = time.perf_counter(), sum(os.times()[:4])
    yield
    seconds[name] = time.perf_counter() - start, sum(os.times()[:4]) - before
    print(f"[{seconds[name][0]:6.1f} s] {name}", flush=True)


def basis_of(bags, train, n_landmarks, seed):
    """Random landmarks and the median bandwidth, from images of the training bags."""
    rng = np.random.default_rng(seed)
    of_training = np.isin(np.repeat(np.arange(len(bags)), bags.sizes), train)
    rows = rng.permutation(np.flatnonzero(of_training))
    landmarks = bags.read_rows(rows[:n_landmarks]).astype(float)
    return landmarks, median_bandwidth([bags.read_rows(rows[:2000])])


def choose_bandwidth(bags, y, split, landmarks, bandwidth, args, seconds):
    """Features of all bags at the scale of lowest validation NLL; a table of the NLL by scale."""
    rows, candidates = [], []
    for scale in args.scales:
        with timed(seconds, f"embedding pass, bandwidth x {scale:g}"):
            feature_map = LandmarkFeatures(RBF(scale * bandwidth), landmarks)
            embedding = embed(bags, feature_map, covariance=True)
        features = TrainingFeatures(
            feature_map, feature_map.kernel, embedding, BagsRecord.from_bags(bags)
        )
        with timed(seconds, f"Shrinkage, bandwidth x {scale:g}"):
            model = Shrinkage().fit_features(
                features.take(split["train"]), y[split["train"]], seed=args.seed
            )
            validation = split["validation"]
            predictive = model.predictive_features(embedding.take(validation))
        rows.append(
            {
                "bandwidth scale": scale,
                "validation NLL": -predictive.log_prob(y[validation]).mean(),
            }
        )
        candidates.append(features)
    table = pd.DataFrame(rows).set_index("bandwidth scale")
    return candidates[table["validation NLL"].argmin()], table


def part(features, bags, n):
    """Features of a subset of the bags, with the first n landmarks."""
    chosen = features.take(bags)
    embedding = replace(
        chosen.embedding,
        mean=chosen.embedding.mean[:, :n],
        covariance=chosen.embedding.covariance[:n, :n],
    )
    feature_map = LandmarkFeatures(features.kernel, features.landmarks[:n])
    return replace(chosen, feature_map=feature_map, embedding=embedding)


def compare_pass(path, points, d, seconds):
    """Time a plain read of the file, and one matrix product of the pass's shape."""
    buffer = bytearray(BUFFER)
    with timed(seconds, "plain read"), open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    n, p = points.shape
    rows = min(n, 4096)
    for dtype in (np.float32, np.float64):
        x, u = np.array(points[:rows], dtype), np.ones((p, d), dtype)
        out = x @ u
        with timed(seconds, f"product, {np.dtype(dtype).name}"):
            for _ in range(n // rows):
                np.matmul(x, u, out=out)


def fit_all(features, y, split, args, seconds):
    """Fit each model to the training bags; predictions of the test bags, by name."""
    for name in ("blr", "bdr"):
        compile_program(name)
    most = max(args.landmarks)
    plan = [(n, model) for n in args.landmarks for model in (BLR, Shrinkage)] + [(most, BDR)]
    fitted, predictives = {}, {}
    for n, model in plan:
        name = f"{model.__name__}, {n} landmarks"
        train = part(features, split["train"], n)
        with timed(seconds, f"{name}: fit"):
            fitted[name] = model(n).fit_features(
                train, y[split["train"]], seed=args.seed, **args.chains
            )
        with timed(seconds, f"{name}: predict"):
            test = part(features, split["test"], n).embedding
            predictive = fitted[name].predictive_features(test)
            predictive.interval = cache(predictive.interval)  # for tables and figure
            for level in LEVELS:
                predictive.interval(level)
        predictives[name] = predictive
    return fitted, predictives


def scores(y, predictive, sizes):
    """RMSE, NLL, 95% width and coverage by bag size, and over all bags."""
    table = table_by_size(y, predictive, sizes).drop(columns="coverage")
    table.insert(1, "rmse", np.sqrt(table.pop("mse")))
    cover = calibration(y, predictive, LEVELS, sizes=sizes)
    for level, rows in cover.groupby("level"):
        table[f"{level:.0%}"] = rows.set_index("size")["coverage"]
    return table


def report(bags, y, split, scales, seconds, fitted, predictives, args):
    truth, sizes = y[split["test"]], bags.sizes[split["test"]]
    tables = {name: scores(truth, p, sizes) for name, p in predictives.items()}
    overall = pd.DataFrame({name: table.loc["all"] for name, table in tables.items()}).T
    bdr = next(model for name, model in fitted.items() if name.startswith("BDR"))
    n = max(args.landmarks)
    best = [name for name in predictives if name not in fitted]
    compared = {name: name.split(",")[0] for name in predictives if f" {n} " in name}
    by_size = pd.concat({compared.get(name, name): tables[name] for name in [*compared, *best]})
    own, chain = peak_memory()
    cost = pd.DataFrame(seconds, index=["wall s", "processor s"])
    parts = ", ".join(f"{len(i):,} {name.replace('_', ' ')}" for name, i in split.items())
    command = "python experiments/faces.py" + (" --quick" if args.quick else "")
    text = f"""\
# The IMDb-WIKI protocol with full BDR

{given(args)}

{len(bags):,} bags of {bags.sizes.min()} to {bags.sizes.max()} images \
({(bags.sizes == 1).mean():.1%} with one), {len(bags.points):,} images with \
{bags.n_features:,} features ({bags.points.dtype}).
Split: {parts} bags.
The label is the mean age of a bag's images, sd {y.std():.1f} years. Landmarks are random training
images.

## Test bags

{markdown(overall.drop(columns="n_bags").rename_axis("model"), cell)}

RMSE and width of the 95% interval in years; NLL in nats; the last columns are the coverage of
central 50, 80 and 95% intervals.

{markdown(by_size.reset_index(level=1).rename_axis("model"), cell)}

![Predictive intervals by bag size](faces.png)

## Cost

On {os.cpu_count()} cores; peak memory {own:.2f} GB in Python, and at most {chain:.2f} GB
per chain.

{markdown(cost.T.rename_axis("step"), cell)}

BDR: {diagnostics(bdr)}

{compared_pass(seconds)}

Bandwidth in median distances / sqrt(2), chosen by Shrinkage on the validation bags:

{markdown(scales, cell)}

The within-bag covariance is computed from all bags, without labels; all other inputs of a fit come
from the training bags. All methods of the paper, on ten splits of fewer people, are in
[faces_splits](faces_splits.md).

Reproduce: `{command} --output docs/validation`
"""
    print(f"\n{text}")
    if args.output is not None:
        (args.output / "faces.md").write_text(text)
        shown = {s: predictives[name] for name, s in compared.items() if s in IN_FIGURE}
        figure = plots.prediction(truth, shown, sizes, EDGES, label="mean age, years")
        figure.savefig(args.output / "faces.png", dpi=160)


def compared_pass(seconds):
    """The pass compared with a plain read and a product, in wall and processor time."""
    passes = [times for step, times in seconds.items() if step.startswith("embedding pass")]
    ratio = {}
    for dtype in ("float64", "float32"):
        plain = np.add(seconds["plain read"], seconds[f"product, {dtype}"])
        ratio[dtype] = np.min(passes, axis=0) / plain
    return (
        "The fastest pass over the images takes {:.2f} times the wall time ({:.2f} times the "
        "processor time)\nof a plain read of the file and one float64 matrix product of its shape, "
        "{:.2f} ({:.2f}) times the time of\nthe read and the product in float32. The pass computes "
        "in float64. On a busy machine, processor\ntimes are more reliable.".format(
            *ratio["float64"], *ratio["float32"]
        )
    )


def given(args):
    if args.files is not None:
        return "The features are from files."
    return (
        "**The images are simulated** (`data_gen/faces.py`): the results show cost and "
        "calibration at the\nsize of IMDb-WIKI and cannot be compared with the paper's. "
        '"Best possible" is computed from the\nsimulator.'
    )


def diagnostics(model):
    d = model.diagnostics()
    return (
        f"{d['n_chains']} chains of {d['n_draws']} draws, {d['divergences']} divergences, largest "
        f"R-hat {d['max_r_hat']:.3f} ({d['max_r_hat_of']}), "
        f"smallest\nbulk ESS {d['min_ess_bulk']:.0f} "
        f"({d['min_ess_bulk_of']}), tail ESS {d['min_ess_tail']:.0f} ({d['min_ess_tail_of']}), "
        f"{d['mean_n_steps']:.0f} leapfrog steps per draw."
    )


def cell(value):
    """A number with at most three decimals."""
    if isinstance(value, str) or value == int(value):
        return str(value) if isinstance(value, str) else f"{value:.0f}"
    return f"{value:.1f}" if value >= 20 else f"{value:.3f}"


if __name__ == "__main__":
    main()
