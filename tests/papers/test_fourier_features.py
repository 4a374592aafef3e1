"""Random Fourier features against their formula and the kernel that they approximate."""

import numpy as np
import pytest
from builders.location_family import location_family

from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.ridge_path import RidgePath
from bdr_stan.kernels import RBF
from experiments.papers.fourier_features import FourierFeatures, draw_frequencies


@pytest.fixture
def x(rng):
    return rng.normal(size=(11, 3))


@pytest.mark.parametrize("bandwidth", [1.3, np.array([0.5, 1.0, 3.0])])
def test_fourier_features_are_cosines_and_sines(x, bandwidth):
    w = draw_frequencies(4, 3, seed=1)
    angles = (x / bandwidth) @ w.T
    expected = np.sqrt(1 / 4) * np.hstack([np.cos(angles), np.sin(angles)])
    feature_map = FourierFeatures(w, bandwidth)
    assert feature_map.n_columns == 8
    np.testing.assert_array_equal(feature_map.frequencies, w)
    np.testing.assert_array_equal(feature_map.bandwidth, bandwidth)
    np.testing.assert_allclose(feature_map(x), expected, atol=1e-14)


@pytest.mark.parametrize("bandwidth", [1.3, np.array([0.5, 1.0, 3.0])])
def test_inner_products_of_fourier_features_approximate_the_kernel(rng, bandwidth):
    x, d = rng.normal(size=(20, 3)), 20_000
    phi = FourierFeatures(draw_frequencies(d, 3, seed=2), bandwidth)(x)
    gap = phi @ phi.T - RBF(bandwidth)(x, x)
    assert np.abs(gap).max() < 5 * np.sqrt(0.5 / d)  # five times its largest standard deviation
    np.testing.assert_allclose(np.diag(gap), 0, atol=1e-12)


def test_frequencies_come_from_the_seed():
    w = draw_frequencies(5, 2, seed=3)
    np.testing.assert_array_equal(w, draw_frequencies(5, 2, seed=3))
    assert w.shape == (5, 2)
    assert not np.array_equal(w, draw_frequencies(5, 2, seed=4))


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "median", None, 1j])
def test_bandwidth_of_fourier_features_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be a positive number, found"):
        FourierFeatures(np.ones((2, 1)), bandwidth)


@pytest.mark.parametrize(
    ("frequencies", "bandwidth", "message"),
    [
        (np.ones((4, 3)), [1.0, 0.0, -2.0], "bandwidth of feature 1 must be a positive number"),
        (np.ones((4, 3)), np.ones(2), "bandwidth has 2 entries, but the points have 3 features"),
        (np.ones((4, 3)), np.ones((3, 3)), r"bandwidth has shape \(3, 3\): give a positive number"),
        (np.ones((4, 3)), [], r"bandwidth has shape \(0,\): give a positive number"),
        (np.ones(4), 1.0, r"frequencies have shape \(4,\), expected \(d, p\) with d >= 1"),
        (np.ones((0, 4)), 1.0, r"frequencies have shape \(0, 4\), expected \(d, p\)"),
    ],
)
def test_frequencies_and_bandwidths_that_do_not_fit(frequencies, bandwidth, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(frequencies, bandwidth)


def test_ridge_on_fourier_features_is_kernel_ridge_regression():
    """With the mean of k over pairs of points: no landmarks at all."""
    bags, y = location_family(11, 40, largest=30)
    bandwidth, alpha = 1.5, 0.05
    gram = np.array([[RBF(bandwidth)(a, b).mean() for b in bags] for a in bags])
    centre = np.eye(40) - 1 / 40
    centred = centre @ gram @ centre
    dual = np.linalg.solve(centred + alpha * np.eye(40), y - y.mean())
    exact = y.mean() + centred @ dual
    error = {}
    for n in (20, 4000):
        means = embed(bags, FourierFeatures(draw_frequencies(n, 2, seed=2), bandwidth)).mean
        path = RidgePath(means, y)
        predictions = path.level + (means - path.origin) @ path.weights(np.array([alpha]))[:, 0]
        error[n] = np.abs(predictions - exact).max()
    assert error[4000] < 0.03 * np.ptp(y)
    assert error[4000] < 0.5 * error[20]
