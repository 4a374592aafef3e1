"""Coordinates in which the posterior of the weights is nearly standard normal."""

import numpy as np
from scipy.linalg import eigh

from bdr_stan.posterior.mode import Mode
from bdr_stan.types import Array


def whitened_coordinates(mode: Mode, prior_factor: Array, rho: float) -> dict[str, Array | float]:
    """Coordinates t of theta = [w; intercept] that are nearly standard normal whatever rho.

    Along `axes` the information of the labels on w (the intercept integrated out) and the prior
    are both diagonal, and the intercept is regressed on w:

        q = information + 1 / rho^2
        w = axes (pull / q + t_w / sqrt(q))
        intercept = intercept_centre + intercept_slope' w + intercept_unit t_a

    At the rho of `mode` this is theta = mode + B t with B B' the inverse of `mode.precision`.

    Parameters
    ----------
    mode : Mode
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    rho : float, > 0
        Scale of the weights at which the mode was found.

    Returns
    -------
    dict
        The six quantities by their names in the Stan programs. Any values of them give the same
        posterior; these give one that is easy to sample.
    """
    d = len(mode.theta) - 1
    H, w, intercept = mode.precision, mode.theta[:d], mode.theta[d]
    prior = prior_factor.T @ prior_factor
    slope = -H[d, :d] / H[d, d]
    labels = H[:d, :d] + np.outer(H[:d, d], slope) - prior / rho**2
    information, axes = eigh((labels + labels.T) / 2, prior)
    information = np.maximum(information, 0)
    return {
        "information": information,
        "pull": (information + rho**-2.0) * (axes.T @ prior @ w),
        "axes": axes,
        "intercept_centre": intercept - slope @ w,
        "intercept_slope": slope,
        "intercept_unit": H[d, d] ** -0.5,
    }
