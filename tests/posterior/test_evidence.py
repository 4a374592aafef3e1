"""Mode, curvature and evidence against densities written apart from the package."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from scipy import integrate, stats

from bdr_stan.embedding.compression import compress
from bdr_stan.posterior.evidence import Mode, find_mode, maximise_evidence, whitened_coordinates
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.embedding.shrinkage import joint_basis

SCALES = {"sigma": 0.5, "rho": 0.9, "eta": 0.6}
BLR_SCALES = {"sigma": 0.5, "rho": 0.9}
INTERCEPT = (reference.PRIORS["intercept_location"], reference.PRIORS["intercept_scale"])


def bdr_arguments(p):
    """Arguments of `maximise_evidence`, and the basis that leads back to landmark weights."""
    lam, V = joint_basis(p.Sigma, p.R)
    rows = compress((p.mu - p.m0) @ V, p.y, p.sizes)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    return (partial(normal_likelihood, rows, lam), factor, INTERCEPT), V


def blr_arguments(p):
    d = p.mu.shape[1]
    rows = compress(p.mu - p.m0, p.y, np.ones(len(p.y)))
    return partial(normal_likelihood, rows, np.zeros(d)), np.eye(d), INTERCEPT


def mode_at(arguments, scales, **options):
    likelihood_at, *prior = arguments
    rest = {name: value for name, value in scales.items() if name != "rho"}
    return find_mode(likelihood_at(**rest), *prior, rho=scales["rho"], **options)


def log_posterior(p, V, sigma, rho, eta):
    """Unnormalised log posterior of [w; intercept] at fixed scales."""

    def function(theta):
        *w, intercept = theta
        return reference.bdr_log_density(p, V @ np.array(w), intercept, sigma, rho, eta)

    return function


def blr_closed_form(p, sigma, rho):
    """Mean and covariance of [beta; intercept] given the scales."""
    d = p.mu.shape[1]
    X = np.c_[p.mu - p.m0, np.ones(len(p.y))]
    prior = np.diag(np.r_[np.full(d, rho**-2.0), INTERCEPT[1] ** -2.0])
    covariance = np.linalg.inv(X.T @ X / sigma**2 + prior)
    shift = prior @ np.r_[np.zeros(d), INTERCEPT[0]]
    return covariance @ (X.T @ p.y / sigma**2 + shift), covariance


# ---------------------------------------------------------------- find_mode


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


# ---------------------------------------------------------------- evidence


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


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("model", ["blr", "bdr"])
def test_no_nearby_scales_have_more_evidence(rng, model, with_prior):
    p = reference.random_problem(rng, n=80, d=3)
    arguments, start = (
        (blr_arguments(p), BLR_SCALES) if model == "blr" else (bdr_arguments(p)[0], SCALES)
    )
    log_prior = log_prior_of_scales(p.priors) if with_prior else None
    scales, mode, _ = maximise_evidence(*arguments, start, log_prior=log_prior)

    def height(**changed):
        values = {**scales, **changed}
        found = mode_at(arguments, values).log_evidence
        return found + (log_prior(**values) if with_prior else 0.0)

    assert mode.log_evidence == pytest.approx(mode_at(arguments, scales).log_evidence)
    for name in scales:
        for factor in (0.7, 0.9, 0.99, 1.01, 1.1, 1.4):
            assert height(**{name: scales[name] * factor}) < height(), (name, factor)


def test_log_sds_of_scales_are_those_of_their_posterior(rng):
    """Of BLR, whose evidence is exact: moments over a grid of both scales."""
    p = reference.random_problem(rng, n=200, d=6)
    arguments = blr_arguments(p)
    log_prior = log_prior_of_scales(p.priors)
    scales, _, log_sds = maximise_evidence(*arguments, BLR_SCALES, log_prior=log_prior)
    steps = np.linspace(-4, 4, 25)
    grid = {name: scales[name] * np.exp(steps * log_sds[name]) for name in scales}
    height = np.array([
        [mode_at(arguments, s := {"sigma": a, "rho": b}).log_evidence + log_prior(**s)
         for b in grid["rho"]] for a in grid["sigma"]
    ])  # fmt: skip
    density = np.exp(height - height.max())
    for axis in (0, 1):
        weight = density.sum(axis=1 - axis)
        mean = np.average(steps, weights=weight)
        # in units of the sd found; log(rho) is a little skew
        assert np.average((steps - mean) ** 2, weights=weight) ** 0.5 == pytest.approx(1, abs=0.1)


def test_log_prior_of_scales_counts_their_logarithms(rng):
    """Against SciPy's densities of sigma, rho, eta times the Jacobian of the logarithm."""
    ours = log_prior_of_scales(reference.PRIORS)
    draws = [reference.draw_scales(rng, reference.PRIORS) for _ in range(5)]
    gap = [
        ours(**{k: v for k, v in draw.items() if k != "intercept"})
        - reference.log_prior_of_scales(reference.PRIORS, **{**draw, "intercept": 0.0})
        - np.log(draw["sigma"] * draw["rho"] * draw["eta"])
        for draw in draws
    ]
    np.testing.assert_allclose(gap, gap[0], rtol=1e-12)


def test_scales_of_simulated_labels_are_found(rng):
    p = reference.random_problem(rng, n=4000, d=3, sizes=rng.choice([2.0, 20.0, 2000.0], 4000))
    scales, *_ = maximise_evidence(*bdr_arguments(p)[0], SCALES)
    assert scales["sigma"] == pytest.approx(0.4, rel=0.1)
    assert scales["eta"] == pytest.approx(0.5, rel=0.25)


@pytest.mark.parametrize("rho", [0.5, 3.0])
def test_whitened_coordinates_are_standard_normal_where_the_mode_was_found(rng, rho):
    d = 4
    root, factor = rng.normal(size=(20, d + 1)), np.triu(rng.normal(size=(d, d))) + 3 * np.eye(d)
    precision = root.T @ root
    precision[:d, :d] += factor.T @ factor / rho**2
    mode = Mode(rng.normal(size=d + 1), precision, 0.0)
    data = whitened_coordinates(mode, factor, rho)

    def theta(t):
        w, intercept, _ = reference.unwhiten(data, t, rho)
        return np.r_[w, intercept]

    at_zero = theta(np.zeros(d + 1))
    np.testing.assert_allclose(at_zero, mode.theta, rtol=1e-9)
    B = np.transpose([theta(unit) - at_zero for unit in np.eye(d + 1)])
    np.testing.assert_allclose(B @ B.T, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)
