"""Kernel means of bags as values: exact ones, and those projected on landmarks."""

import numpy as np
from builders.pairs_of_points import bags_of, double_loop

from bdr_stan.kernel_means.bag_means import BagMeans, ProjectedMeans
from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernels import RBF, Linear


def test_products_are_those_of_kernel_means(rng):
    bags = bags_of(rng, [5, 1, 12], weighted=False)
    others = bags_of(rng, [4, 7], weighted=False)
    kernel = RBF(3.0)
    means, right = (BagMeans(b, kernel) for b in (bags, others))
    single, theirs = ([KernelMean(x, kernel) for x in b] for b in (bags, others))
    plain = np.array([[a.inner(b) for b in theirs] for a in single])
    np.testing.assert_allclose(means.products(right), plain, rtol=1e-10)
    np.testing.assert_allclose(means.squared_norms(), [a.norm**2 for a in single], rtol=1e-10)
    np.testing.assert_allclose(means.products().diagonal(), means.squared_norms(), rtol=1e-10)


def test_weighted_bags_keep_their_weights(rng):
    bags = bags_of(rng, [3, 1, 6])
    means = BagMeans(bags, RBF(3.0))
    np.testing.assert_allclose(means.products(), double_loop(bags, bags, RBF(3.0)), rtol=1e-10)


def test_projections_on_all_points_are_exact(rng):
    """Of weighted bags; a linear kernel has fewer directions than landmarks."""
    bags = bags_of(rng, [3, 1, 6])
    for kernel in (RBF(3.0), Linear()):
        means = ProjectedMeans.at_landmarks(bags, kernel, bags.points)
        np.testing.assert_allclose(means.products(), double_loop(bags, bags, kernel), rtol=1e-5)
        np.testing.assert_allclose(means.squared_norms(), means.products().diagonal())
    assert means.coordinates.shape == (3, 3)
    few = ProjectedMeans.at_landmarks(bags, RBF(3.0), bags.points[:2])
    assert np.all(few.squared_norms() < double_loop(bags, bags, RBF(3.0)).diagonal())
