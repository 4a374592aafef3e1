"""Links: the rate of f, its derivatives, and summaries of a bag's points for its total.

Each link has one object, in `LINKS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, logit

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.rows import (
    AggregateRows,
    bag_means,
    point_rows,
    square_factors,
    weighted_sums,
    with_ones,
)
from bdr_stan.aggregate.thinning import thinned_rows
from bdr_stan.bags import Bags
from bdr_stan.embedding.compression import triangular
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array

_BYTES_OF_POINTS = 1 << 24  # features of points held at a time, for the variance of f
_LARGEST_SHARE = 1 - 1e-6  # of the overall rate, so its log odds are finite

# From theta = [w; f0]: the bags' means lambda, shape (n,), their gradients, shape (n, d + 1), and a
# function of numbers c, shape (n,): sum_a c_a times the second derivative of lambda_a.
Means = Callable[[Array], tuple[Array, Array, Callable[[Array], Array]]]
# From a link's moments of each bag's mean under a Gaussian theta: the sum of a function of them
# over the bags, and its slopes in each moment.
OfMoments = Callable[..., tuple[float, list[Array]]]
# From mean and factor of the Gaussian, and rho: the same sum, and its slopes in mean, factor and
# log rho.
Expectation = Callable[[Array, Array, float], tuple[float, Array, Array, float]]


class FunctionPrior(NamedTuple):
    """Default prior of f: its level is normal(level, level_sd), its standard deviation about sd."""

    level: float
    level_sd: float
    sd: float


class Link:
    """Base of the links: bag a's mean is lambda_a = sum_j p_j rate(f_j), f_j = phi_j' theta."""

    name: ClassVar[str]
    program: ClassVar[str]  # Stan program of the likelihoods that take this link
    rate: ClassVar[np.ufunc]  # at values of f; accepts `out`
    # Whether the rate is f itself, so a bag's label depends on one weighted sum.
    is_linear: ClassVar[bool] = False
    # Whether points are kept one by one, so fewer may represent all.
    can_thin: ClassVar[bool] = False
    # Whether a bag's mean is the average rate of its points, and effects are on their log odds.
    is_average: ClassVar[bool] = False
    # Whether the bags' means include the residual variance, in closed form.
    uses_residual_variance: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        """Rate at values of f, and its first and second derivative there."""
        raise NotImplementedError

    def function_prior(self, overall: float) -> FunctionPrior:
        """Default prior of f if `overall` is the pooled rate of all bags, > 0.

        The link "identity" has none: the overall rate does not determine how far rates spread.
        """
        raise NotImplementedError

    def residual_mean(self, rows: AggregateRows, rho: float | Array) -> float | Array:
        """What the residual variance adds to the bags' means, (n,), or (S, n) for S rhos."""
        return 0.0

    def mean_rate(self, f: Array, residual_variance: Array | None) -> Array:
        """Mean rate at points of this f, plus normal numbers of variance `residual_variance`.

        With most links the bags' totals identify only their joint mean, so it is the rate of f.
        """
        return self.rate(f)

    def with_residual_variance(self, f: Array, variance: Array, noise: Array) -> Array:
        """f at points, and normal numbers of this variance added; the mean rate is `mean_rate`.

        f and the variance have the shape (n, S), the standard normal noise (S,).
        """
        return f + np.sqrt(variance) * noise

    def with_effect(
        self, f: Array, residual_variance: Array | None, effect: Array
    ) -> tuple[Array, Array | None]:
        """f at points and its residual variance with effects of their bags, all of shape (n, S)."""
        return f + effect, residual_variance

    def rows(self, bags: Bags, features: FeatureMap, *, thin: int | None = None) -> AggregateRows:
        """What a fit needs of the bags' points, if it `can_thin` at most `thin` of each bag."""
        if thin is not None:
            return thinned_rows(bags, with_ones(features), thin)
        return point_rows(bags, features)

    def shares(self, rows: AggregateRows) -> Array:
        """What the rate at each of `rows` counts for in its bag's mean, shape (T,)."""
        return rows.row_weights / rows.total[rows.bag] if self.is_average else rows.row_weights

    def mean_function(self, rows: AggregateRows, rho: float = 0.0) -> Means:
        """The means of the bags of `rows` as a function of theta, with derivatives, at this rho."""
        X, bag, weights = rows.rows, rows.bag, rows.row_weights
        residual_mean = self.residual_mean(rows, rho)

        def means(theta):
            rates, slopes, curvatures = self.derivatives(X @ theta)
            return (
                np.add.reduceat(weights * rates, rows.start) + residual_mean,
                rows.combined(weights * slopes),
                lambda c: (X * (c[bag] * weights * curvatures)[:, None]).T @ X,
            )

        return means

    def means(
        self,
        rows: AggregateRows,
        theta: Array,
        effects: Array | None = None,
        *,
        rho: float | Array = 0.0,
    ) -> Array:
        """Means of the bags' labels, shape (S, n), for weights and f0 of each draw, (S, d + 1).

        `effects`, (S, n), are on the log rate (with "logit" on the log odds); rho may be (S,).
        """
        if self.is_average:
            return rows.means(theta, self.rate, effects) / rows.total
        means = rows.means(theta, self.rate) + self.residual_mean(rows, rho)
        return means if effects is None else means * np.exp(effects)

    def means_of_bags(
        self,
        bags: Bags,
        features: FeatureMap,
        theta: Array,
        effects: Array | None = None,
        *,
        rho: float | Array = 0.0,
    ) -> Array:
        """As `means`, for bags with all their points, with the rows of `features`."""
        if not self.can_thin or (self.is_average and effects is not None):
            return self.means(self.rows(bags, features), theta, effects, rho=rho)
        # Points are many, and their rows need not be kept.
        means = bag_means(bags, features, theta, self.rate)
        if self.is_average:
            return means / bags.totals
        return means if effects is None else means * np.exp(effects)

    def expectation(self, rows: AggregateRows, of_moments: OfMoments) -> Expectation:
        """Sum over the bags of `rows` of `of_moments` of their means, theta ~ N(m, F F').

        The moments are the arguments of the likelihoods' variational terms.
        """
        raise NotImplementedError


