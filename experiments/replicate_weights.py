"""Regions from a stratified cluster sample: intervals with and without its replicate weights.

Each region has two strata, urban and rural, from which the same number of clusters is drawn, with
20 people in each, who are alike: a quarter of the variance of a column within a stratum is between
its clusters. Weights differ by stratum and cluster; 50 replicates are those of the bootstrap of
clusters (Rao and Wu 1988). The label is the average of x_1 + sin(x_2) over the whole population of
the region.
"""

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags
from experiments.report import arguments, markdown, write

REPLICATES, PEOPLE, BETWEEN, NOISE = 50, 20, 0.25, 0.1
ALL, LARGE, SMALL = (3, 30), (20, 40), (3, 8)  # clusters per stratum, from and to
CLASSES = {"3 to 5 clusters": (3, 5), "6 to 12": (6, 12), "13 to 30": (13, 30)}


def regions(n, clusters, rng):
    """Bags with and without replicates, labels, and clusters per stratum, shape (n,)."""
    of_regions, labels, counts = [], [], []
    for _ in range(n):
        m = round(np.exp(rng.uniform(*np.log(clusters))))
        centre, gap, urban = rng.normal(size=2), rng.normal(1, 0.3, 2), rng.uniform(0.2, 0.8)
        strata = ((centre + gap, urban), (centre, 1 - urban))
        of_regions.append([stratum(mean, share, m, rng) for mean, share in strata])
        # E sin(x) of a normal x with mean m and variance 1 is sin(m) exp(-1 / 2).
        labels.append(sum(p * (u[0] + np.sin(u[1]) * np.exp(-0.5)) for u, p in strata))
        counts.append(m)
    points, weights, replicates = (
        np.concatenate([found[k] for strata in of_regions for found in strata]) for k in range(3)
    )
    given = {"sizes": 2 * PEOPLE * np.array(counts), "weights": weights}
    fixed = Bags.from_points(points, **given)
    scaled = {"replicate_weights": replicates, "replicate_scale": 1 / REPLICATES}
    y = np.array(labels) + NOISE * rng.normal(size=n)
    return fixed, Bags.from_points(points, **given, **scaled), y, np.array(counts)


def stratum(mean, share, m, rng):
    """Points of a stratum's sample, their weights and replicate weights."""
    centres = rng.normal(mean, BETWEEN**0.5, (m, 2))
    points = rng.normal(centres[:, None], (1 - BETWEEN) ** 0.5, (m, PEOPLE, 2))
    weights = np.broadcast_to(share / m * rng.uniform(0.5, 1.5, (m, 1)), (m, PEOPLE)).ravel()
    drawn = rng.multinomial(m - 1, np.ones(m) / m, REPLICATES).T * m / (m - 1)
    return points.reshape(-1, 2), weights, weights[:, None] * np.repeat(drawn, PEOPLE, axis=0)


def held(model, bags, y):
    """Whether 95% intervals contain the labels, and their widths."""
    lower, upper = model.predictive(bags).interval(0.95)
    return (lower <= y) & (y <= upper), upper - lower


