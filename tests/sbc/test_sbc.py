"""Simulation-based calibration of the regressions and the classifiers on one design of bags.

Ranks are uniform if simulator, program and data builder tell the same model; builders.calibration
has the method. The simulators follow the mathematics in landmark coordinates, label by label from
a true embedding, which the programs integrate out.
"""

from dataclasses import replace

import numpy as np
import pytest
from builders import calibration, reference
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks
from builders.terms import no_effects
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.models.bdr import bdr_data, blr_data
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.likelihoods import logit_likelihood, normal_likelihood, probit_likelihood
from bdr_stan.models.two_classes import bdr_probit_data, blr_logit_data, follow_latent_scale
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.whitening import whitened_coordinates

pytestmark = pytest.mark.slow

START = {"sigma": 0.4, "rho": 0.8, "eta": 0.5}
# Classes say little: weights wide enough that the embeddings' uncertainty matters to them.
WIDE = reference.PRIORS | {"rho_median": 2.0, "eta_median": 1.0}


def random_bags(rng, least=12):
    """Embedded bags of mixed sizes, drawn without regard to the parameters."""
    p = reference.random_problem(rng, n=int(rng.integers(least, least + 9)), d=LANDMARKS)
    return replace(p, origin=p.m0)


# ---------------------------------------------------------------- simulators


def simulate_blr(rng, noise=lambda sigma: sigma):
    p = random_bags(rng)
    true = reference.draw_scales(rng, p.priors, with_eta=False)
    true["weights"] = rng.normal(0, true["rho"], LANDMARKS)
    y = true["intercept"] + (p.mu - p.m0) @ true["weights"]
    return replace(p, y=rng.normal(y, noise(true["sigma"]))), true


def draw_bdr_parameters(rng, p):
    true = reference.draw_scales(rng, p.priors)
    covariance = true["rho"] ** 2 * np.linalg.inv(p.K)
    return true | {"weights": rng.multivariate_normal(np.zeros(LANDMARKS), covariance)}


def labels(rng, p, true, embeddings):
    mean = true["intercept"] + (embeddings - p.m0) @ true["weights"]
    return rng.normal(mean, true["sigma"])


def draw_embeddings(rng, p, eta, size=lambda size: size):
    """True embeddings given the empirical ones, which say nothing else of the parameters."""
    posteriors = (
        reference.embedding_posterior(mu, size(N), p.m0, p.Sigma, p.R, eta)
        for mu, N in zip(p.mu, p.sizes)
    )
    return np.array([rng.multivariate_normal(M, C) for M, C in posteriors])


def simulate_bdr(rng, **options):
    p = random_bags(rng)
    true = draw_bdr_parameters(rng, p)
    embeddings = draw_embeddings(rng, p, true["eta"], **options)
    return replace(p, y=labels(rng, p, true, embeddings)), true


def simulate_bdr_with_covariate(rng):
    """A covariate that goes with the first coordinate of the embeddings."""
    p = random_bags(rng)
    p = replace(p, priors=p.priors | {"gamma_scale": 0.9})
    p = replace(p, x=p.mu[:, :1] - p.m0[0] + 0.5 * rng.normal(size=(len(p.y), 1)))
    true = draw_bdr_parameters(rng, p) | {"gamma": rng.normal(0, p.priors["gamma_scale"])}
    embeddings = draw_embeddings(rng, p, true["eta"])
    return replace(p, y=labels(rng, p, true, embeddings) + true["gamma"] * p.x[:, 0]), true


def simulate_noise_of_points(rng):
    """Labels that are averages over points with noise of their own, some measured with errors."""
    p = reference.with_label_noise(rng, random_bags(rng, least=20))
    true = reference.draw_scales(rng, p.priors, with_eta=False)
    true["weights"] = rng.normal(0, true["rho"], LANDMARKS)
    noise = [rng.normal(0, true["sigma_point"], int(N)).mean() for N in p.sizes]
    y = true["intercept"] + (p.mu - p.m0) @ true["weights"] + noise
    return replace(p, y=rng.normal(rng.normal(y, true["sigma"]), np.sqrt(p.known))), true


def simulate_bdr_with_noise_of_points(rng):
    p = reference.with_label_noise(rng, random_bags(rng, least=20))
    true = draw_bdr_parameters(rng, p)
    embeddings = draw_embeddings(rng, p, true["eta"])
    noise = [rng.normal(0, true["sigma_point"], int(N)).mean() for N in p.sizes]
    y = labels(rng, p, true, embeddings) + noise
    return replace(p, y=rng.normal(y, np.sqrt(p.known))), true


