"""Labels held out of the curves of the other bags, and what is chosen by their densities."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from builders import curves
from scipy import stats

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.models import held_out_labels as held_out_module
from bdr_stan.models.bayes_rule import informativeness, inverse_predictive
from bdr_stan.models.held_out_labels import (
    TrainingLabels,
    folds_by_kernel_share,
    held_out_labels,
    held_out_log_density,
    learned_point_noise,
    learned_power,
)
from bdr_stan.models.inverse import PRIORS, inverse_model
from bdr_stan.models.label_distribution import label_distribution

normal_labels = partial(label_distribution, "normal")


def power_of(training, y):
    folds = folds_by_kernel_share(training, TrainingLabels(y, normal_labels), PRIORS)[0.0]
    return learned_power(folds, training.embedding, y)[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_power_of_a_model_that_is_right_is_near_1(seed):
    assert power_of(*curves.simulated(np.random.default_rng(seed))) > 0.8


@pytest.mark.parametrize("seed", [1, 2])
def test_the_power_of_coordinates_that_come_twice_is_near_a_half(seed, monkeypatch):
    """The joint basis would tell that they are the same, so it is left out."""

    def as_they_are(training, B, *, kernel_share):
        d = training.embedding.mean.shape[1]
        return np.zeros(d), np.eye(d), np.diag(training.embedding.covariance)

    monkeypatch.setattr(held_out_module, "residual_coordinates", as_they_are)
    training, y = curves.simulated(np.random.default_rng(seed))
    mean, lam = training.embedding.mean, np.diag(training.embedding.covariance)
    twice = Embedding(training.embedding.sizes, np.tile(mean, 2), np.diag(np.tile(lam, 2)))
    once = power_of(training, y)
    assert power_of(replace(training, embedding=twice), y) == pytest.approx(once / 2, rel=0.15)
    assert once > 0.8


def test_few_bags_teach_no_power(rng):
    training, y = curves.simulated(rng, n=9)
    assert power_of(training, y) == 0.6


def test_few_bags_take_the_shape_of_the_kernel():
    training, y = curves.simulated(np.random.default_rng(5), n=20)
    chosen = held_out_labels(training, TrainingLabels(y, normal_labels), PRIORS)
    assert chosen.kernel_share == 1


def test_numbers_of_two_values_are_held_out(rng):
    training, y = curves.simulated(rng, n=12)
    labels = TrainingLabels(1.0 * (y > np.median(y)), normal_labels)
    assert len(folds_by_kernel_share(training, labels, PRIORS)[0.0]) == 5


def test_classes_that_are_held_out_whole_teach_no_power(rng):
    training, _ = curves.simulated(rng, n=12)
    codes = np.arange(12)
    folds = folds_by_kernel_share(training, TrainingLabels(codes), PRIORS)[0.0]
    assert folds == []
    assert learned_power(folds, training.embedding, codes)[0] == 0.6
    assert np.isnan(held_out_log_density(folds, training.embedding, codes, 1.0, [])).all()


def test_densities_of_held_out_labels_are_those_of_models_of_the_other_bags(rng):
    """Of the distribution of the other labels, too."""
    training, y = curves.simulated(rng, n=60)
    labels, kept = TrainingLabels(y, normal_labels), np.arange(60)
    every = folds_by_kernel_share(training, labels, PRIORS, kernel_shares=(0.0, 0.1, 1.0))
    kept = np.setdiff1d(kept, every[0.0][0].held_out)
    chosen = held_out_labels(training.take(kept), labels.take(kept), PRIORS)
    folds = every[chosen.kernel_share]
    density = held_out_log_density(folds, training.embedding, y, 0.7, [])
    assert sorted(np.concatenate([fold.held_out for fold in folds])) == list(range(60))
    fold = folds[0]
    model = inverse_model(training.take(kept), y[kept], distribution=normal_labels)
    coordinates = replace(model.fitted.coordinates, power=0.7)
    held_out = training.embedding.take(fold.held_out)
    tau, curve = model.fitted.modes["tau"][None], model.fitted.curves.mean[None]
    expected = inverse_predictive(coordinates, held_out, tau, curve).log_prob(y[fold.held_out])
    np.testing.assert_allclose(density[fold.held_out], expected, atol=0.02)


@pytest.mark.parametrize("error_sd", [0.02, 1.0])
def test_held_out_densities_are_of_labels_with_errors(error_sd):
    """Of errors narrower than the grid, too."""
    rng = np.random.default_rng(5)
    training, true = curves.simulated(rng, n=60)
    y, variance = rng.normal(true, error_sd), np.full(60, error_sd**2)
    folds = folds_by_kernel_share(training, TrainingLabels(y, normal_labels, variance), PRIORS)[0.0]
    density = held_out_log_density(folds, training.embedding, y, 0.7, [])
    fold = folds[0]
    fitted, held_out = fold.fitted, training.embedding.take(fold.held_out)
    coordinates, tau = replace(fitted.coordinates, power=0.7), fitted.modes["tau"]
    of_true = inverse_predictive(coordinates, held_out, tau[None], fitted.curves.mean[None])
    steps = np.linspace(-6, 6, 4001)
    every = np.exp([of_true.log_prob(np.full(len(fold.held_out), y[fold.held_out] + error_sd * s))
                    for s in steps])  # fmt: skip
    expected = np.log(np.trapezoid(every * stats.norm.pdf(steps)[:, None], steps, axis=0))
    np.testing.assert_allclose(density[fold.held_out], expected, atol=0.02)


LABELS = {
    "continuous": lambda rng, n: rng.normal(size=n),
    "two groups": lambda rng, n: rng.choice([-3, 3], n) + 0.5 * rng.normal(size=n),
    "ratings": lambda rng, n: rng.choice(5, n, p=[0.1, 0.1, 0.2, 0.35, 0.25]) + 1.0,
    "bounded": lambda rng, n: rng.uniform(size=n),
    "heaped": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.exponential(size=n)),
    "heavy tails": lambda rng, n: rng.standard_t(2, n),
}


def scattered(rng, y):
    """Features of bags that follow labels weakly and scatter with heavy tails."""
    n, lam, scores = len(y), np.geomspace(0.5, 20, 5), stats.rankdata(y) / len(y)
    size = rng.choice([2.0, 10.0, 100.0], n)
    z = np.outer(scores, [1.0, 0.5, 0, 0, 0]) + 0.5 * rng.standard_t(4, (n, 5))
    z += rng.normal(size=(n, 5)) * np.sqrt(lam / size[:, None])
    feature_map = LandmarkFeatures(RBF(1.0), 50.0 * np.arange(5)[:, None])
    return TrainingFeatures(feature_map, RBF(1.0), Embedding(size, z, np.diag(lam)), np.arange(n))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LABELS)
def test_held_out_labels_are_as_probable_as_fresh_ones(kind):
    """Not flattered by two standard errors of the difference, pooled over data sets.

    Folds learn from four fifths of the bags, so held-out labels may look somewhat less probable.
    """
    distribution, held_out, fresh = partial(label_distribution, "empirical"), [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = LABELS[kind](rng, 450)
        features, kept, new = scattered(rng, y), np.arange(150), np.arange(150, 450)
        model = inverse_model(features.take(kept), y[kept], distribution=distribution)
        predictive = inverse_predictive(
            model.fitted.coordinates,
            features.embedding.take(new),
            model.fitted.modes["tau"][None],
            model.fitted.curves.mean[None],
        )
        held_out.append(-model.constants["held_out"][0])
        fresh.append(-predictive.log_prob(y[new]))
    error = np.hypot(np.std(held_out) / np.sqrt(600), np.std(fresh) / np.sqrt(1200))
    assert -2 * error < np.mean(held_out) - np.mean(fresh) < 3 * error


@pytest.mark.parametrize("best", [0.02, 0.4, 2.0])
def test_search_for_the_noise_of_one_point(best):
    """In units of the scale; the best may lie beyond either end, or be none."""

    def held_out(sigma_point):
        return -1e4 * (sigma_point / 5.0 - best) ** 2

    found = learned_point_noise(held_out, 5.0, np.inf) / 5.0
    assert found == pytest.approx(np.clip(best, 0.03, 1.5), rel=0.05)
    assert learned_point_noise(held_out, 5.0, 2.5) / 5.0 == pytest.approx(min(found, 0.5), rel=0.05)
    assert learned_point_noise(lambda s: -s, 5.0, np.inf) == 0
    assert learned_point_noise(held_out, 5.0, 0.1) == 0


def test_search_for_the_noise_of_one_point_sees_a_second_peak():
    def held_out(sigma_point):
        return np.exp(-50 * sigma_point**2) + 2 * np.exp(-8 * (sigma_point - 0.8) ** 2)

    assert learned_point_noise(held_out, 1.0, np.inf) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("slope", [-2.0, -1.0, 1.5])
def test_the_prior_of_the_power_is_lognormal_about_06_of_log_sd_05(slope, monkeypatch):
    """By labels whose log density is a line in the log of the power."""

    def line(power, offsets):
        return np.array([slope * np.log(power)])

    monkeypatch.setattr(held_out_module, "_log_density", lambda *_: line)
    of_numbers = SimpleNamespace(functions=SimpleNamespace(has_classes=False), labels=[])
    fold = SimpleNamespace(held_out=np.arange(1), fitted=SimpleNamespace(coordinates=of_numbers))
    found, offsets, loss = learned_power([fold], None, np.empty(0))
    assert (found, len(offsets)) == (pytest.approx(0.6 * np.exp(slope / 4), rel=1e-4), 0)
    assert loss == pytest.approx(slope**2 / 8 - slope * np.log(found), rel=1e-6)


def test_held_out_classes_are_as_frequent_as_their_probabilities():
    """But for the prior of the offsets, N(0, 1): the slopes of both in each offset agree."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=200)
    features, codes = scattered(rng, y), np.searchsorted(np.quantile(y, [0.7, 0.95]), y)
    (folds,) = folds_by_kernel_share(features, TrainingLabels(codes), PRIORS).values()
    power, offsets, _ = learned_power(folds, features.embedding, codes)
    informed = np.empty(200)
    for fold in folds:
        fitted, sizes = fold.fitted, features.embedding.sizes[fold.held_out]
        tau, curve = fitted.modes["tau"], fitted.curves.mean
        informed[fold.held_out] = informativeness(fitted.coordinates, sizes, tau, curve)
    for code, offset in enumerate(offsets):
        every = np.full(200, code)
        p = np.exp(held_out_log_density(folds, features.embedding, every, power, offsets))
        assert informed @ ((codes == code) - p) == pytest.approx(offset, abs=5e-3)
    assert np.abs(offsets).max() > 0.05


