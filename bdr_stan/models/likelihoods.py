"""Log likelihoods of weights and intercept, with gradient, Fisher information and curvature.

Each function of the data and the scales returns a function of theta = [w; gamma; intercept], gamma
the weights of Q covariates. It returns the log density of the labels, its gradient, shape (D,) with
D = d + Q + 1, the Fisher information, shape (D, D), and a substitute of its negative Hessian for
Newton steps.

If embeddings are uncertain, mean and variance of a label both depend on theta: the mean is X theta
with rows X = [s z, x, 1], and the embedding adds nu = sum_k u_k theta_k^2 to the variance, u =
`unexplained` = [eta (1 - s), 0], the same for all bags of a group. In comments dnu = 2 u theta is
the gradient of nu, a column, and ' the transpose; its Hessian is 2 diag(u).
"""

from functools import partial

import numpy as np
from scipy.special import expit, log_expit, log_ndtr

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.families import Family, label_densities
from bdr_stan.labels import Labels
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.types import Array

_LOG_2PI = np.log(2 * np.pi)


def normal_likelihood(
    data: Rows,
    lam: Array,
    *,
    sigma: float,
    sigma_point: float = 0.0,
    eta: float | Array = 1.0,
    level: float = 0.0,
    sample: Array | None = None,
) -> LogLikelihood:
    """Labels with normal noise: the likelihood of ``stan/bdr.stan`` and ``stan/blr.stan``.

    `data` has rows [z, x, 1, y] by group; zeros as `lam`, shape (d,), mean linear regression. The
    intercept counts from `level`: labels far from zero lose no digits if it is near them. `sample`
    is the number of each coordinate's sample, if there are several, and eta has the shape (d,).
    """
    X, unexplained, row_group = _design(data, lam, eta, sample)
    sign, n_bags = data.sign, data.sign * data.n_bags
    noise = sigma**2 + data.known_variance
    if sigma_point:
        noise = noise + sigma_point**2 / data.bag_size
    y = data.rows[:, -1] - level * data.rows[:, -2]

    def likelihood(theta):
        # A group of n bags with sum of squared residuals S and variance nu (noise included) has
        # the log density -(n log(2 pi nu) + S / nu) / 2; n and S have the group's sign.
        e = X @ theta - y
        squares = sign * np.add.reduceat(e**2, data.start)
        variance, slope_of_variance = unexplained @ theta**2, 2 * unexplained * theta
        nu = variance + noise
        weight = (sign / nu)[row_group]
        value = -0.5 * np.sum(n_bags * (_LOG_2PI + np.log(nu)) + squares / nu)
        # Gradient: -X'e / nu - (n / nu - S / nu^2) dnu / 2.
        slope = -X.T @ (weight * e) - 0.5 * slope_of_variance.T @ (n_bags / nu - squares / nu**2)
        # Fisher information: X'X / nu + n dnu dnu' / (2 nu^2).
        design = (X * weight[:, None]).T @ X
        by_variance = n_bags / nu**2
        information = design + 0.5 * (slope_of_variance.T * by_variance) @ slope_of_variance
        # Negative Hessian: X'X / nu - (dS dnu' + dnu dS') / (2 nu^2)
        #     + (S / nu^3 - n / (2 nu^2)) dnu dnu' + (n / nu - S / nu^2) diag(u).
        slope_of_squares = 2 * np.add.reduceat(X * e[:, None], data.start)
        cross_term = (slope_of_squares.T * (sign / nu**2)) @ slope_of_variance
        curvature = design - 0.5 * (cross_term + cross_term.T)
        curvature += (
            slope_of_variance.T * (squares / nu**3 - 0.5 * by_variance)
        ) @ slope_of_variance
        diagonal = 0.5 * (n_bags / nu - squares / nu**2) @ (2 * unexplained)
        return value, slope, information, curvature + np.diag(diagonal)

    return likelihood