def simulate_bdr_forwards(rng):
    """True embeddings from their prior, empirical ones from the averages of points' features.

    The model conditions on the empirical embeddings, so what they say of eta must not count:
    eta is all but known.
    """
    p = random_bags(rng)
    p = replace(p, priors=p.priors | {"eta_log_sd": 0.03}, sizes=np.minimum(p.sizes, 50))
    true = draw_bdr_parameters(rng, p)
    embeddings = rng.multivariate_normal(p.m0, true["eta"] * p.R, len(p.y))
    points = (rng.multivariate_normal(m, p.Sigma, int(N)) for m, N in zip(embeddings, p.sizes))
    mu = np.array([features.mean(axis=0) for features in points])
    return replace(p, mu=mu, y=labels(rng, p, true, embeddings)), true


def random_classes(rng, priors, **options):
    """Embedded bags without labels, for models that have no sigma."""
    priors = {name: value for name, value in priors.items() if name != "sigma_scale"}
    return replace(random_bags(rng, **options), priors=priors)


def simulate_probit(rng, least=12, **options):
    p = random_classes(rng, WIDE, least=least)
    true = draw_bdr_parameters(rng, p)
    embeddings = draw_embeddings(rng, p, true["eta"], **options)
    latent = true["intercept"] + (embeddings - p.m0) @ true["weights"]
    return replace(p, y=rng.binomial(1, stats.norm.cdf(latent))), true


def simulate_logit(rng):
    p = random_classes(rng, reference.PRIORS)
    true = reference.draw_scales(rng, p.priors, with_eta=False)
    true["weights"] = rng.normal(0, true["rho"], LANDMARKS)
    log_odds = true["intercept"] + (p.mu - p.m0) @ true["weights"]
    return replace(p, y=rng.binomial(1, stats.logistic.cdf(log_odds))), true


# ---------------------------------------------------------------- fits


def whitening(likelihood, factor, priors, gamma_scales=()):
    """Coordinates from the mode of the weights at the middle of the scales' priors: any will do."""
    intercept = priors["intercept_location"], priors["intercept_scale"]
    rho = START["rho"]
    mode = find_mode(likelihood, factor, intercept, rho=rho, gamma_scales=gamma_scales)
    return whitened_coordinates(mode, factor, rho)


def fit_blr(model, p, seed):
    """Thinned draws of the landmark weights and the scales."""
    rows = compress(p.mu - p.m0, p.y, p.sizes, known_variance=p.known)
    priors = {name: value for name, value in p.priors.items() if not name.startswith("eta")}
    likelihood = normal_likelihood(rows, np.zeros(LANDMARKS), sigma=START["sigma"])
    whitened = whitening(likelihood, np.eye(LANDMARKS), priors)
    return thinned(model, blr_data(rows, priors) | whitened, np.eye(LANDMARKS), seed)


def fit_bdr(model, p, seed):
    lam, V = joint_basis(p.Sigma, p.R)
    rows = compress((p.mu - p.m0) @ V, p.y, p.sizes, known_variance=p.known)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    likelihood = normal_likelihood(rows, lam, sigma=START["sigma"], eta=START["eta"])
    whitened = whitening(likelihood, factor, p.priors)
    return thinned(model, bdr_data(rows, lam, factor, p.priors) | whitened, V, seed)


def fit_bdr_with_covariate(model, p, seed):
    lam, V = joint_basis(p.Sigma, p.R)
    rows = compress(np.column_stack([(p.mu - p.m0) @ V, p.x]), p.y, p.sizes)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    likelihood = normal_likelihood(rows, lam, sigma=START["sigma"], eta=START["eta"])
    whitened = whitening(likelihood, factor, p.priors, gamma_scales=[p.priors["gamma_scale"]])
    draws = thinned(model, bdr_data(rows, lam, factor, p.priors) | whitened, V, seed)
    return draws | {"gamma": draws["gamma"][:, 0]}


def fit_probit(model, p, seed):
    lam, V = joint_basis(p.Sigma, p.R)
    rows = rows_by_size((p.mu - p.m0) @ V, p.y, p.sizes)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    whitened = whitening(probit_likelihood(rows, lam, eta=START["eta"]), factor, p.priors)
    whitened = follow_latent_scale(whitened, np.ones(1), START["rho"])
    return thinned(model, bdr_probit_data(rows, lam, factor, p.priors) | whitened, V, seed)


def fit_logit(model, p, seed):
    rows = compress(p.mu - p.m0, p.y, np.ones(len(p.y)), lossless=False)
    priors = {name: value for name, value in p.priors.items() if not name.startswith("eta")}
    whitened = whitening(logit_likelihood(rows), np.eye(LANDMARKS), priors)
    return thinned(model, blr_logit_data(rows, priors) | whitened, np.eye(LANDMARKS), seed)


