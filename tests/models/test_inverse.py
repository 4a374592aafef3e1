"""Embeddings given the label: curves, evidence, mode and labels by Bayes' rule from definitions."""

from dataclasses import replace

import numpy as np
import pytest
from builders import curves
from scipy import stats
from scipy.special import logsumexp

from bdr_stan.embedding.label_functions import functions_of_classes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models import inverse
from bdr_stan.models.inverse import (
    InverseCoordinates,
    folds_of,
    held_out_log_density,
    inverse_model,
    inverse_predictive,
    learned_power,
    log_likelihoods,
    sample_inverse,
)
from bdr_stan.models.label_distribution import label_distribution
from bdr_stan.predictive import ClassPredictive, GridPredictive, MulticlassPredictive

# ---------------------------------------------------------------- Bayes' rule


def coordinates_of(p, power, labels, log_prior):
    K = len(p.lam)
    return InverseCoordinates(np.zeros(K), np.eye(K), p.lam, p.functions, labels, log_prior, power)


def directly(p, tau, curve, power, labels, log_prior):
    """Log of prior times likelihood to the power, not normalised, shape (n, M)."""
    values = np.empty((len(p.z), len(labels)))
    for i, (z, size) in enumerate(zip(p.z, p.sizes)):
        for m, at in enumerate(p.functions(labels)):
            sd = np.sqrt(tau**2 + p.lam / size)
            values[i, m] = log_prior[m] + power * stats.norm.logpdf(z, curve @ at, sd).sum()
    return values


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_likelihoods_are_normal_densities_to_the_power(problem, power):
    p, true = problem
    labels = np.array([0, 2, 1]) if p.functions.of_classes else np.array([-3.0, 0.5, 2.0, 9.0])
    at = coordinates_of(p, power, labels, np.zeros(len(labels)))
    B = p.functions(labels)
    found = log_likelihoods(at, p.z, p.sizes, true["tau"], true["curve"], B)
    expected = directly(p, true["tau"], true["curve"], power, labels, np.zeros(len(labels)))
    np.testing.assert_allclose(
        found - found[:, :1], expected - expected[:, :1], rtol=1e-8, atol=1e-8
    )


def draws_of(rng, p, S=3):
    drawn = [curves.draw_parameters(rng, p.functions, len(p.lam)) for _ in range(S)]
    return np.array([d["tau"] for d in drawn]), np.array([d["curve"] for d in drawn])


