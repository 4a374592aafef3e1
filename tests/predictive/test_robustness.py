"""Robustness of contrasts: bounds and values equal least squares with the omitted column added."""

import numpy as np
import pytest
from scipy.optimize import root

from bdr_stan.predictive.robustness import Regression, Robustness, robustness_value

PROBLEMS = range(50)


class Problem:
    """A weighted regression with a prior, and the contrast of its coefficients."""

    def __init__(self, seed, prior):
        rng = np.random.default_rng(seed)
        self.n, self.k = int(rng.integers(30, 120)), int(rng.integers(2, 12))
        self.X = np.column_stack([rng.normal(size=(self.n, self.k)), np.ones(self.n)])
        self.y = self.X @ rng.normal(size=self.k + 1) + rng.normal(size=self.n)
        self.weight = rng.gamma(3.0, size=self.n)  # precisions of the labels
        self.contrast = np.append(rng.normal(size=self.k), 0.0)
        # A prior weaker than the data: of a stronger one some strengths are those of no column.
        root_of_prior = rng.normal(0, 0.5, (self.k, self.k)) if prior else np.zeros((0, self.k))
        self.prior = np.column_stack([root_of_prior, np.zeros(len(root_of_prior))])
        self.rng = rng

    def fit(self, u=None):
        """Contrast, its variance but for the noise, residuals: by least squares, with u too.

        The prior is as many further labels of 0, which the omitted column does not explain.
        """
        weight, X = np.sqrt(self.weight)[:, None], np.vstack([self.prior, self.X])
        weight = np.vstack([np.ones((len(self.prior), 1)), weight])
        y = np.append(np.zeros(len(self.prior)), self.y)
        contrast = self.contrast
        if u is not None:
            X = np.column_stack([X, np.append(np.zeros(len(self.prior)), u)])
            contrast = np.append(contrast, 0.0)
        coefficients = np.linalg.lstsq(X * weight, y * weight[:, 0], rcond=None)[0]
        variance = contrast @ np.linalg.solve((X * weight).T @ (X * weight), contrast)
        residuals = (y - X @ coefficients) * weight[:, 0]
        return contrast @ coefficients, variance, residuals

    def robustness(self):
        """As of draws whose variance is that of the noise times the variance."""
        theta, variance, residuals = self.fit()
        sd = np.sqrt(residuals @ residuals / self.n * variance)
        return Robustness(theta, sd, theta - 2 * sd, theta + 2 * sd, 0.95, self.n)

    def strengths(self, u):
        """c_y and c_d of an omitted column, from the fits without and with it."""
        _, variance, residuals = self.fit()
        _, with_u, less = self.fit(u)
        return 1 - less @ less / (residuals @ residuals), 1 - variance / with_u

    def column_of(self, c_y, c_d, sign):
        """An omitted column of these strengths, that moves the contrast by -sign."""
        theta, _, _ = self.fit()
        precision = (self.X.T * self.weight) @ self.X + self.prior.T @ self.prior
        representer = self.X @ np.linalg.solve(precision, self.contrast)
        b = np.linalg.solve(precision, (self.X.T * self.weight) @ self.y)
        e, noise = self.y - self.X @ b, self.rng.normal(size=self.n)
        noise -= self.X @ np.linalg.lstsq(self.X, noise, rcond=None)[0]
        e, representer, noise = (v / np.linalg.norm(v) for v in (e, representer, noise))
        direction = sign * np.sign(theta)

        def made(x):
            x = np.exp(np.clip(x, -12, 12))
            return e + direction * x[0] * representer + x[1] * noise

        def differences(x):
            return np.subtract(self.strengths(made(x)), (c_y, c_d))

        for start in np.ndindex(4, 4):
            found = root(differences, np.subtract(start, 2.0), tol=1e-12)
            if np.max(np.abs(differences(found.x))) < 1e-9:
                return made(found.x)
        return None


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("seed", PROBLEMS)
def test_bias_is_that_of_adding_the_omitted_column(seed, prior):
    problem = Problem(seed, prior)
    theta, _, _ = problem.fit()
    u = problem.rng.normal(size=problem.n) + problem.X @ problem.rng.normal(size=problem.k + 1)
    u += problem.rng.normal() * problem.y
    c_y, c_d = problem.strengths(u)
    changed = problem.fit(u)[0] - theta
    np.testing.assert_allclose(problem.robustness().bias(c_y, c_d), abs(changed), rtol=1e-9)


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("seed", PROBLEMS)
def test_an_omitted_column_of_the_robustness_value_brings_the_contrast_to_zero(seed, prior):
    problem = Problem(seed, prior)
    theta, variance, residuals = problem.fit()
    value = problem.robustness().value
    u = problem.column_of(value, value, 1.0)
    assert u is not None, "no such column was found"
    with_u, its_variance, less = problem.fit(u)
    assert abs(with_u) < 1e-6 * abs(theta)
    # At equal strengths the interval keeps its width.
    widths = less @ less * its_variance, residuals @ residuals * variance
    np.testing.assert_allclose(*widths, rtol=1e-6)


