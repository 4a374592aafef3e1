"""Every method on gamma bags of one size, Table 1 of Law et al. (2018).

Ten draws of the data (data seeds 23 .. 32): 1000 training, 500 validation and 1000 test bags of
1000 points each, with normal(0, 1) noise on the points, and random landmarks. On each draw the
methods are tuned on the validation bags, trained and scored as in ``gamma.py``. With so many
points in every bag, treating the embeddings as exact loses little.
"""

import itertools

import numpy as np
from sklearn.base import clone

from data_gen.gamma import gamma_bags, optimal_predictive
from experiments.methods import METHODS, OPTIMAL, fewer, fit_methods, predict, scores, setting
from experiments.report import arguments, markdown, write

# Law et al. (2018), Table 1: mean (sd) over the ten draws of MSE, of NLL.
PUBLISHED = {
    "RBF network": ("0.235 (0.014)", ""),
    "Freq-shrinkage": ("0.232 (0.012)", ""),
    "BLR": ("0.228 (0.012)", "0.681 (0.025)"),
    "Shrinkage": ("0.237 (0.014)", "0.703 (0.027)"),
    "Shrinkage C": ("0.236 (0.013)", "0.700 (0.029)"),
    "BDR": ("0.227 (0.012)", "0.683 (0.025)"),
    OPTIMAL: ("0.170 (0.009)", "0.401 (0.018)"),
}
OF_THE_PAPER = {name: model for name, model in METHODS.items() if name in PUBLISHED}
QUICK = "RBF network", "BLR", "Shrinkage C", "BDR"  # methods of a quick run


def summary_table(results):
    """Mean (sd) over draws and standard error of the mean, ours, and published mean (sd).

    `results` is {method: [(MSE, NLL), ..]}.
    """
    import pandas as pd

    rows = {}
    for name, values in results.items():
        means, deviations = np.mean(values, axis=0), np.std(values, axis=0)
        errors = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
        rows[name] = []
        for score, (mean, sd, error) in enumerate(zip(means, deviations, errors)):
            ours = ["", ""] if np.isnan(mean) else [f"{mean:.4f} ({sd:.4f})", f"{error:.4f}"]
            rows[name] += [*ours, PUBLISHED[name][score]]
    columns = ["MSE", "se of MSE", "MSE published", "NLL", "se of NLL", "NLL published"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("method")


def paired_tests(results, k):
    """Two-sided Wilcoxon signed-rank tests over the draws between methods that have score k."""
    import pandas as pd
    from scipy.stats import wilcoxon

    by_method = {name: np.array(v)[:, k] for name, v in results.items() if name != OPTIMAL}
    by_method = {name: values for name, values in by_method.items() if not np.isnan(values).any()}
    table = pd.DataFrame("", index=list(by_method), columns=list(by_method)).rename_axis("p")
    for a, b in itertools.permutations(by_method, 2):
        better = "<" if by_method[a].mean() < by_method[b].mean() else ">"
        table.loc[a, b] = f"{better} {wilcoxon(by_method[a], by_method[b]).pvalue:.3f}"
    return table


def main():
    parser = arguments(
        __doc__,
        quick="two draws, 60 bags of 100 points, 4 methods",
        output="folder for gamma_fixed.md",
        folder="gamma_output",
    )
    parser.add_argument("--draws", type=int, nargs="+", help="data seeds (default 23 .. 32)")
    parser.add_argument("--methods", nargs="+", choices=OF_THE_PAPER, help="default all")
    parser.add_argument("--landmarks", choices=["random", "kmeans"], default="random")
    parser.add_argument("--seed", type=int, default=1, help="of landmarks and Stan")
    args = parser.parse_args()
    data_seeds = args.draws or (range(23, 25) if args.quick else range(23, 33))
    points = 100 if args.quick else 1000
    # Short chains rank the candidates.
    grid = {"chains": 2, "warmup": 300, "draws": 300}
    if args.quick:
        grid |= {"bandwidth_scale": (0.75,), "n_landmarks": (10,)}
    run = {"chains": 2, "warmup": 60, "draws": 60} if args.quick else None
    methods = {
        name: clone(OF_THE_PAPER[name]).set_params(landmarks=args.landmarks)
        for name in args.methods or (QUICK if args.quick else OF_THE_PAPER)
    }

    results = {name: [] for name in [*methods, OPTIMAL]}
    settings = {}
    for data_seed in data_seeds:
        print(f"\ndata seed {data_seed}", flush=True)
        data = gamma_bags(
            data_seed, fixed_size=points, noise=1.0, splits=("train", "validation", "test")
        )
        if args.quick:
            data = fewer(data, 60)
        # Candidates are ranked with the method of the final fit.
        fitted = fit_methods(
            methods,
            data["train"],
            data["validation"],
            seed=args.seed,
            tune_by="laplace" if args.quick else "nuts",
            grid=grid,
            run=run,
        )
        bags, y = data["test"]
        for name, model in fitted.items():
            results[name].append(scores(predict(model, bags), y))
        results[OPTIMAL].append(scores(optimal_predictive(bags, noise=1.0), y))
        settings[data_seed] = {name: setting(model) for name, model in fitted.items()}
        for name, values in results.items():
            print(f"{name}: MSE {values[-1][0]:.4f}, NLL {values[-1][1]:.4f}", flush=True)
    report(args.output, results, settings, points)


def report(output, results, settings, points):
    """Print the tables and write them."""
    import pandas as pd

    parts = [
        "# Gamma bags of one size",
        f"Results of {len(settings)} draws, with {points} points per bag.",
        "Mean (sd) over draws of test MSE and NLL, with the standard error of the mean (Law et al. "
        "2018,\nTable 1):",
        markdown(summary_table(results)),
        "With bags of one size one amount of shrinkage scales all deviations from the average "
        "embedding by\nthe same factor: Freq-shrinkage differs from the RBF network only in that "
        "the validation bags choose\nits penalty.",
        "Row better (<) or worse (>) than column, and p of the paired two-sided Wilcoxon test:",
    ]
    for k, score in enumerate(["MSE", "NLL"]):
        parts += [f"{score}:", markdown(paired_tests(results, k))]
    parts += [
        "Settings, chosen on the validation bags:",
        markdown(pd.DataFrame(settings).T.rename_axis("data seed")),
        "Reproduce: `python experiments/gamma_fixed.py --output docs/validation`",
    ]
    text = "\n\n".join(parts)
    print(f"\n{text}")
    write(output, "gamma_fixed.md", text + "\n")


if __name__ == "__main__":
    main()
