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
from experiments.methods import METHODS, OPTIMAL, fewer, fit_methods, predict, scores, setting
from experiments.report import arguments, markdown, pyplot, write

LABEL = "degrees of freedom"  # of the chi-square distribution of a bag
SHOWN = (
    "BLR",
    "Shrinkage",
    "BDR",
    "InverseBDR",
    "InverseBDR, additive",
)  # and the optimum, in Figure 5 and the calibration curves
LEVELS = (0.5, 0.8, 0.95)

# Law et al. (2018), Figure 4: s5 -> (MSE, NLL).
PUBLISHED = {
    "RBF network": {0: (0.240, np.nan), 25: (0.617, np.nan), 50: (0.812, np.nan)},
    "BLR": {0: (0.238, 0.664), 25: (0.613, 1.162), 50: (0.800, 1.304)},
    "Shrinkage": {0: (0.179, 0.212), 25: (0.465, 0.738), 50: (0.725, 1.179)},
    "Shrinkage C": {0: (0.225, 0.230), 25: (0.543, 0.783), 50: (0.725, 1.187)},
    "BDR": {0: (0.179, 0.211), 25: (0.430, 0.708), 50: (0.688, 1.148)},
    OPTIMAL: {0: (0.139, -0.117), 25: (0.351, 0.372), 50: (0.603, 0.888)},
}

# Colour, marker, and whether the line is wide, so that lines on top of it leave it visible.
LINES = {
    "RBF network": (plots.MODELS[4], "s", True),
    "BLR": (plots.MODELS[0], "o", False),
    "Shrinkage": (plots.MODELS[5], "D", True),
    "Shrinkage C": (plots.MODELS[3], "^", False),
    "BDR": (plots.MODELS[1], "v", False),
    "InverseBDR": (plots.MODELS[2], "<", False),
    "InverseBDR, additive": ("#882255", ">", False),
    OPTIMAL: ("black", "P", False),
}


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
    """MSE and NLL against s5; `results` is {s5: {method: (MSE, NLL)}}."""
    figure, axes = pyplot().subplots(1, 2, figsize=(12, 5), layout="constrained")
    titles = "test MSE, squared degrees of freedom", "test NLL, nats per bag"
    for k, (ax, title) in enumerate(zip(axes, titles)):
        for name in next(iter(results.values())):
            colour, marker, wide = LINES[name]
            ours = [(s5, by_method[name][k]) for s5, by_method in results.items()]
            if np.isnan(ours[0][1]):
                continue
            line = {"lw": 7, "ms": 9, "alpha": 0.45} if wide else {"lw": 1.3, "ms": 4, "zorder": 3}
            ax.plot(*zip(*ours), color=colour, marker=marker, label=name, **line)
            published = PUBLISHED.get(name, {})
            theirs = [(s5, values[k]) for s5, values in published.items() if s5 in results]
            if theirs:
                ax.plot(*zip(*theirs), marker, color=colour, mfc="none", mew=1.5, ms=9, zorder=4)
        ax.set(xlabel="bags with only 5 points, % of all bags", ylabel=title)
    axes[0].plot([], [], "o", color="0.4", mfc="none", mew=1.5, ms=9, label="hollow: published")
    axes[0].legend(frameon=False)
    return figure


def draw_calibration(predicted):
    """Coverage of intervals by bag size; `predicted` is {bags: (predictives, y, sizes)}."""
    n_columns = len(next(iter(predicted.values()))[0])
    figure, axes = pyplot().subplots(
        len(predicted),
        n_columns,
        figsize=(3.4 * n_columns + 1.6, 3.6 * len(predicted)),
        squeeze=False,
        layout="constrained",
    )
    for row, (kind, (predictives, y, sizes)) in zip(axes, predicted.items()):
        for ax, (name, predictive) in zip(row, predictives.items()):
            plots.calibration(y, predictive, sizes, ax=ax)
            ax.set_title(f"{name}, {kind}", fontsize="medium")
            ax.label_outer()
            ax.get_legend().remove()
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))  # one legend per row
    return figure


