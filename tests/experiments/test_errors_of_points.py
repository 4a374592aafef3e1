"""The kernel of points with errors: right on average, and an RBF kernel without errors."""

import numpy as np
import pytest

from bdr_stan import BDR, RBF
from experiments.errors_of_points import RBFOfErrors, with_sds


@pytest.fixture
def points(rng):
    """True points of two columns, their errors' sds, landmarks."""
    return rng.normal(size=(6, 2)), rng.uniform(0.1, 0.9, (6, 2)), rng.normal(size=(4, 2))


def test_its_expectation_over_errors_is_the_kernel_of_the_true_points(points):
    true, sd, u = points
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    kernel = RBFOfErrors(1.3, variance=2.0)
    expected = np.zeros((len(true), len(u)))
    for a, weight in zip(nodes, weights):
        for b, other in zip(nodes, weights):
            measured = true + sd * [a, b]
            expected += weight * other * kernel(np.hstack([measured, sd]), with_sds(u))
    np.testing.assert_allclose(expected, RBF(1.3, variance=2.0)(true, u), rtol=1e-6)


def test_without_errors_it_is_an_rbf_kernel_and_so_is_the_fit(points, rng):
    true, _, u = points
    kernel = RBFOfErrors(0.7)
    np.testing.assert_allclose(kernel(with_sds(true), with_sds(u)), RBF(0.7)(true, u), rtol=1e-12)
    bags = [rng.normal(c, 1, (20, 2)) for c in rng.normal(size=30)]
    y = [bag.mean() for bag in bags]
    plain = BDR(kernel=RBF(0.7), landmarks=u, method="laplace").fit(bags, y, seed=1)
    of_errors = BDR(kernel=kernel, landmarks=with_sds(u), method="laplace")
    of_errors.fit([with_sds(bag) for bag in bags], y, seed=1)
    new = rng.normal(size=(15, 2))
    expected = plain.predict([new])
    # The search for the scales turns rounding into 1e-4 of the prediction.
    np.testing.assert_allclose(of_errors.predict([with_sds(new)]), expected, rtol=0.01)


def test_errors_above_the_bandwidth_are_refused(points):
    true, sd, u = points
    with pytest.raises(ValueError, match="errors must be below the bandwidth, 0.5"):
        RBFOfErrors(0.5)(np.hstack([true, sd]), with_sds(u))
