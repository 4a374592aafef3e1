"""Identification of the rates of a subset of points from totals of districts.

Totals do not identify how the rates of people with the same columns differ between districts: the
ecological assumption is that they differ only as in the model.
"""

import numpy as np

from bdr_stan.types import Array


def deterministic_bounds(
    totals: Array, weights: Array, subset: Array, highest_rate: float
) -> tuple[Array, Array]:
    """Least and largest rate of subsets that the totals of their districts allow, shapes (n,).

    The rates of all points are between 0 and `highest_rate`; `weights` are the districts' weights,
    `subset` the subsets', > 0 (method of bounds, Duncan and Davis 1953).
    """
    others = np.maximum(weights - subset, 0.0)
    most_of_others = np.multiply(highest_rate, others, out=np.zeros_like(others), where=others > 0)
    lowest = np.maximum(0.0, (totals - most_of_others) / subset)
    return lowest, np.minimum(highest_rate, totals / subset)


def slopes_of_effects(effects: Array, means: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the slopes of effects in the bags' means of columns, (p,).

    Least squares of the effects under each draw, (S, n), on the means divided by their standard
    deviations, (n, p), and an intercept; the variance is between draws plus, as the effects of n
    bags are a sample, of the slopes given the effects. Columns that are constant over bags, or
    combinations of other columns, contribute as little as possible (the slopes of least norm).
    """
    centred = means - means.mean(axis=0)
    sd = centred.std(axis=0)
    varies = sd > 1e-12 * np.abs(means).max(axis=0, initial=0.0)
    scaled = np.divide(centred, sd, out=np.zeros_like(centred), where=varies)
    inverse = np.linalg.pinv(scaled, rcond=1e-8)
    deviations = (effects - effects.mean(axis=1, keepdims=True)).T
    slopes = inverse @ deviations
    left = deviations - scaled @ slopes
    degrees = len(means) - 1 - np.linalg.matrix_rank(scaled, tol=1e-8 * np.sqrt(len(means)))
    noise = np.mean(np.sum(left**2, axis=0)) / degrees * np.sum(inverse**2, axis=1)
    return slopes.mean(axis=1), np.sqrt(slopes.var(axis=1) + noise)
