"""VBAgg: the Gaussian nearest to the posterior of rates inside bags, by a variational bound.

The bound is maximised over m, F and rho, theta = [w; f0] ~ N(m, F F'), in coordinates where
Laplace's method has m = 0 and F = I.

Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018), Variational Learning on
Aggregate Outputs with Gaussian Processes, section 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import Expectation
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.posterior.mode import Mode
from bdr_stan.posterior.whitening import whitened_coordinates
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn


@dataclass(frozen=True)
class VariationalPosterior:
    """Gaussian N(mean, factor factor') for the posterior of theta = [w; intercept]."""

    mean: Array  # shape (d + 1,)
    factor: Array  # shape (d + 1, d + 1)
    rho: float  # scale of the weights
    bound: float  # on the log evidence given rho, with all constants


def variational_posterior(
    rows: AggregateRows,
    totals: Totals,
    *,
    priors: Mapping[str, float],
    rho: float,
    mode: Mode,
    scales: Mapping[str, float] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-3,
) -> VariationalPosterior:
    """Gaussian of theta, and rho, with the highest bound plus log prior density of log(rho).

    The search begins at `rho` and `mode`, and ends when no slope of the bound, per posterior
    standard deviation, exceeds `tol`. Unlike the paper's, the function has no variance other than
    theta's. Means of the square link include the part that landmarks cannot express.
    """
    expected = expected_log_likelihood(rows, totals, **(scales or {}))
    coordinates = _Coordinates.at_mode(mode, rho)
    log_median, log_sd = np.log(priors["rho_median"]), priors["rho_log_sd"]

    def bound(mean, factor, log_rho):
        value, *by = expected(mean, factor, float(np.exp(log_rho)))
        divergence, *slopes = divergence_from_prior(mean, factor, log_rho, priors)
        return value - divergence, *(a - b for a, b in zip(by, slopes, strict=True))

    def objective(x):
        value, by_mean, by_factor, by_log_rho = bound(*coordinates.gaussian(x))
        deviation = (x[-1] - log_median) / log_sd
        slope = coordinates.slope(x, by_mean, by_factor, by_log_rho - deviation / log_sd)
        return 0.5 * deviation**2 - value, -slope

    options = {"maxcor": 20, "maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol, "ftol": 0}
    # One BLAS thread: products of a bag's rows are small, and threads would wait for each other.
    with limited_blas():
        start = coordinates.start(np.log(rho))
        end = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        mean, factor, log_rho = coordinates.gaussian(end.x)
        value = bound(mean, factor, log_rho)[0]
    slope = np.abs(end.jac).max()
    if slope > 10 * tol:  # below it rounding may have ended the search
        warn(
            f"the variational bound still rises after {end.nit} steps (slope {slope:.2g}, tol "
            f"{tol:g}): raise max_iter"
        )
    return VariationalPosterior(mean, factor, float(np.exp(log_rho)), float(value))


def expected_log_likelihood(rows: AggregateRows, totals: Totals, **scales: float) -> Expectation:
    """Expected log density of the labels under theta ~ N(m, F F'), or a bound on it.

    With the square link functions of lambda_a are expanded about its mean to second order, see
    `Square.expectation`. With the exp link f_j ~ N(h_j, v_j), E lambda_a = sum_j p_j exp(h_j +
    v_j / 2), and a lower bound follows from

        E log lambda_a >= log sum_j p_j exp(h_j)       E log lambda_a <= log E lambda_a
        E 1 / lambda_a <= 1 / sum_j p_j exp(h_j - v_j / 2)

    The result maps m, F and rho to the value with all constants and its slopes in m, F and log rho.

    Source: Law et al. (2018), section 3.2 for the Poisson; the first inequality is their log-sum
    lemma, the second Jensen's. The third is Jensen's for a bag's shares: 1 / lambda_a <= sum_j
    pi_j^2 exp(-f_j) / p_j for all shares pi_j, used at the shares of smallest expectation.
    """
    y, likelihood, link = np.asarray(totals.y, float), totals.likelihood, totals.link
    terms = likelihood.expected_terms.get(link.name)
    if terms is None:
        *most, last = (repr(n) for n, other in LIKELIHOODS.items() if other.expected_terms)
        raise ValueError(
            f"no variational bound for the {likelihood.name} likelihood with link {link.name!r}: "
            f"choose {', '.join(most)} or {last} with link 'square' or 'exp', or another method"
        )
    constant = likelihood.constant(y, **scales)

    def of_moments(*moments):
        value, *slopes = terms(y, *moments, **scales)
        return value.sum() + constant, slopes

    return link.expectation(rows, of_moments)


def divergence_from_prior(
    mean: Array, factor: Array, log_rho: float, priors: Mapping[str, float]
) -> tuple[float, Array, Array, float]:
    """Kullback-Leibler divergence of N(mean, factor factor') from the prior, and its slopes."""
    d = len(mean) - 1
    precision = np.append(np.full(d, np.exp(-2 * log_rho)), priors["intercept_scale"] ** -2.0)
    deviation = mean - np.append(np.zeros(d), priors["intercept_location"])
    squares = precision * (deviation**2 + np.sum(factor**2, axis=1))
    value = 0.5 * (squares.sum() - d - 1 - np.log(precision).sum()) - np.linalg.slogdet(factor)[1]
    by_factor = precision[:, None] * factor - np.linalg.inv(factor).T
    return value, precision * deviation, by_factor, d - squares[:d].sum()


@dataclass(frozen=True)
class _Coordinates:
    """Mean and factor of theta = axes (centre + scale t), t nearly standard normal at every rho.

    The vector x has the mean of t, the lower triangle of its factor, row by row with the logarithm
    of its diagonal, and log rho. Centre and scale depend on rho, see `whitened_coordinates`.
    """

    axes: Array
    information: Array
    linear: Array  # precision times the mode along the axes (`linear_term` in Stan)
    intercept_centre: float
    intercept_unit: float

    @classmethod
    def at_mode(cls, mode, rho):
        d = len(mode.theta) - 1
        whitened = whitened_coordinates(mode, np.eye(d), rho)
        axes = np.eye(d + 1)
        axes[:d, :d] = whitened["axes"]
        axes[d, :d] = whitened["intercept_slope"] @ whitened["axes"]
        names = ("information", "linear_term", "intercept_centre", "intercept_unit")
        return cls(axes, *(whitened[name] for name in names))

    def start(self, log_rho):
        D = len(self.axes)
        return np.append(np.zeros(D + D * (D + 1) // 2), log_rho)

    def gaussian(self, x):
        """Mean and factor of theta, and log rho."""
        t, T, centre, scale, _ = self._unpacked(x)
        return self.axes @ (centre + scale * t), self.axes @ (scale[:, None] * T), x[-1]

    def slope(self, x, by_mean, by_factor, by_log_rho):
        """Slope in x of a function with given slopes in mean, factor and log rho."""
        t, T, centre, scale, share = self._unpacked(x)
        by_mean, by_factor = self.axes.T @ by_mean, self.axes.T @ by_factor
        # d centre = 2 share centre d log rho, d scale = share scale d log rho
        by_log_rho += (by_mean * (2 * centre + scale * t)) @ share
        by_log_rho += np.sum(by_factor * T, axis=1) @ (scale * share)
        by_T = scale[:, None] * by_factor
        by_T[np.diag_indices_from(T)] *= T.diagonal()
        return np.concatenate([scale * by_mean, by_T[np.tril_indices_from(T)], [by_log_rho]])

    def _unpacked(self, x):
        """Mean and factor of t, centre, scale, and the share of the prior in the precision."""
        D = len(self.axes)
        T = np.zeros((D, D))
        T[np.tril_indices(D)] = x[D:-1]
        T[np.diag_indices(D)] = np.exp(T.diagonal())
        prior = np.exp(-2 * x[-1])
        precision = self.information + prior
        centre = np.append(self.linear / precision, self.intercept_centre)
        scale = np.append(precision**-0.5, self.intercept_unit)
        # The intercept's own prior does not depend on rho.
        return x[:D], T, centre, scale, np.append(prior / precision, 0.0)
