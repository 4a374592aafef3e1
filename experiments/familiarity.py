"""P-values of `familiarity`: false alarms, and detection of out-of-distribution bags.

False alarms are counted on new bags of the same simulator (gamma and digits), or on the other half
of the groups of a table. Out-of-distribution bags have points that occur in the training bags, but
other distributions: lognormal ones with the mean and variance of a training bag instead of gamma
bags, and half zeros and half nines of the digits.
"""

from functools import partial

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from bdr_stan import BLR, Bags, Shrinkage
from bdr_stan.datasets import digits_bags
from data_gen.gamma import N_FEATURES, gamma_bags
from experiments.real_tables import TABLES, groups_of
from experiments.report import arguments, markdown, write

MODELS = {
    "BDR": partial(Shrinkage, random_state=1),
    "BLR": partial(BLR, method="exact", random_state=1),
}
LEVELS = (0.01, 0.05, 0.2)
SIZES = (2, 10, 100, 1000)


def gamma(seed, n):
    """Training bags with labels, new bags, and a function that gives bags from elsewhere."""
    bags = gamma_bags(seed, splits=("train", "test"))
    train, y = bags["train"]
    return train[:n], y[:n], bags["test"][0][:1000], lognormal_bags


def lognormal_bags(size, n, rng):
    """Columns of mean 1 and variance 1 / 3, those of chi-square with 6 degrees over 6."""
    variance = np.log1p(1 / 3)
    points = np.exp(rng.normal(-variance / 2, np.sqrt(variance), (n * size, N_FEATURES)))
    return Bags.from_points(points, sizes=np.full(n, size))


def digits(seed, n):
    train, y = digits_bags(n, seed=seed)
    return train, y, digits_bags(min(1000, 4 * n), seed=10_000 + seed)[0], zeros_and_nines


