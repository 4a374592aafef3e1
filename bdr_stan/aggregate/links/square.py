"""The square link: rates f^2, with totals from one triangular factor of a bag's points."""

import numpy as np

from bdr_stan.aggregate.links.base import Expectation, FunctionPrior, Link, Means, OfMoments
from bdr_stan.aggregate.rows import AggregateRows, square_factors
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array


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
        return (
            0.0
            if rows.residual_variance is None
            else np.multiply.outer(np.square(rho), rows.residual_variance)
        )

    def mean_rate(self, f: Array, residual_variance: Array | None) -> Array:
        rates = np.square(f)
        return rates if residual_variance is None else rates + residual_variance

    def with_effect(
        self, f: Array, residual_variance: Array | None, effect: Array
    ) -> tuple[Array, Array | None]:
        factor = np.exp(effect)
        return f * np.sqrt(
            factor
        ), None if residual_variance is None else residual_variance * factor

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

        `of_moments` is summed over the bags of `rows`.

        M_a = |Q_a m|^2 + tr S_a + rho^2 c_a,   V_a = 4 m' Q_a' S_a Q_a m + 2 tr S_a^2

        with S_a = Q_a F F' Q_a'.
        """
        Q, start, length = _factors(rows)
        bag = np.repeat(np.arange(len(start)), length)
        blocks = [slice(a, b) for a, b in zip(start, start + length, strict=True)]

        def expected(mean, factor, rho):
            h, U = Q @ mean, Q @ factor
            residual_mean = self.residual_mean(rows, rho)
            total = np.add.reduceat(h**2 + np.einsum("ij,ij->i", U, U), start) + residual_mean
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


SQUARE = Square()
