"""stan/blr_logit.stan against SciPy's densities, scikit-learn's mode and quadrature."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.regressions import Regression, principal_axes
from scipy import stats
from scipy.special import log_expit

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.models.likelihoods import logit_likelihood
from bdr_stan.models.two_classes import blr_logit_data
from bdr_stan.posterior.whitening import whitened_coordinates

START = {"rho": 0.8}
REGRESSION = Regression(reference.blr_logit_log_density, START, uncertain=False)


@pytest.fixture(scope="session")
def model():
    return compile_program("blr_logit", progress=False)


@pytest.fixture(scope="session")
def problem():
    return random_problem(25, 4)


def random_problem(n, d):
    p = reference.random_classes(np.random.default_rng(31), n=n, d=d)
    for name in ("eta_median", "eta_log_sd"):
        del p.priors[name]
    return p


def stan_data(p, *, whitened=True, use_likelihood=True):
    n, d = p.mu.shape
    rows = compress((p.mu - p.m0) @ principal_axes(p), p.y, np.ones(n), lossless=False)
    whitening = reference.plain_coordinates(d)
    if whitened:
        scales, mode = REGRESSION.mode(p, partial(logit_likelihood, rows), np.eye(d))
        whitening = whitened_coordinates(mode, np.eye(d), scales["rho"])
    return blr_logit_data(rows, p.priors) | whitening | {"use_likelihood": int(use_likelihood)}


def test_data_are_what_the_program_declares(model, problem):
    data = stan_data(problem)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["N"], data["D"]) == (25, 4)
    np.testing.assert_array_equal(data["y"], problem.y)
    assert data["y"].dtype.kind == "i"
    np.testing.assert_allclose(data["z"], (problem.mu - problem.m0) @ principal_axes(problem))
    assert data["information"].shape == data["linear_term"].shape == (4,)
    assert data["use_likelihood"] == 1
    assert stan_data(problem, use_likelihood=False)["use_likelihood"] == 0
    assert {name: data[name] for name in problem.priors} == problem.priors


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize("n, d", [(25, 4), (1, 1), (3, 5)])
def test_log_density(model, n, d, use_likelihood):
    p = random_problem(n, d)
    data = stan_data(p, use_likelihood=use_likelihood)
    REGRESSION.check_density(model, p, data, use_likelihood=use_likelihood)


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_gradient(model, problem, use_likelihood):
    data = stan_data(problem, use_likelihood=use_likelihood)
    REGRESSION.check_gradient(model, problem, data, use_likelihood=use_likelihood)


def test_whitening_keeps_the_density(model, problem):
    data, plain = stan_data(problem), stan_data(problem, whitened=False)
    assert not np.any(plain["information"]) and np.all(data["information"] > 0)
    REGRESSION.check_same_density(model, problem, data, plain)


def test_mode_of_the_weights_is_that_of_logistic_regression(model, problem):
    """At given rho, and a flat intercept: scikit-learn's ridge-penalised fit."""
    from sklearn.linear_model import LogisticRegression

    priors = {**problem.priors, "intercept_scale": 1e4}
    data = {**stan_data(problem), **priors}
    rho = 1.3
    known = LogisticRegression(C=rho**2, tol=1e-10, max_iter=10_000).fit(data["z"], data["y"])
    parameters = {
        "t": reference.whiten(data, known.coef_[0], known.intercept_[0], rho),
        "rho": rho,
    }
    _, slope = reference.log_density(model, data, parameters)
    np.testing.assert_allclose(slope[:-1], 0, atol=1e-4)


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_posterior_is_that_of_quadrature(model):
    """One weight: its posterior, the intercept's and rho's on a grid."""
    p = random_problem(40, 1)
    data = stan_data(p)
    draws, labels = REGRESSION.landmark_columns(
        reference.sample(model, data, REGRESSION.start_at(data)), p
    )
    mean, variance = grid_moments(p)
    reference.assert_moments(draws, mean, variance, labels)


def grid_moments(p):
    """Posterior mean and variance of [beta; intercept; rho] by summation over a grid."""
    priors = p.priors
    betas, intercepts = np.linspace(-9, 9, 361), np.linspace(-5, 7, 241)
    standard = np.linspace(-5, 5, 101)
    rhos = priors["rho_median"] * np.exp(priors["rho_log_sd"] * standard)
    B, A = np.meshgrid(betas, intercepts, indexing="ij")
    x = p.mu[:, 0] - p.m0[0]
    log_likelihood = sum(log_expit((2 * y - 1) * (A + B * at)) for at, y in zip(x, p.y))
    prior = stats.norm.pdf(A, priors["intercept_location"], priors["intercept_scale"])
    by_rho = stats.norm.pdf(betas[:, None], 0, rhos) * stats.norm.pdf(standard)  # log scale
    joint = (np.exp(log_likelihood) * prior)[:, :, None] * by_rho[:, None, :]
    weights = [(betas, (1, 2)), (intercepts, (0, 2)), (rhos, (0, 1))]
    marginals = [(values, joint.sum(axis=axes)) for values, axes in weights]
    mean = [np.average(values, weights=of) for values, of in marginals]
    variance = [np.average((v - m) ** 2, weights=of) for m, (v, of) in zip(mean, marginals)]
    return mean, variance
