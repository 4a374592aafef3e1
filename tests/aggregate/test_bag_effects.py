"""bag_effects: numbers of a bag that neither its place nor its company changes."""

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.aggregate.bag_effects import standard_effects


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
