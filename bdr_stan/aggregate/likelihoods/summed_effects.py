"""Densities of labels in their means once the effects of their bags are summed over.

Effects of log sd tau, of the conjugate distribution with about this spread, have closed forms:
gamma effects of Poisson means, inverse gamma effects of exponential ones, and beta probabilities.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from bdr_stan.aggregate.likelihoods.base import LabelDensity
from bdr_stan.types import Array

_STIRLING = 1e4  # shape above which Stirling's series is exact to rounding


def log_rising(y: Array, shape: Array | float) -> Array:
    """log Gamma(y + shape) - log Gamma(shape) - y log(shape), exact for large shapes too.

    The two logarithms have no digits in common with their difference where the shape is large:
    there the first terms of Stirling's series are subtracted one by one.
    """
    total = y + shape
    return np.where(
        np.less(shape, _STIRLING),
        gammaln(total) - gammaln(shape) - y * np.log(shape),
        (total - 0.5) * np.log1p(y / shape) - y + (1 / total - 1 / shape) / 12,
    )


def negative_binomial(y: Array, shape: Array | float) -> Callable[[Array], LabelDensity]:
    """Poisson counts whose means have gamma effects of mean 1 and this shape."""
    constant = log_rising(y, shape) - gammaln(y + 1)

    def density(mean):
        total = shape + mean
        value = constant + y * np.log(mean) - (y + shape) * np.log1p(mean / shape)
        return LabelDensity(
            value.sum(),
            y / mean - (y + shape) / total,
            shape / (mean * total),
            y / mean**2 - (y + shape) / total**2,
            total**-2.0 - mean**-2.0,
        )

    return density


def lomax(y: Array, shape: Array | float) -> Callable[[Array], LabelDensity]:
    """Exponential labels whose rates 1 / lambda have gamma effects of mean 1 and this shape."""

    def density(mean):
        ratio = y / mean
        pulled = (1 + shape) * ratio / (shape + ratio)
        information = shape / ((shape + 2) * mean**2)
        return LabelDensity(
            -np.sum(np.log(mean) + (1 + shape) * np.log1p(ratio / shape)),
            (pulled - 1) / mean,
            information,
            (pulled - 1 + shape * pulled / (shape + ratio)) / mean**2,
            -2 * information / mean,
        )

    return density


def beta_binomial(y: Array, trials: Array, shape: float) -> Callable[[Array], LabelDensity]:
    """Binomial counts of probabilities beta(shape lambda, shape (1 - lambda)).

    The information, which has no closed form, is one over the variance of the share y / trials.
    """
    rest = trials - y
    constant = gammaln(trials + 1) - gammaln(y + 1) - gammaln(rest + 1) - log_rising(trials, shape)

    def density(mean):
        a, b = shape * mean, shape * (1 - mean)
        value = constant + log_rising(y, a) + log_rising(rest, b)
        value += y * np.log(mean) + rest * np.log1p(-mean)
        score = digamma(y + a) - digamma(a) - digamma(rest + b) + digamma(b)
        bend = polygamma(1, y + a) - polygamma(1, a) + polygamma(1, rest + b) - polygamma(1, b)
        spread = mean * (1 - mean)
        information = trials * (shape + 1) / ((shape + trials) * spread)
        return LabelDensity(
            value.sum(),
            shape * score,
            information,
            -(shape**2) * bend,
            -information * (1 - 2 * mean) / spread,
        )

    return density
