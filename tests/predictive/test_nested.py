"""Mixtures of normals given each draw, against sums written out."""

import numpy as np
import pytest
from scipy import stats

from bdr_stan.predictive import mix
from bdr_stan.predictive.nested import NestedPredictive
from bdr_stan.predictive.normal import Predictive

S, M, N = 6, 4, 3


@pytest.fixture
def parts():
    rng = np.random.default_rng(1)
    return rng.normal(size=(S * M, N)), rng.uniform(0.2, 1.0, (S * M, N))


def predictive(parts, n_draws=S):
    return NestedPredictive(lambda i: (parts[0][:, i], parts[1][:, i]), N, n_draws, M)


def test_log_likelihood_averages_over_the_points_of_a_draw(parts):
    y = np.array([0.3, -0.5, 1.2])
    density = stats.norm.pdf(y, *parts).reshape(S, M, N)
    found = predictive(parts).log_likelihood(y)
    np.testing.assert_allclose(found, np.log(density.mean(axis=1)))
    np.testing.assert_allclose(
        predictive(parts).log_prob(y), np.log(density.mean(axis=(0, 1))), rtol=1e-12
    )


def test_labels_come_one_a_draw_from_its_own_points(parts):
    narrow = parts[0], np.full((S * M, N), 1e-9)
    labels = predictive(narrow).sample(seed=1)
    assert labels.shape == (S, N)
    each = parts[0].reshape(S, M, N)
    nearest = np.abs(each - labels[:, None]).min(axis=1)
    assert nearest.max() < 1e-7
    assert predictive(parts).sample(11, seed=1).shape == (11, N)


def test_quantiles_of_many_components_are_those_of_all():
    rng = np.random.default_rng(2)
    many = 5000
    parts = rng.normal(size=(many * M, N)), rng.uniform(0.5, 1.0, (many * M, N))
    p = predictive(parts, many)
    for level in (0.025, 0.5, 0.9):
        np.testing.assert_allclose(p.cdf(p.quantile(level)), level, atol=0.01)


def test_moments_cdf_and_expected_labels(parts):
    mean, sd = parts
    p = predictive(parts)
    np.testing.assert_allclose(p.mean, mean.mean(axis=0))
    second = np.mean(sd**2 + mean**2, axis=0)
    np.testing.assert_allclose(p.sd, np.sqrt(second - p.mean**2))
    y = np.array([0.3, -0.5, 1.2])
    np.testing.assert_allclose(p.cdf(y), stats.norm.cdf(y, mean, sd).mean(axis=0))
    np.testing.assert_allclose(p.cdf(p.quantile(0.9)), 0.9, atol=1e-8)
    expected = mean.reshape(S, M, N).mean(axis=1)
    np.testing.assert_allclose(p.expected(np.arange(N)), expected)


def test_a_mixture_of_two(parts):
    one, other = predictive(parts), predictive((parts[0] + 1, 2 * parts[1]))
    y = np.array([0.3, -0.5, 1.2])
    expected = np.log(0.3 * np.exp(one.log_prob(y)) + 0.7 * np.exp(other.log_prob(y)))
    mixed = mix([one, other], [0.3, 0.7])
    np.testing.assert_allclose(mixed.log_prob(y), expected)
    np.testing.assert_allclose(mixed.mean, 0.3 * one.mean + 0.7 * other.mean)
    np.testing.assert_allclose(mixed.cdf(mixed.quantile(0.9)), 0.9, atol=1e-8)


def test_a_mixture_with_a_plain_predictive(parts):
    nested = predictive(parts)
    plain = Predictive(lambda i: (np.zeros((2, len(i))), np.ones((2, len(i)))), N, 2)
    y = np.array([0.3, -0.5, 1.2])
    expected = np.log(0.3 * np.exp(nested.log_prob(y)) + 0.7 * np.exp(plain.log_prob(y)))
    np.testing.assert_allclose(mix([nested, plain], [0.3, 0.7]).log_prob(y), expected)


def test_it_says_how_many_draws_there_are(parts):
    assert "3 bags, 6 draws" in repr(predictive(parts))
