"""Mode, curvature and evidence of the compressed Gaussian model.

Given the scales sigma, rho, eta, the weights and the intercept theta = [w; a] have a posterior
that is Gaussian (BLR) or nearly so (BDR). Its mode comes from Fisher scoring, its curvature
whitens Stan's coordinates, and Laplace's method on it gives the evidence of the scales: exact
for BLR.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular
from scipy.optimize import minimize

from bdr_stan.moments import shrinkage_factors

# How far, on the log scale, the search for the scales may move from its start.
_LOG_SCALE_RANGE = 12.0
# Its slopes are differences over this step; the mode must follow each step closely, or the
# curvature in the evidence is not that of the scales it is asked for.
_LOG_SCALE_STEP = 1e-4
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


def find_mode(
    data, lam, prior_factor, intercept_prior, *, sigma, rho, eta, start=None, tol=1e-10
):
    """Most probable weights and intercept given the scales, by Fisher scoring.

    Parameters
    ----------
    data : CompressedRows
        Rows [z, 1, y] by group.
    lam : array, shape (d,)
        Within-bag variances; zeros give Bayesian linear regression.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    intercept_prior : (float, float)
        Mean and standard deviation of the intercept's normal prior.
    sigma, rho, eta : float, > 0
        Noise sd, weight scale, embedding scale.
    start : array, shape (d + 1,), optional
        Where to begin.
    tol : float
        Stop when a step promises to lower the objective by less.

    Returns
    -------
    Mode
    """
    d = len(lam)
    s = shrinkage_factors(data.bag_size, lam, eta)
    row_group = np.repeat(np.arange(len(data.length)), data.length)
    X = data.rows[:, :-1].copy()
    X[:, :d] *= s[row_group]
    y = data.rows[:, -1]
    lost = 1.0 - s  # share of each coordinate's prior variance that the points leave open
    location, spread = intercept_prior
    centre = np.append(np.zeros(d), location)
    prior_precision = np.zeros((d + 1, d + 1))
    prior_precision[:d, :d] = prior_factor.T @ prior_factor / rho**2
    prior_precision[d, d] = 1.0 / spread**2

    def evaluate(theta):
        e = X @ theta - y
        squares = np.add.reduceat(e**2, data.start)
        nu = eta * lost @ theta[:d] ** 2 + sigma**2
        shift = theta - centre
        value = 0.5 * (
            np.sum(data.n_bags * np.log(2 * np.pi * nu) + squares / nu)
            + shift @ prior_precision @ shift
        )
        return value, e, squares, nu

    def slope_and_precision(theta, e, squares, nu):
        dnu = np.zeros((len(nu), d + 1))
        dnu[:, :d] = 2 * eta * lost * theta[:d]
        weight = 1.0 / nu[row_group]
        slope = (
            X.T @ (weight * e)
            + 0.5 * dnu.T @ (data.n_bags / nu - squares / nu**2)
            + prior_precision @ (theta - centre)
        )
        precision = (
            (X * weight[:, None]).T @ X
            + 0.5 * (dnu * (data.n_bags / nu**2)[:, None]).T @ dnu
            + prior_precision
        )
        return slope, precision

    theta = centre.copy() if start is None else np.array(start, float)
    value, *state = evaluate(theta)
    for _ in range(200):
        slope, precision = slope_and_precision(theta, *state)
        step = -cho_solve(cho_factor(precision), slope)
        promised = -slope @ step
        if promised < tol * (1 + abs(value)):
            break
        scale = 1.0
        while scale > 1e-10:
            trial, *trial_state = evaluate(theta + scale * step)
            if trial <= value - 1e-4 * scale * promised + 1e-14 * abs(value):
                break
            scale /= 2
        else:
            break
        theta, value, state = theta + scale * step, trial, trial_state
    _, log_det = np.linalg.slogdet(precision)
    _, log_det_prior = np.linalg.slogdet(prior_precision)
    return Mode(theta, precision, -value + 0.5 * (log_det_prior - log_det))


def maximise_evidence(
    data, lam, prior_factor, intercept_prior, start, *, log_prior=None, fixed=()
):
    """Scales with the highest evidence, and the mode of the weights there.

    Parameters
    ----------
    data, lam, prior_factor, intercept_prior
        As for `find_mode`.
    start : dict with keys "sigma", "rho", "eta"
        Where the search begins.
    log_prior : callable, optional
        Log prior density of the scales, ``log_prior(sigma=, rho=, eta=)``, with respect to
        their logarithms. None maximises the evidence alone.
    fixed : tuple of str
        Scales held at their start.

    Returns
    -------
    scales : dict with keys "sigma", "rho", "eta"
    mode : Mode
    """
    free = [name for name in ("sigma", "rho", "eta") if name not in fixed]
    theta = None

    def scales_at(log_values):
        return {**start, **dict(zip(free, np.exp(log_values), strict=True))}

    def objective(log_values):
        nonlocal theta
        scales = scales_at(log_values)
        mode = find_mode(
            data, lam, prior_factor, intercept_prior, start=theta, tol=_TIGHT, **scales
        )
        theta = mode.theta
        return -mode.log_evidence - (log_prior(**scales) if log_prior else 0.0)

    x0 = np.log([start[name] for name in free])
    found = minimize(
        objective,
        x0,
        method="L-BFGS-B",
        bounds=[(x - _LOG_SCALE_RANGE, x + _LOG_SCALE_RANGE) for x in x0],
        options={"ftol": 1e-10, "gtol": 1e-5, "eps": _LOG_SCALE_STEP},
    )
    scales = scales_at(found.x)
    return scales, find_mode(data, lam, prior_factor, intercept_prior, start=theta, **scales)
