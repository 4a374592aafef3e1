"""The most probable weights given the scales, by Newton steps.

Given the scales (sigma, rho, eta) the weights, those of the covariates and the intercept,
theta = [w; gamma; a], have a posterior that is Gaussian (BLR) or nearly so. Laplace's method at its
mode gives the evidence of the scales: exact for BLR.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from bdr_stan.types import Array, ArrayLike

# At theta the log likelihood, its gradient, the Fisher information and what a Newton step may take
# for the negative Hessian.
LogLikelihood = Callable[[Array], tuple[float, Array, Array, Array]]


# Products of smaller matrices gain nothing from BLAS's threads, and lose much on a busy machine.
_SMALL = 300


def blas_threads(n_weights: int) -> int | None:
    """Threads for products of matrices of so many columns; None for all that there are."""
    return 1 if n_weights < _SMALL else None


@dataclass(frozen=True)
class Mode:
    """Mode of theta = [w; gamma; intercept] given the scales.

    Attributes
    ----------
    theta : array, shape (d + Q + 1,)
    precision : array, shape (d + Q + 1, d + Q + 1)
        Fisher information plus prior precision at the mode.
    log_evidence : float
        Log marginal likelihood of the labels given the scales by Laplace's method.
    """

    theta: Array
    precision: Array
    log_evidence: float

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
    rho: float,
    gamma_scales: ArrayLike = (),
    start: Array | None = None,
    tol: float = 1e-10,
    max_steps: int = 200,
) -> Mode:
    """Most probable weights and intercept given the scales, by Newton steps.

    Parameters
    ----------
    likelihood : callable
        Log likelihood, slope, Fisher information and curvature at theta; see
        `bdr_stan.models.likelihoods`.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    intercept_prior : (float, float)
        Mean and standard deviation of the intercept's normal prior.
    rho : float, > 0
        Scale of the weights.
    gamma_scales : array, shape (Q,), default none
        Prior standard deviations of the covariates' weights gamma.
    start : array, shape (d + Q + 1,), optional
        Where to begin.
    tol : float
        Stop when a step promises to raise the log posterior by less.
    max_steps : int, default 200

    Returns
    -------
    Mode
    """
    d = len(prior_factor)
    location, spread = intercept_prior
    spreads = np.append(gamma_scales, spread)
    centre = np.append(np.zeros(d + len(spreads) - 1), location)
    prior_precision = np.diag(np.append(np.zeros(d), 1.0 / spreads**2))
    prior_precision[:d, :d] = prior_factor.T @ prior_factor / rho**2

    def posterior(theta):
        value, slope, information, curvature = likelihood(theta)
        away = prior_precision @ (theta - centre)
        value -= 0.5 * (theta - centre) @ away
        return value, slope - away, information + prior_precision, curvature + prior_precision

    theta = centre.copy() if start is None else np.array(start, float)
    value, slope, precision, curvature = posterior(theta)
    for _ in range(max_steps):
        try:
            step = cho_solve(cho_factor(curvature), slope)
        except np.linalg.LinAlgError:  # far from the mode; the Fisher information leads uphill
            step = cho_solve(cho_factor(precision), slope)
        promised = slope @ step
        if promised < tol * (1 + abs(value)):
            break
        scale = 1.0
        while scale > 1e-10:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                trial, *derivatives = posterior(theta + scale * step)  # nan: too far
            if trial >= value + 1e-4 * scale * promised - 1e-14 * abs(value):
                break
            scale /= 2
        else:
            break
        theta, value = theta + scale * step, trial
        slope, precision, curvature = derivatives
    _, log_det = np.linalg.slogdet(precision)
    _, log_det_prior = np.linalg.slogdet(prior_precision)
    return Mode(theta, precision, value + 0.5 * (log_det_prior - log_det))
