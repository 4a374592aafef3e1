"""Fewer points in large bags, for rates that need every point's features.

A group of points with nearly the same features is replaced by one point at their weighted mean with
their whole weight: the error is of second order.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import numpy as np

from bdr_stan.aggregate.rows import AggregateRows, Rate, aggregate_rows, bag_means, reduced_by_bag
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array

# Power iterations for the direction of a cut; a rough direction is enough.
_ITERATIONS = 2


def thin(rows: Array, weights: Array, n_points: int) -> tuple[Array, Array]:
    """Replace the points of one bag by at most `n_points`, of the same total weight and mean.

    Starting from one group of all points, the group with the largest sum p_j |phi_j - mean|^2 is
    cut in two: this is the prior variance of f not captured by the group's mean. Returns the
    groups' weighted means and total weights. Points of weight 0 are excluded.
    """
    if n_points < 1:
        raise ValueError(f"n_points must be at least 1, found {n_points}")
    rows, weights = rows[weights > 0], weights[weights > 0]
    if len(rows) <= n_points:
        return rows, weights
    order = count()  # settles ties
    groups: list[tuple] = []

    def add(rows, weights):
        mean = weights @ rows / weights.sum()
        deviations = rows - mean
        squares = np.einsum("jk,jk->j", deviations, deviations)
        scatter = weights @ squares if len(rows) > 1 else 0.0
        heappush(groups, (-scatter, next(order), rows, weights, deviations))

    add(rows, weights)
    while len(groups) < n_points and groups[0][0] < 0:
        _, _, rows, weights, deviations = heappop(groups)
        left = _best_cut(deviations, weights)
        add(rows[left], weights[left])
        add(rows[~left], weights[~left])
    thinned = np.array([weights @ rows / weights.sum() for _, _, rows, weights, _ in groups])
    return thinned, np.array([weights.sum() for _, _, _, weights, _ in groups])


def _best_cut(deviations, weights):
    """Which points are left of the best cut across their principal direction."""
    direction = deviations[np.argmax(np.einsum("jk,jk->j", deviations, deviations))]
    for _ in range(_ITERATIONS):
        direction = direction / np.linalg.norm(direction)
        direction = (weights * (deviations @ direction)) @ deviations
    position = deviations @ direction
    order = np.argsort(position, kind="stable")
    mass = np.cumsum(weights[order])
    moment = np.cumsum((weights * position)[order])
    # What the two means' distance explains; the moments of the two sides cancel.
    explained = moment[:-1] ** 2 * (1 / mass[:-1] + 1 / (mass[-1] - mass[:-1]))
    left = np.zeros(len(deviations), bool)
    left[order[: np.argmax(explained) + 1]] = True
    return left


def thinned_bags(bags: Bags, n_points: int) -> Bags:
    """Bags of at most `n_points` weighted points each, by `thin` on standardised columns."""
    spread = bags.sample_points(2000, np.random.default_rng(0)).std(axis=0)
    spread[spread == 0] = 1.0
    thinned = thinned_rows(bags, lambda points: points / spread, n_points)
    offsets = np.append(thinned.start, len(thinned.rows))
    return Bags(thinned.rows * spread, offsets, weights=thinned.weights, copy=False)


def thinned_rows(bags: Bags, rows_of: Callable[[Array], Array], n_points: int) -> AggregateRows:
    """At most `n_points` rows per bag, from its points by `thin`; never all in memory."""

    def reduce(rows, weights):
        return thin(rows, weights, n_points)

    # A bag that is read in pieces is thinned once more.
    parts = [
        pieces[0] if len(pieces) == 1 else reduce(*map(np.concatenate, zip(*pieces, strict=True)))
        for pieces in reduced_by_bag(bags, rows_of, reduce)
    ]
    rows, weights = map(np.concatenate, zip(*parts, strict=True))
    length = np.array([len(weights) for _, weights in parts])
    return aggregate_rows(bags, rows, length, weights)


def thinning_error(
    bags: Bags,
    features: FeatureMap,
    thinned: AggregateRows,
    thetas: Array,
    rate: Rate,
) -> Array:
    """Relative error of the bags' total rates by thinning, (S, n), at `thetas`, (S, d + 1)."""
    exact = bag_means(bags, features, thetas, rate)
    return thinned.means(thetas, rate) / exact - 1
