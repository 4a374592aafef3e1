"""Every method on the gamma bags of Law et al. (2018), Figures 4 and 5: bags of varying sizes.

For each share s5 of bags with five points, the bandwidth and landmarks of each method are chosen on
the validation bags (by NLL, or by MSE if a method has no density); the method is fitted to the 1000
training bags and scored on the 1000 test bags. With 250 test bags per size, coverage has a standard
error of 1.4 points, so it is also computed on fresh bags from the same simulator. Tables go to
gamma.md, figures to gamma_*.png.
"""

import numpy as np

from bdr_stan import Bags, metrics, plots
from data_gen.gamma import gamma_bags, optimal_predictive
from experiments.methods import (
    METHODS,
    OPTIMAL,
    Point,
    fewer,
    fit_methods,
    losses_of,
    predict,
    scores,
    setting,
    standard_errors,
)
from experiments.report import arguments, markdown, pyplot, write

LABEL = "degrees of freedom"  # of the chi-square distribution of a bag
COVERED = (
    "BLR",
    "Shrinkage",
    "BDR",
    "InverseBDR",
    "InverseBDR, additive",
)  # and the optimum, in the tables of coverage
LEVELS = (0.5, 0.8, 0.95)
# Methods of a quick run.
QUICK = "RBF network", "Freq-shrinkage", "Shrinkage", "BDR", "InverseBDR, additive"

# References without a look at the points: the average label, and the distribution of labels.
CONSTANT, UNIFORM = "Constant", "Uniform"

# Law et al. (2018), Figure 4: s5 -> (MSE, NLL); no numbers of freq-shrinkage are published.
PUBLISHED = {
    "RBF network": {0: (0.240, np.nan), 25: (0.617, np.nan), 50: (0.812, np.nan)},
    "BLR": {0: (0.238, 0.664), 25: (0.613, 1.162), 50: (0.800, 1.304)},
    "Shrinkage": {0: (0.179, 0.212), 25: (0.465, 0.738), 50: (0.725, 1.179)},
    "Shrinkage C": {0: (0.225, 0.230), 25: (0.543, 0.783), 50: (0.725, 1.187)},
    "BDR": {0: (0.179, 0.211), 25: (0.430, 0.708), 50: (0.688, 1.148)},
    OPTIMAL: {0: (0.139, -0.117), 25: (0.351, 0.372), 50: (0.603, 0.888)},
    UNIFORM: dict.fromkeys((0, 25, 50), (np.nan, 1.386)),
}
FREQUENTIST, BAYESIAN = "Freq-shrinkage", "Shrinkage"  # compared in MSE

# Methods of the figures: colour and marker.
LINES = {
    "BLR": (plots.MODELS[0], "o"),
    "BDR": (plots.MODELS[1], "s"),
    "InverseBDR, additive": (plots.MODELS[2], "D"),
    "Freq-shrinkage": (plots.MODELS[3], "^"),
    OPTIMAL: ("black", "P"),
}
REFERENCES = {CONSTANT: "--", UNIFORM: ":"}  # their lines
IN_FIGURE_5 = ("BLR", "BDR"), (5, 20, 1000)  # methods and bag sizes


def coverage_table(predictives, y, sizes):
    """Coverage of central intervals: one row per method and level, one column per size."""
    import pandas as pd

    rows = {}
    for name, predictive in predictives.items():
        table = metrics.calibration(y, predictive, LEVELS, sizes=sizes)
        for level, by_size in table.groupby("level"):
            rows[f"{name}, {level:.0%}"] = dict(zip(by_size["size"], by_size["coverage"]))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("points per bag")


def fresh_bags(data_seeds, s5):
    """Test bags of other data seeds, concatenated."""
    parts = [gamma_bags(seed, s5=s5, splits=("test",))["test"] for seed in data_seeds]
    points = np.concatenate([bags.points for bags, _ in parts])
    sizes = np.concatenate([bags.sizes for bags, _ in parts])
    return Bags.from_points(points, sizes=sizes), np.concatenate([y for _, y in parts])


def draw_figure4(results):
    """MSE and NLL of some methods against s5; `results` is {s5: {method: (MSE, NLL, ..)}}."""
    figure, axes = pyplot().subplots(1, 2, figsize=(8, 3.9), layout="constrained")
    titles = "test MSE, squared degrees of freedom", "test NLL, nats per bag"
    for k, (ax, title) in enumerate(zip(axes, titles)):
        for name, (colour, marker) in LINES.items():
            ours = [(s5, found[name][k]) for s5, found in results.items() if name in found]
            ax.plot(*zip(*ours), color=colour, marker=marker, ms=4, lw=1.3, label=name)
            published = PUBLISHED.get(name, {})
            theirs = [(s5, values[k]) for s5, values in published.items() if s5 in results]
            if theirs:
                ax.plot(*zip(*theirs), marker, color=colour, mfc="none", mew=1.5, ms=9)
        for name, style in REFERENCES.items():
            line = [(s5, found[name][k]) for s5, found in results.items() if name in found]
            ax.plot(*zip(*line), style, color="0.4", lw=1.3, label=name)
        ax.set(xlabel="bags with only 5 points, % of all bags", ylabel=title)
    axes[0].plot([], [], "o", color="0.4", mfc="none", mew=1.5, ms=9, label="published")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def draw_figure5(models, bags, y):
    """Predictive intervals against true labels, for two methods and three bag sizes."""
    names, sizes = IN_FIGURE_5
    chosen = np.flatnonzero(np.isin(bags.sizes, sizes))
    bags = bags[chosen]
    shown = {name: models[name].predictive(bags) for name in names if name in models}
    shown = shown or {OPTIMAL: optimal_predictive(bags)}
    return plots.prediction(y[chosen], shown, bags.sizes, label=LABEL)


