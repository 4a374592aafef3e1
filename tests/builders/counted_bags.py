"""Bags with counts for labels: with weights of points, some of them zero, and of a Swiss roll."""

import numpy as np

from bdr_stan import Bags


def slices_of_a_roll(n, seed, size=40):
    """Bags that are slices of a rolled-up line, whose rate grows along it; rates of all points."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(size // 2, size + size // 2, n)
    t = 1.5 * np.pi * (1 + 2 * rng.random(sizes.sum()))
    points = np.column_stack([t * np.cos(t), t * np.sin(t)])
    order = np.argsort(points[:, 1])
    rate = 0.5 * t[order]
    bags = Bags.from_points(points[order], sizes=sizes)
    return bags, np.add.reduceat(rng.poisson(rate), bags.offsets[:-1]), rate


def counts_of_weighted_points():
    """Twelve bags with weights, some of them zero, counts, and the same without those points."""
    rng = np.random.default_rng(3)
    points = [rng.normal(size=(m, 2)) * [1, 10] for m in rng.integers(2, 9, 12)]
    weights = [np.r_[rng.uniform(0.5, 3, len(x) - 1), 0.0] for x in points]
    y = [
        rng.poisson(w @ np.exp(1 + 0.5 * x[:, 0])) + 1 for x, w in zip(points, weights, strict=True)
    ]
    names = ["height", "depth"]
    with_zeros = Bags.from_list(points, weights=weights, features=names)
    without = Bags.from_list(
        [x[:-1] for x in points], weights=[w[:-1] for w in weights], features=names
    )
    return with_zeros, without, np.array(y)