def main():
    parser = arguments(__doc__, quick="one small data set", output="folder of replicate_weights.md")
    parser.add_argument("--data-sets", type=int, default=5)
    parser.add_argument("--regions", type=int, default=200, help="to fit to; twice as many new")
    args = parser.parse_args()
    sampling = {"chains": 2, "draws": 500}
    if args.quick:
        args.data_sets, args.regions, sampling = 1, 25, {"chains": 2, "warmup": 100, "draws": 100}
    rows = []
    for seed in range(1, args.data_sets + 1):
        rng = np.random.default_rng(seed)
        for kind, fitted_to, new in (("all", ALL, ALL), ("large", LARGE, SMALL)):
            train = regions(args.regions, fitted_to, rng)
            test = regions(2 * args.regions, new, rng)
            for k, weights in enumerate(("fixed", "replicates")):
                model = BDR(30).fit(train[k], train[2], seed=seed, progress=False, **sampling)
                contained, width = held(model, test[k], test[2])
                sizes, noise = model.embed(test[k]).sizes, model.result_.draws("sigma").mean()
                found = {"size": sizes, "held": contained, "width": width, "sigma": noise}
                about = {"kind": kind, "weights": weights, "clusters": test[3]}
                rows.append(pd.DataFrame({**found, **about}))
                print(f"{seed}, {kind}, {weights}: {contained.mean():.3f} held", flush=True)
    found = pd.concat(rows)
    tables = (
        summary(found[found["kind"] == "all"], CLASSES),
        summary(found[found["kind"] == "large"], {"3 to 8 clusters": SMALL}),
    )
    print(*(table.round(3).to_string() for table in tables), sep="\n\n")
    if args.output is not None:
        text = TEXT.format(
            n=args.regions,
            sets=args.data_sets,
            all=markdown(tables[0]),
            small=markdown(tables[1]),
        )
        write(args.output, "replicate_weights.md", text)


def summary(found, classes):
    """One row for each class of new regions and kind of weights."""
    if len(classes) > 1:
        classes = {"all": (0, np.inf), **classes}
    rows = {}
    for name, (low, high) in classes.items():
        for weights in ("fixed", "replicates"):
            own = found[(found["weights"] == weights) & found["clusters"].between(low, high)]
            rows[f"{name}, {weights}"] = {
                "effective size, median": own["size"].median(),
                "labels in 95% intervals": own["held"].mean(),
                "mean width": own["width"].mean(),
                "sigma": own["sigma"].mean(),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("new regions, weights")


TEXT = """\
# Replicate weights of surveys

A survey that samples clusters of people, such as villages, contains less information about a region
than the same number of people sampled independently. Replicate weights give the variance of any
estimate t: sum over r of scale_r (t_r - t)^2. [Survey data](../tutorials/survey_data.md) shows how
to use them, with the scales of common replicates.

## Method

The uncertainty of a bag's mean embedding mu_i is Sigma / N_i. The variance of mu_i over the
replicates, D_i, *replaces* it. It is not added: replicates repeat the whole sampling of a region,
including people within clusters, so a sum would count this sampling twice. `BDR` computes in one
basis, which requires one covariance Sigma for all bags; so D_i becomes the effective size

    N_i = tr(Sigma_i) / tr(D_i)

the number of independent points whose mean embedding is equally precise (the design effect is the
number of points over N_i). With equal weights and the jackknife of points, N_i is the number of
points. All other steps, such as compression, prediction tables and [`familiarity`](familiarity.md),
use it instead of Kish's effective sample size, (sum w)^2 / sum w^2. All replicates together need
one further pass over the points.

Limits: N_i is an average over the directions of the embedding. A function of the points that varies
more between clusters than most has a larger design effect. In a region with few clusters D_i is
itself uncertain. `InverseBDR` uses N_i like `BDR`; `BLR` treats embeddings as exact. Models of
totals, `AggregateRegressor`, do not accept replicates. Bags in [partitions](../scale.md) and the
command line do not read them: make bags in memory.

## Coverage

{sets} data sets of {n} regions to fit to and twice as many new ones, labels with noise of standard
deviation 0.1 (`sigma`), `BDR` with 30 landmarks. "Fixed" has the same weights without replicates.

Regions of 3 to 30 clusters per stratum, in the fit and among the new ones:

{all}

With fixed weights the labels disagree with embeddings that the model treats as precise, and the
model attributes the difference to noise: sigma is 1.5 times the true value. Intervals then have the
right coverage on average, but are too narrow for regions with few clusters and too wide for large
regions.

A fit to regions of 20 to 40 clusters per stratum, and new regions of 3 to 8:

{small}

There the noise estimated from the large regions does not compensate, and intervals from fixed
weights fail.

Reproduce: `python experiments/replicate_weights.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
