"""Families of labels: small bags against regressions on their means, and the time of a fit.

Counts of bags of 1 to 5 points, whose logarithmic mean is linear in the mean of each bag's
distribution: BDR and BLR with the negative binomial family against Poisson and negative binomial
regression on the means of the points, by the NLL of test bags, paired over data sets. The same of
five ordered categories, against a cumulative logit regression on the means, and against BDR with
the normal family of the codes 0 to 4. Then a binomial fit to 1,000 bags by NUTS, or to others:

python benchmarks/families.py --time --bags 100000 --method laplace
"""

import argparse
import time
import warnings

import numpy as np
from scipy import optimize, stats
from scipy.special import expit
from sklearn.linear_model import PoissonRegressor

from bdr_stan import BDR, BLR

N_TRAIN, N_TEST, N_COLUMNS = 300, 1000, 2
SLOPES, DISPERSION = np.array([0.6, -0.4]), 0.4
STEEP, THRESHOLDS = 5 * SLOPES, np.array([-1.0, 0.0, 2.5, 3.0])


def small_bags(rng, n):
    """Bags of 1 to 5 points about their centres, and the centres, shape (n, N_COLUMNS)."""
    centres = rng.normal(size=(n, N_COLUMNS))
    return [rng.normal(c, 1.0, (rng.integers(1, 6), N_COLUMNS)) for c in centres], centres


def count_bags(rng, n):
    """Small bags with negative binomial counts."""
    bags, centres = small_bags(rng, n)
    shape = DISPERSION**-2
    mean = np.exp(1.0 + centres @ SLOPES)
    return bags, rng.poisson(mean * rng.gamma(shape, 1 / shape, n))


def category_bags(rng, n):
    """Small bags with ordered categories 0 to 4, of unequal widths on the scale of log odds."""
    bags, centres = small_bags(rng, n)
    return bags, np.searchsorted(THRESHOLDS, centres @ STEEP + rng.logistic(size=n))


def means_of(bags):
    return np.array([bag.mean(axis=0) for bag in bags])


def nll_of_counts(y, mean, dispersion):
    """Mean negative log probability of counts, negative binomial or, at dispersion 0, Poisson."""
    if dispersion == 0:
        return -stats.poisson(mean).logpmf(y).mean()
    shape = dispersion**-2
    return -stats.nbinom(shape, shape / (shape + mean)).logpmf(y).mean()


def poisson_regression(bags, y, test, y_test):
    """Test NLL of scikit-learn's Poisson regression on the bags' means."""
    model = PoissonRegressor(alpha=0.0, max_iter=1000).fit(means_of(bags), y)
    return nll_of_counts(y_test, model.predict(means_of(test)), 0)


def negative_binomial_regression(bags, y, test, y_test):
    """Test NLL of a negative binomial regression on the bags' means by maximum likelihood."""

    def mean(X, theta):
        return np.exp(np.clip(theta[0] + X @ theta[1:-1], -20, 20))

    X = means_of(bags)

    def loss(theta):
        return nll_of_counts(y, mean(X, theta), np.exp(theta[-1]))

    start = np.r_[np.log(y.mean()), np.zeros(X.shape[1]), -0.5]
    best = optimize.minimize(loss, start).x
    return nll_of_counts(y_test, mean(means_of(test), best), np.exp(best[-1]))


def nll_between(y, below):
    """Mean negative log probability of categories from that of at most each but the last."""
    ends = np.column_stack([np.zeros(len(y)), below, np.ones(len(y))])
    p = np.take_along_axis(np.diff(ends, axis=1), y[:, None], axis=1)
    return -np.log(np.maximum(p, 1e-300)).mean()


def cumulative_logit_regression(bags, y, test, y_test):
    """Test NLL of a cumulative logit regression on the bags' means by maximum likelihood."""
    k = len(THRESHOLDS)

    def below(X, theta):
        thresholds = np.cumsum(np.r_[theta[0], np.exp(theta[1:k])])
        return expit(thresholds - (X @ theta[k:])[:, None])

    X = means_of(bags)
    start = np.r_[-1.0, np.zeros(k - 1 + X.shape[1])]
    best = optimize.minimize(lambda theta: nll_between(y, below(X, theta)), start).x
    return nll_between(y_test, below(means_of(test), best))


