"""Bags of several sizes, and means over all pairs of their points in plain loops."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from bdr_stan.bags import Bags


def bags_of(
    rng: np.random.Generator, sizes: Iterable[int], p: int = 3, weighted: bool = True
) -> Bags:
    """Bags of these sizes, far from the origin, each around a centre of its own."""
    arrays = [rng.normal(2 * rng.normal(size=p) + 50, 1, (size, p)) for size in sizes]
    weights = [rng.uniform(0, 2, len(array)) for array in arrays] if weighted else None
    return Bags.from_list(arrays, weights=weights)


def weights_of(bags: Bags, i: int) -> NDArray:
    """Weights of the points of bag i, of sum 1."""
    if bags.weights is None:
        return np.full(bags.sizes[i], 1 / bags.sizes[i])
    own = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
    return own / own.sum()


def double_loop(bags: Bags, others: Bags, value: Callable[[NDArray, NDArray], NDArray]) -> NDArray:
    """value(x, y) of all pairs of points, averaged by weight."""
    return np.array(
        [
            [
                weights_of(bags, i) @ value(a, b) @ weights_of(others, j)
                for j, b in enumerate(others)
            ]
            for i, a in enumerate(bags)
        ]
    )