def score_table(results):
    """MSE and NLL by method, ours and published."""
    import pandas as pd

    rows = {}
    for s5, by_method in results.items():
        for name, (mse, nll) in by_method.items():
            theirs = PUBLISHED.get(name, {}).get(s5, (np.nan, np.nan))
            rows[f"{s5}%, {name}"] = (mse, nll, *theirs)
    columns = ["MSE", "NLL", "MSE published", "NLL published"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.rename_axis("bags of 5 points, method")


def main():
    parser = arguments(
        __doc__,
        quick="one s5, 100 bags, few candidates, short chains",
        output="folder for tables and figures",
        folder="gamma_output",
    )
    parser.add_argument("--s5", type=int, nargs="+", help="percentages (default 0, 5, .. 50)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--data-seed", type=int, default=23)
    parser.add_argument("--seed", type=int, default=0, help="of landmarks and Stan")
    parser.add_argument("--fresh", type=int, default=10, help="sets of 1000 fresh test bags")
    args = parser.parse_args()
    methods = {name: METHODS[name] for name in args.methods}
    shares = args.s5 or ([25] if args.quick else range(0, 51, 5))
    close_up = 25 if 25 in shares else shares[0]  # the share shown in Figure 5
    grid = {"bandwidth_scale": (0.75,), "n_landmarks": (10,)} if args.quick else None
    run = {"chains": 2, "warmup": 100, "draws": 100} if args.quick else None

    results, settings = {}, {}
    for s5 in shares:
        print(f"\n{s5}% of the bags have 5 points", flush=True)
        data = gamma_bags(args.data_seed, s5=s5, splits=("train", "validation", "test"))
        if args.quick:
            data = fewer(data, 100)
        fitted = fit_methods(
            methods, data["train"], data["validation"], seed=args.seed, grid=grid, run=run
        )
        bags, y = data["test"]
        predicted = {name: predict(model, bags) for name, model in fitted.items()}
        predicted[OPTIMAL] = optimal_predictive(bags)
        results[s5] = {name: scores(each, y) for name, each in predicted.items()}
        settings[f"{s5}%"] = {name: setting(model) for name, model in fitted.items()}
        print(markdown(score_table({s5: results[s5]})), flush=True)
        if s5 == close_up:
            n_fresh = 1 if args.quick else args.fresh
            fresh, y_fresh = fresh_bags(np.arange(n_fresh) + args.data_seed + 1, s5)
            shown = {name: model for name, model in fitted.items() if name in SHOWN}
            of_test = {name: predicted[name] for name in [*shown, OPTIMAL]}
            of_fresh = {name: predict(model, fresh) for name, model in shown.items()}
            of_fresh[OPTIMAL] = optimal_predictive(fresh)
            close = {
                f"{len(y)} test bags": (of_test, y, bags.sizes),
                f"{len(y_fresh)} fresh bags": (of_fresh, y_fresh, fresh.sizes),
            }

    report(args.output, results, settings, close, close_up)


def report(output, results, settings, close, close_up):
    """Write tables and figures."""
    import pandas as pd

    of_test, y, sizes = next(iter(close.values()))
    figures = {
        "gamma_figure4.png": draw_figure4(results),
        "gamma_figure5.png": plots.compare_by_size(of_test, y, sizes, label=LABEL),
        "gamma_calibration.png": draw_calibration(close),
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(output / name, dpi=100)
    parts = [
        "# Gamma bags of varying sizes",
        SETTING,
        "Test MSE and NLL (Law et al. 2018, Figure 4):",
        markdown(score_table(results)),
        "![MSE and NLL against the share of bags of 5 points](gamma_figure4.png)",
        "Hollow markers: published values. Wide lines stay visible under others.",
        "Settings, chosen on the validation bags:",
        markdown(pd.DataFrame(settings).T.rename_axis("bags of 5 points")),
        f"Predictions of test bags where {close_up}% of the bags have 5 points (Figure 5):",
        "![Predictions and intervals against true labels, by bag size](gamma_figure5.png)",
    ]
    for kind, (predictives, labels, bag_sizes) in close.items():
        table = markdown(coverage_table(predictives, labels, bag_sizes))
        parts += [f"Coverage of central intervals, {kind}:", table]
        print(f"\n{kind}\n{table}")
    parts += [
        "![Coverage of central intervals, by bag size](gamma_calibration.png)",
        "Lines of calibrated intervals lie on the diagonal, up to chance: the grey band is two "
        "standard\nerrors of all bags to either side.",
    ]
    parts.append("Reproduce: `python experiments/gamma.py --output docs/validation`")
    write(output, "gamma.md", "\n\n".join(parts) + "\n")
    print(f"\ntables and figures are in {output}")


SETTING = """\
The label y of a bag is uniform on 4 to 8; its
points have five columns, each chi-square with y degrees of freedom, divided by y. There are 1000
training, 500 validation and 1000 test bags. A quarter of them have 20 points, a quarter 100, the
percentage stated in the tables 5, and the rest 1000 (Law et al. 2018, section 5.1).

RBF network and BLR treat the mean embedding of a bag as exact. Shrinkage and BDR model its sampling
uncertainty: Shrinkage with the most probable weights, BDR with their posterior. Shrinkage C has a
convolution kernel as the prior of the embeddings. InverseBDR models p(embedding given label) and
inverts it with Bayes' rule, at the posterior mode; "additive" has one kernel per column. Optimal is
the posterior of y under the simulator, the best possible prediction."""


if __name__ == "__main__":
    main()
