"""Attenuation (regression dilution) of regressions on small bags, and its correction.

Tang et al. (2023): 200 bags of N points from Dirichlet processes on the unit interval, labels
linear in the bags' distributions (``data_gen/dirichlet.py``). The means of N points are measured
with error (errors in variables), and a regression that treats them as exact is attenuated: the
smaller the bags, the flatter its slope. BDR models the error. All bags of a data set have one size,
so labels do not identify eta, the scale of the embeddings' prior: the table shows BDR with its
default prior of eta and with a wide one.

Scores compare the posterior mean g of intercept plus influence with the true f on the grid
0, 0.01, .., 1: L2 error sum (g - f)^2, a sum over the 101 points without root or spacing, as Tang
et al. define it, and the slope of the least-squares line of g on f.
"""

import warnings

import numpy as np
from sklearn.base import clone

from bdr_stan import BDR, BLR
from data_gen.dirichlet import dirichlet_bags, influence
from experiments.report import arguments, markdown, write

METHODS = {
    "BLR": BLR(method="exact"),
    "BDR": BDR(kernel="rbf"),
    "BDR, log sd of eta 2": BDR(kernel="rbf", prior={"eta_log_sd": 2.0}),
}
DATA_SETS = {10: 10, 25: 10, 50: 20, 250: 10}  # points in a bag -> number of data sets
GRID = np.linspace(0, 1, 101)
MIXED = 1.05  # R-hat above which chains do not agree


def curve(model):
    """Posterior mean of intercept plus influence on the grid, shape (101,)."""
    return model.result_.draws("intercept").mean() + model.influence(GRID[:, None]).mean


def scores(model):
    """L2 error and slope of the curve, and the largest R-hat, NaN where nothing is sampled."""
    found, true = curve(model), influence(GRID)
    l2 = float(np.sum((found - true) ** 2))
    slope = float(np.polyfit(true, found, 1)[0])
    return l2, slope, model.diagnostics().get("max_r_hat", np.nan)


def one_data_set(seed, n_points, n_bags, run):
    """Scores of every method on one data set."""
    data = dirichlet_bags(seed, n_bags=n_bags, n_points=n_points)
    found = {}
    for name, method in METHODS.items():
        model = clone(method)
        chains = run if model.method == "nuts" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # R-hat is in the table
            found[name] = scores(model.fit(data.bags, data.y, seed=seed, **chains))
    return found


def summary(results):
    """Table of {points: {method: [(L2 error, slope, R-hat), ..]}}."""
    import pandas as pd

    rows = {}
    for n_points, of_methods in results.items():
        for name, values in of_methods.items():
            l2, slope, r_hat = np.transpose(values)
            apart = "" if np.isnan(r_hat).any() else f"{np.sum(r_hat > MIXED)} of {len(r_hat)}"
            rows[f"{n_points}, {name}"] = [
                *(f"{value:.2f}" for value in (l2.mean(), np.median(l2), l2.max())),
                *(f"{value:.2f}" for value in (slope.mean(), slope.min(), slope.max())),
                apart,
            ]
    columns = ["mean L2 error", "median L2 error", "largest L2 error"]
    columns += ["mean slope", "smallest slope", "largest slope", f"R-hat above {MIXED}"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.rename_axis("points per bag, method")


def main():
    parser = arguments(
        __doc__,
        quick="one data set of 60 bags of 10 and of 50 points, short chains",
        output="folder for attenuation.md",
    )
    parser.add_argument("--data-sets", type=int, help="per size (default 10; 20 at 50 points)")
    parser.add_argument("--points", type=int, nargs="+", help="points per bag (default all sizes)")
    args = parser.parse_args()
    sizes = args.points or ([10, 50] if args.quick else list(DATA_SETS))
    chains, n_bags = {"chains": 2, "warmup": 500, "draws": 500}, 200
    if args.quick:
        chains, n_bags = {"chains": 2, "warmup": 200, "draws": 200}, 60

    results = {}
    for n_points in sizes:
        n_sets = args.data_sets or (1 if args.quick else DATA_SETS.get(n_points, 10))
        of_methods = results.setdefault(n_points, {name: [] for name in METHODS})
        for seed in range(1, n_sets + 1):
            for name, values in one_data_set(seed, n_points, n_bags, chains).items():
                of_methods[name].append(values)
            errors = ", ".join(
                f"{name} {v[-1][0]:.2f} (slope {v[-1][1]:.2f})" for name, v in of_methods.items()
            )
            print(f"{n_points} points, data set {seed}: L2 error of {errors}", flush=True)
    table = summary(results)
    print(f"\n{table.to_string()}\n\nSlopes are relative to the truth: 1 is correct.")
    if args.output is None:
        return
    sets = ", ".join(f"{len(of_methods['BLR'])} with {n}" for n, of_methods in results.items())
    text = TEXT.format(bags=n_bags, sets=sets, **chains)
    write(args.output, "attenuation.md", f"{text}\n\n{markdown(table)}\n\n{AFTER}\n")


TEXT = """\
# Attenuation: regressions on small bags

Written by `python experiments/attenuation.py --output docs`. The simulation of Tang et al. (2023,
[arXiv 2303.06434](https://arxiv.org/abs/2303.06434)): {bags} bags, each from a distribution drawn
from a Dirichlet process on the unit interval, concentration 25; the label of a bag is the integral
of f(x) = 10 x exp(-5 x) over its distribution plus normal(0, 0.1) noise. Default settings,
{chains} chains of {warmup} warm-up steps and {draws} draws. Number of data sets by points per bag:
{sets}.

A mean over few points is measured with error, so a regression on it is flatter than the truth. This
is called *attenuation* or *regression dilution*; Xie and Ogden (2026,
[arXiv 2606.04523](https://arxiv.org/abs/2606.04523)) correct it by SIMEX. `BLR` treats the means as
exact; `BDR` models their error.

L2 error: sum over x = 0, 0.01, .., 1 of (g(x) - f(x))^2, where g is the posterior mean of
intercept plus influence. Slope: of the least-squares line of g on f over the same grid; 1 is
correct, below 1 is attenuated."""

AFTER = """\
All bags of a data set have one size, so the labels do not identify eta, the scale of the prior of
the embeddings: a larger eta with smaller weights predicts the same labels. `BDR` takes the log sd
of its prior from the standard error of the moment estimate of the embeddings' covariance
([priors](priors.md)). The last method of each size has a log sd of 2 instead: weights and eta
then drift together, and the curve can be several times too steep. In small bags the slopes of
`BDR` are still below 1: labels then carry little information, and the prior of the weights is
centred at zero. At 10 points per bag the wide prior has the lower median error."""


if __name__ == "__main__":
    main()
