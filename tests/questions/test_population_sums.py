"""Sums of labels over groups of bags, against labels drawn one by one."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from bdr_stan.predictive import ClassPredictive, Predictive, mixture
from bdr_stan.questions.population import difference, weighted_sums

S, N = 200, 30


def normal(rng, weights=None):
    level = rng.normal(size=(S, 1))  # shared by the bags
    mean, sd = level + rng.normal(size=(S, N)), rng.gamma(2.0, 0.2, size=(S, N))
    return Predictive(lambda i: (mean[:, i], sd[:, i]), N, S, weights)


def classes(rng):
    log_p = np.log(rng.uniform(0.1, 0.9, size=(S, 1)) * rng.uniform(0.5, 1.0, size=(S, N)))

    def log_probabilities(i):
        return np.log1p(-np.exp(log_p[:, i])), log_p[:, i]

    return ClassPredictive(log_probabilities, N, S, np.array([0, 1]))


@pytest.fixture
def coefficients(rng):
    dense = np.zeros((2, N))
    dense[0, :12], dense[1, 12:] = rng.dirichlet(np.ones(12)), rng.gamma(2.0, size=18)
    return csc_array(dense)


@pytest.mark.parametrize("made", [normal, classes])
def test_moments_are_those_of_drawn_labels(made, rng, coefficients, monkeypatch):
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", 7 * S)  # seven bags at a time
    predictive = made(rng)
    sums = weighted_sums(predictive, coefficients)
    drawn = np.concatenate([predictive.sample(seed=k) @ coefficients.T for k in range(100)])
    np.testing.assert_array_less(np.abs(sums.mean - drawn.mean(axis=0)), 0.02 * sums.sd)
    np.testing.assert_allclose(sums.sd, drawn.std(axis=0), rtol=0.02)
    for q in (0.1, 0.9):
        below = np.mean(drawn < sums.quantile(q), axis=0)
        np.testing.assert_allclose(below, q, atol=0.02)


def test_differences_keep_what_the_draws_share(rng, coefficients):
    first, second = (
        weighted_sums(normal(rng), coefficients),
        weighted_sums(normal(rng), coefficients),
    )
    same = difference(first, first)
    np.testing.assert_allclose(same.mean, 0, atol=1e-12)
    every = np.arange(2)
    variance = first.components(every)[1] ** 2
    np.testing.assert_allclose(same.sd**2, 2 * variance.mean(axis=0))  # labels are independent
    apart = difference(first, second)
    np.testing.assert_allclose(apart.mean, first.mean - second.mean)


def test_weights_of_draws_are_kept(rng, coefficients):
    weights = rng.dirichlet(np.ones(S))
    sums = weighted_sums(normal(rng, weights), coefficients)
    mean, _ = sums.components(np.arange(2))
    np.testing.assert_allclose(sums.mean, weights @ mean)
