"""Distances between densities against integrals on a grid."""

import numpy as np
import pytest
from scipy.stats import norm

from bdr_stan.bags import Bags
from experiments.papers.density_distances import (
    densities_at,
    l1_distances,
    l2_distances,
    overlap_kernel,
    smoothed_labels,
)
from experiments.papers.kernel_grids import set_kernels

GRID = np.linspace(-12, 12, 4001)


@pytest.fixture
def bags(rng):
    return Bags.from_list([rng.normal(size=(m, 1)) for m in (3, 1, 8)], weights=None)


def densities(bags, h):
    return np.array([norm.pdf(GRID[:, None], bag.ravel(), h).mean(axis=1) for bag in bags])


def test_l2_is_the_integrated_squared_difference(bags):
    own = densities(bags, 0.6)
    expected = np.sqrt(np.trapezoid((own[:, None] - own) ** 2, GRID))
    gram = set_kernels(bags, [overlap_kernel(0.6)])[0]
    found = l2_distances(gram, gram.diagonal(), gram.diagonal())
    factor = (4 * np.pi * 0.6**2) ** 0.25
    np.testing.assert_allclose(found, factor * expected, rtol=1e-7, atol=1e-7)


def test_l1_is_the_integrated_absolute_difference(bags, rng):
    own = densities(bags, 0.6)
    expected = np.trapezoid(np.abs(own[:, None] - own), GRID)
    samples = rng.choice(bags.points[:, 0], 20_000, p=bags.point_shares / 3)
    samples = samples[:, None] + 0.6 * rng.normal(size=(20_000, 1))
    relative = densities_at(bags, samples, 0.6)
    relative /= relative.mean(axis=0)
    np.testing.assert_allclose(l1_distances(relative, relative), expected, atol=0.02)


def test_smoothing_is_a_weighted_average():
    y = np.array([1.0, 2.0, 5.0])
    distances = np.array([[0.0, 1.0, 2.0], [1e3, 1e3 + 1, 2e3], [np.inf, 1.0, 1.0]])
    weights = np.exp(-(distances[0] ** 2) / (2 * 0.8**2))
    found = smoothed_labels(distances, y, 0.8)
    np.testing.assert_allclose(found, [weights @ y / weights.sum(), 1.0, 3.5])
