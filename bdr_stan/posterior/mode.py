"""The most probable weights theta = [w; gamma; a] given the scales, with Newton steps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dposv

from bdr_stan.types import Array, ArrayLike

# Functions of theta: the log likelihood, its gradient, the Fisher information and the curvature,
# which a Newton step uses as the negative Hessian.
LogLikelihood = Callable[[Array], tuple[float, Array, Array, Array]]

# With fewer columns, fits of maps lose more to threads of BLAS than they gain, most on a busy
# machine.
_COLUMNS_WORTH_THREADS = 1000

# The line search accepts a step with at least this part of the linear gain (Armijo's rule, with the
# usual constant). Near the mode rounding hides the gain in the log density, but not in its
# gradient: there a step is accepted if the slope along it at its end is smaller by this factor
# (Hager and Zhang 2005). Halving stops at the smallest step.
_ARMIJO = 1e-4
_LESS_STEEP = 0.9
_DENSITY_ROUNDING = 1e-10
_LEAST_STEP = 1e-10


def laplace_log_evidence(log_density: float, precision: Array, prior_precision: Array) -> float:
    """Log evidence from Laplace's method at the mode of the weights theta; exact for BLR.

        log p(y) = log p(y | mode) - (mode - m)' P (mode - m) / 2 + (log |P| - log |H|) / 2

    with N(m, P^-1) the prior of theta and H the posterior precision. `log_density` is the sum of
    the first two terms; the powers of 2 pi in the prior and in the Gaussian integral cancel.
    """
    _, log_det = np.linalg.slogdet(precision)
    _, log_det_prior = np.linalg.slogdet(prior_precision)
    return log_density + 0.5 * (log_det_prior - log_det)


def blas_threads(n_weights: int) -> int | None:
    """Threads for products of matrices with this number of columns; None for all threads."""
    return 1 if n_weights < _COLUMNS_WORTH_THREADS else None


@dataclass(frozen=True)
class Mode:
    """Mode of theta = [w; gamma; intercept] given the scales."""

    theta: Array  # shape (D,), D = d + Q + 1
    precision: Array  # Fisher information plus prior precision, shape (D, D)
    log_evidence: float  # of the scales, see `laplace_log_evidence`

    @property
    def covariance(self) -> Array:
        """Inverse of `precision`, of the same shape."""
        return cho_solve(cho_factor(self.precision), np.eye(len(self.theta)))

    @property
    def whitening(self) -> Array:
        """Factor B with B B' = `covariance`: theta = mode + B t has t nearly N(0, I)."""
        factor = np.linalg.cholesky(self.precision)
        return solve_triangular(factor, np.eye(len(factor)), lower=True, trans="T")


def find_mode(
    likelihood: LogLikelihood,
    prior_factor: Array,
    intercept_prior: tuple[float, float],
    *,
    rho: float | Array,
    gamma_scales: ArrayLike = (),
    start: Array | None = None,
    tol: float = 1e-10,
    max_steps: int = 200,
) -> Mode:
    """Most probable weights and intercept given the scales, with Newton steps.

    `prior_factor`, shape (d, d), is P of the prior w ~ N(0, rho^2 (P'P)^-1); `rho` may have the
    shape (d,), the same in each block of P. `intercept_prior` are mean and standard deviation,
    `gamma_scales`, shape (Q,), prior standard deviations of the covariates' weights. The search
    begins at `start`, by default the prior's mean, and stops if a step's slope predicts a relative
    gain below `tol`.
    """
    centre, prior_precision = _prior(prior_factor, intercept_prior, rho, gamma_scales)

    def posterior(theta):
        value, slope, information, curvature = likelihood(theta)
        prior_slope = prior_precision @ (theta - centre)
        value -= 0.5 * (theta - centre) @ prior_slope
        return (
            value,
            slope - prior_slope,
            information + prior_precision,
            curvature + prior_precision,
        )

    climb = partial(_climb, posterior, tol=tol, max_steps=max_steps)
    try:
        theta, value, precision = climb(centre if start is None else start)
    except np.linalg.LinAlgError:  # at the mode of other scales rates may be huge
        theta, value, precision = climb(centre)
    return Mode(theta, precision, laplace_log_evidence(value, precision, prior_precision))


def _climb(posterior, start, *, tol, max_steps):
    """The mode, shape (D,), its log density and its precision, (D, D), by Newton steps."""
    theta = np.array(start, float)
    value, slope, precision, curvature = posterior(theta)
    for _ in range(max_steps):
        step = _newton_step(curvature, precision, slope)
        promised = slope @ step
        if promised < tol * (1 + abs(value)):
            break
        share = 1.0
        while share > _LEAST_STEP:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                trial, *derivatives = posterior(theta + share * step)  # nan: too far
            if trial >= value + _ARMIJO * share * promised:
                break
            less_steep = abs(derivatives[0] @ step) <= _LESS_STEEP * promised
            if less_steep and trial >= value - _DENSITY_ROUNDING * abs(value):
                break
            share /= 2
        else:
            break
        theta, value = theta + share * step, trial
        slope, precision, curvature = derivatives
    return theta, value, precision


def _newton_step(curvature, precision, slope):
    """Newton's step, shape (D,); far from the mode that by `precision`, which leads uphill.

    Calls LAPACK directly: with few weights SciPy's functions are ten times slower.
    """
    for matrix in (curvature, precision):
        _, step, info = dposv(matrix, slope)
        if info == 0 and np.all(np.isfinite(step)):
            return step
    raise np.linalg.LinAlgError("neither curvature nor information is positive definite")


def _prior(prior_factor, intercept_prior, rho, gamma_scales):
    """Mean and precision of theta's normal prior, shapes (D,) and (D, D)."""
    d = len(prior_factor)
    location, spread = intercept_prior
    spreads = np.append(gamma_scales, spread)
    centre = np.append(np.zeros(d + len(spreads) - 1), location)
    precision = np.diag(np.append(np.zeros(d), 1.0 / spreads**2))
    precision[:d, :d] = prior_factor.T @ prior_factor / np.multiply.outer(rho, rho)
    return centre, precision
