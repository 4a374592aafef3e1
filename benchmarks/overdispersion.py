"""How often fits of Poisson and binomial counts report that these scatter more than they allow.

Labels are counts of bags: of a linear predictor that is linear in the mean of the bag's
distribution (BLR with 300 points per bag, BDR with 5 to 40), or totals over points that have rates
or probabilities (AggregateRegressor). They scatter as the family has it ("no"), or log rates and
log odds of bags vary by a further normal effect, of standard deviation 0.25 ("moderate") or 0.5
("strong").

    python benchmarks/overdispersion.py            7 data sets of each kind without, 2 or 1 with it
    python benchmarks/overdispersion.py --quick
"""

import argparse
import warnings
from itertools import product

import numpy as np
from scipy.special import expit, logit

from bdr_stan import BDR, BLR, AggregateRegressor, Bags

N_BAGS, TRIALS, SLOPE = 100, 150, 0.4
SIZES = {"BLR": (300, 301), "BDR": (5, 41), "AggregateRegressor": (5, 41)}
SCATTER = {"no": (0.0, 7), "moderate": (0.25, 2), "strong": (0.5, 1)}  # and data sets of each kind


def data(name, family, scatter, seed, n_bags):
    """Bags, their counts and trials."""
    rng = np.random.default_rng(seed)
    sizes, centres = rng.integers(*SIZES[name], n_bags), rng.normal(size=n_bags)
    x = np.repeat(centres, sizes) + rng.normal(size=sizes.sum())
    bags, binomial = Bags.from_points(x[:, None], sizes=sizes), family == "binomial"
    predictor = SLOPE * centres + 3 * (not binomial)
    if name == "AggregateRegressor":
        means = bags.sums(expit(SLOPE * x) if binomial else np.exp(SLOPE * x))
        predictor = logit(means / sizes) if binomial else np.log(means)
    predictor = predictor + rng.normal(0, scatter, n_bags)
    if binomial:
        return bags, rng.binomial(TRIALS, expit(predictor)), {"trials": np.full(n_bags, TRIALS)}
    return bags, rng.poisson(np.exp(predictor)), {}


def reports(name, family, scatter, seed, n_bags):
    """Whether the report of a fit states that the counts scatter more."""
    bags, y, known = data(name, family, scatter, seed, n_bags)
    if name == "AggregateRegressor":
        link = "logit" if family == "binomial" else "exp"
        model = AggregateRegressor(family, link, 8, method="laplace")
    else:
        model = {"BLR": BLR, "BDR": BDR}[name](8, kernel="rbf", family=family, method="laplace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the scatter, and of k-hat
        model.fit(bags, y, **known, draws=100, seed=seed, progress=False)
    return "unreliable" in model.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one data set of 60 bags, no and strong scatter"
    )
    args = parser.parse_args()
    n_bags = 60 if args.quick else N_BAGS
    for scatter, (sd, n) in SCATTER.items():
        if args.quick and scatter == "moderate":
            continue
        seeds = range(1 if args.quick else n)
        found = {
            f"{name} {family}": [reports(name, family, sd, seed, n_bags) for seed in seeds]
            for name, family in product(SIZES, ("poisson", "binomial"))
        }
        each = ", ".join(f"{kind} {sum(flags)}" for kind, flags in found.items())
        every = np.array(list(found.values()))
        print(f"{scatter} scatter: {every.sum()} of {every.size} fits ({each})", flush=True)


if __name__ == "__main__":
    main()
