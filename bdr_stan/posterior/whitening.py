"""Coordinates in which the posterior of the weights is nearly standard normal."""

import numpy as np
from scipy.linalg import eigh

from bdr_stan.posterior.mode import Mode
from bdr_stan.types import Array

# Of a program that takes no covariates.
OF_WEIGHTS_AND_INTERCEPT = (
    "information",
    "pull",
    "axes",
    "intercept_centre",
    "intercept_slope",
    "intercept_unit",
)


def whitened_coordinates(mode: Mode, prior_factor: Array, rho: float) -> dict[str, Array | float]:
    """Coordinates t of theta = [w; gamma; intercept], nearly standard normal whatever rho.

    Along `axes` the information of the labels on w (all else integrated out) and the prior are
    both diagonal; gamma, the covariates' weights, is regressed on w, and the intercept on both:

        q = information + 1 / rho^2
        w = axes (pull / q + t_w / sqrt(q))
        gamma = gamma_centre + gamma_slope w + gamma_unit t_g
        intercept = intercept_centre + intercept_slope' [w; gamma] + intercept_unit t_a

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
        These quantities by their names in the Stan programs. Any values of them give the same
        posterior; these give one that is easy to sample.
    """
    d = len(prior_factor)
    H, prior = mode.precision, prior_factor.T @ prior_factor
    w, gamma, intercept = mode.theta[:d], mode.theta[d:-1], mode.theta[-1]
    slope = -H[-1, :-1] / H[-1, -1]
    A = H[:-1, :-1] + np.outer(H[:-1, -1], slope)  # of [w; gamma], the intercept integrated out
    gamma_slope = -np.linalg.solve(A[d:, d:], A[d:, :d])
    labels = A[:d, :d] + A[:d, d:] @ gamma_slope - prior / rho**2
    information, axes = eigh((labels + labels.T) / 2, prior)
    information = np.maximum(information, 0)
    return {
        "information": information,
        "pull": (information + rho**-2.0) * (axes.T @ prior @ w),
        "axes": axes,
        "intercept_centre": intercept - slope @ mode.theta[:-1],
        "intercept_slope": slope,
        "intercept_unit": H[-1, -1] ** -0.5,
        "gamma_centre": gamma - gamma_slope @ w,
        "gamma_slope": gamma_slope,
        "gamma_unit": np.linalg.inv(np.linalg.cholesky(A[d:, d:])).T,
    }