class Square(Link):
    """rate = f^2, so lambda_a = |Q_a theta|^2 + rho^2 c_a: bags are compressed without loss.

    c_a is `AggregateRows.residual_variance`: E[f^2] includes the variance outside the basis.
    """

    name = "square"
    program = "aggregate_square"
    rate = np.square
    uses_residual_variance = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        return f**2, 2 * f, np.full_like(f, 2.0)

    def function_prior(self, overall: float) -> FunctionPrior:
        level = np.sqrt(overall)
        return FunctionPrior(level, level / 3, level / 2)

    def residual_mean(self, rows: AggregateRows, rho: float | Array) -> float | Array:
        if rows.residual_variance is None:
            return 0.0
        return np.multiply.outer(np.square(rho), rows.residual_variance)

    def mean_rate(self, f: Array, residual_variance: Array | None) -> Array:
        rates = np.square(f)
        return rates if residual_variance is None else rates + residual_variance

    def with_effect(
        self, f: Array, residual_variance: Array | None, effect: Array
    ) -> tuple[Array, Array | None]:
        factor = np.exp(effect)
        variance = None if residual_variance is None else residual_variance * factor
        return f * np.sqrt(factor), variance

    def rows(self, bags: Bags, features: FeatureMap, *, thin: int | None = None) -> AggregateRows:
        return square_factors(bags, features)

    def mean_function(self, rows: AggregateRows, rho: float = 0.0) -> Means:
        if not rows.packs:
            return super().mean_function(rows, rho)
        gram, residual_mean = rows.gram(), self.residual_mean(rows, rho)

        def means(theta):
            half = gram @ theta
            return half @ theta + residual_mean, 2 * half, lambda c: 2 * np.tensordot(c, gram, 1)

        return means

    def expectation(self, rows: AggregateRows, of_moments: OfMoments) -> Expectation:
        """Moments are mean M_a and variance V_a of lambda_a = |Q_a theta|^2 + rho^2 c_a.

        M_a = |Q_a m|^2 + tr S_a + rho^2 c_a,   V_a = 4 m' Q_a' S_a Q_a m + 2 tr S_a^2

        with S_a = Q_a F F' Q_a'.
        """
        factors = _without_weights(rows)
        Q, start, bag = factors.rows, factors.start, factors.bag

        def expected(mean, factor, rho):
            h, U = Q @ mean, Q @ factor
            residual_mean = self.residual_mean(rows, rho)
            total = np.add.reduceat(h**2 + np.einsum("ij,ij->i", U, U), start) + residual_mean
            variance = np.empty(len(start))
            by_h, by_U = np.empty_like(h), np.empty_like(U)  # slopes of the variance
            for a, block in enumerate(factors.blocks):
                h_a, U_a = h[block], U[block]
                S = U_a @ U_a.T
                Sh = S @ h_a
                variance[a] = 4 * (h_a @ Sh) + 2 * np.vdot(S, S)
                by_h[block] = 8 * Sh
                S += np.outer(h_a, h_a)
                np.matmul(8 * S, U_a, out=by_U[block])
            value, (by_total, by_variance) = of_moments(total, variance)
            by_log_rho = float(np.sum(by_total * 2 * residual_mean))
            by_total, by_variance = 2 * by_total[bag], by_variance[bag]
            by_h *= by_variance
            by_h += by_total * h
            by_U *= by_variance[:, None]
            U *= by_total[:, None]
            by_U += U
            return value, Q.T @ by_h, Q.T @ by_U, by_log_rho

        return expected


