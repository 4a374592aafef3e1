"""Shrinkage of Law et al. (2018), section 3.2, with any within-bag covariance and landmarks.

    y_i ~ N(a + alpha' m_i, alpha' C_i alpha + sigma^2),      alpha ~ N(0, rho^2 K^-1)

where m_i + m0 and C_i are mean and covariance of the posterior of the embedding of bag i at the
landmarks of the regression function, which may be others than the landmarks u of the embedding.
The package has one Sigma for all bags, so that one basis serves them all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.optimize import minimize


@dataclass
class Coordinates:
    """Embeddings of n bags in the joint basis V of R and of the Sigma of each bag.

    In it the posterior is independent: means s z, variances eta (1 - s).
    """

    z: Any  # V'(mu_hat - m0), shape (n, d)
    ratio: Any  # lambda / N, shape (n, d)
    map: Any  # to the landmarks of the regression function: V'r(u, z), shape (n or 1, d, q)
    outside: Any  # r(z, z) - r(z, u) R^-1 r(u, z), shape (q, q), which no bag determines

    def take(self, bags):
        """Those of the bags with these indices."""
        maps = self.map if len(self.map) == 1 else self.map[bags]
        return Coordinates(self.z[bags], self.ratio[bags], maps, self.outside)


def coordinates(away, sizes, covariances, R, cross=None, outside=None):
    """Coordinates of bags with mu_hat - m0 = `away` and within-bag `covariances`, (n or 1, d, d).

    `cross` is r(u, z), shape (d, q), by default R: the landmarks of the embedding.
    """
    if cross is None:
        cross, outside = R, np.zeros_like(R)
    pairs = [eigh(covariance, R) for covariance in covariances]
    lam, V = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    z = np.einsum("nd,ndk->nk", away, np.broadcast_to(V, (len(away), *V.shape[1:])))
    ratio = np.maximum(lam, 0) / np.asarray(sizes, float)[:, None]
    return Coordinates(z, ratio, np.swapaxes(V, 1, 2) @ cross, outside)


def moments(at, alpha, intercept, sigma, eta):
    """Mean and variance of each label, and s, w and D alpha, which gradients need."""
    s = eta / (eta + at.ratio)
    w = at.map @ alpha
    outside = (
        np.asarray(at.outside) * np.eye(len(alpha)) if np.ndim(at.outside) == 0 else at.outside
    )
    beyond = outside @ alpha
    mean = intercept + np.sum(w * s * at.z, axis=1)
    variance = eta * (np.sum(w**2 * (1 - s), axis=1) + alpha @ beyond) + sigma**2
    return mean, variance, s, np.broadcast_to(w, s.shape), beyond


def log_posterior(at, y, priors, alpha, intercept, log_sigma, log_eta, K, rho):
    """Log density of sigma, eta, .. and its gradient by alpha, intercept, log sigma, log eta."""
    sigma, eta = np.exp(log_sigma), np.exp(log_eta)
    mean, variance, s, w, beyond = moments(at, alpha, intercept, sigma, eta)
    by_mean = (y - mean) / variance
    by_variance = (by_mean**2 - 1 / variance) / 2
    value = -np.sum(np.log(variance) + (y - mean) ** 2 / variance) / 2
    by_w = s * at.z * by_mean[:, None] + 2 * eta * w * (1 - s) * by_variance[:, None]
    if len(at.map) == 1:
        by_alpha = at.map[0].T @ by_w.sum(axis=0)
    else:
        by_alpha = np.einsum("ndq,nd->q", at.map, by_w)
    by_alpha = by_alpha + 2 * eta * beyond * by_variance.sum()
    by_eta = np.sum((w * at.z * s * (1 - s)) * by_mean[:, None]) / eta
    by_eta += by_variance @ np.sum(w**2 * (1 - s) ** 2, axis=1) + by_variance.sum() * alpha @ beyond
    by_log_sigma = 2 * sigma**2 * by_variance.sum()
    away = (log_eta - np.log(priors["eta_median"])) / priors["eta_log_sd"]
    level = (intercept - priors["intercept_location"]) / priors["intercept_scale"]
    noise = sigma / priors["sigma_scale"]
    value -= (alpha @ K @ alpha / rho**2 + away**2 + level**2 + noise**2) / 2 + log_eta
    return value, (
        by_alpha - K @ alpha / rho**2,
        by_mean.sum() - level / priors["intercept_scale"],
        by_log_sigma - noise**2,
        eta * by_eta - away / priors["eta_log_sd"] - 1,
    )


def mode(at, y, priors, K, rho):
    """alpha, intercept, sigma and eta of highest density, alpha in coordinates of its prior."""
    L = cholesky(K, lower=True)

    def loss(x):
        alpha = rho * solve_triangular(L, x[:-3], lower=True, trans=1)
        value, (by_alpha, *others) = log_posterior(at, y, priors, alpha, *x[-3:], K, rho)
        gradient = rho * solve_triangular(L, by_alpha, lower=True)
        return -value, -np.r_[gradient, others]

    start = np.r_[np.zeros(len(K)), np.mean(y), np.log(np.std(y) / 2), np.log(priors["eta_median"])]
    x = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    alpha = rho * solve_triangular(L, x[:-3], lower=True, trans=1)
    return alpha, x[-3], np.exp(x[-2]), np.exp(x[-1])