def test_no_weaker_column_brings_the_contrast_to_zero(rng):
    problem = Problem(3, True)
    theta, _, _ = problem.fit()
    found = problem.robustness()
    for _ in range(500):
        u = rng.normal(size=problem.n) * rng.gamma(1.0) + problem.y * rng.normal()
        u += problem.X @ rng.normal(size=problem.k + 1) * rng.gamma(1.0)
        strengths, changed = problem.strengths(u), problem.fit(u)[0]
        if max(strengths) < found.value:
            assert changed * theta > 0
        bounds = theta - found.bias(*strengths), theta + found.bias(*strengths)
        assert bounds[0] - 1e-9 <= changed <= bounds[1] + 1e-9


@pytest.mark.parametrize("q", [1e-8, 0.01, 1.0, 50.0, 1e9])
def test_robustness_value_solves_its_equation(q):
    c = robustness_value(q)
    assert 0 < c < 1
    np.testing.assert_allclose(c**2, q * (1 - c), rtol=1e-6)


def test_value_of_nothing_is_zero():
    assert robustness_value(0.0) == 0.0


def test_values_are_where_mean_and_interval_reach_zero():
    for sign in (1, -1):
        lower, upper = sorted((sign * 0.5, sign * 3.0))
        found = Robustness(sign * 2.0, 0.7, lower, upper, 0.95, 80)
        np.testing.assert_allclose(found.bias(found.value, found.value), 2.0, rtol=1e-12)
        ends = found.bounds(found.interval_value, found.interval_value)
        assert min(map(abs, ends)) < 1e-12
        assert 0 < found.interval_value < found.value < 1
    across = Robustness(0.1, 0.7, -1.0, 1.2, 0.95, 80)
    assert across.interval_value == 0
    assert "interval contains 0" in str(across) and "95%" in str(across)
    dollars = Robustness(1321.25, 92.4, 1145.9, 1503.4, 0.95, 395)
    assert str(dollars).startswith("The contrast is 1320 (95% interval 1150 to 1500). To bring it")


def test_bounds_of_no_omitted_cause_are_the_interval():
    found = Robustness(1.0, 0.4, 0.2, 1.9, 0.9, 50)
    np.testing.assert_allclose(found.bounds(0.0, 0.0), (0.2, 1.9), rtol=1e-12)
    # A cause of labels alone narrows the interval, one of the contrast alone widens it.
    np.testing.assert_allclose(found.bounds(0.75, 0.0), (0.6, 1.45), rtol=1e-12)
    np.testing.assert_allclose(found.bounds(0.0, 0.75), (-0.6, 2.8), rtol=1e-12)


def test_benchmarks_are_what_leaving_out_columns_changes():
    """Of a normal posterior: against least squares without the columns."""
    problem = Problem(7, False)
    n, rng = problem.n, problem.rng
    columns = {"one": [0], "two": [0, 1]}
    problem.contrast[:2] = 0.0
    theta, variance, residuals = problem.fit()
    noise = residuals @ residuals / n
    covariance = np.linalg.inv((problem.X.T * problem.weight) @ problem.X) * noise
    root_weight = np.sqrt(problem.weight)
    b = np.linalg.lstsq(problem.X * root_weight[:, None], problem.y * root_weight, rcond=None)[0]
    # Draws with exactly these moments.
    t = rng.normal(size=(4000, len(b)))
    t -= t.mean(axis=0)
    t = t @ np.linalg.inv(np.linalg.cholesky(np.cov(t, rowvar=False))).T
    drawn = b + t @ np.linalg.cholesky(covariance).T
    regression = Regression(
        n, np.ones((4000, 1)), {name: drawn[:, k] for name, k in columns.items()}
    )
    found = Robustness.of_draws(drawn @ problem.contrast, regression, (0.0, 1.0), 0.95)
    for name, k in columns.items():
        less = Problem(7, False)
        less.contrast = np.delete(problem.contrast, k)
        less.X, less.prior = np.delete(less.X, k, axis=1), np.delete(less.prior, k, axis=1)
        _, its_variance, more = less.fit()
        gain_of_labels = more @ more / (residuals @ residuals) - 1
        expected = min(gain_of_labels, 1), 1 - its_variance / variance
        np.testing.assert_allclose(found.strengths[name], expected, rtol=1e-6)
    table = found.benchmarks()
    assert list(table.index) == ["one", "two"]
    assert list(table.columns) == ["c_y", "c_d", "mean", "lower", "upper"]
    np.testing.assert_allclose(
        table["mean"], [theta - np.sign(theta) * found.bias(*s) for s in found.strengths.values()]
    )


def test_terms_with_many_coefficients_are_no_benchmarks(rng):
    theta = rng.normal(1.0, 0.1, 200)
    coefficients = {"few": rng.normal(size=(200, 3)), "many": rng.normal(size=(200, 21))}
    regression = Regression(50, np.ones((200, 1)), coefficients)
    found = Robustness.of_draws(theta, regression, (0.8, 1.2), 0.95)
    assert list(found.strengths) == ["few"]


def test_what_varies_with_the_scales_is_no_part_of_the_sd(rng):
    scale, noise = np.exp(rng.normal(size=(2000, 1))), rng.normal(size=2000)
    noise -= noise.mean()
    theta = 3 + 0.8 * np.log(scale[:, 0]) + 0.2 * noise
    found = Robustness.of_draws(theta, Regression(50, scale), (1.0, 5.0), 0.95)
    np.testing.assert_allclose(found.mean, theta.mean())
    np.testing.assert_allclose(found.sd, 0.2 * noise.std(), rtol=1e-2)
