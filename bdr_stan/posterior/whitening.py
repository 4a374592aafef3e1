"""Coordinates in which the posterior of the weights is nearly standard normal."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.types import Array

_STEP = 0.03  # of a scale's logarithm, in differences

# Of a program that takes no covariates.
OF_WEIGHTS_AND_INTERCEPT = (
    "information",
    "linear_term",
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
        w = axes (linear_term / q + t_w / sqrt(q))
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
        "linear_term": (information + rho**-2.0) * (axes.T @ prior @ w),
        "axes": axes,
        "intercept_centre": intercept - slope @ mode.theta[:-1],
        "intercept_slope": slope,
        "intercept_unit": H[-1, -1] ** -0.5,
        "gamma_centre": gamma - gamma_slope @ w,
        "gamma_slope": gamma_slope,
        "gamma_unit": np.linalg.inv(np.linalg.cholesky(A[d:, d:])).T,
    }


def with_mode_shift(
    whitened: Mapping[str, Array | float],
    likelihood: Callable[..., LogLikelihood],
    prior_factor: Array,
    mode: Mode,
    scales: Mapping[str, float],
    followed: tuple[str, ...],
) -> dict[str, Array | float]:
    """Whitened coordinates whose centre follows the mode where the labels' scales move.

    Without this, weights that the labels tell well given the scales, but not without them, need
    many small steps of the sampler.

    Parameters
    ----------
    whitened : dict
        From `whitened_coordinates`.
    likelihood : callable
        Given the scales but rho as keywords, a function of theta, as `find_mode` takes it.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    mode : Mode
        At these scales.
    scales : dict, name -> float
        All scales of the model, rho among them.
    followed : tuple of str
        Those to follow, in the order in which the program has them.

    Returns
    -------
    dict
        `whitened` with `middle`, the values of these scales, shape (K,), and `drift`, the change
        of t with their logarithms, shape (d + Q + 1, K). Any values of them give the same
        posterior.
    """
    given = {name: value for name, value in scales.items() if name != "rho"}

    def slope(name, log_change):
        moved = {**given, name: given[name] * np.exp(log_change)}
        return likelihood(**moved)(mode.theta)[1]

    _, _, information, curvature = likelihood(**given)(mode.theta)
    try:
        hessian = cho_factor(mode.precision - information + curvature)
    except np.linalg.LinAlgError:
        hessian = cho_factor(mode.precision)
    slopes = [(slope(name, _STEP) - slope(name, -_STEP)) / (2 * _STEP) for name in followed]
    change = cho_solve(hessian, np.transpose(slopes))  # of theta, by the implicit function theorem
    return {
        **whitened,
        "scale_at_mode": np.array([scales[name] for name in followed]),
        "mode_shift": _change_of_t(whitened, prior_factor, scales["rho"], change),
    }


def _change_of_t(whitened, prior_factor, rho, change):
    """Changes of t that belong to changes of theta = [w; gamma; intercept], column by column."""
    d = len(prior_factor)
    w, gamma, intercept = change[:d], change[d:-1], change[-1:]
    prior = prior_factor.T @ prior_factor
    precision = whitened["information"] + rho**-2.0
    of_w = np.sqrt(precision)[:, None] * (whitened["axes"].T @ prior @ w)
    of_gamma = np.linalg.solve(whitened["gamma_unit"], gamma - whitened["gamma_slope"] @ w)
    of_intercept = intercept - whitened["intercept_slope"] @ change[:-1]
    return np.vstack([of_w, of_gamma, of_intercept / whitened["intercept_unit"]])
