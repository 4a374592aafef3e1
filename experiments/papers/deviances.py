"""Half the deviance of totals given their means, and its slope in the mean, by likelihood.

Each takes labels, means and noise variances, of which the normal likelihood's alone count. Half the
deviance is the log density at the label less that at the mean. Likelihoods with another scale have
no entry.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import xlogy

from bdr_stan.types import Array

Deviance = Callable[[Array, Array, Array], tuple[Array, Array]]


def _poisson(y, mean, variance):
    return mean - y - xlogy(y, mean) + xlogy(y, y), 1 - y / mean


def _exponential(y, mean, variance):
    return y / mean - 1 - np.log(y / mean), (1 - y / mean) / mean


def _normal(y, mean, variance):
    return (y - mean) ** 2 / (2 * variance), (mean - y) / variance


DEVIANCES: dict[str, Deviance] = {
    "poisson": _poisson,
    "exponential": _exponential,
    "normal": _normal,
}
