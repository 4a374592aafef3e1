"""Coverage of conformal regions by bag size, of right and wrong models, on 200 splits of data.

Gamma bags (Law et al. 2018, section 5.1; half of the bags of 5 points, the rest of 20 and 100) and
bags of handwritten digits of 1 to 300 images, whose label is the mean digit, a number. In each
split 800 bags are for training and 200 for testing. BDR models the sampling error of a bag's
points, BLR takes the mean of even one point as exact, so that its intervals are wrong in small bags
and in large ones. Regions of level 90% are compared with the models' own 90% intervals. Fits are
those of Laplace's method (BDR) and in closed form (BLR), of default kernels and 20 landmarks.
"""

import time
import warnings
from textwrap import fill

import numpy as np
import pandas as pd
from sklearn.base import clone

from bdr_stan import BDR, BLR, Bags
from bdr_stan.datasets import digits_bags
from bdr_stan.plots import MODELS
from data_gen.gamma import gamma_bags
from experiments.report import arguments, markdown, pyplot, write

LEVEL = 0.9
FEW_SETS = 60  # data sets of 39 bags
METHODS = {"BDR": BDR(20, method="laplace"), "BLR": BLR(20, method="exact")}


def data_sets(n_bags):
    """Bags and labels of each data set."""
    gamma, y = gamma_bags(s5=50, splits=("train",))["train"]
    return {"gamma": (gamma[:n_bags], y[:n_bags]), "digits": digits_bags(n_bags, seed=1)}


def one_split(method, bags, y, train, test):
    """Whether the region and the interval of each test bag contain its label, widths, class."""
    model = clone(method).fit(bags[train], y[train], seed=1, progress=False)
    regions = model.conformal(bags[test], LEVEL)
    lower, upper = model.predictive(bags[test]).interval(LEVEL)
    return regions.to_dataframe().assign(
        within=regions.contains(y[test]),
        own=(lower <= y[test]) & (y[test] <= upper),
        width=regions.upper - regions.lower,
        own_width=upper - lower,
    )


def splits(n_splits, n_bags, n_train):
    """Test bags of all splits, methods and data sets in one table."""
    found = {}
    for name, (bags, y) in data_sets(n_bags).items():
        for split in range(n_splits):
            order = np.random.default_rng(split).permutation(n_bags)
            for method, model in METHODS.items():
                of_split = one_split(model, bags, y, order[:n_train], order[n_train:])
                found[name, method, split] = of_split
            if split % 10 == 0:
                print(f"{name}, split {split}", flush=True)
    return pd.concat(found, names=["data", "method", "split", "bag"])


def by_class(tests):
    """Coverage and mean widths by data set, model and size class, and of all classes."""
    table = tests.reset_index()
    lines = {}
    for (data, method), of_method in table.groupby(["data", "method"], sort=False):
        classes = {"all": of_method}
        for _, part in of_method.groupby("size_class"):
            low, high = part["sizes"].mode()[0].split(" to ")  # bounds vary little
            span = low if low == high else f"{low} to {high}"
            classes[f"{span} point{'s' * (span != '1')}"] = part
        for name, part in classes.items():
            width, own = part["width"].mean(), part["own_width"].mean()
            lines[data, method, name] = {
                "region": part["within"].mean(),
                "own interval": part["own"].mean(),
                "width of region": width,
                "of own interval": own,
                "ratio": width / own,
            }
    return pd.DataFrame.from_dict(lines, orient="index")


