"""The simulation of rates: its kernel, moments and expected risk against definitions."""

import numpy as np
import pytest

from bdr_stan.kernel_means.ridge_path import KernelRidgePath
from experiments import merr_rates
from experiments.merr_rates import (
    EIGENVALUES,
    EXACT,
    FREQUENCIES,
    NEW,
    NEW_COORDINATES,
    PENALTIES,
    SCALE,
    SHAPE,
    coordinates,
    exact_means,
    expected_risk,
    regression,
    sample_means,
)


def test_inner_products_are_those_of_the_kernel(rng):
    """Of points: 1 + 2 pi^2 B_2, less the frequencies that are left out."""
    x = rng.uniform(size=30)
    features = coordinates(np.exp(2j * np.pi * np.outer(x, FREQUENCIES)))
    lag = (x[:, None] - x) % 1
    kernel = 1 + 2 * np.pi**2 * (lag**2 - lag + 1 / 6)
    left_out = 2 / FREQUENCIES[-1]
    np.testing.assert_allclose(features @ features.T, kernel, atol=left_out)


def test_means_of_points_approach_the_exact_means():
    angles = np.array([0.1, 0.7])
    found = sample_means(angles, 200_000, np.random.default_rng(0))
    np.testing.assert_allclose(found, exact_means(angles), atol=6 / np.sqrt(200_000))
    x = 0.7 + np.random.default_rng(1).gamma(SHAPE, SCALE, 1000)
    few = sample_means(np.array([0.7]), 1000, np.random.default_rng(1))[0]
    np.testing.assert_allclose(few, np.exp(2j * np.pi * np.outer(FREQUENCIES, x)).mean(axis=1))


def test_eigenvalues_of_the_kernel_means_and_of_the_regression_function():
    covariance = np.cov(NEW_COORDINATES.T, bias=True)
    expected = np.sort(np.repeat(EIGENVALUES, 2))[::-1]
    np.testing.assert_allclose(
        np.linalg.eigvalsh(covariance)[::-1][: len(expected)], expected, rtol=1e-6
    )
    ends = EIGENVALUES[[31, 63]]
    assert np.log2(ends[0] / ends[1]) == pytest.approx(merr_rates.B, abs=0.01)
    for c in merr_rates.SMOOTHNESS:
        assert regression(NEW, c).std() == pytest.approx(1)


def test_the_error_is_the_expected_one():
    """Averaged over 40 data sets, at a penalty of much bias and at one of much variance."""
    n, c = 400, 1
    some = PENALTIES[[10, 35]]
    risk = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        angles = rng.uniform(size=n)
        x = coordinates(exact_means(angles))
        noise = rng.uniform(-1, 1, n) * merr_rates.NOISE_SD * np.sqrt(3)
        path = KernelRidgePath(x @ x.T, regression(angles, c) + noise)
        predicted = path.level + NEW_COORDINATES @ (x.T @ path.dual(some))
        risk.append(np.mean((predicted - regression(NEW, c)[:, None]) ** 2, axis=0))
    np.testing.assert_allclose(np.mean(risk, axis=0), expected_risk(n, some, c), rtol=0.35)


def test_runs_of_a_cell_differ_and_repeat():
    by_penalty, chosen = merr_rates.cell(32, EXACT, 2, 3)
    assert by_penalty.shape == (3, 51) and chosen.shape == (3,)
    assert len(np.unique(chosen)) == 3 and np.all(chosen >= by_penalty.min(axis=1))
    np.testing.assert_array_equal(merr_rates.cell(32, EXACT, 2, 3)[0], by_penalty)


def test_slope_is_an_average_over_runs():
    x = np.array([1.0, 2.0, 4.0])
    mean, error = merr_rates.slope(x, np.array([x**2, 3 * x**1]))
    assert mean == pytest.approx(1.5) and error == pytest.approx(0.5)
