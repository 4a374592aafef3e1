"""Simulation-based calibration of plain programs: parameters, and labels of new bags.

Their densities are those of the accelerated programs (tests/stan/test_plain.py); here the draws
that users get, by the simulators of test_sbc.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from builders import calibration, reference
from builders.calibration import FALSE_ALARM, KEPT, LANDMARKS, p_values, ranks

from bdr_stan.cmdstan.programs import program_path
from bdr_stan.embedding.shrinkage import joint_basis

pytestmark = pytest.mark.slow

# Weights of plain programs are not whitened, so that rho is explored slowly.
THIN, WARMUP = 15, 500


def simulate(rng):
    """A problem of bags with labels from true embeddings, the last of which is new to the fit."""
    n = int(rng.integers(13, 22))
    p = reference.random_problem(rng, n=n, d=LANDMARKS)
    p = replace(p, origin=p.m0)
    true = reference.draw_scales(rng, p.priors)
    true["weights"] = rng.multivariate_normal(
        np.zeros(LANDMARKS), true["rho"] ** 2 * np.linalg.inv(p.K)
    )
    posteriors = (
        reference.embedding_posterior(mu, N, p.m0, p.Sigma, p.R, true["eta"])
        for mu, N in zip(p.mu, p.sizes, strict=True)
    )
    embeddings = np.array([rng.multivariate_normal(M, C) for M, C in posteriors])
    y = rng.normal(true["intercept"] + (embeddings - p.m0) @ true["weights"], true["sigma"])
    return replace(p, y=y), true | {"y_new": y[-1]}


def fit(model, p, seed):
    lam, V = joint_basis(p.Sigma, p.R)
    z = (p.mu - p.m0) @ V
    n = len(z) - 1
    data = {
        "N": n, "N_new": 1, "D": LANDMARKS, "Q": 0,
        "z": z[:n], "z_new": z[n:], "x": np.empty((n, 0)), "x_new": np.empty((1, 0)),
        "size": p.sizes[:n], "size_new": p.sizes[n:],
        "label_sd": np.zeros(n), "label_sd_new": np.zeros(1),
        "y": p.y[:n], "y_at": p.y[n:],
        "lambda": lam, "prior_factor": np.linalg.cholesky(V.T @ p.K @ V).T,
        "gamma_scale": [], **p.priors,
    }  # fmt: skip
    start = {"intercept": 0.0, "w": np.zeros(LANDMARKS), "gamma": np.empty(0)}
    draws = reference.sample(
        model, data, {**start, "sigma": 0.4, "rho": 0.8, "eta": 0.5}, chains=1, warmup=WARMUP,
        draws=THIN * KEPT, seed=seed, divergent=1, adapt_delta=0.95,
    )  # fmt: skip
    thinned = {name: values[0, ::THIN] for name, values in draws.items()}
    return thinned | {"weights": thinned["w"] @ V.T, "y_new": thinned["y_new"][:, 0]}


def log_likelihood(p, weights, intercept, sigma, eta, **_):
    seen = replace(p, mu=p.mu[:-1], sizes=p.sizes[:-1], y=p.y[:-1])
    return reference.bdr_log_likelihood(seen, weights, intercept, sigma, eta, [0.0])


def test_plain_bdr_is_calibrated():
    model = calibration.OnStanli(program_path("bdr", fast=False))
    found = p_values(ranks(model, simulate, fit, log_likelihood, 80, seed=21))
    assert set(found) >= {"intercept", "sigma", "rho", "eta", "y_new", "log likelihood"}
    assert min(found.values()) > FALSE_ALARM, found
