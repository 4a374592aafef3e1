"""Kernels against their definitions, the convolution against quadrature."""

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.spatial.distance import cdist

from bdr_stan.bags import Bags
from bdr_stan.kernels import (
    draw_frequencies,
    features_of,
    fourier_basis,
    fourier_features,
    median_bandwidth,
    rbf,
    rbf_basis,
    rbf_convolution,
    rbf_features,
)


def k(x, y, bandwidth):
    return np.exp(-np.sum(((x - y) / bandwidth) ** 2) / 2)


@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 1), (7, 3, 2), (2, 9, 20)])
def test_rbf_is_the_definition(rng, n, m, p):
    x, y = rng.normal(size=(n, p)), rng.normal(size=(m, p))
    expected = [[k(a, b, 1.7) for b in y] for a in x]
    np.testing.assert_allclose(rbf(x, y, 1.7), expected, rtol=1e-12)


def test_rbf_far_from_the_origin(rng):
    x, y = 1e6 + rng.normal(size=(20, 3)), 1e6 + rng.normal(size=(5, 3))
    np.testing.assert_allclose(rbf(x, y, 0.9), np.exp(-(cdist(x, y) ** 2) / 1.62), rtol=1e-12)


def test_rbf_with_one_bandwidth_a_feature_is_the_definition(rng):
    x, y = rng.normal(size=(7, 3)), 1e3 + rng.normal(size=(4, 3))
    x += 1e3
    bandwidth = np.array([0.3, 1.7, 20.0])
    expected = [[k(a, b, bandwidth) for b in y] for a in x]
    np.testing.assert_allclose(rbf(x, y, bandwidth), expected, rtol=1e-10)
    np.testing.assert_allclose(rbf(x, y, list(bandwidth)), expected, rtol=1e-10)


def test_equal_bandwidths_are_one_bandwidth(rng):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(rbf(x, y, [0.7] * 3), rbf(x, y, 0.7), rtol=1e-12)
    one, three = rbf_convolution(x, y, 0.7, 1.1), rbf_convolution(x, y, [0.7] * 3, [1.1] * 3)
    np.testing.assert_allclose(three, one, rtol=1e-12)


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


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "median", None, 1j])
def test_bandwidth_must_be_positive(bandwidth):
    for check in (rbf, lambda x, y, bandwidth: fourier_basis(y, bandwidth)):
        with pytest.raises(ValueError, match="bandwidth must be a positive number, found"):
            check(np.ones((2, 1)), np.ones((2, 1)), bandwidth)


@pytest.mark.parametrize(
    ("bandwidth", "message"),
    [
        ([1.0, 0.0, -2.0], "bandwidth of feature 1 must be a positive number, found 0.0"),
        ([1.0, 2.0, np.nan], "bandwidth of feature 2 must be a positive number, found nan"),
        (np.ones(2), "bandwidth has 2 entries, but the points have 3 features: give one number"),
        (np.ones((3, 3)), r"bandwidth has shape \(3, 3\): give a positive number, or one for each"),
        ([], r"bandwidth has shape \(0,\): give a positive number, or one for each feature"),
    ],
)
def test_bandwidths_must_be_positive_and_as_many_as_features(bandwidth, message):
    for check in (rbf, lambda x, y, bandwidth: fourier_basis(y, bandwidth)):
        with pytest.raises(ValueError, match=message):
            check(np.ones((2, 3)), np.ones((4, 3)), bandwidth)


@pytest.mark.parametrize(("bandwidth", "scale"), [(0.7, 1.5), (2.0, 0.4), (1.0, 1.0)])
def test_convolution_in_one_dimension(rng, bandwidth, scale):
    def integral(a, b):
        def integrand(z):
            return k(a, z, bandwidth) * k(z, b, bandwidth) * np.exp(-(z**2) / (2 * scale**2))

        return quad(integrand, -20, 20, epsabs=1e-13)[0]

    x, y = rng.normal(size=(2, 3, 1))
    expected = [[integral(a, b) for b in y] for a in x]
    np.testing.assert_allclose(rbf_convolution(x, y, bandwidth, scale), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("bandwidth", "scale"),
    [(0.8, 1.3), ([0.8, 0.5], 1.3), (0.8, [1.3, 0.6]), ([0.8, 0.5], [1.3, 0.6])],
)
def test_convolution_in_two_dimensions(bandwidth, scale):
    x, y = np.array([[0.3, -1.1]]), np.array([[0.9, 0.4]])
    bandwidth, scale = np.array(bandwidth), np.array(scale)

    def integrand(z2, z1):
        z = np.array([z1, z2])
        measure = np.exp(-np.sum((z / scale) ** 2) / 2)
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
    with pytest.raises(ValueError, match="measure_scale has 2 entries, but the points have 1"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), 1.0, [1.0, 1.0])


@pytest.mark.parametrize("bandwidth", [1.3, np.array([0.5, 1.0, 3.0])])
def test_fourier_features_are_the_definition(rng, bandwidth):
    x, w = rng.normal(size=(6, 3)), draw_frequencies(4, 3, seed=1)
    angles = (x / bandwidth) @ w.T
    expected = np.sqrt(1 / 4) * np.hstack([np.cos(angles), np.sin(angles)])
    basis = fourier_basis(w, bandwidth)
    assert basis.n_columns == 8
    np.testing.assert_allclose(fourier_features(x, basis, np.empty((6, 8))), expected, atol=1e-14)


@pytest.mark.parametrize("bandwidth", [1.3, np.array([0.5, 1.0, 3.0])])
def test_inner_products_of_fourier_features_approximate_the_kernel(rng, bandwidth):
    x, d = rng.normal(size=(20, 3)), 20_000
    basis = fourier_basis(draw_frequencies(d, 3, seed=2), bandwidth)
    phi = fourier_features(x, basis, np.empty((20, 2 * d)))
    gap = phi @ phi.T - rbf(x, x, bandwidth)
    assert np.abs(gap).max() < 5 * np.sqrt(0.5 / d)  # five times its largest standard deviation
    np.testing.assert_allclose(np.diag(gap), 0, atol=1e-12)


def test_frequencies_come_from_the_seed():
    w = draw_frequencies(5, 2, seed=3)
    np.testing.assert_array_equal(w, draw_frequencies(5, 2, seed=3))
    assert w.shape == (5, 2)
    assert not np.array_equal(w, draw_frequencies(5, 2, seed=4))


@pytest.mark.parametrize(
    ("basis", "evaluate"), [(rbf_basis, rbf_features), (fourier_basis, fourier_features)]
)
def test_features_take_a_log_scale_a_point_and_scratch(rng, basis, evaluate):
    x, u, scale = rng.normal(size=(5, 2)), rng.normal(size=(3, 2)), np.array([1, 0.1, 2, 5, 1e-9])
    basis = basis(u, 0.9)
    shape = (5, basis.n_columns)
    plain = evaluate(x, basis, np.empty(shape))
    scratch = np.full((9, 4), np.nan)
    scaled = evaluate(x.astype(np.float32), basis, np.empty(shape), scratch, np.log(scale))
    np.testing.assert_allclose(scaled, scale[:, None] * plain, rtol=1e-5)


def test_unknown_kernel_is_named():
    with pytest.raises(ValueError, match="kernel must be a Kernel or one of 'rbf', 'fourier', .*found 'cosine'"):
        features_of("cosine")


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