def probit_likelihood(data: Rows, lam: Array, *, eta: float) -> LogLikelihood:
    """Labels 0 and 1 with P(1) = Phi(xi / sqrt(1 + nu)); one row [z, x, 1, y] per bag."""
    X, unexplained, row_group = _design(data, lam, eta)
    by_group = partial(np.add.reduceat, indices=data.start)  # along axis 0
    sign = 2 * data.rows[:, -1] - 1

    def likelihood(theta):
        # h = xi / sqrt(v) with v = 1 + nu has the gradient dh = X / sqrt(v) - h dnu / (2 v).
        variance, slope_of_variance = unexplained @ theta**2, 2 * unexplained * theta
        total = 1 + variance[row_group]
        h = X @ theta / np.sqrt(total)
        slope_of_h = X / np.sqrt(total)[:, None]
        slope_of_h -= 0.5 * (h / total)[:, None] * slope_of_variance[row_group]
        # Ratios of densities and probabilities by their logarithms: both vanish in the tails.
        log_density = -0.5 * (h**2 + _LOG_2PI)
        log_p, log_q = log_ndtr(sign * h), log_ndtr(-sign * h)
        score = sign * np.exp(log_density - log_p)  # d log p / dh
        weight = np.exp(2 * log_density - log_p - log_q)
        information = (slope_of_h * weight[:, None]).T @ slope_of_h
        # Negative Hessian: score (score + h) dh dh' - score H with the Hessian of h,
        # H = -(X dnu' + dnu X') / (2 v^(3/2)) + 3 h dnu dnu' / (4 v^2) - h diag(u) / v.
        curvature = (slope_of_h * (score * (score + h))[:, None]).T @ slope_of_h
        cross_term = 0.5 * by_group(X * (score * total**-1.5)[:, None]).T @ slope_of_variance
        curvature += cross_term + cross_term.T
        by_variance = by_group(0.75 * score * h / total**2)
        curvature -= (slope_of_variance.T * by_variance) @ slope_of_variance
        curvature += np.diag(by_group(score * h / total) @ unexplained)
        return log_p.sum(), slope_of_h.T @ score, information, curvature

    return likelihood


def logit_likelihood(data: Rows) -> LogLikelihood:
    """Labels 0 and 1 with log odds z'w + x'gamma + intercept; one row [z, x, 1, y] per bag."""
    X, y = data.rows[:, :-1], data.rows[:, -1]
    sign = 2 * y - 1

    def likelihood(theta):
        h = X @ theta
        p = expit(h)
        information = (X * (p * (1 - p))[:, None]).T @ X  # also the negative Hessian
        return log_expit(sign * h).sum(), X.T @ (y - p), information, information

    return likelihood


def family_likelihood(
    data: Rows,
    lam: Array,
    family: Family,
    labels: Labels,
    *,
    eta: float | Array,
    sample: Array | None = None,
    **scales: float,
) -> LogLikelihood:
    """Labels of a family, linear predictors integrated out, as in ``stan/fast/bdr_glm.stan``.

    `data` has one row [z, x, 1, y] per bag, in the order of the labels; zeros as `lam`, shape (d,),
    treat embeddings as exact. For `sample` see `normal_likelihood`.
    """
    X, unexplained, row_group = _design(data, lam, eta, sample)
    known_part = 0.0 if labels.offsets is None else labels.offsets
    by_group = partial(np.add.reduceat, indices=data.start)  # along axis 0

    def likelihood(theta):
        slope_of_variance = 2 * unexplained * theta
        mean, variance = X @ theta + known_part, (unexplained @ theta**2)[row_group]
        densities = label_densities(family, labels, mean, variance, **scales)
        slope = X.T @ densities.slope + slope_of_variance.T @ by_group(densities.by_variance)
        # Negative Hessian, with l the log density in mean m and variance v of the predictor:
        #     -X' l_mm X - X' l_mv dnu' - dnu l_mv X - dnu l_vv dnu' - 2 l_v diag(u).
        design = (X * densities.curvature[:, None]).T @ X
        cross_term = by_group(X * densities.by_both[:, None]).T @ slope_of_variance
        squared = slope_of_variance.T * by_group(densities.by_variance_twice)
        curvature = design - cross_term - cross_term.T - squared @ slope_of_variance
        curvature -= np.diag(2 * by_group(densities.by_variance) @ unexplained)
        # As Fisher information a normal label's with this precision of the predictor.
        precision, information = np.maximum(densities.curvature, 0), design
        if np.any(densities.curvature < 0):
            information = (X * precision[:, None]).T @ X
        by_variance = slope_of_variance.T * by_group(0.5 * precision**2)
        return (
            densities.value.sum(),
            slope,
            information + by_variance @ slope_of_variance,
            curvature,
        )

    return likelihood


def _design(data, lam, eta, sample=None):
    """Rows [s z, x, 1], variances [eta (1 - s), 0] by group, and the group of each row."""
    d = len(lam)
    sizes = data.bag_size if sample is None else data.bag_size[:, sample]
    s = shrinkage_factors(sizes, lam, eta)
    X = data.rows[:, :-1].copy()
    X[:, :d] *= s[data.group]
    unexplained = np.zeros((len(s), X.shape[1]))  # columns of covariates and intercept stay 0
    unexplained[:, :d] = eta * (1.0 - s)
    return X, unexplained, data.group
