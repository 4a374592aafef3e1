"""VBAgg: the Gaussian nearest to the posterior of rates inside bags, by a variational bound.

The posterior of theta = [w; f0] is taken to be N(m, F F'). Under it the expected log likelihood is
a function of a few moments of each bag's total rate lambda_a. The bound is maximised over m, F and
the scale rho of the weights, in coordinates in which Laplace's method has m = 0 and F = I.

Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018), Variational Learning on
Aggregate Outputs with Gaussian Processes, section 3.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

from bdr_stan.posterior.evidence import whitened_coordinates

_CHUNK_BYTES = 1 << 24


@dataclass(frozen=True)
class VariationalPosterior:
    """Gaussian approximation N(mean, factor factor') of the posterior of theta = [w; intercept].

    Attributes
    ----------
    mean : array, shape (d + 1,)
    factor : array, shape (d + 1, d + 1)
        mean + factor @ e is a draw, e standard normal.
    rho : float
        Scale of the weights.
    bound : float
        Variational bound on the log marginal likelihood of the labels given rho, with all
        constants. It compares with `Mode.log_evidence`, and may select settings such as bandwidths.
    """

    mean: np.ndarray
    factor: np.ndarray
    rho: float
    bound: float


def variational_posterior(
    rows, y, likelihood, link, *, priors, rho, mode, dispersion=0.0, max_iter=1000, tol=1e-3
):
    """Gaussian of theta, and rho, with the highest bound plus log prior density of log(rho).

    Parameters
    ----------
    rows, y, likelihood, link, dispersion
        As for `expected_log_likelihood`; link "square" gives VBAgg-Sq, "exp" VBAgg-Exp.
    priors : dict
        intercept_location, intercept_scale, rho_median, rho_log_sd.
    rho : float, > 0
        Where the search begins.
    mode : Mode
        Of the posterior at that rho.
    max_iter : int
        Most steps of L-BFGS.
    tol : float
        The search ends where no slope of the bound, per posterior standard deviation, is larger.

    Returns
    -------
    VariationalPosterior

    Raises
    ------
    ValueError : as `expected_log_likelihood` does.

    Warns
    -----
    UserWarning : the search ended before the bound was at its maximum.

    Notes
    -----
    Unlike the paper's, the function has no variance but that of theta: none is added for what the
    landmarks cannot express, so that the model is the one that is sampled.
    """
    expected = expected_log_likelihood(rows, y, likelihood, link, dispersion=dispersion)
    coordinates = _Coordinates.at(mode, rho)
    log_median, log_sd = np.log(priors["rho_median"]), priors["rho_log_sd"]

    def bound(mean, factor, log_rho):
        value, by_mean, by_factor = expected(mean, factor)
        divergence, *slopes = _divergence(mean, factor, log_rho, priors)
        return value - divergence, by_mean - slopes[0], by_factor - slopes[1], -slopes[2]

    def objective(x):
        value, by_mean, by_factor, by_log_rho = bound(*coordinates.gaussian(x))
        away = (x[-1] - log_median) / log_sd
        slope = coordinates.slope(x, by_mean, by_factor, by_log_rho - away / log_sd)
        return 0.5 * away**2 - value, -slope

    options = {"maxcor": 20, "maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol, "ftol": 0}
    # One BLAS thread: products of a bag's rows are small, and threads would wait for each other.
    with threadpool_limits(1, user_api="blas"):
        start = coordinates.start(np.log(rho))
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        mean, factor, log_rho = coordinates.gaussian(found.x)
        value = bound(mean, factor, log_rho)[0]
    slope = np.abs(found.jac).max()
    if slope > 10 * tol:  # below it rounding may have ended the search
        warnings.warn(
            f"the variational bound still rises after {found.nit} steps (slope {slope:.2g}, tol "
            f"{tol:g}): raise max_iter",
            stacklevel=2,
        )
    return VariationalPosterior(mean, factor, float(np.exp(log_rho)), float(value))


def expected_log_likelihood(rows, y, likelihood, link, *, dispersion=0.0):
    """Expected log density of the labels under theta ~ N(m, F F'), or a bound on it.

    With the square link lambda_a = |Q_a theta|^2 has mean and variance

        M_a = |Q_a m|^2 + tr S_a,   V_a = 4 m' Q_a' S_a Q_a m + 2 tr S_a^2,   S_a = Q_a F F' Q_a'

    and functions of lambda_a are expanded about M_a to second order: E log lambda_a is taken to be
    log M_a - V_a / (2 M_a^2). That is no bound, and is good where V_a is well below M_a^2.

    With the exp link point j has f_j ~ N(h_j, v_j), E lambda_a = sum_j p_j exp(h_j + v_j / 2), and

        E log lambda_a >= log sum_j p_j exp(h_j)       E log lambda_a <= log E lambda_a
        E 1 / lambda_a <= 1 / sum_j p_j exp(h_j - v_j / 2)

    make a lower bound. It rewards no dependence between the points of a bag, whose sum alone is
    seen: the Gaussian that maximises it is too narrow.

    Parameters
    ----------
    rows : AggregateRows
        Of the points; for the square link their factors do as well.
    y : array, shape (n,)
        Label of each bag.
    likelihood : {"poisson", "negative binomial", "exponential"}
    link : {"square", "exp"}
    dispersion : float, > 0, for the negative binomial
        Its variance is lambda + dispersion^2 lambda^2.

    Returns
    -------
    callable
        Given mean m, shape (d + 1,), and factor F, shape (d + 1, d + 1), the value with all
        constants and its slopes in mean and factor.

    Raises
    ------
    ValueError : no bound for the likelihood with the link; factors where points' rows are needed;
        a dispersion that is not positive.

    Source: Law et al. (2018), section 3.2 for the Poisson; the first inequality is their log-sum
    lemma, the second Jensen's. The third is Jensen's for a bag's shares: of all shares pi_j,
    1 / lambda_a <= sum_j pi_j^2 exp(-f_j) / p_j, take those with the least expectation.
    """
    if (likelihood, link) not in _TERMS:
        raise ValueError(
            f"no variational bound for the {likelihood} likelihood with link {link!r}: choose "
            "'poisson', 'negative binomial' or 'exponential' with link 'square' or 'exp', or "
            "another method"
        )
    if link == "exp" and rows.weights is None:
        raise ValueError("link 'exp' needs the points' own rows: make them by point_rows")
    if likelihood == "negative binomial" and not dispersion > 0:
        raise ValueError(f"dispersion must be > 0, found {dispersion}")
    terms = _TERMS[likelihood, link]
    y = np.asarray(y, float)
    shape, constant = None, 0.0
    if likelihood != "exponential":
        constant = -gammaln(y + 1).sum()
    if likelihood == "negative binomial":
        shape = dispersion**-2.0
        constant += np.sum(gammaln(y + shape) - gammaln(shape) + shape * np.log(shape))

    def of_labels(*moments):
        value, *slopes = terms(y, shape, *moments)
        return value.sum() + constant, slopes

    return (_of_squares if link == "square" else _of_exponentials)(rows, of_labels)


def _of_squares(rows, of_labels):
    """`expected_log_likelihood` given the terms of mean and variance of each bag's total."""
    Q, start, length = _factors(rows)
    bag = np.repeat(np.arange(len(start)), length)
    blocks = [slice(a, b) for a, b in zip(start, start + length, strict=True)]

    def expected(mean, factor):
        h, U = Q @ mean, Q @ factor
        total = np.add.reduceat(h**2 + np.einsum("ij,ij->i", U, U), start)
        variance = np.empty(len(start))
        by_h, by_U = np.empty_like(h), np.empty_like(U)  # slopes of the variance
        for a, block in enumerate(blocks):
            h_a, U_a = h[block], U[block]
            S = U_a @ U_a.T
            Sh = S @ h_a
            variance[a] = 4 * (h_a @ Sh) + 2 * np.vdot(S, S)
            by_h[block] = 8 * Sh
            S += np.outer(h_a, h_a)
            np.matmul(8 * S, U_a, out=by_U[block])
        value, (by_total, by_variance) = of_labels(total, variance)
        by_total, by_variance = 2 * by_total[bag], by_variance[bag]
        by_h *= by_variance
        by_h += by_total * h
        by_U *= by_variance[:, None]
        U *= by_total[:, None]
        by_U += U
        return value, Q.T @ by_h, Q.T @ by_U

    return expected


def _factors(rows):
    """Rows of bags with weights drawn in, at most d + 1 for each bag; first row and number."""
    if rows.weights is None:
        return rows.rows, rows.start, rows.length
    scaled = rows.rows * np.sqrt(rows.weights)[:, None]
    blocks = [
        np.linalg.qr(scaled[a : a + n], mode="r") if n > scaled.shape[1] else scaled[a : a + n]
        for a, n in zip(rows.start, rows.length, strict=True)
    ]
    length = np.array([len(block) for block in blocks])
    return np.vstack(blocks), np.cumsum(length) - length, length


def _of_exponentials(rows, of_labels):
    """`expected_log_likelihood` given the terms of the sums of p exp(h + c v), c = 0, 1/2, -1/2."""
    X, start, p = rows.rows, rows.start, rows.weights
    bag = np.repeat(np.arange(len(start)), rows.length)
    step = max(1, _CHUNK_BYTES // (8 * X.shape[1]))
    chunks = [slice(i, i + step) for i in range(0, len(X), step)]

    def expected(mean, factor):
        h, v = X @ mean, np.empty(len(X))
        for chunk in chunks:
            U = X[chunk] @ factor
            v[chunk] = np.einsum("ij,ij->i", U, U)
        parts = [p * np.exp(h + c * v) for c in (0, 0.5, -0.5)]
        value, slopes = of_labels(*(np.add.reduceat(part, start) for part in parts))
        low, middle, harmonic = (s[bag] * part for s, part in zip(slopes, parts, strict=True))
        by_v = 0.5 * (middle - harmonic)
        gram = sum((X[chunk].T * by_v[chunk]) @ X[chunk] for chunk in chunks)
        return value, X.T @ (low + middle + harmonic), 2 * gram @ factor

    return expected


# Terms of each bag that are not constant, and their slopes: with the square link in mean M and
# variance V of lambda, with the exp link in the three sums.


def _poisson_square(y, _, M, V):
    ratio = V / M**2
    return y * (np.log(M) - ratio / 2) - M, y * (1 + ratio) / M - 1, -y / (2 * M**2)


def _negative_binomial_square(y, shape, M, V):
    value, by_M, by_V = _poisson_square(y, None, M, V)
    total, weight = shape + M, y + shape
    ratio = V / total**2
    value += M - weight * (np.log(total) - ratio / 2)
    return value, by_M + 1 - weight * (1 + ratio) / total, by_V + weight / (2 * total**2)


def _exponential_square(y, _, M, V):
    ratio = V / M**2
    value = -np.log(M) + ratio / 2 - y / M * (1 + ratio)
    return value, (-1 - ratio + y / M * (1 + 3 * ratio)) / M, (0.5 - y / M) / M**2


def _poisson_exp(y, _, low, total, harmonic):
    return y * np.log(low) - total, y / low, -np.ones_like(total), np.zeros_like(total)


def _negative_binomial_exp(y, shape, low, total, harmonic):
    value = y * np.log(low) - (y + shape) * np.log(shape + total)
    return value, y / low, -(y + shape) / (shape + total), np.zeros_like(total)


def _exponential_exp(y, _, low, total, harmonic):
    return -np.log(total) - y / harmonic, np.zeros_like(low), -1 / total, y / harmonic**2


_TERMS = {
    ("poisson", "square"): _poisson_square,
    ("negative binomial", "square"): _negative_binomial_square,
    ("exponential", "square"): _exponential_square,
    ("poisson", "exp"): _poisson_exp,
    ("negative binomial", "exp"): _negative_binomial_exp,
    ("exponential", "exp"): _exponential_exp,
}


def _divergence(mean, factor, log_rho, priors):
    """Kullback-Leibler divergence of N(mean, factor factor') from the prior, and its slopes."""
    d = len(mean) - 1
    precision = np.append(np.full(d, np.exp(-2 * log_rho)), priors["intercept_scale"] ** -2.0)
    away = mean - np.append(np.zeros(d), priors["intercept_location"])
    squares = precision * (away**2 + np.sum(factor**2, axis=1))
    value = 0.5 * (squares.sum() - d - 1 - np.log(precision).sum()) - np.linalg.slogdet(factor)[1]
    by_factor = precision[:, None] * factor - np.linalg.inv(factor).T
    return value, precision * away, by_factor, d - squares[:d].sum()


@dataclass(frozen=True)
class _Coordinates:
    """Mean and factor of theta = axes (centre + scale t), t nearly standard normal at every rho.

    The vector x has the mean of t, the lower triangle of its factor, row by row with the logarithm
    of its diagonal, and log rho. Centre and scale depend on rho as in `whitened_coordinates`.
    """

    axes: np.ndarray
    information: np.ndarray
    pull: np.ndarray
    intercept_centre: float
    intercept_unit: float

    @classmethod
    def at(cls, mode, rho):
        d = len(mode.theta) - 1
        found = whitened_coordinates(mode, np.eye(d), rho)
        axes = np.eye(d + 1)
        axes[:d, :d] = found["axes"]
        axes[d, :d] = found["intercept_slope"] @ found["axes"]
        rest = (found[k] for k in ("information", "pull", "intercept_centre", "intercept_unit"))
        return cls(axes, *rest)

    def start(self, log_rho):
        D = len(self.axes)
        return np.append(np.zeros(D + D * (D + 1) // 2), log_rho)

    def gaussian(self, x):
        """Mean and factor of theta, and log rho."""
        t, T, centre, scale, _ = self._unpacked(x)
        return self.axes @ (centre + scale * t), self.axes @ (scale[:, None] * T), x[-1]

    def slope(self, x, by_mean, by_factor, by_log_rho):
        """Slope in x of a function whose slopes in mean, factor and log rho are given."""
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
        centre = np.append(self.pull / precision, self.intercept_centre)
        scale = np.append(precision**-0.5, self.intercept_unit)
        # The intercept's own prior does not depend on rho.
        return x[:D], T, centre, scale, np.append(prior / precision, 0.0)
