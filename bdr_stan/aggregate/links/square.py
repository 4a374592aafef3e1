"""The square link: rates f^2, whose totals need of a bag's points one triangular factor."""

import numpy as np

from bdr_stan.aggregate.links.base import Expectation, FunctionPrior, Link, Means, OfMoments
from bdr_stan.aggregate.rows import AggregateRows, square_factors
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array


class Square(Link):
    """rate = f^2, so that lambda_a = |Q_a theta|^2: bags are compressed without loss."""

    name = "square"
    program = "aggregate_square"
    rate = np.square

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        return f**2, 2 * f, np.full_like(f, 2.0)

    def function_prior(self, overall: float) -> FunctionPrior:
        level = np.sqrt(overall)
        return FunctionPrior(level, level / 3, level / 2)

    def with_left_out(self, f: Array, variance: Array, noise: Array) -> Array:
        rest = np.sqrt(np.maximum(f**2 - variance, 0))  # of the rate f^2
        return super().with_left_out(np.copysign(rest, f), variance, noise)

    def rows(self, bags: Bags, features: FeatureMap, *, thin: int | None = None) -> AggregateRows:
        return square_factors(bags, features)

    def mean_function(self, rows: AggregateRows) -> Means:
        if not rows.packs:
            return super().mean_function(rows)
        gram = rows.gram()

        def means(theta):
            half = gram @ theta
            return half @ theta, 2 * half, lambda c: 2 * np.tensordot(c, gram, 1)

        return means

    def expectation(self, rows: AggregateRows, of_moments: OfMoments) -> Expectation:
        """Moments are mean M_a and variance V_a of lambda_a = |Q_a theta|^2.

        M_a = |Q_a m|^2 + tr S_a,   V_a = 4 m' Q_a' S_a Q_a m + 2 tr S_a^2,   S_a = Q_a F F' Q_a'
        """
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
            value, (by_total, by_variance) = of_moments(total, variance)
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


SQUARE = Square()
