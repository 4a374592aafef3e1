"""Where landmarks come from, and what is wrong with some."""

import numpy as np
import pytest

from bdr_stan.bags import Bags
from bdr_stan.embedding.landmarks import (
    KMEANS_SAMPLE,
    check_kernel_reaches,
    choose_landmarks,
    landmarks_of_kernel,
    row_of_each_bag,
)
from bdr_stan.kernels import RBF
from bdr_stan.kernels.inner_products import LinearEffects


@pytest.fixture
def bags(rng):
    return Bags.from_points(rng.normal(size=(300, 2)), sizes=[100, 1, 199])


def test_random_is_the_choice_of_the_papers(bags):
    rows = np.random.RandomState(23).choice(300, 10, replace=False)
    landmarks = choose_landmarks(bags, 10, method="random", seed=23)
    np.testing.assert_array_equal(landmarks, bags.points[rows])


def test_random_from_a_memory_map(bags, tmp_path):
    np.save(tmp_path / "points.npy", bags.points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    for method in ("random", "kmeans"):
        np.testing.assert_array_equal(
            choose_landmarks(Bags.from_points(mapped, sizes=bags.sizes), 10, method=method, seed=1),
            choose_landmarks(bags, 10, method=method, seed=1),
        )


@pytest.mark.parametrize("method", ["kmeans", "random"])
def test_seeds(bags, method):
    first = choose_landmarks(bags, 5, method=method, seed=1)
    assert first.shape == (5, 2) and first.dtype == np.float64
    np.testing.assert_array_equal(first, choose_landmarks(bags, 5, method=method, seed=1))
    assert not np.array_equal(first, choose_landmarks(bags, 5, method=method, seed=2))
    generators = [
        choose_landmarks(bags, 5, method=method, seed=np.random.default_rng(1)) for _ in range(2)
    ]
    np.testing.assert_array_equal(*generators)


def test_kmeans_finds_clusters(rng):
    centres = np.array([[0.0, 0], [10, 0], [0, 10], [10, 10]])
    bags = list(centres[:, None] + 0.1 * rng.normal(size=(4, 50, 2)))
    landmarks = choose_landmarks(bags, 4, seed=0)
    expected = sorted(np.mean(bags, axis=1).tolist())
    np.testing.assert_allclose(sorted(landmarks.tolist()), expected, rtol=1e-10)


def test_kmeans_samples_large_data(rng):
    bags = Bags.from_points(rng.normal(size=(KMEANS_SAMPLE + 5000, 1)).astype("f4"), sizes=[25000])
    assert choose_landmarks(bags, 3, seed=0).dtype == np.float64


def test_scale_lets_columns_of_other_units_count_alike(rng):
    """Two clusters a million units apart in one column, two a unit apart in the other."""
    centres = np.array([[0.0, 0], [1e6, 0], [0, 1], [1e6, 1]])
    bags = list(centres[:, None] + np.array([3e5, 0.05]) * rng.normal(size=(4, 50, 2)))
    halves = [choose_landmarks(bags, 2, scale=scale, seed=0) for scale in (None, [1e7, 0.5])]
    first, second = (np.ptp(landmarks, axis=0) for landmarks in halves)
    assert first[0] > 5e5 and first[1] < 0.3
    assert second[0] < 3e5 and second[1] > 0.9


def test_scale_of_one_for_all_changes_nothing(bags):
    one, other = (choose_landmarks(bags, 5, scale=scale, seed=1) for scale in (None, [4.0, 4.0]))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_one_landmark_per_bag(bags):
    for seed in range(5):
        landmarks = choose_landmarks(bags, method="one per bag", seed=seed)
        assert landmarks.shape == (3, 2) and landmarks.dtype == np.float64
        for landmark, bag in zip(landmarks, bags, strict=True):
            assert np.any(np.all(landmark == bag, axis=1))
        np.testing.assert_array_equal(
            landmarks, choose_landmarks(bags, method="one per bag", seed=seed)
        )
    with pytest.raises(ValueError, match="0 and 1 are the same point: use method='kmeans'"):
        choose_landmarks([[[1.0]], [[1.0]]], method="one per bag")


def test_one_landmark_per_bag_follows_the_weights(rng):
    weights = [[0, 5, 0], [1, 0, 3]]
    bags = Bags.from_list([[[0.0], [1], [2]], [[3.0], [4], [5]]], weights=weights)
    draws = [choose_landmarks(bags, method="one per bag", seed=s).ravel() for s in range(400)]
    assert set(np.transpose(draws)[0]) == {1.0} and set(np.transpose(draws)[1]) == {3.0, 5.0}
    assert np.mean(np.transpose(draws)[1] == 5) == pytest.approx(0.75, abs=0.09)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_stand_for_their_bags(rng, weighted):
    """Each point appears with a probability of its share, and one of each bag."""
    sizes = [1, 40, 7]
    weights = rng.gamma(0.5, 1e3, 48)
    weights[[3, 44]] = 0
    points = rng.normal(size=(48, 2))
    bags = Bags.from_points(points, sizes=sizes, weights=weights if weighted else None)
    counts = np.array(
        [
            np.bincount(row_of_each_bag(bags, np.random.default_rng(s)), minlength=48)
            for s in range(800)
        ]
    )
    p = weights if weighted else np.ones(48)
    total = np.repeat(np.add.reduceat(p, bags.offsets[:-1]), sizes)
    expected = p / total
    np.testing.assert_array_equal(np.add.reduceat(counts, bags.offsets[:-1], axis=1), 1)
    error = np.sqrt(expected * (1 - expected) / 800)
    np.testing.assert_array_less(np.abs(counts.mean(axis=0) - expected), 4.5 * error + 1e-9)


def test_rows_lie_in_their_bags_whatever_the_weights(rng):
    """Beside a bag of huge weights another's are lost to rounding, but not its points."""
    bags = Bags.from_list([[[0.0], [1.0]], [[2.0], [3.0]]], weights=[[1e20, 1e20], [1.0, 1.0]])
    rows = np.array([row_of_each_bag(bags, rng) for _ in range(8)])
    assert np.all(rows[:, 0] < 2) and np.all(rows[:, 1] >= 2)


@pytest.mark.parametrize("n_landmarks", [100, 160])
def test_of_few_points_all_are_landmarks(bags, n_landmarks):
    few = bags[:1]
    for method in ("kmeans", "random"):
        landmarks = choose_landmarks(few, n_landmarks, method=method, seed=0)
        np.testing.assert_allclose(sorted(landmarks.tolist()), sorted(few.points.tolist()))


def test_given_landmarks_are_copied(bags):
    given = np.array([[0, 1], [1, 0]])
    landmarks = choose_landmarks(bags, method=given)
    np.testing.assert_array_equal(landmarks, given)
    assert landmarks.dtype == np.float64
    np.testing.assert_array_equal(choose_landmarks(bags, 2, method=given.tolist()), given)


REPEATED = [[[0.0, 1.0]] * 3 + [[2.0, 2.0]]]


def test_few_distinct_points_are_all_landmarks():
    found = choose_landmarks(REPEATED, 3, seed=1)
    np.testing.assert_array_equal(found, [[0, 1], [2, 2]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_landmarks": 0}, ValueError, "n_landmarks must be an integer >= 1, found 0"),
        ({"n_landmarks": 2.5}, ValueError, "n_landmarks must be an integer >= 1, found 2.5"),
        ({}, ValueError, "n_landmarks must be an integer >= 1, found None"),
        ({"method": "grid"}, ValueError,
         "'kmeans', 'random', 'one per bag' or an array, found 'grid'"),
        ({"bags": REPEATED, "n_landmarks": 4, "method": "random"}, ValueError,
         "landmarks [0-3] and [0-3] are the same point: ask for fewer, or use method='kmeans'"),
        ({"method": np.zeros((2, 3))}, ValueError, r"have shape \(2, 3\), expected \(d, 2\)"),
        ({"method": np.zeros((0, 2))}, ValueError, r"have shape \(0, 2\), expected \(d, 2\)"),
        ({"method": np.zeros(2)}, ValueError, r"have shape \(2,\), expected \(d, 2\)"),
        ({"method": [["a", "b"]]}, TypeError, "not an array of numbers"),
        ({"method": [[0, 1], [np.nan, 2]]}, ValueError, "landmark 1, column 0 is nan"),
        ({"method": [[0, 1], [2, 2], [0, 1]]}, ValueError,
         "landmarks 0 and 2 are the same point: give each landmark once"),
    ],
)  # fmt: skip
def test_bad_landmarks(bags, arguments, error, message):
    with pytest.raises(error, match=message):
        choose_landmarks(**({"bags": bags} | arguments), seed=0)


def test_kernel_must_reach_half_of_the_landmarks_not_of_the_points():
    values = np.zeros((9, 2))
    values[0] = 1.0, -1.0
    check_kernel_reaches(RBF(0.1), values)
    values[0, 1] = 0.0
    check_kernel_reaches(RBF(0.1), values)
    with pytest.raises(ValueError, match="between all points and 2 of 2 landmarks"):
        check_kernel_reaches(RBF(0.1), values[1:])


def test_one_landmark_is_enough(bags):
    assert choose_landmarks(bags, 1, seed=0).shape == (1, 2)


@pytest.mark.parametrize("effects_first", [True, False])
def test_linear_effects_have_landmarks_along_their_columns(rng, effects_first):
    """One for each column, 1.5 standard deviations from the mean; the rest is of the others."""
    points = rng.normal([0, 5, 900], [1, 2, 40], size=(60, 3))
    summands = LinearEffects(columns=[0, 2]), RBF(1.0, columns=[1])
    first, second = summands if effects_first else summands[::-1]
    found = landmarks_of_kernel(first + second, Bags(points, [0, 20, 60]), 6, seed=0)
    mean, sd = points.mean(axis=0), points.std(axis=0)
    expected = [[mean[0] + 1.5 * sd[0], np.nan, mean[2]], [mean[0], np.nan, mean[2] + 1.5 * sd[2]]]
    np.testing.assert_allclose(found[:2], expected, rtol=0.05)
    assert np.isnan(found[2:, [0, 2]]).all() and np.isfinite(found[2:, 1]).all()
    assert len(found) == 6
