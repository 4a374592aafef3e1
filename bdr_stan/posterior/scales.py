"""Scales (sigma, rho, eta, ...) of highest evidence, and the mode of the weights there."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from bdr_stan.posterior.mode import Mode
from bdr_stan.types import Array

# On the log scale: largest distance of the search from its start, a factor of e^12; and in one
# step, as from the end of a long step a mode may be hard to find.
_LOG_SCALE_RANGE = 12.0
_LOG_SCALE_REACH = 2.0
# The slopes of the search are differences over the first step: over a longer one their error, half
# the step times the curvature, would mislead the line search. The curvature at the end is a
# difference over the second step, as rounding of the evidence then matters less.
_SLOPE_STEP = 1e-5
_CURVATURE_STEP = 0.01
# Tolerance of the modes: less exact ones would drown these differences.
_MODE_TOLERANCE = 1e-14
# Shares of rho along which the first mode is followed. If there are several modes, as with f^2, a
# long step from zero weights may end where f crosses zero; modes reached from small weights are
# more often the best, and the better of the two is used.
_GROWING_RHO = (0.1, 0.3)
_MAX_STEPS_FROM_NEAR = 30  # Newton steps from the mode of near scales; a few are usual


def maximise_evidence(
    mode_at: Callable[..., Mode],
    start: Mapping[str, float],
    *,
    log_prior: Callable[..., float] | None = None,
    start_weights: Array | None = None,
) -> tuple[dict[str, float], Mode, Callable[[], Array]]:
    """Scales with the highest evidence, the mode of the weights there, covariance of log scales.

    `mode_at` finds the mode given all scales, a dict, and keyword arguments of `find_mode`. The
    search begins at `start`, which names all scales, and at `start_weights`. `log_prior` is the log
    prior density of the logarithms of the scales, given as keywords; None maximises only the
    evidence. The covariance, shape (K, K), is Laplace's, its eigenvalues at most 1; it is computed
    when called.
    """
    starts = ModeStarts()

    def scales_at(log_values):
        return dict(zip(start, np.exp(log_values).tolist(), strict=True))

    def mode_from_near(log_values, **limit):
        return mode_at(
            scales_at(log_values), start=starts.nearest(log_values), tol=_MODE_TOLERANCE, **limit
        )

    def objective(log_values):
        # If Newton's steps from near weights do not converge soon, the scales are poor.
        limit = {"max_steps": _MAX_STEPS_FROM_NEAR} if starts.modes else {}
        mode = mode_from_near(log_values, **limit)
        log_density = log_prior(**scales_at(log_values)) if log_prior else 0.0
        loss = -mode.log_evidence - log_density
        starts.add(log_values, mode.theta, loss)
        return loss

    first = np.log(list(start.values()))
    if start_weights is not None:
        starts.add(first, start_weights, np.inf)
    modes = [mode_from_near(first)]
    for share in _GROWING_RHO if start_weights is None else ():
        log_values = first + np.log([share if name.startswith("rho") else 1.0 for name in start])
        starts.add(first, mode_from_near(log_values).theta, np.inf)
    modes += [mode_from_near(first)] if start_weights is None else []
    best = max(modes, key=lambda mode: np.nan_to_num(mode.log_evidence, nan=-np.inf))
    starts.add(first, best.theta, np.inf)
    x = minimum_in_boxes(objective, first, eps=_SLOPE_STEP)
    return scales_at(x), mode_from_near(x), partial(_inverse_curvature, objective, x)


class ModeStarts:
    """Starts of searches for modes: the last or the best of earlier ones, whichever is nearer.

    The last one suits differences of two neighbours; the best one suits the search after a step
    that was too long: with several modes, the last may lead to a poor one.
    """

    def __init__(self) -> None:
        self.lowest = np.inf
        self.modes: dict[str, tuple[Array, Array]] = {}  # parameters and weights

    def nearest(self, x: Array) -> Array | None:
        """Weights to begin with at parameters x; None before there are any."""
        if not self.modes:
            return None
        return min(self.modes.values(), key=lambda pair: np.abs(pair[0] - x).max())[1]

    def add(self, x: Array, theta: Array, loss: float) -> None:
        """Remember the mode found at parameters x."""
        self.modes["last"] = x.copy(), theta
        if loss < self.lowest:
            self.lowest, self.modes["best"] = loss, self.modes["last"]


def minimum_in_boxes(
    objective: Callable[[Array], float | tuple[float, Array]],
    start: Array,
    *,
    jac: bool | None = None,
    ftol: float = 1e-8,
    **options: float,
) -> Array:
    """Minimum of a function of the logarithms of k scales, by L-BFGS, shape (k,).

    A box around the start of each search keeps its steps short; if it ends on an edge of its box,
    the next search begins there. ``jac=True``: `objective` returns its slopes as well.
    """
    lowest, highest = start - _LOG_SCALE_RANGE, start + _LOG_SCALE_RANGE
    x = start
    while True:
        low = np.maximum(x - _LOG_SCALE_REACH, lowest)
        high = np.minimum(x + _LOG_SCALE_REACH, highest)
        x = minimize(
            objective,
            x,
            jac=jac,
            method="L-BFGS-B",
            bounds=np.column_stack([low, high]),
            options={"ftol": ftol, "gtol": 1e-5, **options},
        ).x
        on_edge = ((x == low) & (low > lowest)) | ((x == high) & (high < highest))
        if not on_edge.any():
            return x


def _inverse_curvature(function, x):
    """Inverse Hessian of a function at its minimum, eigenvalues cut to [1e-8, 1]."""
    steps = _CURVATURE_STEP * np.eye(len(x))
    value = function(x)
    sides = [(function(x + h), function(x - h)) for h in steps]
    hessian = np.diag([up + down - 2 * value for up, down in sides])
    for j, k in combinations(range(len(x)), 2):
        both = function(x + steps[j] + steps[k]) + value - sides[j][0] - sides[k][0]
        hessian[j, k] = hessian[k, j] = both
    values, vectors = eigh(hessian / _CURVATURE_STEP**2)
    return (vectors / np.clip(values, 1.0, 1e8)) @ vectors.T
