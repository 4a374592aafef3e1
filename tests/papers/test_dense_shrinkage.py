"""Shrinkage with any within-bag covariance and landmarks against the dense formulas."""

import numpy as np
from builders import reference
from numpy.testing import assert_allclose
from scipy.optimize import check_grad

from bdr_stan import Shrinkage
from experiments.papers import dense_shrinkage

PRIORS = {
    "eta_median": 0.7,
    "eta_log_sd": 0.5,
    "intercept_location": 0.3,
    "intercept_scale": 2.0,
    "sigma_scale": 1.0,
}


def test_moments_are_the_definition(rng):
    p = reference.random_problem(rng, n=7, d=4)
    Sigmas = np.array([p.Sigma * (1 + i) for i in range(7)])
    cross, prior = rng.normal(size=(4, 3)), 5 * np.eye(3)
    outside = prior - cross.T @ np.linalg.solve(p.R, cross)
    alpha, eta, sigma = rng.normal(size=3), 0.6, 0.4
    at = dense_shrinkage.coordinates(p.mu - p.m0, p.sizes, Sigmas, p.R, cross, outside)
    mean, variance = dense_shrinkage.moments(at, alpha, 0.2, sigma, eta)[:2]
    for i, size in enumerate(p.sizes):
        gain = eta * cross.T @ np.linalg.inv(eta * p.R + Sigmas[i] / size)
        assert_allclose(mean[i], 0.2 + alpha @ gain @ (p.mu[i] - p.m0), rtol=1e-9)
        covariance = eta * prior - gain @ (eta * cross)
        assert_allclose(variance[i], alpha @ covariance @ alpha + sigma**2, rtol=1e-9)


def test_gradient_is_the_derivative(rng):
    p = reference.random_problem(rng, n=9, d=4)
    Sigmas, cross = np.array([p.Sigma * (1 + i) for i in range(9)]), rng.normal(size=(4, 3))
    at = dense_shrinkage.coordinates(p.mu - p.m0, p.sizes, Sigmas, p.R, cross, np.eye(3))

    def density(x):
        return dense_shrinkage.log_posterior(at, p.y, PRIORS, x[:3], *x[3:], np.eye(3), 0.8)

    for _ in range(3):
        x = 0.5 * rng.normal(size=6)
        error = check_grad(lambda v: density(v)[0], lambda v: np.r_[*density(v)[1]], x)
        assert error < 1e-4 * max(1, np.abs(np.r_[*density(x)[1]]).max())


def test_mode_is_the_estimator(rng):
    """With the package's covariance and landmarks, at the rho of its fit."""
    y = rng.normal(size=60)
    bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [2, 40] * 30, strict=True)]
    model = Shrinkage(5, embedding_prior="kernel").fit(bags, y, seed=1)
    embedding, at = model.embed(bags), model.coordinates_
    basis = np.linalg.inv(at.basis)
    R = basis.T @ basis
    Sigma = basis.T @ np.diag(at.lam) @ basis
    dense = dense_shrinkage.coordinates(embedding.mean - at.m0, embedding.sizes, [Sigma], R)
    priors, rho = model.priors(as_table=False), model.result_.draws("rho").item()
    alpha, intercept, sigma, eta = dense_shrinkage.mode(dense, y, priors, R, rho)
    mean = dense_shrinkage.moments(dense, alpha, intercept, sigma, eta)[0]
    assert_allclose(mean, model.predict(bags), atol=2e-3)
    assert_allclose(eta, model.result_.draws("eta").item(), rtol=0.01)