def zeros_and_nines(size, n, rng):
    """Images of the training half."""
    images, digit = load_digits(return_X_y=True)
    rows = [rng.choice(np.flatnonzero(digit == d)[::2], n * size // 2) for d in (0, 9)]
    points = np.stack(rows, axis=1).ravel()
    return Bags.from_points(images[points] / 16, sizes=np.full(n, size))


def table(seed, n, *, name):
    """Half of the groups of a table, and the other half."""
    rng = np.random.default_rng(seed)
    bags, y = groups_of(name, rng, 2 * n)
    train, new = np.array_split(rng.permutation(len(bags)), 2)
    return bags[train], y[train], bags[new], None


def main():
    quick = "two fits to a generated table and to digits"
    parser = arguments(__doc__, quick=quick, output="folder of familiarity.md")
    parser.add_argument("--fits", type=int, default=20, help="of each model, to other bags each")
    args = parser.parse_args()
    first_tables = list(TABLES)[:3]
    problems = {"gamma": gamma, "digits": digits} | {
        name: partial(table, name=name) for name in first_tables
    }
    n_bags = 400
    if args.quick:
        problems, args.fits, n_bags = {"digits": digits, "made": partial(table, name=None)}, 2, 40

    alarms, found = {}, {}
    for problem, make in problems.items():
        for name, model in MODELS.items():
            of_fits, large = [], []
            for seed in range(1, args.fits + 1):
                train, y, new, elsewhere = make(seed, n_bags)
                fitted = model(n_landmarks=8 if args.quick else 60).fit(train, y)
                p = fitted.familiarity(new)["familiarity"].to_numpy()
                small = new.sizes <= np.median(new.sizes)
                of_fits.append(
                    [np.mean(p <= level) for level in LEVELS]
                    + [np.mean(p[which] <= 0.05) for which in (small, ~small)]
                )
                if elsewhere is not None:
                    rng = np.random.default_rng(seed)
                    other = (elsewhere(size, 50, rng) for size in SIZES)
                    large.append(
                        [np.mean(fitted.familiarity(b)["familiarity"] <= 0.05) for b in other]
                    )
            key = f"{problem}, {name}"
            columns = [*(f"{a:.0%} level" for a in LEVELS), "small, 5%", "large, 5%"]
            alarms[key] = dict(zip(columns, np.mean(of_fits, axis=0), strict=True))
            spread = np.std(of_fits, axis=0, ddof=1)[1] / np.sqrt(args.fits)
            alarms[key]["s.e. at 5%"] = spread
            if large:
                heads = [f"{size} points" for size in SIZES]
                found[key] = dict(zip(heads, np.mean(large, axis=0), strict=True))
            print(f"{key}: {alarms[key]['5% level']:.3f} at the 5% level", flush=True)
    tables = [
        pd.DataFrame.from_dict(rows, orient="index").rename_axis("bags, model")
        for rows in (alarms, found)
    ]
    print(*(f"\n{each.round(3).to_string()}" for each in tables), sep="\n")
    if args.output is not None:
        page = TEXT.format(
            fits=args.fits,
            n_bags=n_bags,
            tables="; ".join(first_tables),
            alarms=markdown(tables[0]),
            found=markdown(tables[1]),
        )
        write(args.output, "familiarity.md", page)


TEXT = """\
# Out-of-distribution groups

`model.familiarity(new)` returns an outlier p-value for each new bag;
[Robustness](../robustness.md#out-of-distribution-groups) describes its use. This page has the test
and its error rates. `InverseBDR`, which is biased for out-of-distribution bags, warns if more bags
have p-values of at most 0.001 than chance explains.

## The test

With the mean embedding mu_i of a bag, the average m0 and covariance R of embeddings between
training bags, and the covariance Sigma of the features within bags,

    d_i^2 = (mu_i - m0)' (R + Sigma / N_i)^-1 (mu_i - m0)

is chi-square(d) if embeddings are normal, for a bag like the training bags of any effective size
N_i. A small bag can be far from m0 by chance, so only bags with enough points are detected.
Embeddings are not normal and R is estimated, so the p-value is a rank among the d_i^2 of training
bags of similar size (up to ten classes of at least 30 bags). For each training bag m0 and R are
computed without it and a tenth of the bags (cross-fitting). Beyond the largest of these distances
the tail is extrapolated (Hill 1975), down to a p-value of 1e-6, with the predictive distribution of
a tail whose index is estimated. A fit keeps m0, R and Sigma in their joint basis, and 120 quantiles
per class. Except for the cross-fitting, this is conformal outlier detection (Vovk et al. 2005) with
the Mahalanobis distance.

All estimators use the R of `embedding_prior="empirical"`; `BLR`, `InverseBDR` and models with
another prior use it only for this test. The test is not available for fits to fewer than 20 bags,
for several samples per bag, and for `BLR` with bags in partitions.

## False alarms

The table shows the share of new bags with p-values of at most 1%, 5% and 20%, and at the 5% level
the share among the smaller and the larger half of the bags. {fits} fits per row to at most {n_bags}
bags each, with standard errors over fits. Gamma and digits bags are new ones of the same simulator;
tables are split in halves ({tables}). "BDR" is its mode, `Shrinkage`; `InverseBDR` has the p-values
of `BLR`, because its default kernel is the same. False alarms are rarer if landmarks fall on rare
points of the training bags, which are then farther from the others than new bags (communes, `BLR`:
with landmarks from all bags the share is 0.049).

{alarms}

## Out-of-distribution bags

The table shows the share of bags with p-values of at most 5%. The points of the bags occur in the
training bags, their distributions do not. The gamma data are lognormal columns with the mean and
variance of a gamma bag; the digits are bags of zeros and nines, whereas training bags have
neighbouring digits. Gamma bags of the fits have 5, 20, 100 or 1000 points. Bags with fewer points
than any training bag are compared with the smallest ones, and 10% of new bags of 2 points from the
same simulator are also flagged.

{found}

Reproduce: `python experiments/familiarity.py --output docs/validation`
"""


if __name__ == "__main__":
    main()
