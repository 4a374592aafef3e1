"""Effects of bags that were in no fit: random numbers that belong to a bag, not to its place."""

import hashlib

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.types import Array


def standard_effects(bags: Bags, n_draws: int) -> Array:
    """Standard normal numbers of each bag, one for each posterior draw.

    A bag's points and weights are the seed of its numbers: they are the same whatever bags it is
    predicted with, in whatever order its points come, and those of different bags are independent.

    Parameters
    ----------
    bags : Bags
    n_draws : int

    Returns
    -------
    array, shape (n_draws, n)
    """
    effects = np.empty((n_draws, len(bags)))
    for i in range(len(bags)):
        rng = np.random.default_rng(_seed(bags, i))
        effects[:, i] = rng.standard_normal(n_draws)
    return effects


def _seed(bags, i):
    """A number that the content of a bag determines, and not the order of its points."""
    rows = np.array(bags[i], np.float64)
    if bags.weights is not None:
        at = slice(bags.offsets[i], bags.offsets[i + 1])
        rows = np.column_stack([rows, bags.weights[at]])
    rows += 0.0  # -0 is 0
    ordered = np.ascontiguousarray(rows[np.lexsort(rows.T)])
    return int.from_bytes(hashlib.sha256(ordered.tobytes()).digest(), "little")
