"""Where landmarks come from, and what is wrong with some."""

import numpy as np
import pytest

from bdr_stan.bags import Bags
from bdr_stan.landmarks import KMEANS_SAMPLE, choose_landmarks


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


def test_as_many_landmarks_as_points(bags):
    few = bags[:1]
    for method in ("kmeans", "random"):
        landmarks = choose_landmarks(few, 100, method=method, seed=0)
        np.testing.assert_allclose(sorted(landmarks.tolist()), sorted(few.points.tolist()))


def test_given_landmarks_are_copied(bags):
    given = np.array([[0, 1], [1, 0]])
    landmarks = choose_landmarks(bags, method=given)
    np.testing.assert_array_equal(landmarks, given)
    assert landmarks.dtype == np.float64
    np.testing.assert_array_equal(choose_landmarks(bags, 2, method=given.tolist()), given)


REPEATED = [[[0.0, 1.0]] * 3 + [[2.0, 2.0]]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_landmarks": 301}, ValueError, "301 landmarks asked for, but the bags have 300 points"),
        ({"n_landmarks": 0}, ValueError, "n_landmarks must be an integer >= 1, found 0"),
        ({"n_landmarks": 2.5}, ValueError, "n_landmarks must be an integer >= 1, found 2.5"),
        ({}, ValueError, "n_landmarks must be an integer >= 1, found None"),
        ({"method": "grid"}, ValueError, "must be 'kmeans', 'random' or an array, found 'grid'"),
        ({"bags": REPEATED, "n_landmarks": 3}, ValueError,
         "3 landmarks asked for, but there are 2 distinct points among the 4 sampled"),
        ({"bags": REPEATED, "n_landmarks": 4, "method": "random"}, ValueError,
         "landmarks [0-3] and [0-3] are the same point: ask for fewer, or use method='kmeans'"),
        ({"method": np.zeros((2, 3))}, ValueError, r"have shape \(2, 3\), expected \(d, 2\)"),
        ({"method": np.zeros((0, 2))}, ValueError, r"have shape \(0, 2\), expected \(d, 2\)"),
        ({"method": np.zeros(2)}, ValueError, r"have shape \(2,\), expected \(d, 2\)"),
        ({"method": [["a", "b"]]}, TypeError, "not an array of numbers"),
        ({"method": [[0, 1], [np.nan, 2]]}, ValueError, "landmark 1, column 0 is nan"),
        ({"method": [[0, 1], [2, 2], [0, 1]]}, ValueError,
         "landmarks 0 and 2 are the same point: give each landmark once"),
        ({"method": [[0, 1]], "n_landmarks": 3}, ValueError,
         "n_landmarks is 3, but 1 landmarks were given: leave n_landmarks out"),
    ],
)  # fmt: skip
def test_bad_landmarks(bags, arguments, error, message):
    with pytest.raises(error, match=message):
        choose_landmarks(**({"bags": bags} | arguments), seed=0)
