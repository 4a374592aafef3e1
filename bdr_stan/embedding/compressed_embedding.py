"""Sums of embeddings of bags in partitions, for a regression with normal labels.

Only sums leave a part of the table, and the embeddings of bags that have points in several parts;
see "Lossless compression" in ``docs/explanation/computation.md``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Self

import numpy as np

from bdr_stan.bags import Bags, PartitionedBags
from bdr_stan.embedding.compression import Rows, merged
from bdr_stan.embedding.mean_embedding import (
    BagSums,
    Deviations,
    moments_of_inverse,
    results_by_part,
    scatter_factors,
)
from bdr_stan.embedding.size_nodes import SizeNodes, at_nodes, cheapest_nodes, with_fewest_rows
from bdr_stan.labels import Labels
from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class RowSums:
    """Sums over bags of their rows, and of powers of e for the default priors."""

    rows: Rows  # [e, x, 1, y] from `at_nodes`
    powers: Array  # sum of f f', f = [e^2, e, 1], shape (2 d + 1, 2 d + 1)
    by_points: Array  # sum of N f f', f = [e, 1], shape (d + 1, d + 1)
    extremes: Array  # smallest and largest entries of e, shape (2, d)

    @classmethod
    def from_bags(
        cls,
        mean: Array,
        sizes: Array,
        labels: Array,
        known_variance: Array | None,
        *,
        origin: Array,
        nodes: list[SizeNodes],
        by_size: bool,
    ) -> Self:
        """Sums over n bags of embeddings `mean`, (n, d); `labels` are the columns [x, 1, y]."""
        e = mean - origin
        error_variance = np.zeros(len(e)) if known_variance is None else known_variance
        one_per_bag = Rows.from_bags(
            np.hstack([e, labels]), sizes if by_size else np.ones(len(e)), error_variance
        )
        linear = np.column_stack([e, np.ones(len(e))])
        powers = np.hstack([e**2, linear])
        return cls(
            at_nodes(merged(one_per_bag), nodes),
            powers.T @ powers,
            (linear.T * sizes) @ linear,
            np.stack([e.min(axis=0), e.max(axis=0)]),
        )

    def plus(self, other: Self) -> Self:
        """Sums over the bags of both."""
        low, high = zip(self.extremes, other.extremes, strict=True)
        return replace(
            self,
            rows=merged(Rows.stacked([self.rows, other.rows])),
            powers=self.powers + other.powers,
            by_points=self.by_points + other.by_points,
            extremes=np.stack([np.minimum(*low), np.maximum(*high)]),
        )


@dataclass(frozen=True)
class CompressedEmbedding:
    """Replaces an `Embedding` if labels are known and normal; for members see there."""

    sizes: Array | None  # None if only the rows of the sums have them
    covariance: Array | None
    origin: Array  # shape (d,)
    sums: RowSums
    prior_mean: Array | None = None

    @property
    def n_bags(self) -> int:
        return round(self.sums.powers[-1, -1])

    @property
    def weighted_sizes(self) -> tuple[Array, Array]:
        if self.sizes is not None:
            return self.sizes, np.ones(len(self.sizes))
        rows = self.sums.rows
        return rows.bag_size, rows.sign * np.add.reduceat(rows.rows[:, -2] ** 2, rows.start)

    @property
    def m0(self) -> Array:
        return self.origin + self._shift

    @property
    def deviations(self) -> Deviations:
        rows, d = self.sums.rows, len(self.origin)
        ones = rows.rows[:, -2:-1]
        e = rows.rows[:, :d] - ones * self._shift
        return Deviations(e, rows.bag_size[rows.group], rows.sign[rows.group], self.n_bags)

    @property
    def extremes(self) -> Array:
        return self.origin + self.sums.extremes

    @property
    def scatter(self) -> Array:
        total = self.sums.by_points
        return total[:-1, :-1] - np.outer(total[:-1, -1], total[:-1, -1]) / total[-1, -1]

    def error_of_trace(self, within: float) -> float:
        n, deviations, shift = self.n_bags, self.deviations, self._shift
        c = np.r_[np.ones(len(shift)), -2 * shift, shift @ shift]  # |e - shift|^2 = f'c
        squares = self.sums.powers[-1] @ c
        mean_inverse, inverse_variance = moments_of_inverse(*self.weighted_sizes)
        factor = n / (n - 1)
        crossed = deviations.average(np.sum(deviations.rows**2, axis=1) / deviations.size)
        # Sums of squares and products about the averages.
        of_squares = c @ self.sums.powers @ c - squares**2 / n
        of_both = n * crossed - squares * mean_inverse
        of_inverse = n * inverse_variance
        total = factor**2 * of_squares - 2 * factor * within * of_both + within**2 * of_inverse
        return float(np.sqrt(max(total, 0) / (n - 1) / n))

    def labelled(
        self, z: Array, y: Array, sizes: Array, known_variance: ArrayLike, *, lossless: bool
    ) -> Rows:
        """Rows in these coordinates; the labels are from the pass over the points."""
        rows, d = self.sums.rows, len(self.origin)
        return replace(rows, rows=np.hstack([z, rows.rows[:, d:]]))

    def columns(self, features: ArrayLike) -> Self:
        d = len(self.origin)
        chosen = np.arange(d)[features]
        rows, powers, by_points = self.sums.rows, self.sums.powers, self.sums.by_points
        in_powers, in_points = np.r_[chosen, d + chosen, 2 * d], np.r_[chosen, d]
        sums = RowSums(
            replace(rows, rows=np.hstack([rows.rows[:, chosen], rows.rows[:, d:]])),
            powers[np.ix_(in_powers, in_powers)],
            by_points[np.ix_(in_points, in_points)],
            self.sums.extremes[:, chosen],
        )
        covariance = None if self.covariance is None else self.covariance[np.ix_(chosen, chosen)]
        return replace(self, covariance=covariance, origin=self.origin[chosen], sums=sums)

    @property
    def _shift(self):
        d = len(self.origin)
        if self.prior_mean is not None:
            return self.prior_mean - self.origin
        return self.sums.powers[-1, d : 2 * d] / self.n_bags


def compressed_embedding(
    bags: PartitionedBags,
    features: Any,
    labels: Labels,
    *,
    by_size: bool,
    covariates: Array | None = None,
    covariance: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CompressedEmbedding:
    """Sums over all bags in one pass, of labels with noise `by_size` or not; rest as in `embed`."""
    sizes = bags.effective_sizes
    x = np.empty((len(bags), 0)) if covariates is None else covariates
    nodes = cheapest_nodes(
        sizes if by_size else np.ones(len(bags)),
        np.broadcast_to(labels.error_variance, len(bags)),
        features.n_columns + x.shape[1] + 2,
    )
    options: Any = {"covariance": covariance, "progress": progress}
    total, scatter = sums_at_nodes(bags, features, labels, nodes, x, by_size, **options)
    return CompressedEmbedding(sizes, scatter, features.gram().mean(axis=0), total)


def sums_at_nodes(
    bags: Bags | PartitionedBags,
    features: Any,
    labels: Labels,
    nodes: list[SizeNodes],
    covariates: Array,
    by_size: bool = True,
    *,
    covariance: bool,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RowSums, Array | None]:
    """Sums over the bags, and the covariance within bags; rest as in `embed`."""
    sizes, d = bags.effective_sizes, features.n_columns
    factors = scatter_factors(bags, sizes) if covariance else None
    columns = np.column_stack([covariates, np.ones(len(bags)), labels.y])
    error_variance = None if labels.label_sd is None else labels.label_sd**2
    per_bag = sizes, columns, error_variance
    origin = features.gram().mean(axis=0)
    of_bags = partial(RowSums.from_bags, origin=origin, nodes=nodes, by_size=by_size)
    joined = BagSums.empty(int(bags.cut.sum()), d, scatter=factors is not None)
    results = results_by_part(
        bags, features, of_bags, *per_bag, joined=joined, factors=factors, progress=progress
    )
    total = reduce(RowSums.plus, (sums for _, sums in results))
    return replace(total, rows=with_fewest_rows(total.rows)), joined.scatter
