"""Differences of expected labels, draw by draw."""

import numpy as np
import pytest

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.predictive import (
    AggregatePredictive,
    ClassPredictive,
    Contrast,
    Predictive,
    mix,
    mixture,
)

S, N = 40, 7


def normal(rng):
    mean, sd = rng.normal(size=(S, N)), rng.gamma(2.0, size=(S, N))
    return Predictive(lambda i: (mean[:, i], sd[:, i]), N, S), mean


def classes(rng):
    log_p = np.log(rng.uniform(size=(S, N)))

    def log_probabilities(i):
        return np.log1p(-np.exp(log_p[:, i])), log_p[:, i]

    return ClassPredictive(log_probabilities, N, S, np.array(["no", "yes"])), np.exp(log_p)


def counts(rng):
    mean = rng.gamma(3.0, size=(S, N))
    return AggregatePredictive(lambda i: mean[:, i], N, S, LIKELIHOODS["poisson"]), mean


def trials(rng):
    p, n = rng.uniform(size=(S, N)), np.arange(1.0, N + 1)
    predictive = AggregatePredictive(lambda i: p[:, i], N, S, LIKELIHOODS["binomial"], trials=n)
    return predictive, n * p


of_each = pytest.mark.parametrize("made", [normal, classes, counts, trials])


@of_each
def test_expected_labels_are_those_of_each_draw(made, rng):
    predictive, expected = made(rng)
    i = np.array([4, 0])
    np.testing.assert_allclose(predictive.expected(i), expected[:, i], rtol=1e-12)
    every = predictive.expected(np.arange(N))
    np.testing.assert_allclose(every.mean(axis=0), predictive.mean, rtol=1e-12)


@of_each
def test_moments_and_quantiles_are_those_of_the_differences(made, rng, monkeypatch):
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", 3 * S)  # three bags at a time
    (first, of_first), (second, of_second) = made(rng), made(rng)
    contrast, expected = Contrast.between(first, second), of_first - of_second
    assert len(contrast) == N and contrast.n_draws == S
    np.testing.assert_allclose(contrast.draws, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(contrast.mean, expected.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(contrast.sd, expected.std(axis=0), rtol=1e-10)
    quantiles = np.quantile(expected, [0.1, 0.5], axis=0)
    np.testing.assert_allclose(contrast.quantile([0.1, 0.5]), quantiles, rtol=1e-10)
    np.testing.assert_allclose(contrast.quantile(0.5), quantiles[1], rtol=1e-10)
    np.testing.assert_allclose(contrast.interval(0.8), contrast.quantile([0.1, 0.9]), rtol=1e-12)


@of_each
def test_a_version_does_not_differ_from_itself(made, rng):
    predictive, _ = made(rng)
    contrast = Contrast.between(predictive, predictive)
    for values in (contrast.draws, contrast.mean, contrast.sd, *contrast.interval()):
        assert np.all(values == 0)


def test_a_mixture_has_the_draws_of_all_by_their_weights(rng):
    pairs = [(normal(rng), normal(rng)) for _ in range(2)]
    each = [Contrast.between(a, b) for (a, _), (b, _) in pairs]
    pooled = mix(each, [0.25, 0.75])
    expected = np.concatenate([a - b for (_, a), (_, b) in pairs])
    weights = np.repeat([0.25 / S, 0.75 / S], S)
    np.testing.assert_allclose(pooled.draws, expected)
    np.testing.assert_allclose(pooled.mean, weights @ expected)
    np.testing.assert_allclose(pooled.sd**2, weights @ (expected - pooled.mean) ** 2)
    quantiles = pooled.quantile(0.31)
    assert np.all(weights @ (expected < quantiles - 1e-12) < 0.31)
    assert np.all(weights @ (expected <= quantiles + 1e-12) >= 0.31)


@pytest.mark.parametrize("level", [0, 1, "wide"])
def test_levels_are_checked(level, rng):
    contrast = Contrast.between(normal(rng)[0], normal(rng)[0])
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1"):
        contrast.interval(level)
    with pytest.raises(ValueError, match="quantiles need 0 < q < 1"):
        contrast.quantile(level)
