"""Coordinates with a nearly standard normal posterior of the weights."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.posterior.terms import integrated_out, split_effects
from bdr_stan.types import Array

_LOG_SCALE_STEP = 0.03  # of central differences; their error is about its square


def whitened_coordinates(
    mode: Mode, prior_factor: Array, rho: float | Array, blocks: Sequence[int] = ()
) -> dict[str, Array | float]:
    """Coordinates t of theta = [w; gamma; intercept], nearly standard normal whatever rho.

    Along `axes` the information of the labels on w (all else integrated out) and the prior are
    both diagonal; gamma, the covariates' weights, is regressed on w, and the intercept on both:

        q = information + 1 / rho^2
        w = axes (linear_term / q + t_w / sqrt(q))
        gamma = gamma_centre + gamma_slope w + gamma_unit t_g
        intercept = intercept_centre + intercept_slope' [w; gamma] + intercept_unit t_a

    Weights of several samples are `blocks` of these sizes, each with its own rho; `rho` then has
    the shape (d,). Each block is regressed on those before it, which with u = linear_term / q + t_w
    / sqrt(q) are

        axes u,    u = (linear_term + block_cross u) / q + t_w / sqrt(q)

    At the rho of `mode` this is theta = mode + B t with B B' the inverse of `mode.precision`. The
    result has the quantities by their names in the Stan programs.
    """
    d = len(prior_factor)
    H, prior = mode.precision, prior_factor.T @ prior_factor
    w, gamma, intercept = mode.theta[:d], mode.theta[d:-1], mode.theta[-1]
    slope = -H[-1, :-1] / H[-1, -1]
    A = H[:-1, :-1] + np.outer(H[:-1, -1], slope)  # of [w; gamma], the intercept integrated out
    gamma_slope = -np.linalg.solve(A[d:, d:], A[d:, :d])
    weight_precision = A[:d, :d] + A[:d, d:] @ gamma_slope
    rho = np.broadcast_to(rho, d)
    information, axes, cross = np.empty(d), np.zeros((d, d)), np.zeros((d, d))
    end = d
    for size in reversed(blocks or [d]):
        start, block = end - size, slice(end - size, end)
        weight_precision, of_block, cross_precision = integrated_out(weight_precision, start)
        labels = of_block - prior[block, block] / rho[start] ** 2
        # A difference of matrices that are nearly equal if labels carry little information:
        # rounding breaks its symmetry, and makes eigenvalues near 0 negative.
        eigenvalues, axes[block, block] = eigh((labels + labels.T) / 2, prior[block, block])
        information[block] = np.maximum(eigenvalues, 0)
        cross[block, :start] = -axes[block, block].T @ cross_precision
        end = start
    cross, along = cross @ axes, axes.T @ prior @ w
    return {
        "information": information,
        "linear_term": (information + rho**-2.0) * along - cross @ along,
        "axes": axes,
        **({"block_cross": cross} if blocks else {}),
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
    n_effects: int = 0,
) -> dict[str, Array | float]:
    """Whitened coordinates with a centre that follows the mode as the labels' scales change.

    `whitened` and `prior_factor` belong to `mode`, the mode at all `scales`, including rho;
    `likelihood` returns, for the K scales `followed` as keywords, in the order of the program, the
    likelihood for `find_mode`. The result also has `scale_at_mode`, their values, shape (K,), and
    `mode_shift`, the change of t with their logarithms, shape (d + Q + 1, K).
    """
    values = {name: scales[name] for name in followed}

    def slope(name, log_change):
        changed = {**values, name: values[name] * np.exp(log_change)}
        return likelihood(**changed)(mode.theta)[1]

    _, _, information, curvature = likelihood(**values)(mode.theta)
    try:
        hessian = cho_factor(mode.precision - information + curvature)
    except np.linalg.LinAlgError:
        hessian = cho_factor(mode.precision)
    slopes = [
        (slope(name, _LOG_SCALE_STEP) - slope(name, -_LOG_SCALE_STEP)) / (2 * _LOG_SCALE_STEP)
        for name in followed
    ]
    # At the mode the slope of the log posterior is 0 whatever the scales: by the implicit function
    # theorem d mode / d log scale = hessian^-1 d slope / d log scale.
    change = cho_solve(hessian, np.transpose(slopes))[split_effects(mode.theta, n_effects)[0]]
    return {
        **whitened,
        "scale_at_mode": np.array([scales[name] for name in followed]),
        "mode_shift": _change_of_t(whitened, prior_factor, scales["rho"], change),
    }


def _change_of_t(whitened, prior_factor, rho, change):
    """Changes of t for changes of theta = [w; gamma; intercept], both of shape (d + Q + 1, K)."""
    d = len(prior_factor)
    w, gamma, intercept = change[:d], change[d:-1], change[-1:]
    prior = prior_factor.T @ prior_factor
    precision = whitened["information"] + rho**-2.0
    by_w = np.sqrt(precision)[:, None] * (whitened["axes"].T @ prior @ w)
    by_gamma = np.linalg.solve(whitened["gamma_unit"], gamma - whitened["gamma_slope"] @ w)
    by_intercept = intercept - whitened["intercept_slope"] @ change[:-1]
    return np.vstack([by_w, by_gamma, by_intercept / whitened["intercept_unit"]])
