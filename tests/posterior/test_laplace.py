"""Laplace's method where the posterior given the scales is known."""

from dataclasses import replace

import numpy as np
import pytest
from builders.training import labelled_bags

from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.posterior.laplace import laplace_posterior
from bdr_stan.posterior.latent_gaussian import most_probable_scales

S = 20_000


@pytest.mark.parametrize("n_covariates", [0, 2])
def test_weights_given_scales_are_those_of_a_linear_regression(rng, n_covariates):
    """Given rho exactly; of log sigma they follow the mode, whose slope is taken by differences."""
    bags, y = labelled_bags(rng)
    embedding = embed(bags, LandmarkFeatures(RBF(1.5), rng.normal(size=(3, 3))))
    x = rng.normal(size=(len(y), n_covariates))
    model = BLRModel(replace(embedding, covariates=x if n_covariates else None), Labels(y))
    draws = {name: v[0] for name, v in laplace_posterior(model, draws=S, seed=1).draws.items()}

    z = (embedding.mean - model.constants["m0"][0]) @ model.weight_basis
    X = np.column_stack([z, x, np.ones(len(z))])
    location, scale = model.intercept_prior
    of_gamma = np.full(n_covariates, model.priors.get("gamma_scale", 1.0) ** -2)

    def regression(sigma, rho):
        precision = np.diag(np.r_[np.full(z.shape[1], rho**-2), of_gamma, scale**-2])
        covariance = np.linalg.inv(X.T @ X / sigma**2 + precision)
        return covariance @ (X.T @ y / sigma**2 + precision[-1] * location), covariance

    scales, _, covariance_of_logs = most_probable_scales(model)
    covariance = covariance_of_logs()
    change = np.log(draws["sigma"] / scales["sigma"])
    slope = np.subtract(
        *(regression(scales["sigma"] * np.exp(step), scales["rho"])[0] for step in (1e-4, -1e-4))
    ) / 2e-4  # fmt: skip
    gamma = draws["gamma"] if n_covariates else np.empty((S, 0))
    theta = np.column_stack([draws["w"], gamma, draws["intercept"]])
    found = np.empty_like(theta)
    for s, rho in enumerate(draws["rho"]):
        mean, of_theta = regression(scales["sigma"], rho)
        found[s] = np.linalg.solve(
            np.linalg.cholesky(of_theta), theta[s] - mean - change[s] * slope
        )
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=5 / np.sqrt(S))
    np.testing.assert_allclose(np.cov(found.T), np.eye(X.shape[1]), atol=5 * np.sqrt(2 / S))
    np.testing.assert_allclose(found.T @ change / S, 0, atol=5 * change.std() / np.sqrt(S))

    logs = np.log([draws[name] for name in scales])
    np.testing.assert_allclose(np.cov(logs), covariance, atol=0.05 * covariance.max())
    assert np.exp(logs.mean(axis=1)) == pytest.approx(list(scales.values()), rel=0.02)