def _without_weights(rows: AggregateRows) -> AggregateRows:
    """Rows of bags with weights drawn in, at most d + 1 for each bag."""
    if rows.weights is None:
        return rows
    scaled = rows.rows * np.sqrt(rows.weights)[:, None]
    parts = [triangular(scaled[block]) for block in rows.blocks]
    length = np.array([len(part) for part in parts])
    return replace(rows, rows=np.vstack(parts), length=length, weights=None)


class Exp(Link):
    """rate = exp(f)."""

    name = "exp"
    program = "aggregate_exp"
    rate = np.exp
    can_thin = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        return (np.exp(f),) * 3

    def function_prior(self, overall: float) -> FunctionPrior:
        return FunctionPrior(np.log(overall), 1.5, 1.0)

    def with_residual_variance(self, f: Array, variance: Array, noise: Array) -> Array:
        return super().with_residual_variance(f, variance, noise) - variance / 2

    def expectation(self, rows: AggregateRows, of_moments: OfMoments) -> Expectation:
        """Moments are the sums over a bag of p_j exp(h_j + c v_j), c = 0, 1/2, -1/2.

        h_j and v_j are mean and variance of f_j. ValueError for factors: points are needed.
        """
        if rows.weights is None:
            raise ValueError("link 'exp' needs the points' own rows: make them by point_rows")
        X, start, p, bag = rows.rows, rows.start, rows.weights, rows.bag
        step = max(1, _BYTES_OF_POINTS // (8 * X.shape[1]))
        chunks = [slice(i, i + step) for i in range(0, len(X), step)]

        def expected(mean, factor, rho):
            h, v = X @ mean, np.empty(len(X))
            for chunk in chunks:
                U = X[chunk] @ factor
                v[chunk] = np.einsum("ij,ij->i", U, U)
            parts = [p * np.exp(h + c * v) for c in (0, 0.5, -0.5)]
            value, slopes = of_moments(*(np.add.reduceat(part, start) for part in parts))
            by_h, by_mean, by_harmonic = (
                s[bag] * part for s, part in zip(slopes, parts, strict=True)
            )
            by_v = 0.5 * (by_mean - by_harmonic)
            gram = sum((X[chunk].T * by_v[chunk]) @ X[chunk] for chunk in chunks)
            return value, X.T @ (by_h + by_mean + by_harmonic), 2 * gram @ factor, 0.0

        return expected


class Identity(Link):
    """rate = f, which may be negative."""

    name = "identity"
    program = "blr"
    rate = np.positive
    is_linear = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        return f, np.ones_like(f), np.zeros_like(f)

    def rows(self, bags: Bags, features: FeatureMap, *, thin: int | None = None) -> AggregateRows:
        return weighted_sums(bags, features)


class Logit(Link):
    """rate = 1 / (1 + exp(-f)), and a bag's mean is lambda_a / sum_j p_j, a probability."""

    name = "logit"
    program = "aggregate_binomial"
    rate = expit
    can_thin = True
    is_average = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        p = expit(f)
        slope = p * (1 - p)
        return p, slope, slope * (1 - 2 * p)

    def function_prior(self, overall: float) -> FunctionPrior:
        return FunctionPrior(logit(min(overall, _LARGEST_SHARE)), 1.5, 1.0)

    def mean_function(self, rows: AggregateRows, rho: float = 0.0) -> Means:
        totals_at, total = super().mean_function(rows, rho), rows.total

        def means(theta):
            totals, by_theta, second = totals_at(theta)
            return totals / total, by_theta / total[:, None], lambda c: second(c / total)

        return means


SQUARE, EXP, LOGIT, IDENTITY = Square(), Exp(), Logit(), Identity()
LINKS: Mapping[str, Link] = {link.name: link for link in (SQUARE, EXP, LOGIT, IDENTITY)}


def link_of(likelihood: Likelihood, name: str | None = None) -> Link:
    """The link of this name, or the default of the likelihood; ValueError for another's."""
    if name is None:
        return LINKS[likelihood.links[0]]
    if name not in likelihood.links:
        links = " or ".join(map(repr, likelihood.links))
        raise ValueError(f"the {likelihood.name} likelihood takes the link {links}, found {name!r}")
    return LINKS[name]
