"""Two generated tables that are hard for kernels of the distance: long tails, irrelevant columns.

Incomes: people of 600 counties with age, income in dollars and a degree or none; a county's label
depends on its shares of poor, rich and graduates. Irrelevant columns: labels of 300 groups of 1 to
30 members depend on 5 columns; 20 more are the same in all groups, or vary between them.
"""

import numpy as np
import pandas as pd
from scipy.special import ndtr
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdr_stan import BDR, Bags
from experiments.real_tables import PENALTIES, OnSummaries, inside, log_density, mean_of
from experiments.report import arguments, markdown, write

# Further columns: their number, and the standard deviation of their means between groups.
COLUMNS = {
    "5 columns": (0, 0.0),
    "20 more, alike in all groups": (20, 0.0),
    "20 more, varying": (20, 1.0),
}


def incomes(rng, n):
    """Bags of people in dollars, and labels: shares of poor, rich and graduates, with noise."""
    sizes = np.exp(rng.uniform(0, np.log(500), n)).astype(int).clip(1, 500)
    level, spread = rng.normal(10.3, 0.35, n), rng.uniform(0.7, 1.1, n)
    degree = rng.uniform(0.1, 0.6, n)
    poor = ndtr((np.log(15_000) - level) / spread)
    rich = ndtr((level - np.log(120_000)) / spread)
    y = 0.3 + 0.4 * poor - 0.6 * rich + 0.3 * degree + 0.02 * rng.normal(size=n)
    county = np.repeat(np.arange(n), sizes)
    people = pd.DataFrame(
        {
            "county": county,
            "age": rng.normal(45, 14, len(county)),
            "income": np.exp(rng.normal(level[county], spread[county])),
            "degree": np.where(rng.random(len(county)) < degree[county], "yes", "no"),
        }
    )
    return Bags.from_dataframe(people, "county"), y


class ByHand(OnSummaries):
    """A regressor of what a careful analyst would compute from the incomes."""

    def numbers(self, bags):
        """Means; mean and quantiles of log income; shares of poor and rich; log n."""
        rows = []
        for points in bags:
            log = np.log(points[:, 1])
            shares = [np.mean(log < np.log(15_000)), np.mean(log > np.log(120_000))]
            quantiles = np.quantile(log, [0.1, 0.5, 0.9])
            numbers = [points.mean(axis=0), [log.mean()], quantiles, shares, [np.log(len(points))]]
            rows.append(np.concatenate(numbers))
        return np.array(rows)


def irrelevant(seed, n, n_more, spread):
    """Bags of 5 columns that matter and of more, whose group means have standard deviation spread.

    The 5 columns and the labels are the same for any `n_more`.
    """
    rng, of_more = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    sizes = np.exp(rng.uniform(0, np.log(30.5), n)).astype(int).clip(1, 30)
    means = rng.normal(size=(n, 5))
    y = means @ [0.6, 0.4, 0.4, 0.3, 0.2] + 0.3 * (means[:, 0] ** 2 - 1) / np.sqrt(2)
    y += 0.3 * rng.normal(size=n)
    more = spread * of_more.normal(size=(n, n_more))
    bag = np.repeat(np.arange(n), sizes)
    points = means[bag] + rng.normal(size=(len(bag), 5))
    others = more[bag] + of_more.normal(size=(len(bag), n_more))
    return Bags.from_points(np.hstack([points, others]), sizes=sizes), y


def on_incomes(args):
    """RMSE of each method and coverage of its 95% intervals, mean over the data sets."""
    found = {}
    for seed in range(args.datasets):
        bags, y = incomes(np.random.default_rng(seed), args.counties)
        ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
        methods = {
            "BDR": BDR(method="laplace"),
            "BDR, RBF": BDR(kernel="rbf", method="laplace"),
            "ridge on means, sds, log n": OnSummaries(ridge, "all"),
            "ridge on features made by hand": ByHand(ridge, "all"),
        }
        for train, test in KFold(args.folds, shuffle=True, random_state=seed).split(y):
            for name, model in methods.items():
                predictive = fit(model, bags[train], y[train]).predictive(bags[test])
                squares = (mean_of(predictive) - y[test]) ** 2
                row = {
                    "square": squares.mean(),
                    "coverage of 95% intervals": inside(predictive, y[test]).mean(),
                }
                found.setdefault(name, []).append(row)
    rows = {name: pd.DataFrame(row).mean() for name, row in found.items()}
    table = pd.DataFrame(rows).T.rename_axis("method")
    table.insert(0, "RMSE", np.sqrt(table.pop("square")))
    return table


def on_irrelevant(args):
    """NLL of held-out groups with 5 columns, with 20 that are alike in groups, and 20 that vary."""
    found = {}
    for seed in range(args.datasets):
        for name, columns in args.columns.items():
            bags, y = irrelevant(seed, args.groups, *columns)
            ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
            methods = {
                "BDR": BDR(method="laplace"),
                "BDR, RBF": BDR(kernel="rbf", method="laplace"),
                "ridge on shrunken means": OnSummaries(ridge, "shrunk", by_size=True),
            }
            for train, test in KFold(args.folds, shuffle=True, random_state=seed).split(y):
                for method, model in methods.items():
                    predictive = fit(model, bags[train], y[train]).predictive(bags[test])
                    loss = -log_density(predictive, y[test]).mean()
                    found.setdefault(name, {}).setdefault(method, []).append(loss)
    means = {name: pd.DataFrame(losses).mean() for name, losses in found.items()}
    return pd.DataFrame(means).rename_axis("method")


def fit(model, bags, y):
    """A fitted model."""
    options = {} if isinstance(model, OnSummaries) else {"seed": 1}
    return model.fit(bags, y, **options)


def main():
    parser = arguments(__doc__, quick="small tables", output="folder of generated_tables.md")
    parser.add_argument("--counties", type=int, default=600)
    parser.add_argument("--groups", type=int, default=300)
    parser.add_argument("--datasets", type=int, default=2)
    parser.add_argument("--folds", type=int, default=4)
    args = parser.parse_args()
    args.columns = COLUMNS
    if args.quick:
        args.counties, args.groups, args.datasets, args.folds = 20, 20, 1, 2
        args.columns = {"20 more, varying": COLUMNS["20 more, varying"]}
    tables = on_incomes(args), on_irrelevant(args)
    print(*(table.round(4).to_string() for table in tables), sep="\n")
    text = f"""\
# Generated tables: long tails and irrelevant columns

Means over {args.datasets} data \
sets of {args.folds} folds; BDR by Laplace's approximation, whose kernel is "linear + rbf" unless \
"RBF" is said. Ridge regressions as in [real tables](real_tables.md), the second with errors by \
size.

## Incomes in dollars

{args.counties} counties of 1 to 500 people, with age, lognormal income and a degree or none. The \
label depends on a county's shares of poor, rich and graduates, and has noise of standard \
deviation 0.02. "By hand" is a ridge regression on means, mean and quantiles of log income, and \
shares of poor and rich beyond the true thresholds.

{markdown(tables[0])}

## Irrelevant columns

NLL per held-out group of {args.groups} groups of 1 to 30 members. Labels depend on 5 columns: \
linearly on the group's means and on the square of one. The kernel leaves out the effects of \
columns that are alike in all groups.

{markdown(tables[1])}

Reproduce: `python experiments/generated_tables.py --output docs/validation`
"""
    if args.output is not None:
        write(args.output, "generated_tables.md", text)


if __name__ == "__main__":
    main()
