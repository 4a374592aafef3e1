"""Bags as their mean points."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points

from bdr_stan.aggregate.rows import mean_points


def test_mean_points():
    bags, without, _ = counts_of_weighted_points()
    pixels = mean_points(bags)
    assert pixels.sizes.tolist() == [1] * 12
    for i in range(12):
        w = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
        np.testing.assert_allclose(pixels[i][0], np.average(bags[i], axis=0, weights=w))
        assert pixels.weights[i] == pytest.approx(w.sum())
    np.testing.assert_allclose(mean_points(without).points, pixels.points)
    assert pixels.features == ["height", "depth"]
    twice = mean_points(pixels)
    np.testing.assert_allclose(twice.points, pixels.points)
    plain = mean_points([np.array([[1.0], [2], [6]]), np.array([[4.0]])])
    np.testing.assert_allclose(plain.points, [[3], [4]])
    np.testing.assert_allclose(plain.weights, [3, 1])
