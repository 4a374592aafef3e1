"""Log likelihoods of weights given the totals of bags: value, slope, Fisher information, curvature.

A bag's label has the mean lambda_a = sum_j p_j rate(phi_j' theta), theta = [w; f0]. `aggregate_likelihood`
gives what `bdr_stan.posterior.evidence` needs to find the mode and the evidence.
"""

import numpy as np
from scipy.special import expit, gammaln

# Link -> rate at f and its first two derivatives.
RATES = {
    "square": lambda f: (f**2, 2 * f, np.full_like(f, 2.0)),
    "exp": lambda f: (np.exp(f),) * 3,
    "logit": lambda f: _logistic(expit(f)),
    "identity": lambda f: (f, np.ones_like(f), np.zeros_like(f)),
}
# Links of each likelihood that a Stan program is there for, the default first.
LINKS = {
    "poisson": ("square", "exp"),
    "negative binomial": ("square", "exp"),
    "exponential": ("square", "exp"),
    "binomial": ("logit",),
    "normal": ("identity",),
}


def rate(f, link):
    """Rate at the function's value f under a link, "square", "exp", "logit" or "identity"."""
    return RATES[link](f)[0]


def aggregate_likelihood(rows, y, likelihood, link, *, dispersion=0.0, sigma=1.0, trials=None):
    """The likelihood of ``stan/aggregate_*.stan`` at given scales.

    Parameters
    ----------
    rows : AggregateRows
        Of the points; for the square link their factors do as well.
    y : array, shape (n,)
        Label of each bag.
    likelihood : {"poisson", "negative binomial", "exponential", "binomial", "normal"}
    link : {"square", "exp", "logit", "identity"}
    dispersion : float, >= 0
        Of the negative binomial: its variance is lambda + dispersion^2 lambda^2.
    sigma : float, > 0
        Of the normal: noise of one point; that of a total is sigma sqrt(sum_j p_j^2).
    trials : array, shape (n,)
        Of the binomial, whose probability is lambda_a / sum_j p_j.

    Returns
    -------
    callable
        Given theta, shape (d + 1,), the log density of the labels, its gradient, the Fisher
        information and the negative Hessian.
    """
    totals_of = _squares(rows) if link == "square" and rows.packs else _points(rows, link)
    if likelihood == "binomial":
        totals_of = _shares(totals_of, rows.total)
    of_labels = label_density(
        y, likelihood, dispersion=dispersion, noise=sigma * rows.noise_factor, trials=trials
    )

    def log_likelihood(theta):
        mean, by_theta, bent = totals_of(theta)
        value, pull, information, curvature, _ = of_labels(mean)
        return (
            value,
            by_theta.T @ pull,
            (by_theta.T * information) @ by_theta,
            (by_theta.T * curvature) @ by_theta - bent(pull),
        )

    return log_likelihood


# Each gives a function of theta: the bags' totals lambda, shape (n,), their slopes, (n, d + 1), and a
# function of numbers c, shape (n,): sum_a c_a times the second derivative of lambda_a.


def _points(rows, link):
    X = rows.rows
    bag = np.repeat(np.arange(len(rows.start)), rows.length)
    weights = np.ones(len(X)) if rows.weights is None else rows.weights

    def totals(theta):
        rates, slopes, bends = RATES[link](X @ theta)
        by_theta = np.add.reduceat(X * (weights * slopes)[:, None], rows.start)
        return (
            np.add.reduceat(weights * rates, rows.start),
            by_theta,
            lambda c: (X * (c[bag] * weights * bends)[:, None]).T @ X,
        )

    return totals


def _squares(rows):
    gram = rows.gram()

    def totals(theta):
        half = gram @ theta
        return half @ theta, 2 * half, lambda c: 2 * np.tensordot(c, gram, 1)

    return totals


def _shares(totals_of, total):
    def shares(theta):
        mean, by_theta, bent = totals_of(theta)
        return mean / total, by_theta / total[:, None], lambda c: bent(c / total)

    return shares


def label_density(y, likelihood, *, dispersion=0.0, noise=1.0, trials=None):
    """Log density of labels as a function of their means lambda, shape (n,).

    Parameters are as for `aggregate_likelihood`; `noise`, shape (n,), is the standard deviation of
    the normal.

    Returns
    -------
    callable
        Given the means, the log density of all labels and, label by label, its slope in the mean,
        the Fisher information, minus the second derivative, and the slope of the information.
    """
    if likelihood == "normal":
        return lambda mean: _normal(y, mean, noise)
    if likelihood == "binomial":
        return lambda mean: _binomial(y, mean, trials)
    if likelihood == "exponential":
        return lambda mean: _exponential(y, mean)
    if dispersion > 0:
        return lambda mean: _negative_binomial(y, mean, dispersion)
    return lambda mean: _poisson(y, mean)


def _poisson(y, mean):
    value = np.sum(y * np.log(mean) - mean - gammaln(y + 1))
    return value, y / mean - 1, 1 / mean, y / mean**2, -(mean**-2.0)


def _negative_binomial(y, mean, dispersion):
    shape = dispersion**-2.0
    total = shape + mean
    value = gammaln(y + shape) - gammaln(shape) - gammaln(y + 1)
    value += shape * np.log(shape / total) + y * np.log(mean / total)
    return (
        value.sum(),
        y / mean - (y + shape) / total,
        shape / (mean * total),
        y / mean**2 - (y + shape) / total**2,
        total**-2.0 - mean**-2.0,
    )


def _exponential(y, mean):
    return (
        -np.sum(np.log(mean) + y / mean),
        (y / mean - 1) / mean,
        mean**-2.0,
        (2 * y / mean - 1) / mean**2,
        -2 * mean**-3.0,
    )


def _binomial(y, mean, trials):
    rest = trials - y
    spread = mean * (1 - mean)
    value = gammaln(trials + 1) - gammaln(y + 1) - gammaln(rest + 1)
    value += y * np.log(mean) + rest * np.log1p(-mean)
    return (
        value.sum(),
        y / mean - rest / (1 - mean),
        trials / spread,
        y / mean**2 + rest / (1 - mean) ** 2,
        -trials * (1 - 2 * mean) / spread**2,
    )


def _normal(y, mean, noise):
    z = (y - mean) / noise
    value = -np.sum(0.5 * z**2 + np.log(noise) + 0.5 * np.log(2 * np.pi))
    precision = noise**-2.0
    return value, z / noise, precision, precision, np.zeros(len(y))


def _logistic(p):
    slope = p * (1 - p)
    return p, slope, slope * (1 - 2 * p)
