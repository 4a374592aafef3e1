"""stan/blr.stan against SciPy's densities and the closed form."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.regressions import Regression, principal_axes
from builders.terms import no_effects
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.models.bdr import blr_data
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.whitening import whitened_coordinates

START = {"sigma": 0.4, "rho": 0.8}
REGRESSION = Regression(reference.blr_log_density, START, uncertain=False)


@pytest.fixture(scope="session")
def model():
    return compile_program("blr", progress=False)


@pytest.fixture(scope="session")
def problem():
    return reference.random_problem(np.random.default_rng(31), n=25, d=4)


def stan_data(p, *, whitened=True, lossless=True, use_likelihood=True):
    rows = compress((p.mu - p.m0) @ principal_axes(p), p.y, np.ones(len(p.y)), lossless=lossless)
    d = p.mu.shape[1]
    whitening = reference.plain_coordinates(d)
    if whitened:
        likelihood = partial(normal_likelihood, rows, np.zeros(d))
        scales, mode = REGRESSION.mode(p, likelihood, np.eye(d))
        whitening = whitened_coordinates(mode, np.eye(d), scales["rho"])
    priors = {name: value for name, value in p.priors.items() if not name.startswith("eta")}
    data = blr_data(rows, priors) | {"use_likelihood": int(use_likelihood)}
    return data | whitening | no_effects(d + 1)


def test_data_are_what_the_program_declares(model, problem):
    data = stan_data(problem)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["D"], data["G"], data["T"]) == (4, 1, 6) and data["n_bags"] == [25]
    assert data["rows"].shape == (6, 6)
    assert data["information"].shape == data["linear_term"].shape == (4,)
    assert data["use_likelihood"] == 1
    assert stan_data(problem, use_likelihood=False)["use_likelihood"] == 0
    assert {name: data[name] for name in problem.priors if name in data} == {
        name: value for name, value in problem.priors.items() if not name.startswith("eta")
    }


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize("n, d", [(25, 4), (1, 1), (3, 5)])
def test_log_density(model, n, d, use_likelihood):
    p = reference.random_problem(np.random.default_rng(31), n=n, d=d)
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


def test_compression_keeps_the_density(model, problem):
    data, one_by_one = stan_data(problem), stan_data(problem, lossless=False)
    assert data["T"] == 6 and one_by_one["T"] == one_by_one["G"] == 25
    REGRESSION.check_same_density(model, problem, data, one_by_one)


# ---------------------------------------------------------------- slow


def closed_form(p, rhos):
    """Posterior mean and variance of [beta; intercept; sigma; rho].

    Normal given the scales, and these on a grid of their logarithms.
    """
    d, priors = p.mu.shape[1], p.priors
    X = np.c_[p.mu - p.m0, np.ones(len(p.y))]
    location = np.r_[np.zeros(d), priors["intercept_location"]]
    log_weights, means, variances = [], [], []
    for sigma in np.geomspace(0.02, 4, 70):
        for rho in rhos:
            value = stats.multivariate_normal.logpdf(p.y, *reference.blr_marginal(p, sigma, rho))
            value += reference.log_prior_of_scales(priors, 0.0, sigma, rho)
            log_weights.append(value + np.log(sigma * rho))
            precision = np.diag(np.r_[np.full(d, rho**-2.0), priors["intercept_scale"] ** -2.0])
            covariance = np.linalg.inv(X.T @ X / sigma**2 + precision)
            mean = covariance @ (X.T @ p.y / sigma**2 + precision @ location)
            means.append(np.r_[mean, sigma, rho])
            variances.append(np.r_[np.diag(covariance), 0, 0])
    weights = np.exp(np.subtract(log_weights, max(log_weights)))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    return mean, weights @ (np.array(variances) + (np.array(means) - mean) ** 2)


@pytest.mark.slow
def test_posterior_is_the_closed_form(model, problem):
    data = stan_data(problem)
    draws, labels = REGRESSION.landmark_columns(
        reference.sample(model, data, REGRESSION.start_at(data)), problem
    )
    mean, variance = closed_form(problem, rhos=np.geomspace(0.05, 12, 50))
    reference.assert_moments(draws, mean, variance, labels)


@pytest.mark.slow
def test_posterior_at_a_fixed_scale_of_weights_is_the_closed_form(model, problem):
    priors = {**problem.priors, "rho_median": 0.3, "rho_log_sd": 1e-2}
    held = replace(problem, priors=priors)
    data = stan_data(held)
    draws = reference.sample(model, data, {**REGRESSION.start_at(data), "rho": 0.3})
    draws, labels = REGRESSION.landmark_columns(draws, held)
    mean, variance = closed_form(held, rhos=[0.3])
    np.testing.assert_allclose(draws[..., -1], 0.3, rtol=0.1)
    reference.assert_moments(draws[..., :-1], mean[:-1], variance[:-1], labels[:-1])