def draw_calibration(table, n_bags):
    """Coverage minus level of intervals by bag size, from `coverage_table` of n bags per size."""
    sizes = [int(size) for size in table.columns if size != "all"]
    figure, axes = pyplot().subplots(1, 3, figsize=(8, 3.4), sharey=True, layout="constrained")
    for ax, level in zip(axes, LEVELS):
        chance = 2 * np.sqrt(level * (1 - level) / n_bags)
        ax.axhspan(-chance, chance, color="0.6", alpha=0.25, lw=0)
        ax.axhline(0, color="black", lw=0.8)
        for k, (name, (colour, marker)) in enumerate(LINES.items()):
            if (row := f"{name}, {level:.0%}") in table.index:
                covered = table.loc[row].drop("all").to_numpy(float)
                places = np.multiply(sizes, 1.12 ** (k - 1.5))  # so that no marker hides another
                ax.plot(places, covered - level, marker, color=colour, ms=5, label=name)
        ax.set(title=f"{level:.0%} intervals", xlabel="points per bag", xscale="log")
        ax.set_xticks(sizes, map(str, sizes))
        ax.minorticks_off()
    axes[0].set_ylabel("coverage minus level")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def score_table(results):
    """MSE and NLL by method with standard errors, and published ones."""
    import pandas as pd

    rows = {}
    for s5, by_method in results.items():
        for name, (mse, nll, mse_error, nll_error) in by_method.items():
            theirs = PUBLISHED.get(name, {}).get(s5, (np.nan, np.nan))
            rows[f"{s5}%, {name}"] = (mse, mse_error, nll, nll_error, *theirs)
    columns = ["MSE", "se of MSE", "NLL", "se of NLL", "MSE published", "NLL published"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.rename_axis("bags of 5 points, method")


def difference(predicted, y, names):
    """Difference in MSE, first method minus second: mean and standard error over bags."""
    one, other = (losses_of(predicted[name], y)[0] for name in names)
    return float((one - other).mean()), float((one - other).std(ddof=1) / np.sqrt(len(y)))


def difference_table(differences, results):
    """MSE of freq-shrinkage minus the MSE of Shrinkage, of ours and of the published one."""
    import pandas as pd

    rows = {}
    for s5, (mean, error) in differences.items():
        ours, _, ours_error, _ = results[s5][FREQUENTIST]
        published = PUBLISHED[BAYESIAN].get(s5)
        theirs = (np.nan, np.nan) if published is None else (ours - published[0], ours_error)
        rows[f"{s5}%"] = (mean, error, *theirs)
    columns = ["from ours", "se", "from the published", "se of ours"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis(
        "bags of 5 points"
    )


def main():
    parser = arguments(
        __doc__,
        quick="one s5, 60 bags, 5 methods, few candidates, short chains",
        output="folder for tables and figures",
        folder="gamma_output",
    )
    parser.add_argument("--s5", type=int, nargs="+", help="percentages (default 0, 5, .. 50)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="default all")
    parser.add_argument("--data-seed", type=int, default=23)
    parser.add_argument("--seed", type=int, default=0, help="of landmarks and Stan")
    parser.add_argument("--fresh", type=int, default=10, help="sets of 1000 fresh test bags")
    args = parser.parse_args()
    names = args.methods or (QUICK if args.quick else METHODS)
    methods = {name: METHODS[name] for name in names}
    shares = args.s5 or ([25] if args.quick else range(0, 51, 5))
    close_up = 25 if 25 in shares else shares[0]  # the share shown in Figure 5
    grid = {"bandwidth_scale": (0.75,), "n_landmarks": (10,)} if args.quick else None
    run = {"chains": 2, "warmup": 60, "draws": 60} if args.quick else None

    results, settings, differences = {}, {}, {}
    for s5 in shares:
        print(f"\n{s5}% of the bags have 5 points", flush=True)
        data = gamma_bags(args.data_seed, s5=s5, splits=("train", "validation", "test"))
        if args.quick:
            data = fewer(data, 60)
        fitted = fit_methods(
            methods, data["train"], data["validation"], seed=args.seed, grid=grid, run=run
        )
        bags, y = data["test"]
        predicted = {name: predict(model, bags) for name, model in fitted.items()}
        predicted[OPTIMAL] = optimal_predictive(bags)
        predicted[CONSTANT] = Point(np.full(len(y), data["train"][1].mean()))
        results[s5] = {
            name: (*scores(each, y), *standard_errors(each, y)) for name, each in predicted.items()
        }
        results[s5][UNIFORM] = np.nan, np.log(8 - 4), np.nan, np.nan
        if {FREQUENTIST, BAYESIAN} <= set(predicted):
            differences[s5] = difference(predicted, y, (FREQUENTIST, BAYESIAN))
        settings[f"{s5}%"] = {name: setting(model) for name, model in fitted.items()}
        print(markdown(score_table({s5: results[s5]})), flush=True)
        if s5 == close_up:
            n_fresh = 1 if args.quick else args.fresh
            fresh, y_fresh = fresh_bags(np.arange(n_fresh) + args.data_seed + 1, s5)
            shown = {name: model for name, model in fitted.items() if name in COVERED}
            of_test = {name: predicted[name] for name in [*shown, OPTIMAL]}
            of_fresh = {name: predict(model, fresh) for name, model in shown.items()}
            of_fresh[OPTIMAL] = optimal_predictive(fresh)
            figure5 = draw_figure5(shown, bags, y)
            close = {
                f"{len(y)} test bags": (of_test, y, bags.sizes),
                f"{len(y_fresh)} fresh bags": (of_fresh, y_fresh, fresh.sizes),
            }

    report(args.output, results, differences, settings, close, close_up, figure5)


def report(output, results, differences, settings, close, close_up, figure5):
    """Write tables and figures."""
    import pandas as pd

    coverage = {kind: coverage_table(*predicted) for kind, predicted in close.items()}
    *_, (*_, fresh_sizes) = close.values()
    n_bags = np.unique(fresh_sizes, return_counts=True)[1].min()
    figures = {
        "gamma_figure4.png": draw_figure4(results),
        "gamma_figure5.png": figure5,
        "gamma_calibration.png": draw_calibration([*coverage.values()][-1], n_bags),
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(output / name, dpi=160)
    parts = [
        "# Gamma bags of varying sizes",
        SETTING,
        "Test MSE and NLL with standard errors over the test bags (Law et al. 2018, Figure 4):",
        markdown(score_table(results)),
        "![MSE and NLL against the share of bags of 5 points](gamma_figure4.png)",
        "Five of the methods, and the two references. Hollow markers are published values.",
        *compared(differences, results),
        "Settings, chosen on the validation bags:",
        markdown(pd.DataFrame(settings).T.rename_axis("bags of 5 points")),
        f"Predictions of test bags where {close_up}% of the bags have 5 points (Figure 5):",
        "![Predictions and intervals against true labels, by bag size](gamma_figure5.png)",
    ]
    for kind, covered in coverage.items():
        table = markdown(covered)
        parts += [f"Coverage of central intervals, {kind}:", table]
        print(f"\n{kind}\n{table}")
    parts += [
        "![Coverage of central intervals minus their level, by bag size](gamma_calibration.png)",
        "The figure shows the fresh bags. Calibrated intervals are within the grey band, two "
        "standard errors\nto either side, in about 95% of the cases.",
    ]
    parts.append("Reproduce: `python experiments/gamma.py --output docs/validation`")
    write(output, "gamma.md", "\n\n".join(parts) + "\n")
    print(f"\ntables and figures are in {output}")


def compared(differences, results):
    """Paragraphs on the paper's sentence on freq-shrinkage; none without both methods."""
    if not differences:
        return []
    table = difference_table(differences, results)
    n_below = int((table["from the published"] < 0).sum())
    n_published = int(table["from the published"].notna().sum())
    n_shares = int((table["from ours"] < 0).sum())
    return [
        "No numbers of freq-shrinkage in this figure are published, only that the Bayesian "
        "shrinkage models\nhave a slightly higher MSE. MSE of our Freq-shrinkage minus the MSE of "
        "Shrinkage, of ours (paired by\ntest bag) and of the published one:",
        markdown(table),
        f"It is below the published Shrinkage at {n_below} of {n_published} shares, and below our "
        f"Shrinkage at {n_shares} of {len(table)}.",
    ]


SETTING = """\
The label y of a bag is uniform on 4 to 8; its
points have five columns, each chi-square with y degrees of freedom, divided by y. There are 1000
training, 500 validation and 1000 test bags. A quarter of them have 20 points, a quarter 100, the
percentage stated in the tables 5, and the rest 1000 (Law et al. 2018, section 5.1).

RBF network and BLR treat the mean embedding of a bag as exact. Freq-shrinkage is the RBF network on
shrunk embeddings: the one of N points is moved towards the average embedding, or towards 0,
by the factor N / (N + lambda), with one lambda for all bags, chosen on the validation bags.
Shrinkage and BDR model the sampling uncertainty of the embeddings: Shrinkage with the most probable
weights, BDR with their posterior. Shrinkage C has a convolution kernel as the prior of the
embeddings. InverseBDR models p(embedding given label) and inverts it with Bayes' rule, at the
posterior mode; "additive" has one kernel per column. Optimal is the posterior of y under the
simulator, the best possible prediction. Constant predicts the average training label, with a
published MSE of about 1.3; Uniform is the distribution of the labels, uniform on 4 to 8."""


if __name__ == "__main__":
    main()
