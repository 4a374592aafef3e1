"""The mode of the weights and its curvature against densities written apart from the package."""

import numpy as np
import pytest
from builders import reference
from builders.scales import (
    BLR_SCALES,
    INTERCEPT,
    SCALES,
    bdr_arguments,
    blr_arguments,
    blr_closed_form,
    mode_at,
)
from scipy import integrate, stats
from sklearn.linear_model import LogisticRegression

from bdr_stan.embedding.compression import compress
from bdr_stan.models.likelihoods import logit_likelihood, normal_likelihood
from bdr_stan.posterior.mode import Mode, find_mode


def log_posterior(p, V, sigma, rho, eta):
    """Unnormalised log posterior of [w; intercept] at fixed scales."""

    def function(theta):
        *w, intercept = theta
        return reference.bdr_log_density(p, V @ np.array(w), intercept, sigma, rho, eta)

    return function


@pytest.mark.parametrize("n, d", [(1, 1), (3, 4), (40, 4), (200, 6)])
def test_mode_is_stationary_and_highest(rng, n, d):
    p = reference.random_problem(rng, n=n, d=d)
    arguments, V = bdr_arguments(p)
    mode = mode_at(arguments, SCALES)
    target = log_posterior(p, V, **SCALES)
    steepness = np.sqrt(np.diag(mode.precision))
    # in units of the posterior sd
    np.testing.assert_allclose(reference.gradient(target, mode.theta) / steepness, 0, atol=2e-4)
    highest = target(mode.theta)
    for _ in range(20):
        assert target(mode.theta + 0.1 * mode.whitening @ rng.normal(size=d + 1)) < highest


def test_mode_does_not_depend_on_the_start(rng):
    arguments, _ = bdr_arguments(reference.random_problem(rng, n=40, d=4))
    one = mode_at(arguments, SCALES)
    other = mode_at(arguments, SCALES, start=one.theta + rng.normal(size=5))
    np.testing.assert_allclose(other.theta, one.theta, atol=1e-4)
    assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-6)


def test_mode_with_covariates_is_that_of_the_reference(rng):
    """Stationary in [w; gamma; intercept], the gammas' priors of different widths among them."""
    p = reference.with_covariates(rng, reference.random_problem(rng, n=40, d=3))
    rows = compress(np.column_stack([p.mu - p.m0, p.x]), p.y, np.ones(40))
    likelihood = normal_likelihood(rows, np.zeros(3), sigma=SCALES["sigma"])
    widths = np.array([0.2, 3.0])
    mode = find_mode(likelihood, np.eye(3), INTERCEPT, rho=SCALES["rho"], gamma_scales=widths)

    def target(theta):
        w, gamma, intercept = theta[:3], theta[3:5], theta[5]
        value = reference.blr_log_likelihood(p, w, intercept, SCALES["sigma"], gamma)
        value += stats.norm.logpdf(w, 0, SCALES["rho"]).sum()
        value += stats.norm.logpdf(gamma, 0, widths).sum()
        return value + stats.norm.logpdf(intercept, *INTERCEPT)

    np.testing.assert_allclose(reference.gradient(target, mode.theta), 0, atol=1e-6)
    # Of a normal posterior the density at the mode and the curvature give the evidence.
    _, log_det = np.linalg.slogdet(mode.precision / (2 * np.pi))
    assert mode.log_evidence == pytest.approx(target(mode.theta) - 0.5 * log_det, rel=1e-9)


def test_precision_of_blr_is_the_hessian(rng):
    p = reference.random_problem(rng, n=30, d=3)
    mode = mode_at(blr_arguments(p), BLR_SCALES)

    def target(theta):
        return reference.blr_log_density(p, theta[:-1], theta[-1], SCALES["sigma"], SCALES["rho"])

    hessian = [
        reference.gradient(lambda x, k=k: reference.gradient(target, x, 1e-2)[k], mode.theta, 1e-2)
        for k in range(4)
    ]
    np.testing.assert_allclose(mode.precision, -np.array(hessian), rtol=1e-6, atol=1e-5)


def test_precision_of_bdr_is_the_fisher_information(rng):
    """Covariance of the likelihood's score over labels simulated at the mode, plus the prior."""
    p = reference.random_problem(rng, n=12, d=2)
    arguments, V = bdr_arguments(p)
    mode = mode_at(arguments, SCALES)
    sigma, eta = SCALES["sigma"], SCALES["eta"]

    def moments(theta):
        return reference.bdr_moments(p, V @ theta[:-1], theta[-1], sigma, eta)

    variance = moments(mode.theta)[1]
    slopes = [
        [reference.gradient(lambda x, i=i, k=k: moments(x)[k][i], mode.theta) for i in range(12)]
        for k in range(2)
    ]
    d_mean, d_variance = np.array(slopes)
    e = rng.normal(size=(400_000, 12))  # standardised residuals
    score = (e / np.sqrt(variance)) @ d_mean + ((e**2 - 1) / (2 * variance)) @ d_variance
    prior = np.zeros((3, 3))
    prior[:2, :2] = V.T @ p.K @ V / SCALES["rho"] ** 2
    prior[2, 2] = INTERCEPT[1] ** -2
    np.testing.assert_allclose(mode.precision, np.cov(score.T) + prior, rtol=0.02, atol=0.05)


