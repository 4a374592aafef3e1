"""Embeddings of bags of another population, by dense matrices."""

import numpy as np
import pytest

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import between_bag_covariance
from bdr_stan.models.latent import latent_moments
from bdr_stan.questions.population import own_population, shift_by_shrinkage

D, S = 4, 3


def problem(rng, n, shift=0.0):
    m0, basis, lam = rng.normal(size=D), rng.normal(size=(D, D)), rng.gamma(2.0, size=D)
    coordinates = Coordinates(m0, basis, lam, np.eye(D))
    sizes = rng.integers(1, 40, n).astype(float)
    true = shift + rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) * 0.5
    z = true + rng.normal(size=(n, D)) * np.sqrt(lam / sizes[:, None])
    embedding = Embedding(sizes, m0 + z @ np.linalg.inv(basis), None)
    draws = {
        "w": rng.normal(size=(S, D)),
        "intercept": rng.normal(size=S),
        "eta": rng.gamma(5.0, 0.2, size=S),
    }
    return coordinates, embedding, draws, z


def moments(coordinates, embedding, draws):
    return latent_moments(coordinates, embedding, draws, np.arange(len(embedding.mean)))


def test_the_posterior_given_moments_of_the_bags_themselves(rng):
    coordinates, embedding, draws, z = problem(rng, 50, shift=2.0)
    mean, variance = moments(*_own(coordinates, embedding, draws))
    noise = np.diag(coordinates.lam)
    B = between_bag_covariance(Embedding(embedding.sizes, z, None), noise) + 1e-6 * np.eye(D)
    m = z.mean(axis=0)
    for i, size in enumerate(embedding.sizes):
        gain = B @ np.linalg.inv(B + noise / size)
        w = draws["w"]
        expected = draws["intercept"] + w @ (m + gain @ (z[i] - m))
        np.testing.assert_allclose(mean[:, i], expected, rtol=1e-8, atol=1e-10)
        left = np.einsum("sk,kl,sl->s", w, B - gain @ B, w)
        np.testing.assert_allclose(variance[:, i], left, rtol=1e-7, atol=1e-10)


def test_few_bags_are_not_shrunk(rng):
    coordinates, embedding, draws, z = problem(rng, 5)
    mean, variance = moments(*_own(coordinates, embedding, draws))
    w = draws["w"]
    np.testing.assert_allclose(mean, draws["intercept"][:, None] + w @ z.T, rtol=1e-5)
    expected = w**2 @ (coordinates.lam / embedding.sizes[:, None]).T
    np.testing.assert_allclose(variance, expected, rtol=1e-5)


def test_exact_embeddings_stay_as_they_are(rng):
    coordinates, embedding, draws, _ = problem(rng, 50)
    exact = Coordinates(coordinates.m0, coordinates.basis, np.zeros(D), np.eye(D))
    assert own_population(exact, embedding, draws) == (exact, draws)


def test_a_shift_is_that_of_the_predictions(rng):
    coordinates, embedding, draws, z = problem(rng, 200, shift=20.0)
    draws = {name: np.repeat(values[:1], S, axis=0) for name, values in draws.items()}
    shrunk, variance = moments(coordinates, embedding, draws)
    shift, sd = shift_by_shrinkage(coordinates, embedding, draws)
    unshrunk = draws["intercept"][:, None] + draws["w"] @ z.T
    assert shift == pytest.approx(np.mean(shrunk - unshrunk), rel=1e-8)
    assert sd == pytest.approx(np.sqrt(variance.mean()), rel=1e-8)
    assert abs(shift) > sd


def test_bags_like_those_of_the_fit_shift_nothing(rng):
    for n in (5, 12, 200):
        assert shift_by_shrinkage(*problem(rng, n)[:3]) == (0.0, 0.0)
    few = problem(rng, 5, shift=20.0)
    assert shift_by_shrinkage(*few[:3]) == (0.0, 0.0)


def _own(coordinates, embedding, draws):
    moved, draws = own_population(coordinates, embedding, draws)
    return moved, embedding, draws
