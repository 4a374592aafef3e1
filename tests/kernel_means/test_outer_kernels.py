"""Kernels of kernel means, from inner products alone."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from bdr_stan.kernel_means.set_kernels import (
    OUTER_KERNELS,
    between,
    check_outer,
    resolved_outer,
    squared_distances,
    values_at_squares,
)
from bdr_stan.kernels import RBF, Cauchy, Linear


@pytest.fixture
def means(rng):
    """Means of a linear kernel, which are vectors: their distances are known."""
    return rng.normal(size=(9, 3)), rng.normal(size=(5, 3))


@pytest.mark.parametrize("kind", sorted(set(OUTER_KERNELS.values()), key=str))
def test_kernel_of_distances(means, kind):
    a, b = means
    outer = kind(0.7, variance=2.0)
    products, squares, other_squares = a @ b.T, np.sum(a**2, axis=1), np.sum(b**2, axis=1)
    found = squared_distances(products, squares, other_squares)
    np.testing.assert_allclose(found, cdist(a, b, "sqeuclidean"))
    np.testing.assert_allclose(values_at_squares(outer, found), outer(a, b), rtol=1e-10)
    np.testing.assert_allclose(
        between(outer, products, squares, other_squares), outer(a, b), rtol=1e-10
    )
    assert between(None, products, None, None) is products


def test_outer_kernel_of_equal_means_is_its_variance():
    products = np.ones((2, 2))
    values = between(Cauchy(0.5, variance=2.0), products, np.ones(2), np.ones(2))
    np.testing.assert_array_equal(values, 2.0)


def test_median_rule(means):
    products = means[0] @ means[0].T
    found = resolved_outer("cauchy", products)
    expected = np.sqrt(np.median(pdist(means[0], "sqeuclidean")) / 2)
    assert isinstance(found, Cauchy) and found.bandwidth == pytest.approx(expected)
    waiting = resolved_outer(RBF(variance=3.0), products)
    assert waiting.bandwidth == found.bandwidth and waiting.variance == 3.0
    given = RBF(0.4)
    assert resolved_outer(given, products) is given
    assert resolved_outer("linear", products) is None
    for same in (np.ones((3, 3)), np.ones((1, 1))):
        with pytest.raises(ValueError, match="most bags have the same kernel mean"):
            resolved_outer("rbf", same)


@pytest.mark.parametrize(
    ("outer", "message"),
    [
        ("quadratic", "outer must be a kernel or one of 'linear', 'rbf'.*'quadratic'"),
        (Linear(), "outer must be a kernel of the distance between kernel means"),
        (RBF([1.0, 2.0]), "with one bandwidth and no columns"),
        (RBF("ard"), "with one bandwidth and no columns"),
        (RBF(1.0, columns=["a"]), "with one bandwidth and no columns"),
    ],
    ids=str,
)
def test_unusable_kernels(outer, message):
    with pytest.raises(ValueError, match=message):
        check_outer(outer)
