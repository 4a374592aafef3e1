"""Bags from Dirichlet processes: the labels' means and variances against those of the process."""

import numpy as np
import pytest
from scipy.integrate import quad

from data_gen.dirichlet import dirichlet_bags, influence


def moments():
    """Mean and variance of f(x) for x uniform on (0, 1)."""
    mean = quad(influence, 0, 1)[0]
    return mean, quad(lambda x: (influence(x) - mean) ** 2, 0, 1)[0]


@pytest.mark.parametrize("alpha", [2.0, 25.0])
def test_means_have_the_variance_of_the_process(alpha):
    """E of a bag's mean is that of f, its variance var(f) / (alpha + 1) (Ferguson 1973)."""
    data = dirichlet_bags(1, n_bags=4000, n_points=1, alpha=alpha)
    mean, variance = moments()
    assert data.mean.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / alpha / 4000))
    assert data.mean.var() == pytest.approx(variance / (alpha + 1), rel=0.1)


def test_points_are_those_of_the_bags_distribution():
    """With many points their average of f is the bag's own, and points repeat."""
    data = dirichlet_bags(2, n_bags=20, n_points=20_000)
    averages = [influence(points).mean() for points in data.bags]
    np.testing.assert_allclose(averages, data.mean, atol=5 * 0.25 / np.sqrt(20_000))
    assert len(np.unique(data.bags.points)) < 20 * 500
    assert data.bags.points.min() >= 0 and data.bags.points.max() <= 1


def test_noise_sizes_and_seeds():
    data = dirichlet_bags(3, n_bags=2000, n_points=2, noise=0.3)
    assert set(data.bags.sizes) == {2} and len(data.bags) == 2000
    assert np.std(data.y - data.mean) == pytest.approx(0.3, rel=0.08)
    again, other = dirichlet_bags(3, n_bags=5), dirichlet_bags(4, n_bags=5)
    np.testing.assert_array_equal(dirichlet_bags(3, n_bags=5).bags.points, again.bags.points)
    assert not np.array_equal(again.y, other.y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_bags": 0}, "n_bags must be a whole number, >= 1, found 0"),
        ({"n_points": 1.5}, "n_points must be a whole number, >= 1, found 1.5"),
        ({"alpha": 0.0}, "alpha must be a positive number, found 0.0"),
        ({"noise": -1.0}, "noise is a standard deviation and must be >= 0, found -1.0"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        dirichlet_bags(0, **arguments)
