"""The regression function at uncertain embeddings against the paper's dense formulas."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference
from scipy.special import expit, log_expit, log_ndtr, ndtr

from bdr_stan.embedding.coordinates import joint_coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models.latent import (
    class_predictive,
    contributions,
    label_predictive,
    latent_moments,
    with_draws_of_new_levels,
)
from bdr_stan.predictive.contrast import Contrast

S = 7  # draws


def uncertain(rng, **options):
    """A problem, its coordinates, its embedding and draws: landmark weights alpha = V w."""
    p = reference.random_problem(rng, **options)
    coordinates = joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)
    d = len(p.K)
    draws = {
        "intercept": rng.normal(size=S),
        "w": rng.normal(size=(S, d)),
        "eta": rng.gamma(2.0, size=S),
    }
    return p, coordinates, Embedding(p.sizes, p.mu, None), draws


def dense_moments(p, coordinates, draws):
    """Mean and variance of each bag's latent value under each draw, shape (S, n) each."""
    each = [
        reference.bdr_moments(p, coordinates.basis @ w, intercept, 0.0, eta)
        for w, intercept, eta in zip(draws["w"], draws["intercept"], draws["eta"])
    ]
    return np.array([mean for mean, _ in each]), np.array([variance for _, variance in each])


PROBLEMS = pytest.mark.parametrize(
    "options",
    [
        {},
        {"n": 1, "d": 1, "sizes": [1.0]},
        {"n": 9, "d": 3, "sizes": np.full(9, 5.0)},
        {"n": 12, "d": 3, "sizes": np.linspace(0.7, 99.3, 12)},  # of weighted points
    ],
    ids=["mixed", "one", "equal", "weighted"],
)