def draw(table):
    """Figure of the coverage of regions and of the models' own intervals by size class."""
    data = table.index.get_level_values(0).unique()
    figure, axes = pyplot().subplots(
        1, len(data), figsize=(8.4, 3.6), sharey=True, layout="constrained"
    )
    for axis, name in zip(axes, data, strict=True):
        for method, colour, marker, side in zip(METHODS, MODELS[::-1][-2:], "so", (0.06, -0.06)):
            of_method = table.loc[name].loc[method].drop("all")
            places = np.arange(len(of_method)) + side  # so that no marker hides another
            kind = {"color": colour, "marker": marker, "linestyle": "none", "markersize": 7}
            axis.plot(places, of_method["region"], **kind, label=f"conformal regions, {method}")
            axis.plot(
                places, of_method["own interval"], **kind, fillstyle="none",
                label=f"intervals of {method}",
            )  # fmt: skip
        axis.axhline(LEVEL, color="black", linewidth=0.8, zorder=0)
        names = [text.split(" point")[0] for text in of_method.index]
        axis.set_xticks(range(len(names)), names)
        axis.set(xlabel="points per bag", title=f"{name} bags")
        axis.margins(x=0.1)
    axes[0].set_ylabel(f"share of labels contained, level {LEVEL:.0%}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def few_bags(n_sets):
    """Coverage after fits to 39 bags, whose labels have heavy tails, of regions and intervals."""
    lines = {name: [] for name in METHODS}
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        centre, sizes = rng.normal(size=139), rng.choice([3, 10, 30], size=139)
        bags = Bags.from_list([rng.normal(c, size=(n, 2)) for c, n in zip(centre, sizes)])
        y = centre + 0.3 * rng.standard_t(3, size=139)
        for name, method in METHODS.items():
            tests = one_split(method, bags, y, np.arange(39), np.arange(39, 139))
            lines[name].append([tests["within"].mean(), tests["own"].mean()])
    return pd.DataFrame({name: np.mean(each, axis=0) for name, each in lines.items()}).T


def seconds(n):
    """Seconds of the regions of n new bags, after a fit to n, and of the fit."""
    (bags, y), (new, _) = digits_bags(n, seed=1), digits_bags(n, seed=2)
    start = time.perf_counter()
    model = BDR(20, method="laplace").fit(bags, y, seed=1, progress=False)
    fitted = time.perf_counter()
    model.conformal(new, LEVEL)
    return time.perf_counter() - fitted, fitted - start


def main():
    parser = arguments(
        __doc__,
        quick="two splits of 100 training and 50 test bags",
        output="folder for conformal.md and conformal.png",
    )
    parser.add_argument("--splits", type=int, default=200)
    args = parser.parse_args()

    n_splits, n_bags, n_train = (2, 150, 100) if args.quick else (args.splits, 1000, 800)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # k-hat is counted
        tests = splits(n_splits, n_bags, n_train)
        n = 100 if args.quick else 1000
        took, fit_took = seconds(n)
        few = few_bags(1 if args.quick else FEW_SETS)
    table = by_class(tests)
    print(table.round(3).to_string())
    unreliable = (tests["pareto_k"] > 0.7).groupby(["data", "method"], sort=False).mean()
    several = (tests["pieces"] != 1).mean()
    print(f"fits to 39 bags: regions, own intervals\n{few.round(3).to_string(header=False)}")
    print(f"Regions of {n} bags after a fit to {n}: {took:.1f} s, the fit {fit_took:.1f} s")
    print(f"k-hat above 0.7:\n{unreliable.to_string()}\nnot one interval: {several:.4f}")
    if args.output is None:
        return
    lines = table.copy()
    lines.index = pd.Index([", ".join(each) for each in table.index], name="bags, model, sizes")
    each = [f"{data} bags, {method}: {share:.2%}" for (data, method), share in unreliable.items()]
    of_few = [f"{name} {a:.1%} (own intervals {b:.1%})" for name, a, b in few.itertuples()]
    measured = MEASURED.format(
        unreliable="; ".join(each),
        several=several,
        n=n,
        took=took,
        fit_took=fit_took,
        sets=FEW_SETS,
        few=", ".join(of_few),
    )
    text = TEXT.format(
        splits=n_splits,
        train=n_train,
        test=n_bags - n_train,
        table=markdown(lines),
        measured=fill(measured, 100),
    )
    write(args.output, "conformal.md", text)
    draw(table).savefig(args.output / "conformal.png", dpi=160)


MEASURED = """Share of bags with k-hat above 0.7: {unreliable}. Share of regions that are not one
interval: {several:.2%}. Regions of {n:,} bags after a fit to {n:,} took {took:.1f} s on a busy
core, and the fit with Laplace's method {fit_took:.1f} s. In fits to 39 bags, the average of {sets}
generated data sets whose labels have heavy tails, regions contain: {few}; an exact refit would
give 90%."""

TEXT = """# Conformal regions: coverage that does not depend on the model

`model.conformal(new, level=0.9)` returns regions that contain at least 90% of the labels of new
bags even if the model is wrong; [Robustness](../robustness.md#conformal-intervals) describes their
use and what they guarantee. This page has the method and its coverage by bag size.

**How it works.** Each candidate for the label of a new bag is added to the fit. It is dropped if it
then agrees with the model less than nearly all labels of training bags of similar size: at 90%, if
its score is among the lowest tenth. Importance weights of the posterior draws replace a fit for
each candidate (conformal Bayes; Fong and Holmes 2021, [arXiv
2106.06137](https://arxiv.org/abs/2106.06137)). The score of a label is its posterior predictive
density times the spread of the predictive distribution of its bag. The size classes are bounded by
quantiles of the sizes of the training bags and the new bag together, so the classes treat all bags
equally.

**What is approximate.** The weights are exact only with many draws; `pareto_k` measures for each
bag how reliable they are. If it is above 0.7, a warning follows: fit with more draws; if that does
not help, the bag is unlike the training bags. Landmarks, kernel and, with `"exact"` and
`"laplace"`, the scales of the priors are computed only from the training bags. In fits to few bags,
by any method, the coverage equals the coverage of refitting only approximately. For counts, integer
candidates are tested.

`BLR`, `BDR`, `Shrinkage` and their classifiers have `conformal`, with all families of labels.
`InverseBDR` compares with densities of held-out labels, without weights, which is a further
approximation. A fit with `method="optimize"` has one draw and no regions.

## Coverage by bag size

The table has results of {splits} random splits into {train} training and {test} test bags. Gamma
bags have 5 (half of them), 20 or 100 points; bags of digits have 1 to 300 images, and their label,
the mean digit, is a number. `BDR` models the sampling error of the points. `BLR` treats even the
mean of one point as exact, and is wrong for small bags and for large bags. The level is 90%; widths
are means over test bags, in units of the label.

{table}

![Coverage of regions and of the models' own intervals](conformal.png)

{measured}

Reproduce: `python experiments/conformal.py --output docs/validation`
"""

if __name__ == "__main__":
    main()
