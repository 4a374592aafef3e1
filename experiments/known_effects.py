"""NLL of held-out districts where everything except the spatial field is known.

The covariates' effects and the field's covariance are the true ones; only the field and the level
are learned, by kriging the log cases of the training districts. No model that has to learn effects
and covariance can be expected to score better.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp
from scipy.stats import poisson

from bdr_stan import Bags

_POINTS = 40  # per district, drawn in proportion to the cases expected from effects alone
_LEVEL_SD = 1.0  # prior sd of the constant in log rates
_NODES = 80  # of the quadrature over the log expected cases of a district


def known_effects_nll(train, test, effects, kernel, seed=0):
    """Mean of -log of the predictive probability of the test districts' cases.

    Parameters
    ----------
    train, test : countries, with bags and y
    effects : callable
        The covariates' part of the log rate, shape (N,), at points, shape (N, p).
    kernel : Kernel
        The field's covariance, on the last two columns.
    seed : int

    Returns
    -------
    float
    """
    rng = np.random.default_rng(seed)
    known, places = _expected(train, effects, rng)
    known_test, test_places = _expected(test, effects, rng)
    seen = train.y > 0
    of_train = _covariance(kernel, places, places)[np.ix_(seen, seen)]
    between = _covariance(kernel, test_places, places)[:, seen] + _LEVEL_SD**2
    # The variance of log cases, for Poisson cases, is about 1 / cases.
    noisy = cho_factor(of_train + _LEVEL_SD**2 + np.diag(1 / train.y[seen]))
    mean = known_test + between @ cho_solve(noisy, np.log(train.y[seen]) - known[seen])
    variance = np.diag(_covariance(kernel, test_places, test_places)) + _LEVEL_SD**2
    sd = np.sqrt(variance - np.sum(between.T * cho_solve(noisy, between.T), axis=0))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    expected = np.exp(mean[:, None] + sd[:, None] * nodes)
    log_probability = poisson.logpmf(test.y[:, None], expected)
    return -logsumexp(log_probability, b=weights / weights.sum(), axis=1).mean()


def _expected(country, effects, rng):
    """Log cases expected from effects alone, and bags of places drawn in proportion."""
    bags = country.bags
    cases = bags.weights * np.exp(effects(bags.points))
    totals = bags.sums(cases)
    below = np.cumsum(cases)
    start = np.append(0, below)[bags.offsets[:-1]]
    targets = start[:, None] + totals[:, None] * rng.uniform(size=(len(bags), _POINTS))
    chosen = np.minimum(np.searchsorted(below, targets), bags.offsets[1:, None] - 1)
    places = np.asarray(bags.points[chosen.ravel()], float)[:, -2:]
    return np.log(totals), Bags.from_points(places, sizes=np.full(len(bags), _POINTS))


def _covariance(kernel, a, b):
    """Covariance of the field's means over bags, shape (n, m)."""
    rows = [kernel(bag, b.points).mean(axis=0) for bag in a]
    return np.array(rows).reshape(len(a), len(b), _POINTS).mean(axis=2)
