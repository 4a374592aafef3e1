"""Kernels against their definitions, the convolution against quadrature."""

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.spatial.distance import cdist

from bdr_stan.bags import Bags
from bdr_stan.kernels import median_bandwidth, rbf, rbf_convolution


def k(x, y, bandwidth):
    return np.exp(-np.sum((x - y) ** 2) / (2 * bandwidth**2))


@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 1), (7, 3, 2), (2, 9, 20)])
def test_rbf_is_the_definition(rng, n, m, p):
    x, y = rng.normal(size=(n, p)), rng.normal(size=(m, p))
    expected = [[k(a, b, 1.7) for b in y] for a in x]
    np.testing.assert_allclose(rbf(x, y, 1.7), expected, rtol=1e-12)


def test_rbf_far_from_the_origin(rng):
    x, y = 1e6 + rng.normal(size=(20, 3)), 1e6 + rng.normal(size=(5, 3))
    np.testing.assert_allclose(rbf(x, y, 0.9), np.exp(-(cdist(x, y) ** 2) / 1.62), rtol=1e-12)


def test_rbf_never_exceeds_one(rng):
    x = 1e3 * rng.normal(size=(200, 5))
    values = rbf(x, x, 0.01)
    assert values.max() <= 1
    np.testing.assert_allclose(np.diag(values), 1, rtol=1e-4)  # 1e-16 (R / bandwidth)^2


def test_rbf_of_distant_points_is_as_good_as_zero():
    with np.errstate(all="raise"):
        values = rbf([[0.0]], [[1e5], [39.0], [1.0]], 1.0)
    assert 0 <= values[0, 0] < 1e-300
    np.testing.assert_allclose(values[0, 1:], np.exp([-(39.0**2) / 2, -0.5]), atol=1e-303)


def test_rbf_takes_float32_and_integers(rng):
    x = rng.integers(-3, 4, size=(6, 2))
    expected = rbf(x.astype(float), x.astype(float), 2.0)
    np.testing.assert_array_equal(rbf(x, x, 2.0), expected)
    np.testing.assert_array_equal(rbf(x.astype(np.float32), x, 2.0), expected)


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "median", None, [1.0]])
def test_bandwidth_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be a positive number, found"):
        rbf(np.ones((2, 1)), np.ones((2, 1)), bandwidth)


@pytest.mark.parametrize(("bandwidth", "scale"), [(0.7, 1.5), (2.0, 0.4), (1.0, 1.0)])
def test_convolution_in_one_dimension(rng, bandwidth, scale):
    def integral(a, b):
        def integrand(z):
            return k(a, z, bandwidth) * k(z, b, bandwidth) * np.exp(-(z**2) / (2 * scale**2))

        return quad(integrand, -20, 20, epsabs=1e-13)[0]

    x, y = rng.normal(size=(2, 3, 1))
    expected = [[integral(a, b) for b in y] for a in x]
    np.testing.assert_allclose(rbf_convolution(x, y, bandwidth, scale), expected, rtol=1e-10)


def test_convolution_in_two_dimensions():
    x, y = np.array([[0.3, -1.1]]), np.array([[0.9, 0.4]])
    bandwidth, scale = 0.8, 1.3

    def integrand(z2, z1):
        z = np.array([z1, z2])
        measure = np.exp(-np.sum(z**2) / (2 * scale**2))
        return k(x[0], z, bandwidth) * k(z, y[0], bandwidth) * measure

    expected = dblquad(integrand, -7, 7, -7, 7, epsabs=1e-10)[0]
    np.testing.assert_allclose(rbf_convolution(x, y, bandwidth, scale), expected, rtol=1e-8)


def test_convolution_is_symmetric_and_positive_definite(rng):
    x = rng.normal(size=(12, 3))
    r = rbf_convolution(x, x, 0.8, 1.5)
    np.testing.assert_allclose(r, r.T, rtol=1e-12)
    assert np.linalg.eigvalsh(r).min() > 0


def test_convolution_needs_a_positive_scale():
    with pytest.raises(ValueError, match="measure_scale must be a positive number, found 0"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), 1.0, 0)


def test_median_bandwidth_of_all_points(rng):
    arrays = [rng.normal(size=(n, 2)) for n in (3, 1, 6)]
    points = np.concatenate(arrays)
    squared = [np.sum((a - b) ** 2) for i, a in enumerate(points) for b in points[:i]]
    np.testing.assert_allclose(median_bandwidth(arrays), np.sqrt(np.median(squared) / 2))


def test_median_bandwidth_of_a_sample(rng):
    bags = Bags.from_points(rng.normal(size=(5000, 2)), sizes=[1000, 4000])
    sampled = median_bandwidth(bags, sample=1000, seed=3)
    assert sampled == median_bandwidth(bags, sample=1000, seed=3)
    assert sampled != median_bandwidth(bags, sample=1000, seed=4)
    # |x - x'|^2 is 2 chi^2_2 distributed, whose median is 4 log 2.
    np.testing.assert_allclose(sampled, np.sqrt(2 * np.log(2)), rtol=0.05)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0]], "there is only one point: give the bandwidth as a number"),
        ([[1.0]] * 4, "all sampled points coincide"),
        ([[1.0]] * 9 + [[2.0]], "most sampled points coincide, so their median distance is 0"),
    ],
)
def test_median_bandwidth_without_distances(points, message):
    with pytest.raises(ValueError, match=message):
        median_bandwidth([points])


def test_median_bandwidth_needs_a_sample():
    with pytest.raises(ValueError, match="sample must be an integer >= 2, found 1"):
        median_bandwidth([[[1.0], [2.0]]], sample=1)
