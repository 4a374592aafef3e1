"""Embeddings given the label: curves, evidence, mode and labels by Bayes' rule from definitions."""

from functools import partial

import numpy as np
import pytest
from builders import curves
from scipy import stats
from scipy.special import logsumexp

from bdr_stan.embedding.label_functions import functions_of_classes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models import inverse
from bdr_stan.models.bayes_rule import InverseCoordinates, inverse_predictive, log_likelihoods
from bdr_stan.models.inverse import inverse_model
from bdr_stan.models.label_distribution import label_distribution
from bdr_stan.posterior.sampling import sample_posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import ClassPredictive, GridPredictive, MulticlassPredictive

# ---------------------------------------------------------------- Bayes' rule


def coordinates_of(p, power, labels, log_prior):
    K = len(p.lam)
    return InverseCoordinates(np.zeros(K), np.eye(K), p.lam, p.functions, labels, log_prior, power)


def directly(p, tau, curve, power, labels, log_prior):
    """Log of prior times likelihood to the power, not normalised, shape (n, M)."""
    values = np.empty((len(p.z), len(labels)))
    for i, (z, size) in enumerate(zip(p.z, p.sizes)):
        for m, coordinates in enumerate(p.functions(labels)):
            sd = np.sqrt(tau**2 + p.lam / size)
            values[i, m] = (
                log_prior[m] + power * stats.norm.logpdf(z, curve @ coordinates, sd).sum()
            )
    return values


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_likelihoods_are_normal_densities_to_the_power(problem, power):
    p, true = problem
    labels = np.array([0, 2, 1]) if p.functions.has_classes else np.array([-3.0, 0.5, 2.0, 9.0])
    coordinates = coordinates_of(p, power, labels, np.zeros(len(labels)))
    B = p.functions(labels)
    found = log_likelihoods(coordinates, p.z, p.sizes, true["tau"], true["curve"], B)
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
    coordinates = coordinates_of(p, 0.7, grid, log_prior)
    embedding = Embedding(p.sizes, p.z, np.diag(p.lam))
    found = inverse_predictive(coordinates, embedding, tau, curve)
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
    coordinates = coordinates_of(p, 0.7, grid, log_prior)
    names = np.array(["a", "b", "c"])[:n_classes]
    found = inverse_predictive(coordinates, Embedding(p.sizes, p.z, None), tau, curve, names)
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
    coordinates = coordinates_of(p, 1.0, grid, stats.norm.logpdf(grid, 2, 3))
    tau, curve = np.full((1, 3), 0.02), true["curve"][None]
    z = p.functions(np.array([4.0])) @ true["curve"].T
    for size, mean, sd in ((1e-6, 2, 3), (1e9, 4, None)):
        found = inverse_predictive(coordinates, Embedding(np.array([size]), z, None), tau, curve)
        assert found.mean[0] == pytest.approx(mean, abs=0.05)
        assert found.sd[0] == pytest.approx(sd, abs=0.02) if sd else found.sd[0] < 0.3


# ---------------------------------------------------------------- the model


def normal_labels(y):
    return label_distribution("normal", y)


def test_the_mode_is_that_of_stan(rng, monkeypatch):
    curves.give_power(monkeypatch, 1.0)
    training, y = curves.simulated(rng, n=60)
    model = inverse_model(training, y, distribution=normal_labels)
    posterior = sample_posterior(model, SamplerSettings("optimize", seed=1, progress=False))
    for name in ("tau", "amplitude", "curvature"):
        found = posterior.draws[name][0, 0]
        np.testing.assert_allclose(found, model.fitted.modes[name], rtol=1e-4)
    np.testing.assert_allclose(posterior.draws["curve"][0, 0], model.fitted.curves.mean, atol=1e-4)
    moved = np.sum(model.fitted.curves.mean[:, 1:] ** 2, axis=1)
    explained = moved / (moved + model.fitted.modes["tau"] ** 2)
    np.testing.assert_allclose(posterior.draws["explained"][0, 0], explained, atol=1e-4)


