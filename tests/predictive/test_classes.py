"""Predictive mixtures of Bernoulli distributions against averages over draws."""

import numpy as np
import pytest

from bdr_stan.predictive import ClassPredictive, MulticlassPredictive, mix, mixture
from bdr_stan.predictive.classes import class_codes

S, N = 9, 6
CLASSES = np.array(["no", "yes"])


@pytest.fixture
def p(rng):
    """Probability of the second class under each draw; bag 5 is all but certain."""
    p = rng.uniform(0.05, 0.95, (S, N))
    p[:, 5] = 0.9999
    return p


def predictive(p, weights=None):
    def log_probabilities(i):
        return np.log1p(-p[:, i]), np.log(p[:, i])

    return ClassPredictive(log_probabilities, p.shape[1], len(p), CLASSES, weights)


@pytest.fixture(params=[False, True], ids=["equal", "weighted"])
def weights(rng, request):
    return rng.dirichlet(np.ones(S)) if request.param else None


def test_moments_and_densities_are_averages_over_draws(p, weights, rng):
    predicted, y = predictive(p, weights), np.array(["yes", "no", "no", "yes", "yes", "no"])
    assert (
        len(predicted) == N
        and "6 bags, 9 draws; probability of" in repr(predicted)
        and "'yes'" in repr(predicted)
    )
    assert "np.str_" not in repr(predicted)
    mean = np.average(p, axis=0, weights=weights)
    np.testing.assert_allclose(predicted.mean, mean)
    variance = np.average((p - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(predicted.sd**2, variance, atol=1e-30)
    np.testing.assert_allclose(predicted.log_prob(y), np.log(np.where(y == "yes", mean, 1 - mean)))
    each = np.log(np.where(y == "yes", p, 1 - p))
    np.testing.assert_allclose(predicted.log_likelihood(y), each, rtol=1e-9)


def test_quantiles_are_those_of_the_probability(p):
    predicted = predictive(p)
    np.testing.assert_allclose(predicted.quantile([0.2, 0.7]), np.quantile(p, [0.2, 0.7], axis=0))
    np.testing.assert_allclose(predicted.interval(0.8), predicted.quantile([0.1, 0.9]))
    counts = np.arange(S) + 1
    weighted = predictive(p, counts / counts.sum())
    repeated = np.quantile(np.repeat(p, counts, axis=0), 0.37, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(weighted.quantile(0.37), repeated)


def test_samples_are_classes_of_the_mixture(p, weights):
    predicted = predictive(p, weights)
    labels = predicted.sample(20_000, seed=3)
    assert labels.shape == (20_000, N) and set(labels.ravel()) == {"no", "yes"}
    share = np.mean(labels == "yes", axis=0)
    np.testing.assert_array_less(
        np.abs(share - predicted.mean),
        4.5 * np.sqrt(predicted.mean * (1 - predicted.mean) / 20_000) + 1e-9,
    )
    assert predicted.sample(seed=1).shape == (S, N)


def everything(predicted, y):
    """What a distribution computes in chunks of the bags."""
    return [
        predicted.mean,
        predicted.sd,
        predicted.quantile([0.1, 0.8]),
        predicted.log_prob(y),
        predicted.log_likelihood(y),
    ]


@pytest.mark.parametrize("at_once", [1, 2 * S, 3 * S + 1])
def test_chunks_do_not_matter(p, monkeypatch, at_once):
    whole = everything(predictive(p), np.repeat(CLASSES, 3))
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", at_once)
    for one, other in zip(whole, everything(predictive(p), np.repeat(CLASSES, 3)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def mixed(distribution, draws):
    """The mixture of the first four draws and the weighted others, with its mean checked."""
    weights = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    one, other = distribution(draws[:4]), distribution(draws[4:], weights)
    both = mix([one, other], [0.25, 0.75])
    assert type(both) is type(one) and both.n_draws == S
    np.testing.assert_allclose(both.mean, 0.25 * one.mean + 0.75 * other.mean)
    return both


def test_mix_weighs_the_draws_of_all(p):
    both = mixed(predictive, p)
    assert isinstance(both, ClassPredictive)
    assert list(both.classes) == ["no", "yes"]


def test_codes_of_classes():
    np.testing.assert_array_equal(class_codes(CLASSES, ["yes", "no"]), [1, 0])
    with pytest.raises(ValueError, match="label of bag 1 is .*maybe.*, but the classes are .*no"):
        class_codes(CLASSES, ["yes", "maybe"])


def test_labels_that_are_of_no_use(p):
    predicted = predictive(p)
    for method in (predicted.log_prob, predicted.log_likelihood):
        with pytest.raises(ValueError, match=r"y has shape \(2,\), expected \(6,\)"):
            method(["yes", "no"])
        with pytest.raises(ValueError, match="the label of bag 0 is .*maybe"):
            method(["maybe"] * N)
    with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = 1"):
        predicted.quantile(1)


# ---------------------------------------------------------------- more than two classes

THREE = np.array(["a", "b", "c"])


@pytest.fixture
def q(rng):
    """Probabilities of three classes under each draw, shape (S, N, 3); bag 5 is all but certain."""
    q = rng.dirichlet(np.ones(3), (S, N))
    q[:, 5] = [1e-5, 1e-5, 1 - 2e-5]
    return q


def of_three(q, weights=None):
    return MulticlassPredictive(lambda i: np.log(q[:, i]), q.shape[1], len(q), THREE, weights)


def test_three_classes_are_averages_over_draws(q, weights):
    predicted, y = of_three(q, weights), np.array(["a", "b", "c", "c", "b", "c"])
    assert len(predicted) == N and "6 bags, 9 draws, 3 classes" in repr(predicted)
    mean = np.average(q, axis=0, weights=weights)
    np.testing.assert_allclose(predicted.probabilities, mean)
    np.testing.assert_array_equal(predicted.mean, predicted.probabilities)
    np.testing.assert_allclose(predicted.probabilities.sum(axis=1), 1)
    variance = np.average((q - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(predicted.sd**2, variance, atol=1e-30)
    row, code = np.arange(N), np.searchsorted(THREE, y)
    np.testing.assert_allclose(predicted.log_prob(y), np.log(mean[row, code]))
    np.testing.assert_allclose(predicted.log_likelihood(y), np.log(q[:, row, code]))


def test_quantiles_of_three_classes(q, weights):
    predicted, equal = of_three(q, weights), of_three(q)
    np.testing.assert_allclose(equal.quantile([0.2, 0.7]), np.quantile(q, [0.2, 0.7], axis=0))
    assert predicted.quantile(0.5).shape == (N, 3)
    np.testing.assert_allclose(predicted.interval(0.8), predicted.quantile([0.1, 0.9]))


def test_samples_of_three_classes(q, weights):
    predicted = of_three(q, weights)
    labels = predicted.sample(20_000, seed=3)
    assert labels.shape == (20_000, N)
    share = np.mean(labels[:, :, None] == THREE, axis=0)
    sd = np.sqrt(predicted.mean * (1 - predicted.mean) / 20_000)
    np.testing.assert_array_less(np.abs(share - predicted.mean), 4.5 * sd + 2e-4)
    assert predicted.sample(seed=1).shape == (S, N)


def test_three_classes_in_chunks(q, monkeypatch):
    whole = everything(of_three(q), np.repeat(THREE, 2))
    monkeypatch.setattr(mixture, "COMPONENTS_AT_ONCE", 2 * 3 * S)
    assert max(len(i) for i, _ in of_three(q)._chunks()) == 2
    for one, other in zip(whole, everything(of_three(q), np.repeat(THREE, 2)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_mix_of_three_classes(q):
    both = mixed(of_three, q)
    assert isinstance(both, MulticlassPredictive)
    with pytest.raises(ValueError, match="label of bag 0 is .*d.*, but the classes are .*a.*b.*c"):
        both.log_prob(["d"] * N)


def test_the_table_has_the_interval_of_the_class_that_is_predicted(p):
    lower, upper = predictive(p).interval(0.8)
    table, second = predictive(p).to_dataframe(level=0.8), p.mean(axis=0) > 0.5
    assert 0 < second.sum() < N
    assert table["predicted"].tolist() == CLASSES[second.astype(int)].tolist()
    np.testing.assert_allclose(table["lower"], np.where(second, lower, 1 - upper))
    np.testing.assert_allclose(table["upper"], np.where(second, upper, 1 - lower))