def test_whitening_is_a_root_of_the_covariance(rng):
    arguments, _ = bdr_arguments(reference.random_problem(rng, n=20, d=5))
    mode = mode_at(arguments, SCALES)
    inverse = np.linalg.inv(mode.precision)
    np.testing.assert_allclose(mode.whitening @ mode.whitening.T, inverse, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mode.covariance, inverse, rtol=1e-9, atol=1e-12)
    plain = Mode(np.zeros(2), np.diag([4.0, 25.0]), 0.0)
    np.testing.assert_allclose(plain.whitening, np.diag([1 / 2, 1 / 5]))


@pytest.mark.parametrize("n, d", [(1, 1), (2, 5), (60, 3)])
def test_blr_is_exact(rng, n, d):
    p = reference.random_problem(rng, n=n, d=d)
    for sigma, rho in [(0.5, 0.9), (0.05, 3.0), (2.0, 0.1)]:
        mode = mode_at(blr_arguments(p), {"sigma": sigma, "rho": rho})
        mean, covariance = reference.blr_marginal(p, sigma, rho)
        dense = stats.multivariate_normal.logpdf(p.y, mean, covariance)
        assert mode.log_evidence == pytest.approx(dense, rel=1e-9, abs=1e-9)
        theta, covariance = blr_closed_form(p, sigma, rho)
        np.testing.assert_allclose(mode.theta, theta, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(mode.covariance, covariance, rtol=1e-8, atol=1e-10)


def test_evidence_of_bdr_is_near_the_integral(rng):
    """Two weights-and-intercept coordinates: the integral is in reach of quadrature."""
    p = reference.random_problem(rng, n=40, d=1, sizes=np.repeat([2, 8, 50, 500], 10))
    arguments, V = bdr_arguments(p)
    mode = mode_at(arguments, SCALES)
    target = log_posterior(p, V, **SCALES)
    offset = reference.log_prior_of_scales(p.priors, INTERCEPT[0], SCALES["sigma"], SCALES["rho"],
                                           SCALES["eta"])  # fmt: skip
    offset -= stats.norm.logpdf(0, 0, INTERCEPT[1])  # keep the intercept's own density
    top = target(mode.theta)
    B = mode.whitening
    grid = np.linspace(-6, 6, 41)
    values = [[np.exp(target(mode.theta + B @ [a, b]) - top) for a in grid] for b in grid]
    integral = integrate.simpson(integrate.simpson(values, x=grid), x=grid)
    # density of alpha = V w counted per w
    log_evidence = top - offset + np.log(integral * np.linalg.det(B) * abs(V[0, 0]))
    assert mode.log_evidence == pytest.approx(log_evidence, abs=0.1)


@pytest.mark.parametrize("rho", [0.3, 1.3])
def test_mode_of_classes_is_that_of_logistic_regression(rng, rho):
    """With a flat intercept, scikit-learn's ridge-penalised fit."""
    p = reference.random_classes(rng, n=40, d=3)
    rows = compress(p.mu - p.m0, p.y, np.ones(40), lossless=False)
    known = LogisticRegression(C=rho**2, tol=1e-12, max_iter=10_000).fit(p.mu - p.m0, p.y)
    mode = find_mode(logit_likelihood(rows), np.eye(3), (0.0, 1e6), rho=rho)
    np.testing.assert_allclose(mode.theta, np.r_[known.coef_[0], known.intercept_], atol=1e-4)


def test_a_start_far_away_leads_to_the_mode(rng):
    """Where the likelihood bends the wrong way and a whole step would lead too far."""
    arguments, _ = bdr_arguments(reference.random_problem(rng, n=60, d=3))
    mode = mode_at(arguments, SCALES)
    for start in ([30.0, 30, 30, 30], [-200.0, 5, 0, 50]):
        given = np.array(start)
        other = mode_at(arguments, SCALES, start=given)
        np.testing.assert_allclose(other.theta, mode.theta, atol=1e-3)
        np.testing.assert_array_equal(given, start)


def test_a_start_at_which_rates_overflow_leads_to_the_mode(rng):
    Z = np.column_stack([rng.normal(size=(5, 8)), np.ones(5)])
    y = np.array([0.0, 0, 3, 900, 7000])

    def poisson(theta):
        with np.errstate(over="ignore", invalid="ignore"):
            rates = np.exp(Z @ theta)
            information = (Z.T * rates) @ Z
            return y @ Z @ theta - rates.sum(), Z.T @ (y - rates), information, information

    known = find_mode(poisson, np.eye(8), (0.0, 2.0), rho=1.0)
    start = np.append(np.zeros(8), 800.0)
    found = find_mode(poisson, np.eye(8), (0.0, 2.0), rho=1.0, start=start)
    np.testing.assert_array_equal(found.theta, known.theta)


def test_rounding_of_the_log_density_costs_no_steps(rng):
    """As that of sums over many points: the slopes, which are exact, lead to the mode."""
    p = reference.random_classes(rng, n=40, d=3)
    likelihood = logit_likelihood(compress(p.mu - p.m0, p.y, np.ones(40), lossless=False))
    known = find_mode(likelihood, np.eye(3), (0.0, 10.0), rho=1.0, tol=1e-14)
    calls = []

    def rounded(theta):
        calls.append(theta)
        value, slope, information, curvature = likelihood(theta)
        value *= 1 + 1e-11 * rng.normal()
        return value, slope, information, 1.8 * curvature  # so that the last steps are many

    mode = find_mode(rounded, np.eye(3), (0.0, 10.0), rho=1.0, tol=1e-14)
    np.testing.assert_allclose(mode.theta, known.theta, atol=1e-7)
    assert len(calls) < 40