@PROBLEMS
def test_moments_are_the_dense_formulas(rng, options):
    p, coordinates, embedding, draws = uncertain(rng, **options)
    some = rng.permutation(len(p.y))[: max(1, len(p.y) // 2)]
    mean, variance = dense_moments(p, coordinates, draws)
    for i in (np.arange(len(p.y)), some):
        xi, nu = latent_moments(coordinates, embedding, draws, i)
        assert xi.shape == nu.shape == (S, len(i))
        np.testing.assert_allclose(xi, mean[:, i], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(nu, variance[:, i], rtol=1e-8)


def test_moments_are_those_of_simulated_embeddings(rng):
    p, coordinates, embedding, draws = uncertain(rng, n=3, d=3, sizes=[1, 4, 60])
    xi, nu = latent_moments(coordinates, embedding, draws, np.arange(3))
    for s in range(2):
        alpha, intercept, eta = (
            coordinates.basis @ draws["w"][s],
            draws["intercept"][s],
            draws["eta"][s],
        )
        for i in range(3):
            M, C = reference.embedding_posterior(p.mu[i], p.sizes[i], p.m0, p.Sigma, p.R, eta)
            f = intercept + (rng.multivariate_normal(M, C, 100_000) - p.m0) @ alpha
            assert xi[s, i] == pytest.approx(f.mean(), abs=4.5 * f.std() / np.sqrt(len(f)))
            assert nu[s, i] == pytest.approx(f.var(), rel=0.03)


def test_exact_embeddings_leave_nothing_open(rng):
    """Linear regression: no eta, no variance within bags."""
    p, _, embedding, draws = uncertain(rng)
    coordinates = principal_axes(p.embedding)
    del draws["eta"]
    xi, nu = latent_moments(coordinates, embedding, draws, np.arange(15))
    beta = draws["w"] @ coordinates.basis.T
    np.testing.assert_allclose(xi, draws["intercept"][:, None] + beta @ (p.mu - p.m0).T)
    np.testing.assert_array_equal(nu, np.zeros((S, 15)))
    predictive = label_predictive(coordinates, embedding, **draws, sigma=np.full(S, 0.3))
    np.testing.assert_allclose(predictive.mean, xi.mean(axis=0))
    np.testing.assert_allclose(predictive.sd**2, xi.var(axis=0) + 0.09)


@PROBLEMS
def test_labels_are_mixtures_over_the_draws(rng, options):
    p, coordinates, embedding, draws = uncertain(rng, **options)
    sigma = rng.gamma(2.0, size=S)
    mean, variance = dense_moments(p, coordinates, draws)
    predictive = label_predictive(coordinates, embedding, **draws, sigma=sigma)
    assert len(predictive) == len(p.y) and predictive.n_draws == S
    np.testing.assert_allclose(predictive.mean, mean.mean(axis=0), rtol=1e-8, atol=1e-10)
    total = mean.var(axis=0) + (variance + sigma[:, None] ** 2).mean(axis=0)
    np.testing.assert_allclose(predictive.sd, np.sqrt(total), rtol=1e-8)
    below = ndtr((p.y - mean) / np.sqrt(variance + sigma[:, None] ** 2))
    np.testing.assert_allclose(predictive.cdf(p.y), below.mean(axis=0), rtol=1e-7, atol=1e-12)


def test_likelihood_of_labels_is_that_of_the_model(rng):
    p, coordinates, embedding, draws = uncertain(rng)
    sigma = rng.gamma(2.0, size=S)
    found = (
        label_predictive(coordinates, embedding, **draws, sigma=sigma)
        .log_likelihood(p.y)
        .sum(axis=1)
    )
    for s in range(S):
        alpha, intercept, eta = (
            coordinates.basis @ draws["w"][s],
            draws["intercept"][s],
            draws["eta"][s],
        )
        expected = reference.bdr_log_likelihood(p, alpha, intercept, sigma[s], eta)
        assert found[s] == pytest.approx(expected, rel=1e-8)


@PROBLEMS
def test_classes_of_probit_are_averages_over_the_draws(rng, options):
    p, coordinates, embedding, draws = uncertain(rng, **options)
    mean, variance = dense_moments(p, coordinates, draws)
    predictive = class_predictive(
        coordinates, embedding, np.array(["no", "yes"]), log_ndtr, **draws
    )
    expected = ndtr(mean / np.sqrt(1 + variance)).mean(axis=0)
    np.testing.assert_allclose(predictive.mean, expected, rtol=1e-8)
    labels = np.where(p.y > np.median(p.y), "yes", "no")
    probability = np.where(labels == "yes", expected, 1 - expected)
    np.testing.assert_allclose(predictive.log_prob(labels), np.log(probability), rtol=1e-7)


def test_classes_of_logit_are_averages_over_the_draws(rng):
    p, _, embedding, draws = uncertain(rng)
    coordinates = principal_axes(p.embedding)
    del draws["eta"]
    predictive = class_predictive(coordinates, embedding, np.array([0, 1]), log_expit, **draws)
    beta = draws["w"] @ coordinates.basis.T
    log_odds = draws["intercept"][:, None] + beta @ (p.mu - p.m0).T
    np.testing.assert_allclose(predictive.mean, expit(log_odds).mean(axis=0), rtol=1e-8)


def test_latent_values_far_from_zero_keep_their_logarithms(rng):
    """Both classes' log probabilities are finite where one is all but sure."""
    _, coordinates, embedding, draws = uncertain(rng)
    sure = {**draws, "intercept": np.full(S, 300.0), "w": 1e-3 * draws["w"]}
    predictive = class_predictive(coordinates, embedding, np.array([0, 1]), log_ndtr, **sure)
    rare, common = predictive.log_prob(np.zeros(15)), predictive.log_prob(np.ones(15))
    assert np.isfinite(rare).all() and np.all(rare < -1000)
    np.testing.assert_allclose(common, 0, atol=1e-12)


def test_new_bags_are_seen_from_the_training_bags(rng):
    """Coordinates and within-bag variance are those of the training bags."""
    p, coordinates, _, draws = uncertain(rng)
    sigma = rng.gamma(2.0, size=S)
    new = Embedding(np.array([2.0, 50.0]), rng.normal(size=(2, 4)), None)
    predictive = label_predictive(coordinates, new, **draws, sigma=sigma)
    known = reference.Problem(new.mean, new.sizes, np.zeros(2), p.Sigma, p.R, p.K, origin=p.m0)
    mean, _ = dense_moments(known, coordinates, draws)
    np.testing.assert_allclose(predictive.mean, mean.mean(axis=0), rtol=1e-8)


@pytest.mark.parametrize("m", [0, 1])
def test_contributions_of_samples_are_by_their_own_weights(rng, m):
    """Where all weights of the other sample are 0, one contributes everything, the other 0."""
    _, coordinates, embedding, draws = uncertain(rng)
    sample = np.arange(len(coordinates.lam)) % 2
    coordinates = replace(coordinates, sample=sample)
    embedding = replace(embedding, sizes=np.column_stack([embedding.sizes, 3 * embedding.sizes]))
    draws["eta"] = rng.gamma(2.0, size=(S, 2))
    draws["w"] *= sample == m
    found = contributions(coordinates, embedding, {}, draws, samples=["homes", "people"])
    own, other = (found[name] for name in ("homes", "people")[:: 1 - 2 * m])
    total = label_predictive(coordinates, embedding, sigma=np.zeros(S), **draws)
    np.testing.assert_allclose(own.mean, total.mean - draws["intercept"].mean(), atol=1e-10)
    assert np.ptp(own.mean) > 0
    np.testing.assert_allclose([other.mean, other.sd], 0, atol=1e-7)


def test_contributions_of_exact_embeddings_are_known_given_the_draws(rng):
    p, _, embedding, draws = uncertain(rng)
    coordinates = principal_axes(p.embedding)
    del draws["eta"]
    found = contributions(coordinates, embedding, {}, draws)["embedding"]
    assert isinstance(found, Contrast)
    each = draws["w"] @ coordinates.transform(p.mu).T
    np.testing.assert_allclose(found.mean, each.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.sd, each.std(axis=0))


@pytest.mark.parametrize("n_draws, n_found", [(1, 1000), (400, 400), (2000, 2000)])
def test_few_draws_are_repeated_for_new_levels(n_draws, n_found):
    draws = {"w": np.zeros((n_draws, 2)), "sigma": np.arange(n_draws)}
    known = Embedding(np.ones(3), np.zeros((3, 2)), None)
    new = replace(known, new_levels=np.array([[0], [7], [7]]))
    found = with_draws_of_new_levels(new, draws)
    assert found["w"].shape == (n_found, 2)
    np.testing.assert_array_equal(found["sigma"], np.repeat(draws["sigma"], n_found // n_draws))
    np.testing.assert_array_equal(with_draws_of_new_levels(known, draws)["w"], draws["w"])
