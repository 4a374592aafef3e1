"""Differences of expected labels, draw by draw."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BLR, Bags, Shrinkage, load
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


N_TRAINING = 120


@pytest.fixture(scope="module")
def towns():
    """Bags, the same with points higher by 0.5, and labels; a covariate acts on both."""
    rng = np.random.default_rng(5)
    wealth, age = rng.normal(size=(2, N_TRAINING))
    state = np.array(["north", "south"])[rng.integers(0, 2, N_TRAINING)]
    metadata = pd.DataFrame({"wealth": wealth, "state": state})
    points = [rng.normal(a + 0.5 * w, size=(60, 1)) for a, w in zip(age, wealth, strict=True)]
    y = 0.4 * age + wealth + rng.normal(size=N_TRAINING)
    bags = Bags.from_list(points, ids=[f"t{i}" for i in range(N_TRAINING)], metadata=metadata)
    higher = Bags.from_list([p + 0.5 for p in points], ids=bags.ids, metadata=metadata)
    return bags, higher, y


@pytest.fixture(scope="module")
def fitted(towns):
    bags, _, y = towns
    return BLR(8, method="exact", covariates=["wealth", "state"]).fit(bags, y, seed=1)


def test_robustness_is_of_the_average_over_the_bags(towns, fitted):
    bags, higher, _ = towns
    contrast = fitted.contrast(higher, bags)
    found = contrast.robustness(level=0.8)
    theta = contrast.draws.mean(axis=1)
    np.testing.assert_allclose((found.mean, found.sd), (theta.mean(), theta.std()), rtol=0.01)
    ends = np.quantile(theta, [0.1, 0.9])
    np.testing.assert_allclose((found.lower, found.upper), ends, rtol=1e-12)
    # Intercept, the covariate that is a number, and one of two levels.
    assert found.n_residual == N_TRAINING - 3
    assert list(found.strengths) == ["wealth", "state"]
    of_labels, of_contrast = found.strengths["wealth"]
    assert of_labels > 0.2 and of_contrast > 0.02
    assert found.strengths["state"][0] < 0.1


def test_weights_average_some_bags(towns, fitted):
    bags, higher, _ = towns
    contrast, one = fitted.contrast(higher, bags), fitted.contrast(higher[3:4], bags[3:4])
    weights = np.zeros(N_TRAINING)
    weights[3] = 7.0
    np.testing.assert_allclose(contrast.robustness(weights).value, one.robustness().value)
    by_id = pd.Series({"t3": 7.0}).reindex(bags.ids[::-1], fill_value=0.0)
    np.testing.assert_allclose(contrast.robustness(by_id).value, one.robustness().value)


def test_a_covariate_that_the_versions_change_is_no_benchmark(towns, fitted):
    bags, _, _ = towns
    metadata = bags.metadata.assign(wealth=bags.metadata["wealth"] + 1)
    richer = Bags.from_list(list(bags), ids=bags.ids, metadata=metadata)
    found = fitted.contrast(richer, bags).robustness()
    assert list(found.strengths) == ["state"]
    np.testing.assert_allclose(found.mean, 1.0, atol=0.4)


def test_robustness_of_a_loaded_fit(towns, fitted, tmp_path):
    bags, higher, _ = towns
    fitted.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc").contrast(higher, bags).robustness()
    assert again == fitted.contrast(higher, bags).robustness()


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_fit_with_the_omitted_column_changes_by_the_bias(towns, share):
    """The column is made of residuals, the direction in which the versions differ, and noise."""
    bags, higher, y = towns
    model = BLR(8, method="exact").fit(bags, y, seed=1, draws=4000)
    found = model.contrast(higher, bags).robustness()

    # Strengths by algebra, with rho and the noise of the fit.
    coordinates = model.coordinates_
    z, of_higher = (coordinates.transform(model.embed(each).mean) for each in (bags, higher))
    noise = np.mean(model.result_.draws("sigma") ** 2)
    X, step = np.column_stack([z, np.ones(len(z))]), np.append((of_higher - z).mean(axis=0), 0)
    prior = np.zeros((len(step), len(step)))
    factor = coordinates.prior_factor / model.result_.draws("rho").mean()
    prior[:-1, :-1] = factor.T @ factor
    precision = X.T @ X / noise + prior
    representer = X @ np.linalg.solve(precision, step)
    column = (y - model.predict(bags)) / np.std(y) + share * representer / np.std(representer)
    column += np.random.default_rng(3).normal(size=N_TRAINING)
    by_column = np.linalg.solve(precision, X.T @ column / noise)
    b = np.linalg.solve(precision, X.T @ y / noise)
    rest = np.sum((column - X @ by_column) ** 2) / noise + by_column @ prior @ by_column
    squares = np.sum((y - X @ b) ** 2) / noise + b @ prior @ b
    c_y = (column @ (y - X @ b) / noise) ** 2 / rest / squares
    gained = (step @ by_column) ** 2 / rest / (step @ np.linalg.solve(precision, step))

    metadata = pd.DataFrame({"omitted": column})
    first, second = (Bags.from_list(list(each), metadata=metadata) for each in (bags, higher))
    complete = BLR(8, method="exact", covariates=["omitted"]).fit(first, y, seed=1, draws=4000)
    changed = found.mean - complete.contrast(second, first).mean.mean()
    np.testing.assert_allclose(changed, found.bias(c_y, gained / (1 + gained)), rtol=0.1)


def test_a_fit_with_one_draw_has_no_robustness(towns):
    bags, higher, y = towns
    model = Shrinkage(4).fit(bags, y, seed=1)
    with pytest.raises(ValueError, match="same value in all draws.*method='nuts'"):
        model.contrast(higher, bags).robustness()


def test_lognormal_labels_have_no_robustness(towns):
    bags, higher, y = towns
    model = Shrinkage(4, family="lognormal").fit(bags, np.exp(y), seed=1)
    with pytest.raises(TypeError, match="family='normal'"):
        model.contrast(higher, bags).robustness()
