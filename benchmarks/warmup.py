"""How short a warm-up of NUTS may be: speed and diagnostics by its length, for every program.

    python benchmarks/warmup.py                       20 data sets per estimator, a few hours
    python benchmarks/warmup.py --only BDR --seeds 5
    python benchmarks/warmup.py --quick

Per estimator and warm-up length: the median, over data sets, of the smallest bulk and tail ESS per
processor second and of the seconds; the largest R-hat and the divergences of all data sets. Chains
of one data set run by themselves, the lengths in turn.
"""

import argparse
import resource
import warnings

import numpy as np
import pandas as pd

from bdr_stan import (
    BDR,
    BLR,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    Shrinkage,
)

LENGTHS = (1000, 500, 300, 200)
ESTIMATORS = {
    "BDR": (BDR(), "normal"),
    "BDR, size noise": (BDR(label_noise="size"), "normal"),
    "BDR, 20 landmarks": (BDR(20, kernel="rbf"), "normal"),
    "Shrinkage": (Shrinkage(), "normal"),
    "BLR": (BLR(), "normal"),
    "BDRClassifier": (BDRClassifier(), "binary"),
    "BLRClassifier": (BLRClassifier(), "binary"),
    "InverseBDR": (InverseBDR(20), "normal"),
    "totals, normal": (AggregateRegressor(n_landmarks=20, likelihood="normal"), "totals"),
    "totals, negative binomial": (AggregateRegressor(n_landmarks=20), "counts"),
    "totals, square": (AggregateRegressor(n_landmarks=20, link="square"), "counts"),
    "totals, binomial": (AggregateRegressor(n_landmarks=20, likelihood="binomial"), "trials"),
}


def bags_and_labels(seed, n):
    """n bags of unequal sizes with two correlated covariates, and labels of each kind."""
    rng = np.random.default_rng(seed)
    sizes = np.ceil(rng.lognormal(np.log(20), 1, n)).astype(int)
    centre = rng.normal(size=(n, 5))
    points = 1.5 * np.repeat(centre, sizes, axis=0) + rng.normal(size=(sizes.sum(), 5))
    curve = np.sin(1.5 * centre[:, 0]) + 0.5 * centre[:, 1] * centre[:, 2]
    rate = np.exp(0.3 * np.sin(points[:, 0]) + 0.3 * points[:, 1])
    totals = np.add.reduceat(rate, np.r_[0, np.cumsum(sizes)[:-1]])
    counts = rng.poisson(totals * rng.gamma(10, 0.1, n))
    share = 1 / (1 + np.exp(-rate + 1))
    part = np.add.reduceat(share, np.r_[0, np.cumsum(sizes)[:-1]]) / sizes
    labels = {
        "normal": curve + 0.3 * rng.normal(size=n),
        "binary": (curve + 0.5 * rng.normal(size=n) > 0).astype(int),
        "totals": totals + rng.normal(size=n),
        "counts": counts,
        "trials": rng.binomial(50, part),
    }
    first = centre[:, 0] + 0.2 * rng.normal(size=n)
    covariates = pd.DataFrame({"first": first, "second": first + 0.3 * rng.normal(size=n)})
    return Bags.from_points(points, sizes=sizes, metadata=covariates), labels


def measured(model, kind, seed, n, warmup, draws, **sampling):
    """Diagnostics of one fit by NUTS, and the processor seconds of its chains."""
    bags, labels = bags_and_labels(seed, n)
    more = {"trials": np.full(n, 50)} if kind == "trials" else {}
    before = _children()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(method="nuts").fit(
            bags, labels[kind], seed=seed, warmup=warmup, draws=draws, **more, **sampling
        )
    return {**model.diagnostics(), "seconds": _children() - before}


def _children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(ESTIMATORS), choices=list(ESTIMATORS))
    parser.add_argument("--seeds", type=int, default=20, help="data sets per estimator")
    parser.add_argument("--bags", type=int, default=300)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--quick", action="store_true", help="BLR, 2 data sets of 40 bags")
    args = parser.parse_args()
    if args.quick:
        args.only, args.seeds, args.bags, args.draws = ["BLR"], 2, 40, 100
        args.lengths = (200, 100)

    print("estimator                  warm-up  seconds  bulk/s  tail/s  R-hat  diverged  poor")
    for name in args.only:
        model, kind = ESTIMATORS[name]
        found = {length: [] for length in args.lengths}
        for seed in range(args.seeds):
            for length in args.lengths:
                fit = measured(model, kind, seed, args.bags, length, args.draws)
                found[length].append(fit)
        for length, fits in found.items():
            seconds = np.array([fit["seconds"] for fit in fits])
            bulk, tail = (
                np.median([fit[f"min_ess_{part}"] for fit in fits] / seconds)
                for part in ("bulk", "tail")
            )
            r_hat = [fit["max_r_hat"] for fit in fits]
            print(
                f"{name:26} {length:7} {np.median(seconds):8.1f} {bulk:7.0f} {tail:7.0f} "
                f"{max(r_hat):6.3f} {sum(fit['divergences'] for fit in fits):9} "
                f"{sum(value > 1.01 for value in r_hat):5}",
                flush=True,
            )


if __name__ == "__main__":
    main()
