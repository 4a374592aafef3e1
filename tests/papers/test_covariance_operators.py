"""Covariance operators against matrices: with the linear kernel they are matrices."""

from functools import reduce

import numpy as np
import pytest

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import RBF, Linear, Polynomial
from experiments.papers.covariance_operators import CovarianceOperator, CrossCovariance


@pytest.fixture
def points(rng):
    return rng.normal(size=(25, 4)) * [3, 2, 1, 0.5] + 1


def outer_products(x, mean):
    """Each (x_j - mu)(x_j - mu)' as one row."""
    return tensors([x, x], [mean, mean])


def tensors(samples, means):
    """Each (x_j - mu) (x) (y_j - nu) (x) .. as one row."""
    moved = [x - mean.weights @ x for x, mean in zip(samples, means)]
    return reduce(lambda a, b: np.einsum("ni,nj->nij", a, b).reshape(len(b), -1), moved)


def paired(rng, n):
    """Three samples of 4, 2 and 3 columns, whose rows of the same number belong together."""
    x = rng.normal(size=(n, 4)) * [3, 2, 1, 0.5] + 1
    return [x, x[:, :2] ** 2 + rng.normal(size=(n, 2)), x[:, 1:] + rng.normal(size=(n, 3))]


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
    n, squares = len(points), operator.centred[0] ** 2
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
    with pytest.raises(TypeError, match="expected an operator of 2 samples, found 3"):
        CovarianceOperator(points).inner(3)


# ------------------------------------------------------------------ several samples


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("mean", ["kme", "s-kmse"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_cross_covariances_are_means_of_tensors(rng, estimator, mean, order):
    samples, others = paired(rng, 8)[:order], paired(rng, 6)[:order]
    one, two = (
        CrossCovariance(each, Linear(), estimator=estimator, mean=mean)
        for each in (samples, others)
    )
    around = [KernelMean(x, Linear(), estimator=mean) for x in samples]
    rows = tensors(samples, around)
    twin = KernelMean(rows, Linear(), estimator=estimator)
    np.testing.assert_allclose(one.weights, twin.weights, rtol=1e-6)
    np.testing.assert_allclose(one.shrinkage, twin.shrinkage, rtol=1e-6)
    assert (one.shrinkage > 0) == (estimator != "kme")
    dense = one.weights @ rows
    other = two.weights @ tensors(others, two.means)
    np.testing.assert_allclose(one.inner(two), dense @ other, rtol=1e-9)
    np.testing.assert_allclose(one.norm, np.linalg.norm(dense))
    np.testing.assert_allclose(one.distance(two), np.linalg.norm(dense - other))


def test_the_plain_squared_norm_is_hsic(rng):
    """tr(K H L H) / n^2, with another kernel for each sample."""
    x, y, _ = paired(rng, 12)
    centre = np.eye(12) - 1 / 12
    K, L = RBF(2.0)(x, x), Polynomial(2)(y, y)
    hsic = np.trace(K @ centre @ L @ centre) / 12**2
    assert CrossCovariance([x, y], [RBF(2.0), Polynomial(2)]).norm ** 2 == pytest.approx(hsic)


def test_a_sample_with_itself_has_its_covariance_operator(points):
    alone = CovarianceOperator(points, "rbf", 1.5, "f-kmse", mean="s-kmse")
    twice = CrossCovariance([points, points], "rbf", 1.5, "f-kmse", mean="s-kmse")
    np.testing.assert_array_equal(twice.weights, alone.weights)
    assert twice.inner(alone) == pytest.approx(alone.norm**2)


@pytest.mark.parametrize("estimator", ["s-kmse", "f-kmse"])
def test_shrunk_cross_covariances_are_nearer_the_truth(rng, estimator):
    """10 points in 8 and 8 dimensions, weakly correlated: 100 samples, paired."""
    truth = 0.3 * np.eye(8)
    gains = []
    for _ in range(100):
        x = rng.normal(size=(10, 8))
        y = 0.3 * x + rng.normal(size=(10, 8))
        losses = []
        for name in ("kme", estimator):
            operator = CrossCovariance([x, y], Linear(), estimator=name)
            dense = operator.weights @ tensors([x, y], operator.means)
            losses.append(np.sum((dense - truth.ravel()) ** 2))
        gains.append(losses[0] - losses[1])
    assert np.mean(gains) > 4 * np.std(gains) / 10


def test_errors_of_several_samples(rng):
    x, y, z = paired(rng, 8)
    with pytest.raises(ValueError, match="the samples are pairs, but have 8, 7 points"):
        CrossCovariance([x, y[:7]])
    with pytest.raises(ValueError, match="give two samples or more, .* found 1 samples"):
        CrossCovariance([x])
    with pytest.raises(ValueError, match="one of each, found 2 samples and 1 kernels"):
        CrossCovariance([x, y], ["rbf"])
    with pytest.raises(ValueError, match="the means have different kernels"):
        CrossCovariance([x, y], "rbf", 1.0).inner(CrossCovariance([x, y], "rbf", 2.0))
    with pytest.raises(TypeError, match="expected an operator of 2 samples, found <"):
        CrossCovariance([x, y]).inner(CrossCovariance([x, y, z]))
