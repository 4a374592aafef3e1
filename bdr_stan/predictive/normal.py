"""Predictive distributions of real labels: mixtures of normals over the posterior draws."""

import numpy as np
from scipy.special import ndtr, ndtri

from bdr_stan.predictive.mixture import NumericMixture, mixture_quantile
from bdr_stan.types import Array


class Predictive(NumericMixture):
    """Predictive distribution of the labels of n bags.

    For each bag a mixture, over the posterior draws, of normals.

    Parameters
    ----------
    components : callable
        ``components(i)`` returns the means and the standard deviations, each of shape (S, len(i)),
        of the S normals of the bags with integer indices `i`.
    n_bags, n_draws : int
        n and S.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Exact moments of the mixture.

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(60, seed=1)
    >>> predictive = BLR(5, method="exact").fit(bags[:40], y[:40], seed=1).predictive(bags[40:])
    >>> lower, upper = predictive.interval(0.95)
    >>> bool(((lower < y[40:]) & (y[40:] < upper)).mean() > 0.7)
    True
    >>> predictive.sample(500, seed=1).shape
    (500, 20)
    """

    def _moments(self, components, i):
        mean, sd = components
        return mean, sd**2

    def _cdf(self, components, i, labels):
        mean, sd = components
        return self._average(ndtr((labels - mean) / sd))

    def _quantiles(self, components, i, levels):
        mean, sd = components
        tolerance = 1e-10 * sd.min(axis=0)
        weights = self._draw_weights
        return np.array([normal_quantile(mean, sd, q, weights, tolerance) for q in levels])

    def _log_density(self, components, i, labels):
        mean, sd = components
        return -0.5 * ((labels - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)

    def _labels(self, components, i, draws, rng):
        mean, sd = components
        return rng.normal(mean[draws], sd[draws])


def normal_quantile(
    mean: Array, sd: Array, level: float, weights: Array, tolerance: Array
) -> Array:
    """Quantiles, (m,), of mixtures of normals, the columns; see `mixture_quantile`."""

    def cdf_and_density(x, j):
        standard = (x - mean[:, j]) / sd[:, j]
        return ndtr(standard), np.exp(-0.5 * standard**2) / sd[:, j] / np.sqrt(2 * np.pi)

    quantiles = mean + sd * ndtri(level)  # of the components
    start, low, high = weights @ quantiles, quantiles.min(axis=0), quantiles.max(axis=0)
    return mixture_quantile(start, low, high, level, weights, cdf_and_density, tolerance)
