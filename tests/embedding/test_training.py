"""From bags to what a fit needs: choices as asked for, one pass over the points."""

from dataclasses import replace

import numpy as np
import pytest
from builders.kernels import COLUMNS, DEFINITIONS
from builders.training import labelled_bags

from bdr_stan.bags import Bags
from bdr_stan.embedding.landmarks import choose_landmarks, landmarks_of_kernel
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.training import TrainingFeatures, training_features
from bdr_stan.kernels import (
    RBF,
    Cauchy,
    Matern32,
    NystromFeatures,
    landmark_features,
    resolve_kernel,
)


@pytest.fixture
def bags(rng):
    return labelled_bags(rng)[0]


def assert_same_embedding(found, expected):
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_array_equal(found.sizes, expected.sizes)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-12, atol=1e-15)


def test_defaults(bags):
    training = training_features(bags, n_landmarks=7, seed=3)
    assert type(training.kernel) is RBF
    kernel = RBF().resolved(bags, seed=3)
    np.testing.assert_array_equal(training.bandwidth, kernel.lengths)
    u = choose_landmarks(bags, 7, scale=kernel.lengths, seed=3)
    np.testing.assert_array_equal(training.landmarks, u)
    assert training.feature_map.kernel is training.kernel
    assert training.record.features == COLUMNS
    within = embed(bags, training.feature_map, covariance=True).covariance
    np.testing.assert_allclose(training.embedding.covariance, within)
    np.testing.assert_array_equal(training.record.index, range(len(bags)))
    assert training_features(bags).landmarks.shape == (60, 3)


@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("landmarks", ["kmeans", "random"])
@pytest.mark.parametrize(
    ("kernel", "bandwidth"),
    [("matern32", 0.8), ("rbf", [0.5, 1.0, 2.0]), (DEFINITIONS["sum of a product"][0], "scaled")],
)
def test_choices_are_those_of_each_step(bags, kernel, bandwidth, landmarks, covariance):
    training = training_features(
        bags, kernel=kernel, bandwidth=bandwidth, bandwidth_scale=1.5, n_landmarks=5,
        landmarks=landmarks, covariance=covariance, seed=2,
    )  # fmt: skip
    resolved = resolve_kernel(kernel, bandwidth, bags, seed=2, scale=1.5)
    u = landmarks_of_kernel(resolved, bags, 5, method=landmarks, seed=2)
    np.testing.assert_array_equal(training.landmarks, u)
    np.testing.assert_array_equal(training.kernel(u, u), resolved(u, u))
    features = landmark_features(resolved, u)
    expected = embed(bags, features, covariance=covariance)
    if not covariance:  # from some of the points, here from all
        within = embed(bags, features, covariance=True).covariance
        expected = replace(expected, covariance=within)
    assert_same_embedding(training.embedding, expected)


def test_given_landmarks_need_no_number(bags):
    u = np.arange(6.0).reshape(2, 3)
    training = training_features(bags, landmarks=u.tolist(), n_landmarks=60, bandwidth=1.0)
    np.testing.assert_array_equal(training.landmarks, u)


def test_the_bandwidth_is_that_of_a_single_kernel(bags):
    u = np.eye(3)
    for kernel, bandwidth in [(Cauchy(2.0), 2.0), (RBF(1.0) + Matern32(2.0), None)]:
        assert training_features(bags, kernel=kernel, landmarks=u).bandwidth == bandwidth


def test_new_points_go_through_the_same_map(bags):
    training = training_features(bags, n_landmarks=4, seed=1)
    np.testing.assert_allclose(
        training.feature_map(bags[3]).mean(axis=0), training.embedding.mean[3], rtol=1e-12
    )


def test_ids_of_the_bags_are_the_index(rng):
    bags = Bags.from_list([rng.normal(size=(3, 1)) for _ in range(3)], ids=["x", "y", "z"])
    training = training_features(bags, n_landmarks=2, seed=0)
    assert list(training.record.index) == ["x", "y", "z"]
    assert training.record.features is None
    as_list = training_features(list(bags), n_landmarks=2, seed=0)
    assert list(as_list.record.index) == [0, 1, 2]
    assert_same_embedding(as_list.embedding, training.embedding)


def test_take_some_of_the_bags(bags):
    whole = training_features(bags, n_landmarks=4, covariance=True, seed=1)
    some = whole.take([5, 0])
    np.testing.assert_array_equal(some.record.index, [5, 0])
    np.testing.assert_array_equal(some.embedding.mean, whole.embedding.mean[[5, 0]])
    assert some.embedding.covariance is whole.embedding.covariance
    assert (some.feature_map, some.kernel) == (whole.feature_map, whole.kernel)
    assert some.record.features == whole.record.features


def test_landmarks_of_other_maps(bags, rng):
    u = rng.normal(size=(4, 3))
    feature_map = NystromFeatures(RBF(1.0), u)
    training = TrainingFeatures(feature_map, RBF(1.0), embed(bags, feature_map), bags.index)
    np.testing.assert_array_equal(training.landmarks, u)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"kernel": "cosine"},
            "kernel must be a Kernel, 'auto' or one of 'rbf', .* found 'cosine'",
        ),
        ({"kernel": RBF(columns=["z"])}, "the column 'z', which the points do not have"),
        ({"kernel": RBF(1.0), "bandwidth": 2.0}, "goes with the name of a kernel"),
        ({"landmarks": "grid"}, "'one per bag' or an array, found 'grid'"),
        ({"landmarks": np.zeros((1, 2))}, r"have shape \(1, 2\), expected \(d, 3\)"),
        ({"n_landmarks": 0}, "n_landmarks must be an integer >= 1, found 0"),
    ],
)
def test_choices_that_are_refused(bags, choices, message):
    with pytest.raises(ValueError, match=message):
        training_features(bags, **choices)


def test_bags_that_do_not_differ_are_refused(rng):
    points = rng.normal(size=(5, 2))
    with pytest.raises(ValueError, match="all bags have the same mean embedding by bandwidth="):
        training_features(Bags.from_list([points, points[::-1]]), bandwidth=1.0, n_landmarks=3)
    training_features(Bags.from_list([points, points[1:]]), bandwidth=1.0, n_landmarks=3)
