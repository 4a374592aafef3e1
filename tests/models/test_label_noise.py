"""Noise of size and known errors: likelihood, evidence, closed form and predictions."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.scales import INTERCEPT, mode_at
from scipy import stats

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import joint_coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel, exact_posterior, exact_predictive
from bdr_stan.models.label_errors import size_noise_prior
from bdr_stan.models.latent import label_predictive
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.posterior.scales import maximise_evidence
from bdr_stan.posterior.settings import SamplerSettings

SCALES = {"sigma": 0.5, "sigma_point": 0.9, "eta": 0.6}


def problem(rng, n=40):
    """Embedded bags whose labels have noise of size and known errors, in the joint basis."""
    p = reference.with_label_noise(rng, reference.random_problem(rng, n=n, d=3))
    coordinates = joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)
    return (
        p,
        coordinates,
        compress(coordinates.transform(p.mu), p.y, p.sizes, known_variance=p.known),
    )


def test_likelihood_is_the_definition(rng):
    p, coordinates, rows = problem(rng)
    function = normal_likelihood(rows, coordinates.lam, **SCALES)
    for theta in rng.normal(size=(4, 4)):
        expected = reference.bdr_log_likelihood(
            p, coordinates.basis @ theta[:3], theta[3], **SCALES
        )
        assert function(theta)[0] == pytest.approx(expected, rel=1e-10)


def test_slope_and_curvature_are_those_of_the_value(rng):
    _, coordinates, rows = problem(rng)
    function = normal_likelihood(rows, coordinates.lam, **SCALES)
    for theta in rng.normal(size=(4, 4)):
        reference.check_derivatives(function, theta)


def test_no_nearby_scales_have_more_evidence(rng):
    p, coordinates, rows = problem(rng, n=200)
    arguments = (
        partial(normal_likelihood, rows, coordinates.lam),
        coordinates.prior_factor,
        INTERCEPT,
    )
    log_prior = log_prior_of_scales(p.priors)
    scales, *_ = maximise_evidence(
        partial(mode_at, arguments), {**SCALES, "rho": 0.8}, log_prior=log_prior
    )

    def height(**changed):
        values = {**scales, **changed}
        return mode_at(arguments, values).log_evidence + log_prior(**values)

    for name in scales:
        for factor in (0.8, 0.95, 1.05, 1.2):
            assert height(**{name: scales[name] * factor}) < height(), (name, factor)


def test_prior_alone_would_explain_the_labels(rng):
    sizes = rng.choice([1.0, 7.0, 40.0], 100_000)
    y = rng.normal(3, 2, 100_000)
    scale = size_noise_prior(y.std(), sizes, np.ones(len(sizes)))["sigma_point_scale"]
    noise = scale / np.sqrt(sizes) * rng.normal(size=100_000)
    assert noise.std() == pytest.approx(y.std(), rel=0.03)


@pytest.mark.parametrize("label_noise", ["constant", "size"])
def test_programs_take_a_vector_and_users_see_a_number(rng, label_noise):
    p, *_ = problem(rng)
    by_size, settings = label_noise == "size", SamplerSettings(seed=1)
    model = BLRModel(Embedding(p.sizes, p.mu, None), Labels(p.y), label_noise=label_noise)
    given = model.stan_input(settings)
    assert [np.shape(start["sigma_point"]) for start in given.inits] == [(int(by_size),)] * 4
    assert np.shape(given.log_sds["sigma_point"]) == (int(by_size),)
    drawn = {
        "w": np.ones((2, 5, 3)), "intercept": np.ones((2, 5)), "sigma": np.ones((2, 5)),
    }  # fmt: skip
    if by_size:  # CmdStan writes no vector of no entry
        drawn["sigma_point"] = np.arange(10.0).reshape(2, 5, 1)
    seen = model.read(drawn, settings)
    assert seen.keys() == drawn.keys() | {"beta"}
    if by_size:
        np.testing.assert_array_equal(seen["sigma_point"], np.arange(10.0).reshape(2, 5))


def test_labels_carry_the_noise_of_their_size(rng):
    p, coordinates, _ = problem(rng)
    S, some = 7, np.array([3, 0, 11])
    draws = {
        "intercept": rng.normal(size=S), "w": rng.normal(size=(S, 3)),
        "sigma": rng.gamma(2.0, size=S), "sigma_point": rng.gamma(2.0, size=S),
        "eta": rng.gamma(2.0, size=S),
    }  # fmt: skip
    embedding = Embedding(p.sizes, p.mu, None)
    measured = label_predictive(coordinates, embedding, **draws, known_variance=p.known)
    new = label_predictive(coordinates, embedding, **draws)
    for s in range(S):
        each = {name: values[s] for name, values in draws.items()}
        alpha = coordinates.basis @ each.pop("w")
        mean, variance = reference.bdr_moments(p, alpha, **each)
        for predictive, expected in ((measured, variance), (new, variance - p.known)):
            found, sd = (values[s] for values in predictive.components(some))
            np.testing.assert_allclose(found, mean[some], rtol=1e-8)
            np.testing.assert_allclose(sd**2, expected[some], rtol=1e-8)


def test_exact_posterior_is_weighted_regression_at_the_scales(rng):
    p, *_ = problem(rng, n=60)
    embedding = Embedding(p.sizes, p.mu, None)
    model = BLRModel(embedding, Labels(p.y, label_sd=np.sqrt(p.known)), label_noise="size")
    assert model.scales == ("sigma", "sigma_point", "rho")
    posterior, constants = exact_posterior(model, draws=3, seed=1)
    sigma, sigma_point, rho = (posterior.draws[name][0, 0] for name in model.scales)
    coordinates = principal_axes(p.embedding)
    X = np.c_[coordinates.transform(p.mu), np.ones(60)]
    weight = 1 / (sigma**2 + sigma_point**2 / p.sizes + p.known)
    location, spread = model.intercept_prior
    prior = np.diag(np.r_[np.full(3, rho**-2.0), spread**-2.0])
    covariance = np.linalg.inv((X.T * weight) @ X + prior)
    mean = covariance @ (X.T @ (weight * p.y) + prior @ np.r_[0, 0, 0, location])
    theta, of_theta = constants["theta"][0], constants["theta_covariance"][0]
    np.testing.assert_allclose(theta, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(of_theta, covariance, rtol=1e-6, atol=1e-10)
    new = exact_predictive(
        coordinates,
        embedding,
        theta=theta,
        covariance=of_theta,
        sigma=sigma,
        sigma_point=sigma_point,
    )
    variance = sigma**2 + sigma_point**2 / p.sizes + np.sum((X @ covariance) * X, axis=1)
    np.testing.assert_allclose(new.sd, np.sqrt(variance), rtol=1e-6)


def test_scales_of_simulated_labels_are_found(rng):
    n = 4000
    p = reference.random_problem(rng, n=n, d=3, sizes=rng.choice([2.0, 20.0, 2000.0], n))
    label_sd = rng.choice([0.1, 0.5], n)
    clean = 0.7 + (p.mu - p.m0) @ np.array([0.5, -0.3, 0.2])
    y = rng.normal(clean, np.sqrt(0.3**2 + 1.2**2 / p.sizes + label_sd**2))
    model = BLRModel(
        Embedding(p.sizes, p.mu, None), Labels(y, label_sd=label_sd), label_noise="size"
    )
    posterior, _ = exact_posterior(model, draws=1, seed=1)
    assert posterior.draws["sigma"].item() == pytest.approx(0.3, rel=0.1)
    assert posterior.draws["sigma_point"].item() == pytest.approx(1.2, rel=0.1)
    ignored, _ = exact_posterior(
        BLRModel(Embedding(p.sizes, p.mu, None), Labels(y)), draws=1, seed=1
    )
    everything = stats.norm.std(scale=np.sqrt(np.mean((y - clean) ** 2)))
    assert ignored.draws["sigma"].item() == pytest.approx(everything, rel=0.05)
