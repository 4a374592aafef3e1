"""Bags of a location family: the label of a bag is where its points lie."""

import numpy as np
from numpy.typing import NDArray


def location_family(
    seed: int, n_bags: int, *, largest: int, singles: int = 2, n_features: int = 2
) -> tuple[list[NDArray], NDArray]:
    """Bags, a list of arrays, and their labels, 3 more than the location.

    Points are normal around the location with sd 1; `singles` of the bags have one point, the
    others from 2 to `largest`.
    """
    rng = np.random.default_rng(seed)
    several = rng.integers(2, largest + 1, n_bags - singles)
    sizes = rng.permutation(np.concatenate([np.ones(singles, int), several]))
    centres = rng.normal(size=n_bags)
    bags = [c + rng.normal(size=(m, n_features)) for c, m in zip(centres, sizes, strict=True)]
    return bags, 3 + centres
