"""Links with totals from all points of a bag, or one weighted sum: exp, logit, identity."""

import numpy as np
from scipy.special import expit, logit

from bdr_stan.aggregate.links.base import Expectation, FunctionPrior, Link, Means, OfMoments
from bdr_stan.aggregate.rows import AggregateRows, weighted_sums
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array

_CHUNK_BYTES = 1 << 24
_LARGEST_SHARE = 1 - 1e-6  # of the overall rate, so its log odds are finite


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

        h_j and v_j are mean and variance of f_j in `rows`; `of_moments` is summed over the bags.

        Raises
        ------
        ValueError : factors if the points' own rows are needed.
        """
        if rows.weights is None:
            raise ValueError("link 'exp' needs the points' own rows: make them by point_rows")
        X, start, p, bag = rows.rows, rows.start, rows.weights, rows.bag
        step = max(1, _CHUNK_BYTES // (8 * X.shape[1]))
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


EXP = Exp()


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


IDENTITY = Identity()


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


LOGIT = Logit()
