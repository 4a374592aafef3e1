"""Rows that determine totals of bags, compressed bag by bag in one pass over the points.

With f(x) = f0 + psi(x)' w a total of f^2 needs only a triangular factor of a bag's points, a total
of f only a weighted sum. Other rates need the points' features.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
from scipy.sparse import csr_array

from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.embedding.compression import triangular
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import FeatureMap, FieldFeatures, LandmarkFeatures, Linear
from bdr_stan.kernels.feature_maps import slices_of
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array

# Singular values of a bag's rows below this share of its largest are omitted: their squares, which
# enter rates, are below rounding.
RANK_TOLERANCE = 1e-7
_BYTES_OF_ROWS = 1 << 22
_THETAS_AT_ONCE = 250

Rate = Callable[[Array], Array]  # of the function's values, entry by entry
Reduced = TypeVar("Reduced")


@dataclass(frozen=True)
class AggregateRows:
    """Rows of all bags, stacked bag by bag, with one column for each weight and one for f0.

    Bag a has ``rows[blocks[a]]``: a factor Q_a of sum_j p_j phi_j phi_j' (`square_factors`), or the
    points' own rows phi_j = [psi_j, 1] (`point_rows`).
    """

    rows: Array  # shape (T, d + 1)
    length: Array  # number of rows of each bag, int, shape (n,)
    weights: Array | None  # p_j of the points' own rows, shape (T,)
    total: Array  # sum_j p_j of each bag, shape (n,)
    noise_factor: Array  # sqrt(sum_j p_j^2) of each bag: noise of its total per noise of one point
    # c_a = sum_j p_j (k(x_j, x_j) - |psi_j|^2), shape (n,), if it matters: rho^2 c_a is the mean of
    # the part of sum_j p_j f_j^2 outside the basis
    residual_variance: Array | None = None
    # Variance of each label's error, shape (n,); relative to the label unless totals are normal.
    known_variance: Array | float = 0.0

    @cached_property
    def start(self) -> Array:
        """First row of each bag, int, shape (n,)."""
        return np.cumsum(self.length) - self.length

    @property
    def blocks(self) -> list[slice]:
        """The rows of each bag."""
        return slices_of(self.length.tolist())

    @property
    def row_weights(self) -> Array:
        """Weight of each row, shape (T,): p_j of points, 1 of factors."""
        return np.ones(len(self.rows)) if self.weights is None else self.weights

    @property
    def bag(self) -> Array:
        """Number of the bag of each row, shape (T,)."""
        return np.repeat(np.arange(len(self.length)), self.length)

    @property
    def packs(self) -> bool:
        """Whether factors are larger than the packed triangles of their Gram matrices."""
        n, k = len(self.length), self.rows.shape[1]
        return self.weights is None and len(self.rows) > n * (k + 1) / 2

    def combined(self, c: Array, rows: Array | None = None) -> Array:
        """sum_j c_j phi_j over each bag, (n, d + 1), for c, (T,); or of other `rows`, (T, k)."""
        T = len(c)  # with a sparse matrix, so the c_j phi_j are never in memory
        by_bag = csr_array((c, np.arange(T), np.append(self.start, T)), (len(self.length), T))
        return by_bag @ (self.rows if rows is None else rows)

    def along(self, v: Array) -> Array:
        """phi_j' v_a of each row, shape (T,), with the v_a of its bag, shape (n, d + 1)."""
        blocks = zip(self.blocks, v, strict=True)
        return np.concatenate([self.rows[block] @ v_a for block, v_a in blocks])

    def gram(self) -> Array:
        """Q_a' Q_a of every bag, shape (n, d + 1, d + 1)."""
        return np.array([Q.T @ Q for Q in map(self.rows.__getitem__, self.blocks)])

    @cached_property
    def packed(self) -> Array:
        """Lower triangles of `gram`, shape (n, (d + 1)(d + 2) / 2), off-diagonal entries doubled.

        Their inner products with theta_i theta_j, j <= i, are the quadratic forms |Q_a theta|^2.
        """
        i, j = np.tril_indices(self.rows.shape[1])
        return self.gram()[:, i, j] * np.where(i == j, 1.0, 2.0)

    def means(self, theta: Array, rate: Rate, shift: Array | None = None) -> Array:
        """sum_j p_j rate(phi_j' theta + shift), (S, n), for theta, (S, d + 1), shift, (S, n)."""
        out, row_weights = np.empty((len(theta), len(self.length))), self.row_weights
        for a, block in enumerate(self.blocks):
            shifted = theta
            if shift is not None:
                shifted = np.column_stack([theta[:, :-1], theta[:, -1] + shift[:, a]])
            out[:, a] = _weighted_rates(self.rows[block], row_weights[block], shifted, rate)
        return out


def square_factors(bags: Bags, features: FeatureMap) -> AggregateRows:
    """Factors Q_a of the bags for rates f^2: sum_j p_j (phi_j' theta)^2 = |Q_a theta|^2."""

    def factor(rows, weights):
        scaled = rows[:, :-1] * np.sqrt(weights)[:, None]
        return _triangular_factor(scaled), weights @ rows[:, -1]

    parts = reduced_by_bag(bags, with_ones(features, residual_variance=True), factor)
    blocks = [
        part[0][0]
        if len(part) == 1
        else _triangular_factor(np.vstack([block for block, _ in part]))
        for part in parts
    ]
    rows = aggregate_rows(bags, np.vstack(blocks), np.array([len(block) for block in blocks]))
    return replace(rows, residual_variance=np.array([sum(c for _, c in part) for part in parts]))


