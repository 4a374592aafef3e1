"""The Gaussian kernel: its definition, and what its own evaluation keeps."""

import numpy as np
import pytest
from builders.kernels import LENGTHS, PROFILES, at_distance, gram
from scipy.spatial.distance import cdist

from bdr_stan.kernels import RBF


def definition(bandwidth, p):
    return at_distance(PROFILES["rbf"], bandwidth, range(p))


@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 1), (7, 3, 2), (2, 9, 20)])
def test_values_are_the_definition(rng, n, m, p):
    x, y = rng.normal(size=(n, p)), rng.normal(size=(m, p))
    expected = gram(definition(1.7, p), x, y).astype(float)
    np.testing.assert_allclose(RBF(1.7)(x, y), expected, rtol=1e-12)


def test_far_from_the_origin(rng):
    x, y = 1e6 + rng.normal(size=(20, 3)), 1e6 + rng.normal(size=(5, 3))
    np.testing.assert_allclose(RBF(0.9)(x, y), np.exp(-(cdist(x, y) ** 2) / 1.62), rtol=1e-12)


def test_one_bandwidth_a_feature_is_the_definition(rng):
    x, y = rng.normal(size=(7, 3)), 1e3 + rng.normal(size=(4, 3))
    x += 1e3
    bandwidth = np.array([0.3, 1.7, 20.0])
    expected = gram(definition(bandwidth, 3), x, y).astype(float)
    np.testing.assert_allclose(RBF(bandwidth)(x, y), expected, rtol=1e-10)
    np.testing.assert_allclose(RBF(list(bandwidth))(x, y), expected, rtol=1e-10)


def test_equal_bandwidths_are_one_bandwidth(rng):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(RBF([0.7] * 3)(x, y), RBF(0.7)(x, y), rtol=1e-12)


@pytest.mark.parametrize("variance", [1, 0.3])
def test_values_never_exceed_the_variance(rng, variance):
    x = 1e3 * rng.normal(size=(200, 5))
    values = RBF(0.01, variance=variance)(x, x)
    assert values.max() <= variance
    # 1e-16 (R / bandwidth)^2
    np.testing.assert_allclose(np.diag(values), variance, rtol=1e-4)


def test_distant_points_are_as_good_as_zero():
    with np.errstate(all="raise"):
        values = RBF(1.0)([[0.0]], [[1e5], [39.0], [1.0]])
    assert 0 <= values[0, 0] < 1e-300
    np.testing.assert_allclose(values[0, 1:], np.exp([-(39.0**2) / 2, -0.5]), atol=1e-303)


def test_distant_points_beside_a_small_scale_are_as_good_as_zero():
    """A factor in the exponent may take it below what exp can do at speed."""
    kernel, points = RBF(1.0), np.array([[0.0], [0.0]])
    prepared = kernel.prepare([[36.0]])
    with np.errstate(all="raise"):
        values = kernel.evaluate(points, prepared, np.empty((2, 1)), np.array([0.0, -100.0]))
    np.testing.assert_allclose(values[0], np.exp(-648.0), rtol=1e-10)
    assert 0 <= values[1, 0] < 1e-300


def test_float32_and_integers_are_computed_in_float64(rng):
    x = rng.integers(-3, 4, size=(6, 2))
    expected = RBF(2.0)(x.astype(float), x.astype(float))
    np.testing.assert_array_equal(RBF(2.0)(x, x), expected)
    np.testing.assert_array_equal(RBF(2.0)(x.astype(np.float32), x), expected)


@pytest.mark.parametrize("variance", [0.2, 1.0, 40.0])
def test_variance_and_scales_go_into_the_exponent(rng, variance):
    x, u, scale = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), np.array([1, 0.1, 2, 5, 1e-9])
    kernel = RBF(LENGTHS, variance=variance)
    out = kernel.evaluate(x, kernel.prepare(u), np.empty((5, 4)), np.log(scale))
    expected = variance * gram(definition(LENGTHS, 3), x, u).astype(float)
    np.testing.assert_allclose(out, scale[:, None] * expected, rtol=1e-12)
