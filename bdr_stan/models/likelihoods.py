"""Log likelihoods of weights and intercept: value, slope, Fisher information and curvature.

Each function takes the data and the scales and returns a function of theta = [w; gamma; intercept],
gamma the weights of Q covariates, which gives the log density of the labels, its gradient, shape
(D,) with D = d + Q + 1, the Fisher information, shape (D, D), and what a Newton step may take for
its negative Hessian.
"""

import numpy as np
from scipy.special import expit, log_expit, log_ndtr

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.types import Array

_LOG_2PI = np.log(2 * np.pi)


def normal_likelihood(
    data: Rows,
    lam: Array,
    *,
    sigma: float,
    sigma_point: float = 0.0,
    eta: float = 1.0,
    level: float = 0.0,
) -> LogLikelihood:
    """Labels with normal noise: the likelihood of ``stan/bdr.stan`` and ``stan/blr.stan``.

    Parameters
    ----------
    data : Rows
        Rows [z, x, 1, y] by group.
    lam : array, shape (d,)
        Within-bag variances; zeros give Bayesian linear regression.
    sigma, eta : float, > 0
        Noise sd and embedding scale.
    sigma_point : float, default 0
        Noise sd of one point of a bag, of which the label is an average.
    level : float, default 0
        Where the intercept counts from: labels far from zero lose no digits if it is near them.

    Returns
    -------
    callable
    """
    X, lost, row_group = _design(data, lam, eta)
    curvature_of_variance = 2 * lost
    noise = sigma**2 + sigma_point**2 / data.bag_size + data.known_variance
    y = data.rows[:, -1] - level * data.rows[:, -2]

    def likelihood(theta):
        e = X @ theta - y
        squares = np.add.reduceat(e**2, data.start)
        variance, slope_of_variance = lost @ theta**2, 2 * lost * theta
        nu = variance + noise
        weight = 1.0 / nu[row_group]
        value = -0.5 * np.sum(data.n_bags * (_LOG_2PI + np.log(nu)) + squares / nu)
        slope = -X.T @ (weight * e) - 0.5 * slope_of_variance.T @ (
            data.n_bags / nu - squares / nu**2
        )
        design = (X * weight[:, None]).T @ X
        of_variance = data.n_bags / nu**2
        information = design + 0.5 * (slope_of_variance.T * of_variance) @ slope_of_variance
        slope_of_squares = 2 * np.add.reduceat(X * e[:, None], data.start)
        crossed = (slope_of_squares.T / nu**2) @ slope_of_variance
        curvature = design - 0.5 * (crossed + crossed.T)
        curvature += (
            slope_of_variance.T * (squares / nu**3 - 0.5 * of_variance)
        ) @ slope_of_variance
        own = 0.5 * (data.n_bags / nu - squares / nu**2) @ curvature_of_variance
        curvature[np.diag_indices(len(own))] += own
        return value, slope, information, curvature

    return likelihood


def probit_likelihood(data: Rows, lam: Array, *, eta: float) -> LogLikelihood:
    """Labels 0 and 1 with P(1) = Phi(xi / sqrt(1 + nu)): that of ``stan/bdr_probit.stan``.

    Parameters
    ----------
    data : Rows
        One row [z, x, 1, y] a bag (``compress(..., lossless=False)``), y 0 or 1.
    lam : array, shape (d,)
        Within-bag variances.
    eta : float, > 0
        Embedding scale.

    Returns
    -------
    callable
    """
    X, lost, row_group = _design(data, lam, eta)
    sign = 2 * data.rows[:, -1] - 1

    def likelihood(theta):
        variance, slope_of_variance = lost @ theta**2, 2 * lost * theta
        total = 1 + variance[row_group]
        h = X @ theta / np.sqrt(total)
        slope_of_h = X / np.sqrt(total)[:, None]
        slope_of_h -= 0.5 * (h / total)[:, None] * slope_of_variance[row_group]
        log_density = -0.5 * (h**2 + _LOG_2PI)
        log_p, log_q = log_ndtr(sign * h), log_ndtr(-sign * h)
        score = sign * np.exp(log_density - log_p)  # d log p / dh
        weight = np.exp(2 * log_density - log_p - log_q)
        information = (slope_of_h * weight[:, None]).T @ slope_of_h
        curvature = (slope_of_h * (score * (score + h))[:, None]).T @ slope_of_h

        def by_group(values):
            return np.add.reduceat(values, data.start, axis=0)

        # less score times the second derivative of h
        crossed = 0.5 * by_group(X * (score * total**-1.5)[:, None]).T @ slope_of_variance
        curvature += crossed + crossed.T
        of_variance = by_group(0.75 * score * h / total**2)
        curvature -= (slope_of_variance.T * of_variance) @ slope_of_variance
        curvature[np.diag_indices(len(theta))] += by_group(score * h / total) @ lost
        return log_p.sum(), slope_of_h.T @ score, information, curvature

    return likelihood


def logit_likelihood(data: Rows) -> LogLikelihood:
    """Labels 0 and 1 with log odds z'w + x'gamma + intercept: that of ``stan/blr_logit.stan``.

    Parameters
    ----------
    data : Rows
        One row [z, x, 1, y] a bag (``compress(..., lossless=False)``), y 0 or 1.

    Returns
    -------
    callable
    """
    X, y = data.rows[:, :-1], data.rows[:, -1]
    sign = 2 * y - 1

    def likelihood(theta):
        h = X @ theta
        p = expit(h)
        information = (X * (p * (1 - p))[:, None]).T @ X
        return log_expit(sign * h).sum(), X.T @ (y - p), information, information

    return likelihood


def _design(data, lam, eta):
    """Shrunk rows [s z, x, 1], variance lost [eta (1 - s), 0] of each group, group of each row."""
    d = len(lam)
    s = shrinkage_factors(data.bag_size, lam, eta)
    row_group = np.repeat(np.arange(len(data.length)), data.length)
    X = data.rows[:, :-1].copy()
    X[:, :d] *= s[row_group]
    lost = np.zeros((len(s), X.shape[1]))  # columns of covariates and intercept stay 0
    lost[:, :d] = eta * (1.0 - s)
    return X, lost, row_group
