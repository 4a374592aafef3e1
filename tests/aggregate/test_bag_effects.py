"""bag_effects: numbers of a bag that neither its place nor its company changes."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bdr_stan import Bags
from bdr_stan.aggregate.bag_effects import (
    TrainingEffects,
    dispersion_inside,
    gamma_effects,
    standard_effects,
    training_bags,
)


def country(weighted):
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, 60)
    points = rng.normal(size=(sizes.sum(), 2))
    weights = rng.uniform(1, 2, len(points)) if weighted else None
    return Bags.from_points(points, sizes=sizes, weights=weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_company_and_order_do_not_matter(weighted):
    bags = country(weighted)
    together = standard_effects(bags, 50)
    chosen = np.array([7, 3, 20])
    np.testing.assert_array_equal(standard_effects(bags[chosen], 50), together[:, chosen])
    turned = Bags.from_list(
        [bag[::-1] for bag in bags],
        weights=[bags.weights[a:b][::-1] for a, b in zip(bags.offsets, bags.offsets[1:])]
        if weighted
        else None,
    )
    np.testing.assert_array_equal(standard_effects(turned, 50), together)


def test_numbers_are_standard_normal_and_differ_between_bags():
    effects = standard_effects(country(weighted=False), 4000)
    assert np.abs(effects.mean(axis=0)).max() < 5 / np.sqrt(4000)
    assert np.abs(effects.var(axis=0) - 1).max() < 5 * np.sqrt(2 / 4000)
    between = np.corrcoef(effects.T)[np.triu_indices(60, 1)]
    assert np.abs(between).max() < 5.5 / np.sqrt(4000)


@pytest.mark.parametrize("y, mean, dispersion", [(0, 3.0, 0.8), (7, 3.0, 0.8), (900, 700.0, 0.05)])
def test_gamma_effects_are_the_posterior_by_integration(y, mean, dispersion):
    """Prior times Poisson likelihood, normalised by quadrature."""
    shape = dispersion**-2.0

    def density(g):
        return stats.gamma.pdf(g, shape, scale=1 / shape) * stats.poisson.pmf(y, g * mean)

    ends = np.geomspace(1e-6, 30, 200)
    total = sum(quad(density, a, b)[0] for a, b in pairwise(ends))
    negative_binomial = stats.nbinom.pmf(y, shape, 1 / (1 + dispersion**2 * mean))
    assert total == pytest.approx(negative_binomial, rel=1e-4)  # what is summed over
    expected = sum(quad(lambda g: g * density(g), a, b)[0] for a, b in pairwise(ends)) / total
    S = 40_000
    drawn = np.exp(gamma_effects(np.array([y]), np.full((S, 1), mean), np.full(S, dispersion), 1))
    assert drawn.mean() == pytest.approx(expected, abs=5 * drawn.std() / np.sqrt(S))
    below = sum(quad(density, a, b)[0] for a, b in pairwise(ends) if b <= ends[150]) / total
    assert np.mean(drawn < ends[150]) == pytest.approx(below, abs=5 * 0.5 / np.sqrt(S))
    mode = gamma_effects(np.array([y]), np.array([[mean]]), np.array([dispersion]))
    assert np.exp(mode[0, 0]) == pytest.approx(expected, rel=1e-4)


def test_gamma_effects_vanish_with_the_dispersion_and_are_finite_where_it_is_large():
    small = gamma_effects(np.array([3, 500]), np.full((50, 2), 10.0), np.full(50, 1e-8), 1)
    np.testing.assert_allclose(small, 0, atol=1e-6)
    large = gamma_effects(np.array([0, 0]), np.full((50, 2), 10.0), np.full(50, 30.0), 1)
    assert np.isfinite(large).all()


def test_training_bags_have_the_same_id_and_the_same_points():
    bags = Bags.from_points(np.arange(12.0)[:, None], bag=np.repeat(["a", "b", "c"], 4))
    means = np.array([[1.5], [5.5], [9.5]])
    np.testing.assert_array_equal(training_bags(bags[[2, 0]], bags.ids, means), [2, 0])
    other = Bags.from_points(np.arange(12.0)[::-1, None], bag=np.repeat(["a", "b", "c"], 4))
    np.testing.assert_array_equal(training_bags(other, bags.ids, means), [-1, 1, -1])
    nameless = Bags(bags.points, bags.offsets)
    np.testing.assert_array_equal(training_bags(nameless, np.arange(3), means), [-1, -1, -1])
    named = Bags(bags.points, bags.offsets, ids=["a", "x", "c"])
    np.testing.assert_array_equal(training_bags(named, bags.ids, means), [0, -1, 2])
    moved = Bags(bags.points + 0.01, bags.offsets, ids=bags.ids)
    np.testing.assert_array_equal(training_bags(moved, bags.ids, means), [-1, -1, -1])


def test_districts_are_found_by_id():
    training = TrainingEffects(np.zeros((1, 2)), np.array(["10", "20"]), None)
    numbers = training.numbers([20, None, "10", np.nan], "bag")
    np.testing.assert_array_equal(numbers, [1, -1, 0, -1])
    with pytest.raises(ValueError, match="district 'x' of point 1 is not a bag of the fit"):
        training.numbers(["10", "x"], "point")


def test_scatter_inside_a_training_bag():
    """A part whose expected label is larger than the training bag's has no less scatter than it."""
    share, itself = np.array([1, 1 / 16, 1, 1.5]), np.array([0, 0, 1, 0])
    found = dispersion_inside(np.array([0.2, 0.4]), share, itself)
    np.testing.assert_allclose(found, [[0.2, 0.4, 0, 0.2], [0.4, 0.8, 0, 0.4]])


@pytest.mark.parametrize("means, found", [(np.array([[1.5], [5.5]]), [1, 0]), (None, [-1, -1])])
def test_training_bags_keep_their_effects_where_their_mean_points_are_known(means, found):
    bags = Bags.from_points(np.arange(8.0)[:, None], bag=np.repeat(["a", "b"], 4))
    effects = np.array([[0.1, 0.2]])
    known = TrainingEffects(effects, bags.ids, means)
    number, itself = known.districts(bags[[1, 0]], True)
    assert number.tolist() == found and itself.tolist() == [i >= 0 for i in found]
    assert known.districts(bags, False)[0].tolist() == [-1, -1]
    number, itself = known.districts(bags, ["b", "b"])
    assert number.tolist() == [1, 1] and itself.tolist() == [False, means is not None]


def test_effects_of_bags_are_known_of_training_bags_and_drawn_for_the_rest():
    """Of a part of a training bag, the rate of which has the same mean, both."""
    bags = Bags.from_points(np.arange(12.0)[:, None], bag=np.repeat(["a", "b", "c"], 4))
    known = TrainingEffects(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array(["x", "y"]), None)
    number, itself = np.array([1, 0, -1]), np.array([True, False, False])
    tau = np.array([0.5, 2.0])
    drawn = tau[:, None] * standard_effects(bags, 2)
    part = known.effects[:, 0] + drawn[:, 1] - tau**2 / 2
    found = known.of_bags(bags, number, itself, tau)
    np.testing.assert_allclose(found, np.column_stack([[0.2, 0.4], part, drawn[:, 2]]))
    without = known.of_bags(bags, number, itself, None)
    np.testing.assert_allclose(without, [[0.2, 0.1, 0], [0.4, 0.3, 0]])
    new = np.full(3, -1)
    np.testing.assert_allclose(known.of_bags(bags, new, new >= 0, tau), drawn)
    assert known.of_bags(bags, new, new >= 0, None) is None