def test_the_grid_is_fine_enough_and_normalised(rng, monkeypatch):
    curves.give_power(monkeypatch, 1.0)
    training, y = curves.simulated(rng, sizes=(2, 100_000))
    model = inverse_model(training, y, distribution=normal_labels)
    coordinates = model.fitted.coordinates
    assert np.trapezoid(np.exp(coordinates.log_prior), coordinates.labels) == pytest.approx(1)
    found = inverse_predictive(
        coordinates,
        training.embedding,
        model.fitted.modes["tau"][None],
        model.fitted.curves.mean[None],
    )
    inside = (coordinates.labels > y.min()) & (coordinates.labels < y.max())
    assert np.diff(coordinates.labels[inside]).max() < np.median(found.sd)


def test_priors_of_classes_are_their_shares(rng, monkeypatch):
    curves.give_power(monkeypatch, 1.0)
    training, _ = curves.simulated(rng, n=20)
    codes = np.repeat([0, 1, 2], [10, 6, 4])
    model = inverse_model(training, codes)
    shares = np.exp(model.fitted.coordinates.log_prior)
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2])


def test_priors_of_users(rng, monkeypatch):
    curves.give_power(monkeypatch, 0.5)
    training, y = curves.simulated(rng, n=20)
    model = inverse_model(training, y, distribution=normal_labels, prior={"tau_scale": 3.0})
    assert model.priors == inverse.PRIORS | {"tau_scale": 3.0}
    assert model.fitted.coordinates.power == 0.5


# ---------------------------------------------------------------- labels with errors


def with_errors(seed, n, error_sd, sizes=(2, 10, 100)):
    """Training features, true labels, and labels with normal errors."""
    rng = np.random.default_rng(seed)
    training, labels = curves.simulated(rng, n=n, sizes=sizes)
    return training, labels, rng.normal(labels, error_sd)


def predictive_of(model, training, bags):
    tau, curve = model.fitted.modes["tau"][None], model.fitted.curves.mean[None]
    return inverse_predictive(model.fitted.coordinates, training.embedding.take(bags), tau, curve)


def slopes_of(model, low, high):
    """Of the mean embedding between two labels."""
    coordinates = model.fitted.coordinates
    rise = np.diff(
        coordinates.functions(np.array([low, high])) @ model.fitted.curves.mean.T, axis=0
    )[0]
    return np.linalg.solve(coordinates.basis.T, rise) / (high - low)


def test_errors_that_are_known_do_not_flatten_the_curves(monkeypatch):
    curves.give_power(monkeypatch, 1.0)
    training, labels, y = with_errors(4, 1500, 1.0, sizes=(100, 500))
    model_of = partial(inverse_model, training, distribution=normal_labels)
    exact = slopes_of(model_of(labels), -0.8, 0.8)
    known, ignored = (
        slopes_of(model_of(y, label_sd=sd), -0.8, 0.8) for sd in (np.ones(1500), None)
    )
    steep = np.argsort(-np.abs(exact))[:2]  # the others are nearly flat
    np.testing.assert_allclose(known[steep] / exact[steep], 1, atol=0.15)
    np.testing.assert_array_less(ignored[steep] / exact[steep], 0.75)


def test_true_labels_are_predicted_better_by_a_fit_that_knows_the_errors():
    n, error_sd = 1000, 0.8
    training, labels, y = with_errors(1, 2 * n, error_sd)
    kept, new = np.arange(n), np.arange(n, 2 * n)
    scores, shares = [], []
    for known in (np.full(n, error_sd), None):
        model = inverse_model(
            training.take(kept), y[kept], distribution=normal_labels, label_sd=known
        )
        predictive = predictive_of(model, training, new)
        lower, upper = predictive.interval(0.8)
        scores.append(predictive.log_prob(labels[new]).mean())
        shares.append(np.mean((lower <= labels[new]) & (labels[new] <= upper)))
    assert scores[0] > scores[1] + 0.05
    # Four standard errors, and a little more as coordinates are made of embeddings with the blur.
    assert 0.8 - 4 * np.sqrt(0.8 * 0.2 / n) < shares[0] < 0.89
    assert shares[1] > max(0.9, shares[0] + 0.05)