def _triangular_factor(rows):
    """Fewer rows with nearly the same Gram matrix, ordered by their lengths."""
    s, V = np.linalg.svd(triangular(rows), full_matrices=False)[1:]
    large = s > RANK_TOLERANCE * s[0]
    return s[large, None] * V[large]


def weighted_sums(bags: Bags, features: FeatureMap) -> AggregateRows:
    """One row sum_j p_j phi_j of each bag, for rates that are f; one pass over the points."""
    parts = reduced_by_bag(bags, with_ones(features), lambda rows, weights: weights @ rows)
    rows = np.array([np.sum(part, axis=0) for part in parts])
    return aggregate_rows(bags, rows, np.ones(len(bags), int))


def point_rows(
    bags: Bags,
    features: FeatureMap,
    *,
    with_residual_variance: bool = False,
) -> AggregateRows:
    """The rows [psi_j, 1] of all points of positive weight; memory grows with their number."""
    weights = bags.point_weights
    counted = weights > 0
    rows_of = with_ones(features, residual_variance=with_residual_variance)
    parts = reduced_by_bag(bags, rows_of, lambda rows, weights: rows[weights > 0])
    rows = np.vstack([rows for part in parts for rows in part])
    length, weights = bags.sums(counted.astype(int)), weights[counted]
    if not with_residual_variance:
        return aggregate_rows(bags, rows, length, weights)
    without = aggregate_rows(bags, np.ascontiguousarray(rows[:, :-1]), length, weights)
    residual_variance = np.add.reduceat(weights * rows[:, -1], without.start)
    return replace(without, residual_variance=residual_variance)


def bag_means(bags: Bags, features: FeatureMap, theta: Array, rate: Rate) -> Array:
    """sum_j p_j rate(phi_j' theta), (S, n), in one pass that keeps no rows; theta is (S, d + 1)."""

    def mean(rows, weights):
        return _weighted_rates(rows, weights, theta, rate)

    parts = reduced_by_bag(bags, with_ones(features), mean)
    return np.array([np.sum(part, axis=0) for part in parts]).T


def _weighted_rates(rows, weights, theta, rate):
    blocks = (theta[s : s + _THETAS_AT_ONCE] for s in range(0, len(theta), _THETAS_AT_ONCE))
    return np.concatenate([weights @ rate(rows @ block.T) for block in blocks])


def aggregate_rows(
    bags: Bags, rows: Array, length: Array, weights: Array | None = None
) -> AggregateRows:
    """AggregateRows with the totals of these bags."""
    return AggregateRows(rows, length, weights, bags.totals, noise_factor(bags))


def mean_points(bags: BagsLike) -> Bags:
    """One point per bag: its weighted mean, with the total weight of the bag."""
    bags = as_bags(bags)
    # The linear kernel at the unit vectors is the point itself.
    columns = LandmarkFeatures(Linear(), np.eye(bags.n_features))
    return Bags(
        embed(bags, columns).mean,
        np.arange(len(bags) + 1),
        weights=bags.totals,
        ids=bags.ids,
        metadata=bags.metadata,
        features=bags.features,
        columns=bags.columns,
        copy=False,
    )


def noise_factor(bags: Bags) -> Array:
    """sqrt(sum_j p_j^2) of each bag, shape (n,)."""
    return np.sqrt(bags.totals * (bags.totals / bags.effective_sizes))


def with_ones(features: FeatureMap, *, residual_variance: bool = False) -> Callable[[Array], Array]:
    """The rows phi(x) = [psi(x), 1] of points, shape (n, d + 1), with f(x) = phi(x)' [w; f0].

    With one more column for the residual variance, k(x, x) - |psi|^2, if wanted.
    """
    d = features.n_columns

    def rows_of(points: Array) -> Array:
        rows = np.empty((len(points), d + 1 + residual_variance))
        psi = rows[:, :d]
        features(points, psi)
        rows[:, d] = 1
        if residual_variance:
            rows[:, -1] = 0  # unknown for features that are not made of kernels
            if isinstance(features, FieldFeatures):
                rows[:, -1] = features.residual_variance(points, psi)
        return rows

    return rows_of


def reduced_by_bag(
    bags: Bags,
    rows_of: Callable[[Array], Array],
    reduce: Callable[[Array, Array], Reduced],
) -> list[list[Reduced]]:
    """For each bag the list of reduce(rows, weights), one for each chunk that has points of it.

    ``rows_of(points)`` is called from threads. Points in partitions stay there.
    """
    by_bag: list[list[Reduced]] = [[] for _ in range(len(bags))]
    reduced = partial(_reduced_by_bag_in_part, rows_of=rows_of, reduce=reduce)
    for which, part in bags.map_parts(reduced):
        for i, reduced_chunks in zip(which, part, strict=True):
            by_bag[i] += reduced_chunks
    return by_bag


def _reduced_by_bag_in_part(bags, *, rows_of, reduce, progress=None):
    width = rows_of(bags.read(0, 1)).shape[1] + bags.n_features
    chunks = bags.chunks(max(16, _BYTES_OF_ROWS // (8 * width)))
    point_weights = bags.point_weights

    def run(chunk):
        rows = rows_of(bags.read_checked(chunk.start, chunk.stop))
        bags.release()
        weights = point_weights[chunk.start : chunk.stop]
        return [reduce(rows[a:b], weights[a:b]) for a, b in pairwise(chunk.cuts)]

    by_bag = [[] for _ in range(len(bags))]
    with closing(map_in_threads(run, chunks)) as results:
        for chunk, parts in zip(chunks, results, strict=True):
            for i, part in zip(range(chunk.first, chunk.last), parts, strict=True):
                by_bag[i].append(part)
    return by_bag
