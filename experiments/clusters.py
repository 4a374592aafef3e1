"""Bags of households: coverage of intervals with and without the ids of the households.

A stratum of a bag has 1 to 40 clusters, as many bags of each number on a logarithmic scale, and a
cluster has 1 to 20 points. The points of a stratum have variance 1 in each of two columns, of which
a share, the intraclass correlation, is between its clusters. The label is the average of
x_1 + sin(x_2) over the population of the bag, plus noise. In bags of two strata, each with half of
the weight and 1 to 20 clusters, columns differ by 2 between the strata.
"""

import warnings

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags
from experiments.report import arguments, markdown, write

CORRELATIONS = (0.0, 0.1, 0.3, 0.5)
CLASSES = {"1 cluster": (1, 1), "2 to 5": (2, 5), "6 to 15": (6, 15), "16 to 40": (16, 40)}
CLASSES_OF_STRATA = {"1 cluster": (1, 1), "2 to 5": (2, 5), "6 to 20": (6, 20)}
KINDS = {"independent": (), "clusters": ("cluster",), "strata": ("cluster", "strata")}
NOISE, POINTS, GAP = 0.1, 20, 2.0


def survey(n, correlation, rng, strata=1):
    """Bags by what they are made of, labels, and numbers of clusters per stratum, shape (n,)."""
    most = 40 // strata
    counts = np.floor(np.exp(rng.uniform(0, np.log(most + 1), n))).astype(int)
    means = rng.normal(size=(n, 1, 2)) + GAP * (np.arange(strata)[:, None] - (strata - 1) / 2)
    stratum = np.repeat(np.arange(n * strata), np.repeat(counts, strata))  # of each cluster
    sizes = rng.integers(1, POINTS + 1, len(stratum))
    centres = rng.normal(means.reshape(-1, 2)[stratum], np.sqrt(correlation))
    points = rng.normal(np.repeat(centres, sizes, axis=0), np.sqrt(1 - np.array(correlation)))
    cluster, stratum = np.repeat(np.arange(len(sizes)), sizes), np.repeat(stratum, sizes)
    columns = {
        "weights": None if strata == 1 else 1 / np.bincount(stratum)[stratum],
        "cluster": cluster,
        "strata": stratum,
    }
    bag_sizes = np.bincount(stratum // strata)
    bags = {}
    for kind, names in KINDS.items():
        used = {name: columns[name] for name in ("weights", *names)}
        bags[kind] = Bags.from_points(points, sizes=bag_sizes, **used)
    # E sin(x) of a normal x with mean m and variance 1 is sin(m) exp(-1 / 2).
    labels = np.mean(means[:, :, 0] + np.sin(means[:, :, 1]) * np.exp(-0.5), axis=1)
    return bags, labels + NOISE * rng.normal(size=n), counts


def intervals(kinds, correlation, sizes, seed, sampling, strata=1):
    """One row for each new bag and kind: whether its interval contains the label, and more."""
    rng = np.random.default_rng(seed)
    (bags, y, _), (new, new_y, counts) = (survey(n, correlation, rng, strata) for n in sizes)
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*effective sample size")
            model = BDR(30).fit(bags[kind], y, seed=seed, progress=False, **sampling)
        predictive = model.predictive(new[kind])
        lower, upper = predictive.interval(0.95)
        contained, density = (lower <= new_y) & (new_y <= upper), predictive.log_prob(new_y)
        noise = model.result_.draws("sigma").mean()
        print(f"{seed}, {correlation}, {strata}, {kind}: {contained.mean():.3f}", flush=True)
        yield pd.DataFrame(
            {"kind": kind, "contained": contained, "density": density, "clusters": counts}
            | {"correlation": " and ".join(map(str, np.atleast_1d(correlation))), "sigma": noise}
            | {"design": new[kind].describe().loc["all", "design_effect"]}
        )


def summary(rows, classes):
    """A row for each correlation and kind: coverage by class of bags, log density and sigma."""
    table = {}
    for (correlation, kind), part in rows.groupby(["correlation", "kind"], sort=False):
        covered = {
            name: part.loc[part["clusters"].between(low, high), "contained"].mean()
            for name, (low, high) in classes.items()
        }
        table[f"{correlation}, {kind}"] = {
            **covered,
            "all": part["contained"].mean(),
            "design effect": part["design"].mean(),
            "log density": part["density"].mean(),
            "sigma": part["sigma"].mean(),
        }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("correlation, bags")


def main():
    parser = arguments(__doc__, quick="one small data set", output="folder of clusters.md")
    parser.add_argument("--data-sets", type=int, default=6)
    parser.add_argument("--bags", type=int, default=300, help="to fit to")
    parser.add_argument("--new", type=int, default=2000, help="new bags")
    args = parser.parse_args()
    sampling, correlations = {"chains": 2, "draws": 500}, CORRELATIONS
    if args.quick:
        args.data_sets, args.bags, args.new, correlations = 1, 40, 40, (0.3,)
        sampling = {"chains": 2, "warmup": 200, "draws": 200}
    equal, unequal, stratified = [], [], []
    for seed in range(1, args.data_sets + 1):
        shared = (args.bags, args.new), seed, sampling
        for correlation in correlations:
            equal += intervals(("independent", "clusters"), correlation, *shared)
        if not args.quick:
            unequal += intervals(("independent", "clusters"), (0.5, 0.0), *shared)
        stratified += intervals(KINDS, 0.3, *shared, strata=2)
    tables = {"equal": summary(pd.concat(equal), CLASSES)}
    if unequal:
        tables["unequal"] = summary(pd.concat(unequal), CLASSES)
    tables["stratified"] = summary(pd.concat(stratified), CLASSES_OF_STRATA)
    print(*(table.round(3).to_string() for table in tables.values()), sep="\n\n")
    if args.output is not None and not args.quick:
        shown = {name: markdown(table) for name, table in tables.items()}
        text = TEXT.format(n=args.bags, new=args.new, sets=args.data_sets, **shown)
        write(args.output, "clusters.md", text)


TEXT = """\
# Points in clusters

Members of a household are similar, so a sample of households contains less information about a
region than as many people who were sampled one by one. [Data in](../data_in.md#points-in-clusters)
shows how to name the clusters, and strata from which they were sampled.

## Method

The features phi of a point have a covariance B between the clusters of a stratum and W within them.
With shares p_ij of the bag's weight, the mean embedding of bag i has the covariance

    D_i = k_i B + l_i W,    k_i = sum_c (sum_{{j in c}} p_ij)^2,    l_i = sum_j p_ij^2

B and W are estimated from all bags together, by the analysis of variance of unbalanced data
(Henderson 1953, method 1): the scatter of clusters about the mean of their stratum, and the scatter
of points about the mean of their cluster, equal their expectations. So a bag of one cluster, or a
new bag, has the variance that other bags have shown. If tr B is estimated below 0, clusters do not
count. `BDR` computes in one basis, which requires one covariance Sigma for all bags. It has the
shape of the average D_i, and the trace t that the features have within bags; the effective size of
a bag is

    N_i = t / tr D_i

The definition for [replicate weights](replicate_weights.md) is the same. The design effect is the
number of points over N_i. Without strata t = tr B + tr W. With strata t also includes the variance
between strata, which D_i does not contain, so strata raise effective sizes. The estimates need one
further pass over the points of the training bags, predictions none.

Limits: all bags share B and W. N_i is an average over the directions of the embedding, and bags
with larger clusters than most have another shape of D_i than Sigma.

## Coverage

{sets} data sets of {n} bags to fit to and {new} new ones, `BDR` with 30 landmarks and noise of the
labels of standard deviation 0.1 (`sigma`). A bag has 1 to 40 clusters of 1 to 20 points. Columns
have the share of the first column, the intraclass correlation, of their variance between clusters.
"Independent" has the same points without the ids of the clusters. The columns of classes, by number
of clusters in a new bag, have the share of labels in 95% intervals.

{equal}

Without ids, the intervals of bags of one cluster are too narrow. With ids they cover 93% to 97% of
the labels in every class. The gain in log density grows with the correlation; at correlation 0
nothing is lost.

One of two columns with a correlation, which are 0.5 and 0:

{unequal}

In the direction of the first column the average D_i has the larger correlation, so intervals also
cover in this case.

Bags of two strata, each with half of the weight of its bag and 1 to 20 clusters, whose columns
differ by two standard deviations; correlation 0.3; weights of the points in all three cases:

{stratified}

With clusters but without their strata, the variance between strata counts as variance between
clusters, and intervals are far too wide: name the strata if clusters were sampled within them.

[Two real tables](real_clusters.md) have classes in schools and households in communes.

Reproduce: `python experiments/clusters.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
