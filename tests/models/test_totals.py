"""Totals of normal outcomes: a linear regression on weighted sums of features."""

from dataclasses import replace

import numpy as np
import pytest
from builders import totals
from scipy import stats

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.models.totals import (
    TotalsModel,
    TotalsWithEffects,
    totals_predictive,
)


@pytest.fixture
def p():
    return totals.random_rates(np.random.default_rng(6), "normal", "identity", n=12)[0]


def test_likelihood_is_that_of_the_totals(p):
    """But for the constant that dividing labels by their noise adds."""
    model = TotalsModel(totals.compressed(p), totals.labels_of(p))
    thetas = np.random.default_rng(1).normal(size=(4, 4))
    found = [model.likelihood(sigma=0.7)(theta)[0] for theta in thetas]
    expected = [totals.log_likelihood(p, w=t[:-1], intercept=t[-1], sigma=0.7) for t in thetas]
    gap = np.subtract(found, expected)
    np.testing.assert_allclose(gap, gap[0], atol=1e-9)
    assert gap[0] == pytest.approx(np.log(totals.point_rows(p).noise_factor).sum())


def test_known_errors_add_to_the_variance(p):
    rows, thetas = totals.compressed(p), np.random.default_rng(1).normal(size=(4, 4))
    known = np.random.default_rng(2).gamma(2, 0.1, 12)
    model = TotalsModel(replace(rows, known_variance=known), totals.labels_of(p))
    found = [model.likelihood(sigma=0.7)(theta)[0] for theta in thetas]
    sd = np.sqrt((0.7 * rows.noise_factor) ** 2 + known)
    expected = [stats.norm.logpdf(p.y, rows.rows @ theta, sd).sum() for theta in thetas]
    gap = np.subtract(found, expected)
    np.testing.assert_allclose(gap, np.log(rows.noise_factor).sum(), atol=1e-9)


def test_program_scales_and_constants(p):
    rows = totals.compressed(p)
    model = TotalsModel(rows, totals.labels_of(p), weight_basis=3 * np.eye(3))
    assert (model.program, model.scales) == ("blr", ("sigma", "rho"))
    np.testing.assert_array_equal(model.weight_basis, 3 * np.eye(3))
    np.testing.assert_array_equal(model.constants["total_weight"][0], rows.total)
    data = model.data
    assert data["n_bags"].tolist() == [12]


def test_priors_are_on_the_scale_of_the_data(p):
    rows = totals.compressed(p)
    priors = TotalsModel(rows, totals.labels_of(p)).priors
    averages = p.y / rows.total
    assert priors["intercept_location"] == pytest.approx(p.y.sum() / rows.total.sum())
    assert priors["intercept_scale"] == pytest.approx(2.5 * averages.std())
    assert priors["sigma_scale"] == LIKELIHOODS["normal"].default_priors(rows, p.y)["sigma_scale"]
    variance = np.sum((rows.rows[:, :-1] / rows.total[:, None]) ** 2, axis=1)
    assert priors["rho_median"] ** 2 * variance.mean() == pytest.approx(averages.var())
    assert (
        TotalsModel(rows, totals.labels_of(p), prior={"sigma_scale": 9.0}).priors["sigma_scale"]
        == 9.0
    )


@pytest.mark.parametrize("rate", [0.0, 0.7, -3.0])
def test_totals_that_are_all_alike(p, rate):
    rows = totals.compressed(p)
    with pytest.raises(ValueError, match=f"every label is {rate:g} times its bag's total weight"):
        TotalsModel(rows, totals.labelled(rate * rows.total, "normal", "identity"))


def test_exact_fit(p):
    """Given sigma and rho: that of a linear regression on the weighted sums."""
    rows = totals.compressed(p)
    model = TotalsModel(rows, totals.labels_of(p))
    found = model.variational_fit(draws=40_000, seed=3)
    sigma, rho = (float(found.draws[name][0, 0]) for name in ("sigma", "rho"))
    noise = (sigma * rows.noise_factor) ** 2
    location, scale = model.intercept_prior
    precision = np.diag(np.r_[np.full(3, rho**-2.0), scale**-2.0])
    H = (rows.rows.T / noise) @ rows.rows + precision
    mean = np.linalg.solve(H, (rows.rows.T / noise) @ p.y + precision @ np.r_[0, 0, 0, location])
    draws = np.column_stack([found.draws["w"][0], found.draws["intercept"][0]])
    sd = np.sqrt(np.diag(np.linalg.inv(H)))
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0, atol=4.5 / np.sqrt(40_000))
    away = np.cov(draws.T) - np.linalg.inv(H)
    np.testing.assert_allclose(away / np.outer(sd, sd), 0, atol=0.03)
    assert found.attrs["inference_method"] == "vb"


def test_bound_is_the_evidence(p):
    """Of labels in units of their noise, given sigma and rho."""
    rows = totals.compressed(p)
    model = TotalsModel(rows, totals.labels_of(p))
    found = model.variational_fit(draws=1, seed=3)
    sigma, rho = (float(found.draws[name][0, 0]) for name in ("sigma", "rho"))
    z, y = rows.rows / rows.noise_factor[:, None], p.y / rows.noise_factor
    location, scale = model.intercept_prior
    prior = np.diag(np.r_[np.full(3, rho**2), scale**2])
    covariance = z @ prior @ z.T + sigma**2 * np.eye(12)
    evidence = stats.multivariate_normal(location * z[:, -1], covariance).logpdf(y)
    assert found.attrs["bound"] == pytest.approx(evidence)


def test_predictive(rng):
    means, sigma = rng.normal(size=(5, 3)), rng.gamma(2, 1, 5)
    factor = np.array([1.0, 2.0, 0.5])
    found = totals_predictive(means, factor, sigma=sigma)
    np.testing.assert_allclose(found.mean, means.mean(axis=0))
    variance = means.var(axis=0) + np.mean(sigma**2) * factor**2
    np.testing.assert_allclose(found.sd, np.sqrt(variance))


def test_likelihood_with_effects_is_that_of_totals_with_more_variance(rng):
    """Independent effects with sums G: variance sigma^2 sum p^2 + v + G^2 sd^2 of each total."""
    p = totals.random_rates(rng, "normal", "identity", n=12)[0]
    known, G, sd = rng.gamma(1.0, size=12), rng.normal(size=(12, 2)), np.array([0.4, 1.3])
    rows = replace(totals.compressed(p), known_variance=known)
    model = TotalsWithEffects(rows, totals.labels_of(p), G, ["one", "other"])
    scales = {"sigma": 0.7, "effect_sd[one]": sd[0], "effect_sd[other]": sd[1]}
    likelihood = model.likelihood(**scales)
    sds = np.sqrt((0.7 * rows.noise_factor) ** 2 + known + G**2 @ sd**2)
    for theta in rng.normal(size=(3, rows.rows.shape[1])):
        value, slope, information, _ = likelihood(theta)
        assert value == pytest.approx(stats.norm.logpdf(p.y, rows.rows @ theta, sds).sum())
        lower = theta - np.append(np.zeros(len(theta) - 1), 2.5)
        assert model.likelihood(level=2.5, **scales)(lower)[0] == pytest.approx(value)
        steps = 1e-5 * np.eye(len(theta))
        differences = [(likelihood(theta + h)[0] - likelihood(theta - h)[0]) / 2e-5 for h in steps]
        np.testing.assert_allclose(slope, differences, rtol=1e-6)
        X = rows.rows / sds[:, None]
        np.testing.assert_allclose(information, X.T @ X)
