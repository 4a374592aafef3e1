"""Bounds of rates of subsets, and slopes of districts' effects, against generated truth."""

import numpy as np
import pytest

from bdr_stan.questions.ecological import deterministic_bounds, slopes_of_effects


@pytest.mark.parametrize("highest_rate", [1.0, 0.3, 20.0, np.inf])
@pytest.mark.parametrize("seed", range(50))
def test_bounds_contain_the_rate_of_any_subset(seed, highest_rate):
    rng = np.random.default_rng(seed)
    n, size = 20, int(rng.integers(1, 30))
    weights = rng.gamma(0.5, size=(n, size)) + 1e-6
    largest = min(highest_rate, 50.0)
    rates = largest * rng.beta(0.3, 0.3, size=(n, size))  # many near 0 and near the highest
    inside = rng.random((n, size)) < rng.random((n, 1))
    inside[:, 0] = True
    subset, totals = (weights * inside).sum(1), (weights * rates).sum(1)
    truth = (weights * rates * inside).sum(1) / subset
    low, high = deterministic_bounds(totals, weights.sum(1), subset, highest_rate)
    assert np.all(low * (1 - 1e-12) <= truth) and np.all(truth <= high * (1 + 1e-9))
    assert np.all(low >= 0) and np.all(high <= highest_rate)


def test_bounds_are_attained():
    """All of the total in the subset, as far as it goes, or none of it."""
    low, high = deterministic_bounds(
        np.array([30.0, 80]), np.array([100.0, 100]), np.full(2, 40), 1
    )
    np.testing.assert_allclose(low, [0, 20 / 40])
    np.testing.assert_allclose(high, [30 / 40, 1])


def test_the_subset_of_all_points_has_the_rate_of_its_district():
    low, high = deterministic_bounds(np.array([30.0]), np.array([100.0]), np.array([100.0]), np.inf)
    np.testing.assert_allclose([low[0], high[0]], 0.3)


def test_slopes_hold_those_of_the_effects():
    """95% intervals of slopes of which effects are a noisy sample."""
    rng, z = np.random.default_rng(1), 1.96
    held = []
    for _ in range(200):
        means = rng.normal(size=(40, 2)) * [1, 50] + [0, 300]
        true = rng.normal(size=2)
        scaled = (means - means.mean(0)) / means.std(0)
        effects = scaled @ true + rng.normal(size=40)
        drawn = effects + 0.3 * rng.normal(size=(100, 40))
        slope, sd = slopes_of_effects(drawn, means)
        held.append(np.abs(slope - true) < z * sd)
    assert 0.92 < np.mean(held) <= 0.99


def test_columns_that_repeat_others_or_do_not_vary_have_slopes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 1))
    effects = np.tile(2 * x[:, 0], (5, 1))
    slope, sd = slopes_of_effects(effects, np.hstack([x, x, np.full((30, 1), 7.0)]))
    np.testing.assert_allclose(slope, [x.std(), x.std(), 0], atol=1e-12)
    assert np.all(sd < 1e-12)


def test_slopes_of_certain_effects_are_those_of_least_squares():
    """Two columns that are nearly one, their standard errors by the normal equations."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(30, 1)) + [[0.0, 1.0]] + 0.1 * rng.normal(size=(30, 2))
    effects = rng.normal(size=30)
    slope, sd = slopes_of_effects(effects[None], means)
    X = np.column_stack([(means - means.mean(axis=0)) / means.std(axis=0), np.ones(30)])
    inverse = np.linalg.inv(X.T @ X)
    expected = inverse @ X.T @ effects
    variance = np.sum((effects - X @ expected) ** 2) / (30 - 3)
    np.testing.assert_allclose(slope, expected[:2], rtol=1e-9)
    np.testing.assert_allclose(sd, np.sqrt(variance * np.diag(inverse)[:2]), rtol=1e-9)