def test_labels_by_bayes_rule(rng):
    p, _ = curves.draw_problem(rng)
    tau, curve = draws_of(rng, p)
    grid = np.linspace(-9, 13, 400)
    log_prior = stats.norm.logpdf(grid, 2, 3)
    at = coordinates_of(p, 0.7, grid, log_prior)
    embedding = Embedding(p.sizes, p.z, np.diag(p.lam))
    found = inverse_predictive(at, embedding, tau, curve)
    assert isinstance(found, GridPredictive) and found.n_draws == 3
    densities = []
    for own_tau, own_curve in zip(tau, curve):
        density = np.exp(directly(p, own_tau, own_curve, 0.7, grid, log_prior))
        densities.append(density / np.trapezoid(density, grid)[:, None])
    density = np.mean(densities, axis=0)
    np.testing.assert_allclose(found.mean, np.trapezoid(density * grid, grid), rtol=1e-8)
    each = [np.log([np.interp(y, grid, d) for y, d in zip(p.y, own)]) for own in densities]
    np.testing.assert_allclose(found.log_likelihood(p.y), each, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        found.log_prob(p.y), logsumexp(each, axis=0) - np.log(3), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_by_bayes_rule(rng, n_classes):
    functions, codes = functions_of_classes(n_classes), rng.permutation(np.arange(24) % n_classes)
    p, _ = curves.draw_problem(rng, functions=functions, labels=codes)
    tau, curve = draws_of(rng, p)
    grid, log_prior = np.arange(float(n_classes)), np.log(rng.dirichlet(np.ones(n_classes)))
    at = coordinates_of(p, 0.7, grid, log_prior)
    names = np.array(["a", "b", "c"])[:n_classes]
    found = inverse_predictive(at, Embedding(p.sizes, p.z, None), tau, curve, names)
    assert isinstance(found, ClassPredictive if n_classes == 2 else MulticlassPredictive)
    each = []
    for own_tau, own_curve in zip(tau, curve):
        values = directly(p, own_tau, own_curve, 0.7, grid, log_prior)
        each.append(np.exp(values - logsumexp(values, axis=1, keepdims=True)))
    np.testing.assert_allclose(found.probabilities, np.mean(each, axis=0), atol=1e-10)


def test_small_bags_are_predicted_near_the_prior(rng):
    """Of a bag of hardly a point nothing is known; of a large one the label is."""
    p, true = curves.draw_problem(rng)
    grid = np.linspace(-9, 13, 2000)
    at = coordinates_of(p, 1.0, grid, stats.norm.logpdf(grid, 2, 3))
    tau, curve = np.full((1, 3), 0.02), true["curve"][None]
    z = p.functions(np.array([4.0])) @ true["curve"].T
    for size, mean, sd in ((1e-6, 2, 3), (1e9, 4, None)):
        found = inverse_predictive(at, Embedding(np.array([size]), z, None), tau, curve)
        assert found.mean[0] == pytest.approx(mean, abs=0.05)
        assert found.sd[0] == pytest.approx(sd, abs=0.02) if sd else found.sd[0] < 0.3


# ---------------------------------------------------------------- the model


def test_the_mode_is_that_of_stan(rng):
    training, y = curves.simulated(rng, n=60)
    model = inverse_model(training, y, labels=label_distribution("normal", y), power=1.0)
    posterior = sample_inverse(model, method="optimize", seed=1, progress=False)
    for name in ("tau", "amplitude", "bend"):
        found = posterior.draws[name][0, 0]
        np.testing.assert_allclose(found, model.modes[name], rtol=1e-4)
    np.testing.assert_allclose(posterior.draws["curve"][0, 0], model.curves.mean, atol=1e-4)
    moved = np.sum(model.curves.mean[:, 1:] ** 2, axis=1)
    explained = moved / (moved + model.modes["tau"] ** 2)
    np.testing.assert_allclose(posterior.draws["explained"][0, 0], explained, atol=1e-4)


def test_the_grid_is_fine_enough_and_normalised(rng):
    training, y = curves.simulated(rng, sizes=(2, 100_000))
    model = inverse_model(training, y, labels=label_distribution("normal", y), power=1.0)
    at = model.at
    assert np.trapezoid(np.exp(at.log_prior), at.labels) == pytest.approx(1)
    found = inverse_predictive(
        at, training.embedding, model.modes["tau"][None], model.curves.mean[None]
    )
    inside = (at.labels > y.min()) & (at.labels < y.max())
    assert np.diff(at.labels[inside]).max() < np.median(found.sd)


def priors():
    return dict(inverse.PRIORS)


def power_of(training, y):
    folds = folds_of(training, y, label_distribution("normal", y), jitter=1e-4, priors=priors())
    return learned_power(folds, training.embedding, y)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_power_of_a_model_that_is_right_is_near_1(seed):
    assert power_of(*curves.simulated(np.random.default_rng(seed))) > 0.8


@pytest.mark.parametrize("seed", [1, 2])
def test_the_power_of_coordinates_that_come_twice_is_near_a_half(seed, monkeypatch):
    """The joint basis would tell that they are the same, so it is left out."""

    def as_they_are(training, B, *, jitter):
        d = training.embedding.mean.shape[1]
        return np.zeros(d), np.eye(d), np.diag(training.embedding.covariance)

    monkeypatch.setattr(inverse, "residual_coordinates", as_they_are)
    training, y = curves.simulated(np.random.default_rng(seed))
    mean, lam = training.embedding.mean, np.diag(training.embedding.covariance)
    twice = Embedding(training.embedding.sizes, np.tile(mean, 2), np.diag(np.tile(lam, 2)))
    once = power_of(training, y)
    assert power_of(replace(training, embedding=twice), y) == pytest.approx(once / 2, rel=0.15)
    assert once > 0.8


def test_few_bags_teach_no_power(rng):
    training, y = curves.simulated(rng, n=9)
    assert power_of(training, y) == 0.6


def test_classes_that_are_held_out_whole_teach_no_power(rng):
    training, _ = curves.simulated(rng, n=12)
    codes = np.arange(12)
    folds = folds_of(training, codes, None, jitter=1e-4, priors=priors())
    assert folds == []
    assert learned_power(folds, training.embedding, codes) == 0.6
    assert np.isnan(held_out_log_density(folds, training.embedding, codes, 1.0)).all()


def test_densities_of_held_out_labels_are_those_of_models_of_the_other_bags(rng):
    training, y = curves.simulated(rng, n=60)
    labels = label_distribution("normal", y)
    folds = folds_of(training, y, labels, jitter=1e-4, priors=priors())
    density = held_out_log_density(folds, training.embedding, y, 0.7)
    assert sorted(np.concatenate([fold.held for fold in folds])) == list(range(60))
    fold = folds[0]
    kept = np.setdiff1d(np.arange(60), fold.held)
    model = inverse_model(training.take(kept), y[kept], labels=labels, power=0.7)
    held = training.embedding.take(fold.held)
    tau, curve = model.modes["tau"][None], model.curves.mean[None]
    expected = inverse_predictive(model.at, held, tau, curve).log_prob(y[fold.held])
    np.testing.assert_allclose(density[fold.held], expected, atol=0.02)


def test_priors_of_users(rng):
    training, y = curves.simulated(rng, n=20)
    labels = label_distribution("normal", y)
    model = inverse_model(training, y, labels=labels, power=0.5, prior={"tau_scale": 3.0})
    assert model.priors == priors() | {"tau_scale": 3.0}
    assert model.at.power == 0.5
