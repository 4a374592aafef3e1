"""Small bags of points with a known surface of rates, their labels, and models fitted to them."""

import warnings

import numpy as np
import pytest

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.kernels import RBF
from builders.totals import MODELS, RATES

EVERY = pytest.mark.parametrize("likelihood, link", MODELS)

SHORT = {"chains": 2, "warmup": 150, "draws": 100, "seed": 1}

TRIALS = 200


def surface(points):
    """The function whose link is the rate; the second column does not matter."""
    return 1.5 + 0.8 * np.sin(1.5 * points[:, 0])


def country(n=30, size=10, seed=1, n_features=2):
    """Bags of weighted points around centres of their own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, n)
    centres = rng.uniform(-2, 2, (n, n_features))
    points = np.repeat(centres, sizes, axis=0) + 0.3 * rng.normal(size=(sizes.sum(), n_features))
    weights = rng.gamma(2, 1, len(points))
    return Bags.from_points(points, sizes=sizes, weights=weights)


def sums(bags, values):
    """sum_j p_j values_j of each bag."""
    return np.array(
        [p @ v for p, v in zip(*(np.split(x, bags.offsets[1:-1]) for x in (bags.weights, values)))]
    )


def labels(bags, likelihood, link, seed=2, f=surface):
    rng = np.random.default_rng(seed)
    mean = sums(bags, RATES[link](f(bags.points)))
    if likelihood == "normal":
        return mean + 0.2 * np.sqrt(sums(bags, bags.weights)) * rng.normal(size=len(bags))
    if likelihood == "exponential":
        return rng.exponential(mean)
    if likelihood == "gamma":
        return rng.gamma(1 / 0.3**2, 0.3**2 * mean)
    if likelihood == "binomial":
        return rng.binomial(TRIALS, mean / bags.totals)
    effect = rng.gamma(1 / 0.3**2, 0.3**2, len(bags)) if likelihood == "negative binomial" else 1
    return rng.poisson(mean * effect)


def with_trials(likelihood, n=None):
    return {"trials": np.full(n, TRIALS) if n else TRIALS} if likelihood == "binomial" else {}


def fitted(likelihood="poisson", link=None, method="laplace", *, bags=None, fit=None, **options):
    """A small model, its bags and their labels."""
    bags = country() if bags is None else bags
    y = labels(bags, likelihood, link or LIKELIHOODS[likelihood].links[0])
    options = {"n_landmarks": 8, "kernel": RBF(1.0), "learn_kernel": False, **options}
    model = AggregateRegressor(likelihood, link, method=method, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains mix badly, and say so
        model.fit(bags, y, **with_trials(likelihood, len(bags)), **{**SHORT, **(fit or {})})
    return model, bags, y


def with_effects(likelihood, link, method, **options):
    """Labels of three times, or a third of, what the points let one expect, in bags with ids."""
    bags = country(30)
    bags = Bags(bags.points, bags.offsets, weights=bags.weights, ids=[f"d{i}" for i in range(30)])
    mean = sums(bags, RATES[link](surface(bags.points)))
    y = np.round(mean * np.where(np.arange(30) % 2, 3, 1 / 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AggregateRegressor(likelihood, link, 8, RBF(1.0), learn_kernel=False, method=method)
        model.set_params(**options).fit(bags, y, **SHORT)
    return model, bags, y