def test_tiny_known_errors_change_nothing(rng):
    training, y = curves.simulated(rng, n=80)
    model_of = partial(inverse_model, training, y, distribution=normal_labels)
    none, tiny = model_of(), model_of(label_sd=np.full(80, 1e-9))
    powers = tiny.fitted.coordinates.power, none.fitted.coordinates.power
    assert powers[0] == pytest.approx(powers[1], rel=1e-6)
    held_out = tiny.constants["held_out"][0], none.constants["held_out"][0]
    np.testing.assert_allclose(*held_out, rtol=1e-6, atol=1e-6)
    found, expected = (predictive_of(m, training, np.arange(80)) for m in (tiny, none))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.sd, expected.sd, rtol=1e-6)


def averages_over_points(seed, n, sigma_point):
    training, labels = curves.simulated(np.random.default_rng(seed), n=n)
    noise = sigma_point / np.sqrt(training.embedding.sizes)
    return training, np.random.default_rng(seed + 100).normal(labels, noise)


def test_noise_of_size_is_found_and_widens_predictions_of_small_bags():
    n = 600
    training, y = averages_over_points(1, 2 * n, 2.0)
    kept, new = np.arange(n), np.arange(n, 2 * n)
    small = training.embedding.sizes[new] == 2
    scores, shares = [], []
    for noise in ("size", "constant"):
        model = inverse_model(
            training.take(kept), y[kept], distribution=normal_labels, label_noise=noise
        )
        predictive = predictive_of(model, training, new)
        lower, upper = predictive.interval(0.8)
        inside = (lower <= y[new]) & (y[new] <= upper)
        scores.append(predictive.log_prob(y[new]).mean())
        shares.append([inside[small].mean(), inside[~small].mean()])
        if noise == "size":
            assert model.fitted.coordinates.sigma_point == pytest.approx(2.0, rel=0.2)
    assert scores[0] > scores[1] + 0.03
    np.testing.assert_allclose(shares[0], 0.81, atol=4 * np.sqrt(0.8 * 0.2 / small.sum()))
    assert shares[1][0] < 0.75


def test_noise_of_size_adds_to_errors_that_are_known(monkeypatch):
    curves.give_power(monkeypatch, 1.0)
    training, y = averages_over_points(3, 60, 2.0)
    model_of = partial(inverse_model, training, y, distribution=normal_labels)
    by_size = model_of(label_noise="size", label_sd=np.full(60, 0.5))
    noise = by_size.fitted.coordinates.sigma_point
    assert noise > 0.5
    known = model_of(label_sd=np.sqrt(0.5**2 + noise**2 / training.embedding.sizes))
    np.testing.assert_allclose(by_size.fitted.curves.mean, known.fitted.curves.mean, rtol=1e-6)


def test_no_noise_of_size_where_labels_have_none():
    training, y = averages_over_points(2, 400, 0.0)
    model = inverse_model(training, y, distribution=normal_labels, label_noise="size")
    assert model.fitted.coordinates.sigma_point < 0.1 * model.priors["sigma_point_scale"]


def test_the_prior_holds_the_noise_of_size():
    training, y = averages_over_points(2, 100, 2.0)
    model = inverse_model(
        training, y, distribution=normal_labels, label_noise="size",
        prior={"sigma_point_scale": 0.01},
    )  # fmt: skip
    assert model.fitted.coordinates.sigma_point <= 1.5 * 0.01


def test_few_bags_teach_no_noise_of_size(rng):
    training, y = curves.simulated(rng, n=9)
    model = inverse_model(training, y, distribution=normal_labels, label_noise="size")
    assert model.fitted.coordinates.sigma_point == 0
