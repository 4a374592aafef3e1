"""Weighted averages of regressions, the weights chosen by labels held out."""

import numpy as np
from scipy.optimize import nnls

from bdr_stan.types import Array


def stacking_weights(predictions: Array, y: Array) -> Array:
    """Weights >= 0 of sum 1, (k,), with the least squared error of the weighted average.

    `predictions`, (n, k), are those of k models for held-out labels y, (n,).

    Of w = t v with t > 0 and v on the simplex, |E w|^2 + c^2 (t - 1)^2 with E = predictions - y is
    least, over t, at a value that grows with |E v|^2: non-negative least squares finds v.
    Source: Breiman (1996), "Stacked regressions".
    """
    errors = predictions - y[:, None]
    size = np.sqrt(np.mean(errors**2)) or 1.0
    rows = np.vstack([errors / size, np.full(predictions.shape[1], np.sqrt(len(y)))])
    weights, _ = nnls(rows, np.append(np.zeros(len(y)), np.sqrt(len(y))))
    return weights / weights.sum()