def thinned(model, data, basis, seed):
    by_size = bool(data.get("size_noise"))
    start = {"t": np.zeros(LANDMARKS + data["Q"] + 1), **START, "sigma_point": [0.4] * by_size}
    draws = calibration.thinned(model, no_effects(LANDMARKS + data["Q"] + 1) | data, start, seed)
    if by_size:
        draws["sigma_point"] = draws["sigma_point"][:, 0]
    return draws | {"weights": draws["w"] @ basis.T}


def blr_log_likelihood(p, weights, intercept, sigma, sigma_point=0.0, **_):
    return reference.blr_log_likelihood(p, weights, intercept, sigma, sigma_point=sigma_point)


def bdr_log_likelihood(p, weights, intercept, sigma, eta, gamma=0.0, sigma_point=0.0, **_):
    return reference.bdr_log_likelihood(
        p, weights, intercept, sigma, eta, [gamma], sigma_point=sigma_point
    )


def probit_log_likelihood(p, weights, intercept, eta, **_):
    return reference.bdr_probit_log_likelihood(p, weights, intercept, eta)


def logit_log_likelihood(p, weights, intercept, **_):
    return reference.blr_logit_log_likelihood(p, weights, intercept)


# ---------------------------------------------------------------- ranks


# Program, simulator, fit, log likelihood, simulations, seed, and what is ranked besides rho.
SIMULATIONS = {
    "blr": ("blr", simulate_blr, fit_blr, blr_log_likelihood, 40, 1, "sigma, weight 0"),
    "bdr": ("bdr", simulate_bdr, fit_bdr, bdr_log_likelihood, 40, 2, "sigma, eta, weight 0"),
    "bdr with a covariate": (
        *("bdr", simulate_bdr_with_covariate, fit_bdr_with_covariate, bdr_log_likelihood),
        *(40, 9, "gamma, sigma, eta"),
    ),
    "blr with noise of points": (
        *("blr", simulate_noise_of_points, fit_blr, blr_log_likelihood),
        *(40, 10, "sigma, sigma_point"),
    ),
    "bdr with noise of points": (
        *("bdr", simulate_bdr_with_noise_of_points, fit_bdr, bdr_log_likelihood),
        *(40, 11, "sigma, sigma_point"),
    ),
    "probit": (
        *("bdr_probit", simulate_probit, fit_probit, probit_log_likelihood),
        *(40, 6, "eta, weight 0"),
    ),
    "logit": ("blr_logit", simulate_logit, fit_logit, logit_log_likelihood, 40, 7, "weight 0"),
}


@pytest.mark.parametrize("case", SIMULATIONS)
def test_draws_are_calibrated(case):
    name, simulate, fit, log_likelihood, number, seed, parameters = SIMULATIONS[case]
    model = compile_program(name, progress=False)
    found = p_values(ranks(model, simulate, fit, log_likelihood, number, seed=seed))
    assert set(found) >= {"intercept", "rho", "log likelihood", *parameters.split(", ")}
    assert min(found.values()) > FALSE_ALARM, found


def test_bdr_is_calibrated_on_bags_of_simulated_points():
    model = compile_program("bdr", progress=False)
    found = p_values(ranks(model, simulate_bdr_forwards, fit_bdr, bdr_log_likelihood, 40, seed=3))
    found.pop("eta")
    assert min(found.values()) > FALSE_ALARM, found


def test_ranks_tell_a_variance_from_a_standard_deviation():
    def simulate(rng):
        return simulate_blr(rng, noise=np.sqrt)

    model = compile_program("blr", progress=False)
    found = p_values(ranks(model, simulate, fit_blr, blr_log_likelihood, 20, seed=4))
    assert found["sigma"] < FALSE_ALARM, found


def test_ranks_tell_when_sizes_are_ignored():
    """Labels as if all bags had many points: no embedding is uncertain."""

    def simulate(rng):
        return simulate_bdr(rng, size=lambda size: 1e6)

    model = compile_program("bdr", progress=False)
    found = p_values(ranks(model, simulate, fit_bdr, bdr_log_likelihood, 20, seed=5))
    assert min(found.values()) < FALSE_ALARM, found


def test_ranks_of_classes_tell_when_sizes_are_ignored():
    def simulate(rng):
        return simulate_probit(rng, least=120, size=lambda size: 1e6)

    model = compile_program("bdr_probit", progress=False)
    found = p_values(ranks(model, simulate, fit_probit, probit_log_likelihood, 20, seed=8))
    assert min(found.values()) < FALSE_ALARM, found
