"""Bags from random distributions of the unit interval, drawn from a Dirichlet process.

    P_i ~ DP(alpha, uniform(0, 1)),   points x_ij ~ P_i
    y_i ~ normal(integral f dP_i, noise),   f(x) = 10 x exp(-5 x)

The label is linear in the distribution, and a regression should estimate f. All bags have the same
number N of points; their means of f have the sampling error of N points, by which a regression on
them is attenuated.
"""

from typing import NamedTuple

import numpy as np

from bdr_stan.bags import Bags

_REST = 1e-5  # length of the stick at which its breaking ends


class DirichletBags(NamedTuple):
    """Bags, their labels, and the means of f of which these are noisy measurements."""

    bags: Bags
    y: np.ndarray  # (n,), labels
    mean: np.ndarray  # (n,), the integral of f over each bag's distribution


def influence(x):
    """The true f(x) = 10 x exp(-5 x), of an array x of any shape."""
    return 10 * x * np.exp(-5 * x)


def dirichlet_bags(seed, *, n_bags=200, n_points=50, alpha=25.0, noise=0.1):
    """Draw distributions, points and labels.

    Parameters
    ----------
    seed : int, >= 0
    n_bags : int, >= 1
    n_points : int, >= 1, in every bag
    alpha : float, > 0, default 25
        Concentration: the variance of a bag's mean of f is that of f under the uniform
        distribution, divided by alpha + 1.
    noise : float, >= 0, default 0.1
        Standard deviation of the labels' noise.

    Returns
    -------
    DirichletBags

    Raises
    ------
    ValueError : an argument outside its range.

    Source: Tang et al. (2023), "Direct Bayesian regression for distribution-valued covariates",
    the simulation; the Dirichlet process by Sethuraman's (1994) breaking of a stick, cut where
    1e-5 of its length is left.
    """
    for name, value in [("n_bags", n_bags), ("n_points", n_points)]:
        if not (value >= 1 and value == int(value)):
            raise ValueError(f"{name} must be a whole number, >= 1, found {value}")
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be a positive number, found {alpha}")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise is a standard deviation and must be >= 0, found {noise}")
    rng = np.random.default_rng(seed)
    points, mean = np.empty((n_bags, n_points)), np.empty(n_bags)
    for i in range(n_bags):
        shares = _broken_stick(rng, alpha)
        atoms = rng.uniform(size=len(shares))
        points[i] = rng.choice(atoms, n_points, p=shares)
        mean[i] = shares @ influence(atoms)
    y = rng.normal(mean, noise)
    bags = Bags(points.reshape(-1, 1), np.arange(n_bags + 1) * n_points)
    return DirichletBags(bags, y, mean)


def _broken_stick(rng, alpha):
    """Shares of the atoms, which sum to 1."""
    shares, rest = [], 1.0
    while rest > _REST:
        piece = rest * rng.beta(1, alpha)
        shares.append(piece)
        rest -= piece
    return np.array(shares) / sum(shares)
