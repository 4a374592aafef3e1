"""Covariates beside the embeddings in likelihoods, models and predictions."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import joint_coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel, exact_posterior, exact_predictive
from bdr_stan.models.latent import label_predictive
from bdr_stan.models.likelihoods import logit_likelihood, normal_likelihood, probit_likelihood
from bdr_stan.models.two_classes import LogitModel, follow_latent_scale

SIGMA, ETA, Q = 0.5, 0.6, 2
NAMES = pytest.mark.parametrize("name", ["normal", "probit", "logit"])


def problem(rng, name="normal"):
    make = reference.random_problem if name == "normal" else reference.random_classes
    p = reference.with_covariates(rng, make(rng, n=60, d=3), Q)
    return p, joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)


def likelihood(name, p, coordinates, lossless=False):
    rows = compress(
        np.column_stack([coordinates.transform(p.mu), p.x]), p.y, p.sizes, lossless=lossless
    )
    if name == "normal":
        return normal_likelihood(rows, coordinates.lam, sigma=SIGMA, eta=ETA)
    return (
        probit_likelihood(rows, coordinates.lam, eta=ETA)
        if name == "probit"
        else logit_likelihood(rows)
    )


@NAMES
def test_value_is_the_definition(name, rng):
    p, coordinates = problem(rng, name)
    for theta in rng.normal(size=(3, 3 + Q + 1)):
        weights, gamma, intercept = coordinates.basis @ theta[:3], theta[3:-1], theta[-1]
        if name == "normal":
            expected = reference.bdr_log_likelihood(p, weights, intercept, SIGMA, ETA, gamma)
        elif name == "probit":
            expected = reference.bdr_probit_log_likelihood(p, weights, intercept, ETA, gamma)
        else:
            expected = reference.blr_logit_log_likelihood(p, weights, intercept, gamma)
        assert likelihood(name, p, coordinates)(theta)[0] == pytest.approx(expected, rel=1e-9)


@NAMES
def test_slope_and_curvature_are_those_of_the_value(name, rng):
    function = likelihood(name, *problem(rng, name))
    for theta in rng.normal(size=(3, 3 + Q + 1)):
        reference.check_derivatives(function, theta)


def test_compression_keeps_the_likelihood(rng):
    p, coordinates = problem(rng)
    p = replace(p, x=np.column_stack([p.x[:, 0], p.x[:, 0] > 0]))  # a number and a level
    one, other = (likelihood("normal", p, coordinates, lossless) for lossless in (True, False))
    for theta in rng.normal(size=(5, 3 + Q + 1)):
        for found, expected in zip(one(theta), other(theta)):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_predictions_have_them_in_their_means_alone(rng):
    p, coordinates = problem(rng)
    S = 4
    draws = {name: rng.gamma(2.0, size=S) for name in ("sigma", "eta")}
    draws |= {"intercept": rng.normal(size=S), "w": rng.normal(size=(S, 3))}
    gamma = rng.normal(size=(S, Q))
    embedding = Embedding(p.sizes, p.mu, None, covariates=p.x)
    plain = label_predictive(coordinates, replace(embedding, covariates=None), **draws)
    found = label_predictive(coordinates, embedding, gamma=gamma, **draws)
    for i in (0, 7):
        of_draws = [predictive.log_likelihood(p.y)[:, i] for predictive in (found, plain)]
        moved = plain.log_likelihood(p.y - p.x @ gamma[0])[0, i]
        assert of_draws[0][0] == pytest.approx(moved)
        assert of_draws[0][0] != pytest.approx(of_draws[1][0])


def test_following_the_latent_scale_changes_nothing_at_the_mode(rng):
    plain = reference.plain_coordinates(3) | {
        "information": rng.uniform(1, 9, 3),
        "linear_term": rng.normal(size=3),
        "intercept_centre": 0.3,
        "intercept_slope": rng.normal(size=3 + Q),
        "gamma_centre": rng.normal(size=Q),
        "gamma_slope": rng.normal(size=(Q, 3)),
        "gamma_unit": np.array([[0.7, 0.2], [0.0, 1.4]]),
    }
    t = rng.normal(size=3 + Q + 1)
    followed = follow_latent_scale(plain, np.array([0.5, 4.0, 9.0]), rho=1.7)
    one, other = (reference.unwhiten_all(data, t, 1.7)[0] for data in (plain, followed))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_closed_form_with_covariates(rng):
    p, _ = problem(rng)
    embedding = Embedding(p.sizes, p.mu, None, covariates=p.x)
    model = BLRModel(embedding, Labels(p.y))
    spread = p.y.std()
    assert model.priors["gamma_scale"] == pytest.approx(2.5 * spread)
    posterior, constants = exact_posterior(model, draws=20_000, seed=1)
    sigma, rho = (posterior.draws[name][0, 0] for name in ("sigma", "rho"))
    V = principal_axes(p.embedding).basis
    X = np.column_stack([(p.mu - p.m0) @ V, p.x, np.ones(60)])
    precision = np.r_[np.full(3, rho**-2), np.full(Q + 1, (2.5 * spread) ** -2)]
    covariance = np.linalg.inv(X.T @ X / sigma**2 + np.diag(precision))
    centre = np.r_[np.zeros(3 + Q), p.y.mean()]
    mean = covariance @ (X.T @ p.y / sigma**2 + precision * centre)
    (theta, _), (of_theta, _) = constants["theta"], constants["theta_covariance"]
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(theta / sd, mean / sd, atol=1e-3)  # as far as Newton's steps go
    np.testing.assert_allclose(of_theta, covariance, rtol=1e-6, atol=1e-10)
    drawn = np.column_stack([posterior.flat()[name] for name in ("w", "gamma", "intercept")])
    score = (drawn.mean(axis=0) - theta) / (sd / np.sqrt(len(drawn)))
    assert np.abs(score).max() < 4.5
    coordinates = principal_axes(p.embedding)
    found = exact_predictive(coordinates, embedding, theta=theta, covariance=of_theta, sigma=sigma)
    np.testing.assert_allclose(found.mean, X @ theta, rtol=1e-6)
    np.testing.assert_allclose(
        found.sd, np.sqrt(sigma**2 + np.sum((X @ covariance) * X, axis=1)), rtol=1e-6
    )


def test_classes_have_a_prior_on_the_scale_of_the_latent_function(rng):
    p, _ = problem(rng, "logit")
    plain = Embedding(p.sizes, p.mu, None)
    model = LogitModel(replace(plain, covariates=p.x), Labels(p.y))
    assert model.priors["gamma_scale"] == 2.5 * 2.5
    np.testing.assert_array_equal(model.gamma_scales({}), [6.25, 6.25])
    assert LogitModel(
        replace(plain, covariates=p.x), Labels(p.y), prior={"gamma_scale": 1.0}
    ).priors["gamma_scale"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="prior has no number called 'gamma_scale'"):
        LogitModel(plain, Labels(p.y), prior={"gamma_scale": 1.0})
