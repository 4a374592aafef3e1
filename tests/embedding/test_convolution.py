"""The convolution of the Gaussian kernel with itself against quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad

from bdr_stan.embedding.prior import rbf_convolution


def k(x, y, bandwidth):
    return np.exp(-np.sum(((x - y) / bandwidth) ** 2) / 2)


@pytest.mark.parametrize(("bandwidth", "scale"), [(0.7, 1.5), (2.0, 0.4), (1.0, 1.0)])
def test_one_dimension(rng, bandwidth, scale):
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
def test_two_dimensions(bandwidth, scale):
    x, y = np.array([[0.3, -1.1]]), np.array([[0.9, 0.4]])
    bandwidth, scale = np.array(bandwidth), np.array(scale)
    # Of functions that vanish at both ends the trapezoid rule is exact to rounding.
    grid, step = np.linspace(-9, 9, 301, retstep=True)
    z = np.stack(np.meshgrid(grid, grid), axis=-1)
    exponents = ((x[0] - z) / bandwidth) ** 2 + ((z - y[0]) / bandwidth) ** 2 + (z / scale) ** 2
    expected = np.exp(-exponents.sum(axis=-1) / 2).sum() * step**2
    np.testing.assert_allclose(rbf_convolution(x, y, bandwidth, scale), expected, rtol=1e-11)


def test_it_is_symmetric_and_positive_definite(rng):
    x = rng.normal(size=(12, 3))
    r = rbf_convolution(x, x, 0.8, 1.5)
    np.testing.assert_allclose(r, r.T, rtol=1e-12)
    assert np.linalg.eigvalsh(r).min() > 0


def test_equal_bandwidths_are_one_bandwidth(rng):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    one, three = rbf_convolution(x, y, 0.7, 1.1), rbf_convolution(x, y, [0.7] * 3, [1.1] * 3)
    np.testing.assert_allclose(three, one, rtol=1e-12)


def test_it_needs_a_positive_scale():
    with pytest.raises(ValueError, match="measure_scale must be a positive number, found 0"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), 1.0, 0)
    with pytest.raises(ValueError, match="measure_scale has 2 entries, but the points have 1"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), 1.0, [1.0, 1.0])
    with pytest.raises(ValueError, match="bandwidth must be a positive number, found 'median'"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), "median", 1.0)
