"""Learned landmarks: the loss by its definition, its slopes by differences, and what they gain."""

import numpy as np
import pytest
from builders.reference import posterior_moments

from bdr_stan import Bags, Shrinkage
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures
from experiments import learned_landmarks as module
from experiments.learned_landmarks import ProfiledLoss, learn_landmarks, shrinkage_model

SCALES = {"sigma": 0.3, "rho": 1.5, "eta": 0.2}


@pytest.fixture
def problem(rng):
    """Bags of a feature that counts and one that does not; some of one point, many of a size."""
    sizes = np.tile([1, 3, 3, 8, 8, 8, 40, 40, 5, 3], 3)
    centres = rng.uniform(-1.5, 1.5, 30)
    points = rng.normal(np.repeat(centres, sizes)[:, None] * [1, 0], [0.5, 1.5])
    return Bags.from_points(points, sizes=sizes), np.sin(2 * centres) + 0.1 * rng.normal(size=30)


def loss_of(bags, y, bandwidth):
    """Loss of the model with four landmarks, and those that it starts from."""
    model = Shrinkage(4, embedding_prior="kernel", bandwidth=bandwidth)
    training = model.training_features(bags, seed=0)
    prior = shrinkage_model(training, y).intercept_prior
    return ProfiledLoss(model, bags, y, SCALES, prior), training.landmarks


def difference(loss, landmarks, bandwidth, du, dlog, step=1e-5):
    """Slope of the loss along a direction, by a central difference."""
    up, down = (loss(landmarks + h * du, bandwidth * np.exp(h * dlog))[0] for h in (step, -step))
    return (up - down) / (2 * step)


@pytest.mark.parametrize("bandwidth", [1.2, np.array([0.8, 2.0])])
def test_slopes_are_differences(problem, bandwidth):
    bags, y = problem
    loss, u = loss_of(bags, y, bandwidth)
    _, by_landmarks, by_log_bandwidth = loss(u, bandwidth)
    expected = np.empty_like(u)
    for k in np.ndindex(u.shape):
        along = np.zeros_like(u)
        along[k] = 1
        expected[k] = difference(loss, u, bandwidth, along, 0)
    np.testing.assert_allclose(by_landmarks, expected, atol=1e-5 * np.abs(expected).max())
    steps = np.eye(2) if np.ndim(bandwidth) else [1.0]
    expected = [difference(loss, u, bandwidth, 0, step) for step in steps]
    np.testing.assert_allclose(np.atleast_1d(by_log_bandwidth), expected, rtol=1e-5)


def test_loss_is_the_penalised_likelihood_at_its_lowest(problem, rng):
    bags, y = problem
    loss, u = loss_of(bags, y, 1.2)
    value, _, _ = loss(u, 1.2)
    alpha, intercept = loss.mode_found
    embedding = embed(bags, LandmarkFeatures(RBF(1.2), u), covariance=True)
    K, Sigma = RBF(1.2)(u, u) + 1e-4 * np.eye(4), embedding.covariance + 1e-4 * np.eye(4)
    m0 = embedding.mean.mean(axis=0)
    M, C = posterior_moments(embedding.mean, embedding.sizes, m0, Sigma, K, SCALES["eta"])
    location, spread = np.mean(y), 2.5 * np.std(y)

    def by_definition(alpha, intercept):
        xi = intercept + (M - m0) @ alpha
        nu = np.einsum("d,nde,e->n", alpha, C, alpha) + SCALES["sigma"] ** 2
        likelihood = np.sum(0.5 * np.log(2 * np.pi * nu) + 0.5 * (y - xi) ** 2 / nu)
        penalty = alpha @ K @ alpha / SCALES["rho"] ** 2 + ((intercept - location) / spread) ** 2
        return (likelihood + 0.5 * penalty) / len(y)

    assert value == pytest.approx(by_definition(alpha, intercept), rel=1e-9)
    for _ in range(20):
        assert by_definition(alpha + 0.01 * rng.normal(size=4), intercept) > value
        assert by_definition(alpha, intercept + 0.01 * rng.normal()) > value


@pytest.mark.parametrize("bandwidth", ["median", [1.0, 1.0]])
def test_learning_lowers_the_held_out_nll(rng, bandwidth):
    centres = rng.uniform(-1, 1, 120)
    bags = [rng.normal([c, 0], [0.3, 2], (rng.choice([5, 30]), 2)) for c in centres]
    bags, y = Bags.from_list(bags), np.sin(3 * centres) + 0.05 * rng.normal(size=120)
    train, held = (bags[:80], y[:80]), (bags[80:], y[80:])
    model = Shrinkage(5, embedding_prior="kernel", bandwidth=bandwidth)
    learned = learn_landmarks(model, *train, validation=held, seed=1, max_iter=25)
    assert type(learned) is Shrinkage and not hasattr(learned, "landmarks_")
    assert learned.landmarks.shape == (5, 2) and learned.bandwidth_scale == 1.0
    assert np.shape(learned.bandwidth) == (() if bandwidth == "median" else (2,))

    def nll(model):
        return -model.fit(*train, seed=1).predictive(held[0]).log_prob(held[1]).mean()

    assert nll(learned) < nll(model) - 0.1
    if bandwidth != "median":
        assert learned.bandwidth[1] > 1.5 * learned.bandwidth[0]


def test_learning_is_reproducible_and_starts_at_the_models_landmarks(problem, monkeypatch):
    bags, y = problem
    model = Shrinkage(4, embedding_prior="kernel", bandwidth="median", bandwidth_scale=0.8)
    settings = {"validation": (bags, y), "max_iter": 3, "seed": 2}
    one, two = (learn_landmarks(model, bags, y, **settings) for _ in range(2))
    np.testing.assert_array_equal(one.landmarks, two.landmarks)
    assert one.bandwidth == two.bandwidth
    # Nothing held out is predicted better by what comes after: the start it is.
    scores = iter(range(100))
    monkeypatch.setattr(module, "held_out_nll", lambda *a: float(next(scores)))
    start = model.training_features(bags, seed=2)
    kept = learn_landmarks(model, bags, y, **settings)
    np.testing.assert_allclose(kept.landmarks, start.landmarks, rtol=1e-12)
    assert kept.bandwidth == pytest.approx(start.bandwidth)
