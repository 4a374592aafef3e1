"""The median rule, and the check that a number is a bandwidth."""

import numpy as np
import pytest

from bdr_stan.bags import Bags
from bdr_stan.kernels import check_bandwidth, column_spreads, median_bandwidth


def test_median_bandwidth_of_all_points(rng):
    arrays = [rng.normal(size=(n, 2)) for n in (3, 1, 6)]
    points = np.concatenate(arrays)
    squared = [np.sum((a - b) ** 2) for i, a in enumerate(points) for b in points[:i]]
    np.testing.assert_allclose(median_bandwidth(arrays), np.sqrt(np.median(squared) / 2))


def test_median_bandwidth_of_a_sample(rng):
    bags = Bags.from_points(rng.normal(size=(5000, 2)), sizes=[1000, 4000])
    sampled = median_bandwidth(bags, seed=3)
    assert sampled == median_bandwidth(bags, seed=3)
    assert sampled != median_bandwidth(bags, seed=4)
    # |x - x'|^2 is 2 chi^2_2 distributed, whose median is 4 log 2.
    np.testing.assert_allclose(sampled, np.sqrt(2 * np.log(2)), rtol=0.05)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0]], "there is only one point: give the bandwidth as a number"),
        ([[1.0]] * 4, "all sampled points coincide"),
        ([[1.0]] * 9 + [[2.0]], "most sampled points coincide, so their median distance is 0"),
    ],
)
def test_median_bandwidth_without_distances(points, message):
    with pytest.raises(ValueError, match=message):
        median_bandwidth([points])


@pytest.mark.parametrize("value", [1, 0.3, np.float32(2), [1.0, 2.0], np.array([1, 2])])
def test_positive_numbers_are_bandwidths(value):
    check_bandwidth(value, n_features=2)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "median", None, 1j])
def test_a_bandwidth_is_positive(value):
    with pytest.raises(ValueError, match="length must be a positive number, found"):
        check_bandwidth(value, "length")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 0.0, -2.0], "bandwidth of feature 1 must be a positive number, found 0.0"),
        ([1.0, 2.0, np.nan], "bandwidth of feature 2 must be a positive number, found nan"),
        (
            np.ones(2),
            "bandwidth has 2 entries, but the points have 3 features: give one number, or one for "
            "each feature",
        ),
        (np.ones((3, 3)), r"bandwidth has shape \(3, 3\): give a positive number, or one for each"),
        ([], r"bandwidth has shape \(0,\): give a positive number, or one for each feature"),
    ],
)
def test_bandwidths_are_positive_and_as_many_as_features(value, message):
    with pytest.raises(ValueError, match=message):
        check_bandwidth(value, n_features=3)


def test_spreads_of_columns():
    years_and_dollars = np.array([[20.0, 30_000.0], [40.0, 50_000.0]])
    np.testing.assert_array_equal(column_spreads(years_and_dollars), [10, 10_000])
    np.testing.assert_array_equal(column_spreads(np.array([[5.0], [5.0]])), [1])
    together = column_spreads(np.array([[0.0, 0.0, 5.0], [6.0, 8.0, 5.0]]), np.array([0, 0, 1]))
    np.testing.assert_allclose(together, [5, 5, 1])
