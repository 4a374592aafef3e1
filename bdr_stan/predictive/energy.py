"""Expected distances between labels of predictive distributions, by even quantiles."""

from typing import Any

import numpy as np

from bdr_stan.types import Array

_N_LEVELS = 200


def even_quantiles(predictive: Any) -> Array:
    """Quantiles that stand for each of n distributions, ascending, shape (200, n)."""
    return predictive.quantile((np.arange(_N_LEVELS) + 0.5) / _N_LEVELS)


def distance_to(y: Array, quantiles: Array) -> Array:
    """E|Y - y|, shape (n,), of labels Y with these even quantiles, shape (k, n)."""
    return np.abs(quantiles - y).mean(axis=0)


def distance_within(quantiles: Array) -> Array:
    """E|Y - Y'|, shape (n,), of independent labels with these even quantiles, shape (k, n)."""
    k = len(quantiles)
    share = (2 * np.arange(k) + 1 - k) / k  # the quantiles ascend
    return 2 * np.mean(share[:, None] * quantiles, axis=0)