def test_offsets_of_classes_are_those_of_predictions():
    """None for bags of hardly any points."""
    training, y = curves.simulated(np.random.default_rng(3), n=200)
    codes = 1 * (y > np.quantile(y, 0.9))
    model = inverse_model(training, codes)
    chosen = held_out_labels(training, TrainingLabels(codes), PRIORS)
    coordinates, fitted = model.fitted.coordinates, model.fitted
    np.testing.assert_array_equal(coordinates.offsets, chosen.offsets)
    mean = training.embedding.mean[:1].repeat(2, axis=0)
    embedding = Embedding(np.array([1e-9, 1e9]), mean, training.embedding.covariance)
    log_odds = []
    for offsets in (None, np.array([-0.5, 1.0])):
        given = replace(coordinates, offsets=offsets)
        curve = fitted.modes["tau"][None], fitted.curves.mean[None]
        p = inverse_predictive(given, embedding, *curve, [0, 1]).probabilities
        log_odds.append(np.log(p / (1 - p)))
    share = informativeness(coordinates, embedding.sizes, curve[0][0], curve[1][0])
    assert share[0] < 1e-6 and share[1] > 0.5
    np.testing.assert_allclose((log_odds[1] - log_odds[0])[:, 1], 1.5 * share, atol=1e-6)
