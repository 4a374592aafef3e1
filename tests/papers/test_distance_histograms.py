"""Grids of kernels of the distance against means over all pairs of points, a kernel at a time."""

import numpy as np
import pytest
from builders.pairs_of_points import bags_of, double_loop, weights_of
from scipy.spatial.distance import cdist

from bdr_stan.bags import Bags
from bdr_stan.kernels import (
    RBF,
    Cauchy,
    Exponential,
    InverseMultiquadric,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    RationalQuadratic,
    StudentT,
)
from experiments.papers import distance_histograms
from experiments.papers.kernel_grids import set_kernels

THETAS = 2.0 ** np.arange(-15, 11)


# Values at the distance d.
GRIDS = {
    "rbf": [(RBF(t), lambda d, t=t: np.exp(-(d**2) / (2 * t**2))) for t in THETAS],
    "exponential": [
        (Exponential(2 * t**2), lambda d, t=t: np.exp(-d / (2 * t**2))) for t in THETAS
    ],
    "cauchy": [(Cauchy(t), lambda d, t=t: 1 / (1 + (d / t) ** 2)) for t in THETAS],
    "student t": [
        (StudentT(1.0, degree=t), lambda d, t=t: 1 / (1 + d**t)) for t in THETAS if t <= 2
    ],
    "rational quadratic": [
        (RationalQuadratic(t, alpha=2.5), lambda d, t=t: (1 + (d / t) ** 2 / 5) ** -2.5)
        for t in THETAS
    ],
    "inverse multiquadric": [
        (InverseMultiquadric(t, variance=3.0), lambda d, t=t: 3 / np.sqrt(1 + (d / t) ** 2))
        for t in THETAS
    ],
    "matern32": [
        (Matern32(t), lambda d, t=t: (1 + np.sqrt(3) * d / t) * np.exp(-np.sqrt(3) * d / t))
        for t in THETAS
    ],
    "matern52": [
        (
            Matern52(t),
            lambda d, t=t: (
                (1 + np.sqrt(5) * d / t + 5 * (d / t) ** 2 / 3) * np.exp(-np.sqrt(5) * d / t)
            ),
        )
        for t in THETAS
    ],
}


@pytest.fixture
def two_sides(rng):
    """Bags from 1 to 30 points, some with points in common."""
    bags, others = bags_of(rng, [7, 1, 30, 12]), bags_of(rng, [5, 20, 1], weighted=False)
    shared = np.concatenate([bags[0], others[1]])
    weights = [weights_of(bags, i) for i in range(4)]
    return (
        Bags.from_list([*bags, shared], weights=[*weights, np.ones(27)]),
        Bags.from_list([*others, bags[2]]),
    )


@pytest.mark.parametrize("name", GRIDS)
def test_grid_of_distances_is_the_mean_over_pairs(two_sides, name):
    bags, others = two_sides
    found = set_kernels(bags, [kernel for kernel, _ in GRIDS[name]], others)
    itself = set_kernels(bags, [kernel for kernel, _ in GRIDS[name]])
    for k, (kernel, value) in enumerate(GRIDS[name]):

        def values(x, y, value=value):
            return value(cdist(x, y))

        size = {"rtol": 0, "atol": 1e-11 * kernel.variance, "err_msg": repr(kernel)}
        np.testing.assert_allclose(found[k], double_loop(bags, others, values), **size)
        np.testing.assert_allclose(itself[k], double_loop(bags, bags, values), **size)
        np.testing.assert_array_equal(itself[k], itself[k].T)


def test_wide_kernels_keep_what_tells_bags_apart(rng):
    """Of k = 1 - s/2b^2 + .. with large b the ones say nothing: the rest has to be right too."""
    bags = bags_of(rng, [40, 60, 50], weighted=False)
    wide, wider = set_kernels(bags, [RBF(2.0**10), RBF(2.0**11)])
    rest = double_loop(bags, bags, lambda x, y: -np.expm1(-cdist(x, y, "sqeuclidean") / 2**21))
    np.testing.assert_allclose(1 - wide, rest, rtol=1e-8)
    assert (1 - wide).max() < 1e-4 and wider.min() > wide.min()


def test_blocks_do_not_matter(rng, monkeypatch):
    """Bags in pieces, blocks of many bags, and any number of threads."""
    bags = bags_of(rng, [25, 3, 1, 1, 1, 40, 2])
    others = bags_of(rng, [1, 1, 33, 4])
    kernels = [RBF(0.5), Matern32(3.0), Polynomial(2, 1.0), Linear()]
    whole, cross = set_kernels(bags, kernels), set_kernels(bags, kernels, others)
    monkeypatch.setattr(distance_histograms, "_ROWS", 8)
    monkeypatch.setattr(distance_histograms, "_BAGS", 2)
    for n_jobs in (1, 3):
        pieces = set_kernels(bags, kernels, n_jobs=n_jobs)
        np.testing.assert_allclose(pieces, whole, rtol=1e-10)
        np.testing.assert_allclose(
            set_kernels(bags, kernels, others, n_jobs=n_jobs), cross, rtol=1e-10
        )
    np.testing.assert_array_equal(pieces, set_kernels(bags, kernels, n_jobs=2))


def test_repeated_points_and_single_precision(rng):
    """Bags of one value, far from the origin, and float32."""
    bags = Bags.from_list([np.full((3, 2), 7.0), np.full((2, 2), 7.0), np.full((4, 2), 8.0)])
    narrow = set_kernels(bags, [RBF(1e-3), Exponential(1e-3)])
    np.testing.assert_allclose(
        narrow, np.stack([[[1, 1, 0], [1, 1, 0], [0, 0, 1]]] * 2), atol=1e-12
    )
    alike = Bags.from_list([np.ones((2, 1)), np.ones((1, 1))])
    np.testing.assert_allclose(set_kernels(alike, [RBF(1.0), Cauchy(2.0)]), 1.0, rtol=1e-14)
    points = rng.normal(size=(9, 2)).astype(np.float32)
    single, double = Bags(points, [0, 4, 9]), Bags(points.astype(float), [0, 4, 9])
    kernels = [RBF(1.0), Cauchy(2.0)]
    np.testing.assert_array_equal(set_kernels(single, kernels), set_kernels(double, kernels))
