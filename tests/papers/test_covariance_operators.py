"""Covariance operators against matrices: with the linear kernel they are matrices."""

import numpy as np
import pytest

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import Linear
from experiments.papers.covariance_operators import CovarianceOperator


@pytest.fixture
def points(rng):
    return rng.normal(size=(25, 4)) * [3, 2, 1, 0.5] + 1


def outer_products(x, mean):
    """Each (x_j - mu)(x_j - mu)' as one row."""
    moved = x - mean.weights @ x
    return np.einsum("ni,nj->nij", moved, moved).reshape(len(x), -1)


@pytest.mark.parametrize("mean", ESTIMATORS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_are_those_of_a_mean_of_matrices(points, estimator, mean):
    points = points[:8]  # the fewer, the more there is to shrink
    operator = CovarianceOperator(points, Linear(), estimator=estimator, mean=mean)
    around = KernelMean(points, Linear(), estimator=mean)
    twin = KernelMean(outer_products(points, around), Linear(), estimator=estimator)
    np.testing.assert_allclose(operator.weights, twin.weights, rtol=1e-6)
    np.testing.assert_allclose(operator.shrinkage, twin.shrinkage, rtol=1e-6)
    assert operator.mean.shrinkage == around.shrinkage
    assert (operator.shrinkage > 0) == (estimator != "kme")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_hilbert_schmidt(points, rng, estimator):
    others = rng.normal(size=(9, 4))
    operators = [
        CovarianceOperator(x, Linear(), estimator=estimator, mean="s-kmse")
        for x in (points, others)
    ]
    matrices = [op.weights @ outer_products(op.points, op.mean) for op in operators]
    one, two = operators
    np.testing.assert_allclose(one.inner(two), matrices[0] @ matrices[1])
    np.testing.assert_allclose(one.norm, np.linalg.norm(matrices[0]))
    np.testing.assert_allclose(one.distance(two), np.linalg.norm(matrices[0] - matrices[1]))


@pytest.mark.parametrize("shrinkage", [0.01, 1.0])
def test_shrinkage_may_be_given(points, shrinkage):
    operator = CovarianceOperator(points, Linear(), estimator="f-kmse", shrinkage=shrinkage)
    n, squares = len(points), operator.centred**2
    expected = np.linalg.inv(squares + n * shrinkage * np.eye(n)) @ squares @ np.ones(n) / n
    np.testing.assert_allclose(operator.weights, expected, rtol=1e-8)
    assert operator.shrinkage == shrinkage
    chosen = CovarianceOperator(points[:8], Linear(), estimator="f-kmse")
    again = CovarianceOperator(points[:8], Linear(), estimator="f-kmse", shrinkage=chosen.shrinkage)
    np.testing.assert_allclose(again.weights, chosen.weights, rtol=1e-6)


def test_errors(points):
    with pytest.raises(ValueError, match=r"estimator must be one of 'kme', .* found 's-cose'"):
        CovarianceOperator(points, estimator="s-cose")
    with pytest.raises(ValueError, match="the means have different kernels"):
        CovarianceOperator(points).inner(CovarianceOperator(2 * points))
    with pytest.raises(ValueError, match="shrinkage is for 'f-kmse' alone, but estimator is 'kme'"):
        CovarianceOperator(points, shrinkage=0.1)
    with pytest.raises(ValueError, match="shrinkage must be"):
        CovarianceOperator(points, estimator="f-kmse", shrinkage=0.0)
