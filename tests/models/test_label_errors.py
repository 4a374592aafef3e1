"""True labels behind labels with errors, against simulation and from definitions."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from bdr_stan.embedding.label_functions import functions_of_numbers
from bdr_stan.models.label_errors import (
    TrueLabels,
    most_point_noise,
    spread_of_true_labels,
    true_labels,
    unexplained,
)


def simulated(rng, n, variances=(0.1, 2.0)):
    """True labels, labels with errors and the variances of these."""
    variance = rng.choice(variances, n)
    labels = rng.normal(3, 1.5, n)
    return labels, rng.normal(labels, np.sqrt(variance)), variance


def test_the_spread_solves_the_equation_of_paule_and_mandel(rng):
    _, y, variance = simulated(rng, 40)

    def distance(spread):
        weights = [1 / (spread + v) for v in variance]
        middle = sum(w * label for w, label in zip(weights, y)) / sum(weights)
        return abs(sum(w * (label - middle) ** 2 for w, label in zip(weights, y)) - 39)

    found = minimize_scalar(distance, bounds=(0, 10), method="bounded", options={"xatol": 1e-9})
    assert spread_of_true_labels(y, variance) == pytest.approx(found.x, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_spread_is_that_of_the_true_labels_in_any_unit(rng, scale):
    _, y, variance = simulated(rng, 20_000)
    found = spread_of_true_labels(scale * y, scale**2 * variance)
    assert found == pytest.approx((1.5 * scale) ** 2, rel=0.05)


def test_errors_that_explain_all_labels_are_told(rng):
    y = rng.normal(size=30)
    with pytest.raises(ValueError, match="label_sd explain all differences between the labels"):
        spread_of_true_labels(y, np.full(30, 2.0))


def test_true_labels_are_as_likely_as_they_say():
    """In each part of the labels that are seen, and at each variance."""
    labels, y, variance = simulated(np.random.default_rng(1), 200_000)
    found = true_labels(y, variance)
    away = (labels - found.mean) / found.sd
    for v in (0.1, 2.0):
        for low, high in ((-3, 2), (2, 4), (4, 9)):
            part = away[(variance == v) & (low < y) & (y < high)]
            assert len(part) > 5_000
            assert abs(part.mean()) < 4.5 / np.sqrt(len(part)) + 0.01
            assert part.std() == pytest.approx(1, abs=0.02)


def test_plausible_labels_spread_as_the_true_ones():
    labels, y, variance = simulated(np.random.default_rng(2), 5000)
    found = true_labels(y, variance)
    assert stats.ks_2samp(found.plausible, labels).pvalue > 0.01
    for others in (y, found.mean):
        assert stats.ks_2samp(others, labels).pvalue < 1e-2
    np.testing.assert_array_equal(found.plausible, true_labels(y, variance).plausible)
    within = true_labels(y, variance, (2.0, np.inf)).plausible
    np.testing.assert_array_equal(within, np.maximum(found.plausible, 2.0))


def test_moments_of_functions(rng):
    functions = functions_of_numbers(rng.normal(size=100))
    mean, sd = np.array([-1.5, 0.2, 1.0]), np.array([0.3, 0.6, 0.8])
    averages, covariances = TrueLabels(mean, sd, mean).moments(functions)
    labels = rng.normal(mean, sd, (100_000, 3))
    for own, covariance, at in zip(averages, covariances, labels.T):
        values = functions(at)
        error = values.std(axis=0) / np.sqrt(len(values))
        # Quadrature rounds the kinks at the ends of the labels.
        np.testing.assert_array_less(np.abs(own - values.mean(axis=0)), 4.5 * error + 0.03)
        np.testing.assert_allclose(covariance, np.cov(values.T), atol=0.15)
    exact, none = TrueLabels(mean, 0 * sd, mean).moments(functions)
    np.testing.assert_allclose(exact, functions(mean), rtol=1e-12)
    np.testing.assert_allclose(none, 0, atol=1e-20)


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_errors_that_explain_all_leave_a_little_to_learn(rng, unit):
    """As they may in a part of the bags."""
    y = unit * rng.normal(size=30)
    found = true_labels(y, np.full(30, 2.0 * unit**2))
    assert 0 < found.plausible.std() < 0.3 * y.std()


@pytest.mark.parametrize("known", [0.0, 0.3])
def test_the_most_noise_of_one_point_leaves_a_little(rng, known):
    sizes, y = rng.choice([1.0, 10.0, 100.0], 50), rng.normal(0, 2, 50)
    most = most_point_noise(y, sizes, known)
    assert unexplained(y, known + most**2 / sizes) > 0
    assert unexplained(y, known + (most / 0.9) ** 2 / sizes) < 0
