"""Weighted sums of labels over groups of bags (poststratification), with their dependence.

Given a draw of the parameters the labels y_i of the bags are independent, with mean m_i and
variance v_i. The sum over a group, sum_i a_i y_i, has mean sum_i a_i m_i and variance
sum_i a_i^2 v_i given the draw, and is treated as normal: exact for normal labels, a central limit
approximation for others. Averaged over the draws, the bags share the uncertainty of the parameters.
"""

from typing import Any

import numpy as np
from scipy.sparse import csc_array

from bdr_stan.predictive.mixture import bags_at_once
from bdr_stan.predictive.normal import Predictive
from bdr_stan.types import Array


def weighted_sums(predictive: Any, coefficients: csc_array) -> Predictive:
    """Distribution of sums of labels, one for each row of `coefficients`, shape (k, n)."""
    mean, variance = np.zeros((2, coefficients.shape[0], predictive.n_draws))
    for i in bags_at_once(len(predictive), predictive.n_draws):
        label_mean, label_variance = predictive.label_moments(i)
        mean += coefficients[:, i] @ label_mean.T
        variance += coefficients[:, i] ** 2 @ label_variance.T
    return _normal(mean.T, np.sqrt(variance.T), predictive.weights)


def difference(first: Predictive, second: Predictive) -> Predictive:
    """Distribution of the differences of sums under the same draws, independent given each."""
    every = np.arange(len(first))
    (mean_a, sd_a), (mean_b, sd_b) = first.components(every), second.components(every)
    return _normal(mean_a - mean_b, np.hypot(sd_a, sd_b), first.weights)


def _normal(mean: Array, sd: Array, weights: Array | None) -> Predictive:
    """Predictive of normals under each draw, shapes (S, k)."""
    n_draws, n_groups = mean.shape
    return Predictive(lambda k: (mean[:, k], sd[:, k]), n_groups, n_draws, weights)