def normal_codes(bags, y, test, y_test):
    """Test NLL of BDR with normal codes of categories, cut halfway between them."""
    model = fitted(BDR(method="laplace", n_landmarks=30), bags, y)
    predictive, n = model.predictive(test), len(test)
    below = [predictive.cdf(np.full(n, k + 0.5)) for k in range(len(THRESHOLDS))]
    return nll_between(y_test, np.column_stack(below))


LABELS = {
    "negative_binomial": (
        count_bags,
        {
            "Poisson regression": poisson_regression,
            "negative binomial regression": negative_binomial_regression,
        },
    ),
    "ordinal": (
        category_bags,
        {
            "cumulative logit regression": cumulative_logit_regression,
            "BDR, normal codes": normal_codes,
        },
    ),
}


def fitted(model, bags, y, seed=0, draws=1000):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of k-hat
        return model.fit(bags, y, seed=seed, draws=draws, progress=False)


def compare(family, seeds, n_train, n_test, draws=1000, **settings):
    """Print NLLs on average and paired differences from BDR; `settings` are those of the models."""
    draw, rivals = LABELS[family]
    rows = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        (bags, y), (test, y_test) = draw(rng, n_train), draw(rng, n_test)
        row = {name: rival(bags, y, test, y_test) for name, rival in rivals.items()}
        for kind in (BLR, BDR):
            model = fitted(kind(family=family, method="laplace", **settings), bags, y, seed, draws)
            row[kind.__name__] = -model.predictive(test).log_prob(y_test).mean()
        rows.append(row)
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        line = f"{name}: NLL {values.mean():.4f}"
        if name != "BDR":
            gap = values - [row["BDR"] for row in rows]
            p = stats.ttest_1samp(gap, 0).pvalue
            line += (
                f", above BDR by {gap.mean():.4f}, in {np.sum(gap > 0)} of {len(gap)}, p {p:.1e}"
            )
        print(line, flush=True)


def time_a_fit(n_bags, n_landmarks, warmup, draws, method):
    """Print the time of a binomial fit."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_bags, N_COLUMNS))
    bags = [rng.normal(c, 1.0, (rng.integers(5, 100), N_COLUMNS)) for c in centres]
    trials = rng.integers(10, 1000, n_bags)
    y = rng.binomial(trials, 1 / (1 + np.exp(-centres @ SLOPES)))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of short chains
        model = BDR(n_landmarks, family="binomial", method=method).fit(
            bags, y, trials=trials, warmup=warmup, draws=draws, seed=1
        )
    seconds, known = time.perf_counter() - start, model.diagnostics()
    shown = {
        name: known[name] for name in ("divergences", "max_r_hat", "pareto_k") if name in known
    }
    print(
        f"binomial, {method}, {n_bags} bags, {n_landmarks} landmarks, "
        f"{warmup} + {draws} iterations: {seconds:.1f} s, {shown}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few small data sets, short chains")
    parser.add_argument("--seeds", type=int, default=20, help="data sets")
    parser.add_argument("--family", choices=LABELS, help="only this comparison")
    parser.add_argument("--time", action="store_true", help="only the time of a fit")
    parser.add_argument("--bags", type=int, default=1000, help="of that fit")
    parser.add_argument("--method", default="nuts", help="of that fit, such as laplace")
    parser.add_argument("--warmup", type=int, default=1000, help="iterations of each chain")
    parser.add_argument("--draws", type=int, default=1000, help="draws of each chain")
    args = parser.parse_args()
    for family in () if args.time else [args.family] if args.family else LABELS:
        if args.quick:  # a kernel without a search for its linear part
            compare(family, 2, 30, 20, draws=200, n_landmarks=3, kernel="rbf")
        else:
            compare(family, args.seeds, N_TRAIN, N_TEST, n_landmarks=30)
    if args.family:
        return
    size = (30, 5, 60, 60) if args.quick else (args.bags, 60, args.warmup, args.draws)
    time_a_fit(*size, args.method)


if __name__ == "__main__":
    main()
