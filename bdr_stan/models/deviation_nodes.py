"""Nodes by which ``stan/fast/bdr_glm.stan`` integrates the deviations of many bags out."""

from typing import Any

import numpy as np
from scipy.special import logsumexp, roots_hermitenorm

from bdr_stan.families import Family, label_densities
from bdr_stan.types import Array

_NUMBERS = (5, 9, 17, 33)
# Of the log density per bag, in units of 1 / sqrt(n): posterior means then move by less than about
# a tenth of their standard deviations.
_TOLERANCE = 0.02
_MOST_BAGS = 3000  # that are looked at


def deviation_nodes(
    family: Family,
    y: Array,
    mean: Array,
    variance: Array,
    information: Array,
    centre: Array,
    trials: Array | None,
) -> dict[str, Any]:
    """Data of the program for a family without scales: few nodes, but accurate at the mode.

    Labels, means and variances of their linear predictors, precisions and centres of normal labels
    of the same curvature, and trials have the shape (n,).
    """
    n = len(y)
    some = slice(None, None, -(-n // _MOST_BAGS))
    y, mean, variance = y[some], mean[some], variance[some]
    trials = None if trials is None else trials[some]
    exact = label_densities(family, y, mean, variance, trials).value
    out_of = None if trials is None else trials[:, None]
    u_sd = (1 + variance * information[some]) ** -0.5
    u_mean = np.sqrt(variance) * information[some] * (centre[some] - mean) * u_sd**2
    for number in _NUMBERS:
        node, weight = roots_hermitenorm(number)
        log_weight = np.log(weight / np.sqrt(2 * np.pi))
        u = u_mean[:, None] + u_sd[:, None] * node
        h = mean[:, None] + np.sqrt(variance)[:, None] * u
        at_node = family.terms(y[:, None], h, out_of).value
        found = logsumexp(at_node + log_weight + 0.5 * (node**2 - u**2), axis=1) + np.log(u_sd)
        if np.mean(np.abs(found - exact)) < _TOLERANCE / np.sqrt(n):
            break
    return {"K": number, "node": node, "log_node_weight": log_weight}
