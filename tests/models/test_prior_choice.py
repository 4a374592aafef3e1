"""The variance of linear effects by highest evidence, with the features as they are."""

from dataclasses import replace

import numpy as np
import pytest

from bdr_stan import BDR, RBF, BDRClassifier, Shrinkage
from bdr_stan.embedding.training import training_features
from bdr_stan.kernels import LinearEffects, fields_of, landmark_features
from bdr_stan.kernels.names import LINEAR_VARIANCE, with_linear_variance
from bdr_stan.labels import Labels
from bdr_stan.models import embedding_model
from bdr_stan.models.bdr import BDRModel
from bdr_stan.models.embedding_model import precision_for

SETTINGS = {"n_landmarks": 30, "random_state": 1}


def bags_of(seed, n=120, n_columns=4, sd=1.0):
    """Bags of 1 to 20 points with standard deviation `sd` around their centres, and these."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n, n_columns))
    return [rng.normal(c, sd, (rng.integers(1, 21), n_columns)) for c in centres], centres


@pytest.mark.parametrize("variance", [0.5, 3.0, 300.0])
def test_functions_have_the_prior_of_a_kernel_of_that_variance(variance, monkeypatch):
    """Prior covariance of the functions' values at points, from both parametrisations."""
    monkeypatch.setattr(embedding_model, "JITTER", 0.0)
    bags, _ = bags_of(0)
    training = training_features(bags, kernel="linear + rbf", n_landmarks=30, seed=1)
    points = np.concatenate(bags[:5])
    values = training.feature_map(points)
    found = values @ np.linalg.solve(precision_for(training, variance), values.T)
    kernel = with_linear_variance(training.kernel, variance)
    features = landmark_features(kernel, training.landmarks)
    expected = features(points) @ np.linalg.solve(features.gram(), features(points).T)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * variance)


def test_only_linear_effects_change():
    training = training_features(bags_of(0)[0], kernel="linear + rbf", n_landmarks=30, seed=1)
    one, other = training.kernel, with_linear_variance(training.kernel, 7.0)
    assert len(fields_of(one)) == 4 + 4 + 1
    for before, after in zip(fields_of(one), fields_of(other), strict=True):
        is_linear = type(before) is LinearEffects
        assert before.variance == (LINEAR_VARIANCE if is_linear else 1.0)
        assert repr(after) == repr(replace(before, variance=7.0) if is_linear else before)


@pytest.mark.parametrize("seed", range(3))
def test_labels_linear_in_means_choose_a_large_variance(seed):
    bags, centres = bags_of(seed)
    y = centres @ [1.0, -0.5, 0.3, 0.0] + 0.2 * np.random.default_rng(seed).normal(size=len(bags))
    model = BDR(method="laplace", **SETTINGS).fit(bags, y, seed=1)
    assert model.linear_variance_ >= 30


@pytest.mark.parametrize("seed", range(3))
def test_curved_labels_keep_the_small_one(seed):
    bags, centres = bags_of(seed, n=200, n_columns=1, sd=0.3)
    y = np.sin(3 * centres[:, 0]) + np.random.default_rng(seed).normal(size=len(bags)) / 10
    model = Shrinkage(**SETTINGS).fit(bags, y, seed=1)
    assert model.linear_variance_ == LINEAR_VARIANCE


def test_it_is_that_of_highest_evidence():
    bags, centres = bags_of(1)
    model = BDR(method="laplace", **SETTINGS).fit(bags, centres[:, 0], seed=1)
    training = model.training_features(bags, seed=1)
    assert BDRModel.of_training(training, Labels(centres[:, 0])).constants["linear_variance"][
        0
    ] == (model.linear_variance_)


def test_classifiers_have_it_too():
    bags, centres = bags_of(2)
    y = centres[:, 0] > 0
    model = BDRClassifier(method="laplace", **SETTINGS).fit(bags, y, seed=1)
    assert np.mean(model.predict(bags) == y) > 0.85


def test_kernels_that_are_given_keep_their_variances():
    bags, centres = bags_of(0)
    model = Shrinkage(kernel=RBF(), **SETTINGS).fit(bags, centres[:, 0], seed=1)
    assert not hasattr(model, "linear_variance_")
