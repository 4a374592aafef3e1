"""Nystrom regression with manifold regularisation, against loops and dense formulas."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points, slices_of_a_roll
from scipy.optimize import minimize
from scipy.stats import norm, poisson

from bdr_stan import AggregateRegressor
from bdr_stan.kernels import RBF, NystromFeatures, median_bandwidth
from experiments.papers.nystrom_manifold import NystromManifold, laplacian

KERNEL = RBF(np.array([1.5, 12.0]))


def penalty(f, points):
    """Mean over pairs of W_jk (f_j - f_k)^2 / 2, pair by pair."""
    inputs = (points - points.mean(axis=0)) / points.std(axis=0)
    length = median_bandwidth([inputs], seed=0)
    pairs = [
        np.exp(-np.sum((a - b) ** 2) / (2 * length**2)) * (f_a - f_b) ** 2 / 2
        for a, f_a in zip(inputs, f, strict=True)
        for b, f_b in zip(inputs, f, strict=True)
    ]
    return np.mean(pairs)


def test_laplacian(rng):
    points, features, w = rng.normal(size=(12, 2)), rng.normal(size=(12, 4)), rng.normal(size=4)
    expected = penalty(features @ w, points)
    assert w @ laplacian(points, features) @ w == pytest.approx(expected)


@pytest.mark.parametrize("link", ["square", "exp"])
def test_mode_of_the_penalised_likelihood(link):
    bags, without_zeros, y = counts_of_weighted_points()
    landmarks = bags.points[::15]
    model = NystromManifold(KERNEL, landmarks, link, rho=0.7, manifold=2.0).fit(bags, y, seed=1)
    points = without_zeros.points
    psi = NystromFeatures(KERNEL, landmarks)(points)
    rate = {"square": np.square, "exp": np.exp}[link]
    given = {"kernel": KERNEL, "landmarks": landmarks, "learn_kernel": False}
    plain = AggregateRegressor("poisson", link, method="optimize", **given).fit(bags, y, seed=1)
    priors = plain.result_.settings["priors"]

    def loss(theta):
        f = psi @ theta[:-1] + theta[-1]
        means = without_zeros.sums(without_zeros.weights * rate(f))
        return (
            -poisson.logpmf(y, means).sum()
            - norm.logpdf(theta[:-1], 0, 0.7).sum()
            - norm.logpdf(theta[-1], priors["intercept_location"], priors["intercept_scale"])
            + len(bags) * 2.0 * penalty(f, points)
        )

    best = minimize(loss, model.theta_ + 0.05, tol=1e-9)
    np.testing.assert_allclose(model.theta_, best.x, atol=1e-4)


def test_a_large_weight_makes_rates_smooth():
    bags, y, _ = slices_of_a_roll(40, seed=1, size=10)
    spread = [
        np.std(
            NystromManifold(RBF(4.0), bags.points[::30], manifold=weight)
            .fit(bags, y, seed=1)
            .predict_points(bags.points)
        )
        for weight in (0.0, 10.0, 1e4)
    ]
    assert spread[0] > spread[1] > 2 * spread[2]
