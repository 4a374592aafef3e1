"""Mode, curvature and evidence of weights with a Gaussian prior.

Given the scales (sigma, rho, eta) the weights and the intercept theta = [w; a] have a posterior
that is Gaussian (BLR) or nearly so. Its mode comes from Newton steps, its Fisher information
whitens Stan's coordinates, and Laplace's method on it gives the evidence of the scales: exact
for BLR.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular
from scipy.optimize import minimize

# How far, on the log scale, the search for the scales may move from its start.
_LOG_SCALE_RANGE = 12.0
_LOG_SCALE_REACH = 2.0  # in one go
# Its slopes are differences over this step; the mode must follow each step closely, or the
# curvature in the evidence is not that of the scales it is asked for.
_LOG_SCALE_STEP = 1e-4
_CURVATURE_STEP = 0.01
_TIGHT = 1e-14


@dataclass(frozen=True)
class Mode:
    """Mode of theta = [w; intercept] given the scales.

    Attributes
    ----------
    theta : array, shape (d + 1,)
    precision : array, shape (d + 1, d + 1)
        Fisher information plus prior precision at the mode.
    log_evidence : float
        Log marginal likelihood of the labels given the scales by Laplace's method.
    """

    theta: np.ndarray
    precision: np.ndarray
    log_evidence: float

    @property
    def covariance(self):
        """Inverse of `precision`, shape (d + 1, d + 1)."""
        return cho_solve(cho_factor(self.precision), np.eye(len(self.theta)))

    @property
    def whitening(self):
        """Factor B with B B' = `covariance`: theta = mode + B t has t nearly N(0, I)."""
        factor = np.linalg.cholesky(self.precision)
        return solve_triangular(factor, np.eye(len(factor)), lower=True, trans="T")


def whitened_coordinates(mode, prior_factor, rho):
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


def find_mode(likelihood, prior_factor, intercept_prior, *, rho, start=None, tol=1e-10):
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
    start : array, shape (d + 1,), optional
        Where to begin.
    tol : float
        Stop when a step promises to raise the log posterior by less.

    Returns
    -------
    Mode
    """
    d = len(prior_factor)
    location, spread = intercept_prior
    centre = np.append(np.zeros(d), location)
    prior_precision = np.zeros((d + 1, d + 1))
    prior_precision[:d, :d] = prior_factor.T @ prior_factor / rho**2
    prior_precision[d, d] = 1.0 / spread**2

    def posterior(theta):
        value, slope, information, curvature = likelihood(theta)
        pull = prior_precision @ (theta - centre)
        value -= 0.5 * (theta - centre) @ pull
        return value, slope - pull, information + prior_precision, curvature + prior_precision

    theta = centre.copy() if start is None else np.array(start, float)
    value, slope, precision, curvature = posterior(theta)
    for _ in range(200):
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


def maximise_evidence(
    likelihood_at, prior_factor, intercept_prior, start, *, log_prior=None
):
    """Scales with the highest evidence, and the mode of the weights there.

    Parameters
    ----------
    likelihood_at : callable
        Given the scales but rho as keywords, the likelihood that `find_mode` takes.
    prior_factor, intercept_prior
        As for `find_mode`.
    start : dict, scale -> float
        "rho" and the scales of the likelihood, where the search begins.
    log_prior : callable, optional
        Log prior density of the scales, given as keywords, with respect to their logarithms.
        None maximises the evidence alone.

    Returns
    -------
    scales : dict with the keys of `start`
    mode : Mode
    log_sds : dict with the keys of `start`
        Standard deviations of the logarithms of the scales, from the curvature of the evidence
        at its maximum; at most 1.
    """
    theta = None

    def mode_at(scales, tol):
        rest = {name: value for name, value in scales.items() if name != "rho"}
        return find_mode(
            likelihood_at(**rest),
            prior_factor,
            intercept_prior,
            rho=scales["rho"],
            start=theta,
            tol=tol,
        )

    def scales_at(log_values):
        return dict(zip(start, np.exp(log_values).tolist(), strict=True))

    def objective(log_values):
        nonlocal theta
        scales = scales_at(log_values)
        mode = mode_at(scales, _TIGHT)
        theta = mode.theta
        return -mode.log_evidence - (log_prior(**scales) if log_prior else 0.0)

    x = minimum_in_boxes(objective, np.log(list(start.values())), eps=_LOG_SCALE_STEP)
    scales = scales_at(x)
    spread = np.sqrt(np.diag(_inverse_curvature(objective, x)))
    return scales, mode_at(scales, 1e-10), dict(zip(start, spread.tolist(), strict=True))


def minimum_in_boxes(objective, start, *, jac=None, ftol=1e-10, **options):
    """Where a function of logarithms of scales is lowest, by L-BFGS.

    A box around the start of each search keeps it near: a long step may end where no mode is
    easily found. Where a search ends on an edge of its box, the next begins there.

    Parameters
    ----------
    objective : callable
    start : array, shape (k,)
    jac : True or None
        True if `objective` gives its slopes as well; else they are differences.
    ftol, **options
        Of SciPy's L-BFGS-B.

    Returns
    -------
    array, shape (k,)
    """
    lowest, highest = start - _LOG_SCALE_RANGE, start + _LOG_SCALE_RANGE
    x = start
    while True:
        low, high = np.maximum(x - _LOG_SCALE_REACH, lowest), np.minimum(x + _LOG_SCALE_REACH, highest)
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
    at = function(x)
    beside = [(function(x + h), function(x - h)) for h in steps]
    hessian = np.diag([up + down - 2 * at for up, down in beside])
    for j, k in combinations(range(len(x)), 2):
        both = function(x + steps[j] + steps[k]) + at - beside[j][0] - beside[k][0]
        hessian[j, k] = hessian[k, j] = both
    values, vectors = eigh(hessian / _CURVATURE_STEP**2)
    return (vectors / np.clip(values, 1.0, 1e8)) @ vectors.T
