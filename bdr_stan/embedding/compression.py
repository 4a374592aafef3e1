"""Lossless compression of the rows of a Gaussian regression on bags.

The likelihood of bags of equal size and equal known label variance depends on their rows [z, 1, y]
only through the rows' Gram matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class Rows:
    """Rows [z, 1, y] of all bags, compressed or not, in groups of one size and known variance.

    A group's bags have the Gram matrix of its rows, times its sign; see `at_size_nodes`.
    """

    rows: Array  # shape (T, d + 2), group by group
    length: Array  # rows of each group, int, shape (G,)
    n_bags: Array  # in the group, shape (G,)
    bag_size: Array  # points per bag, shape (G,), with several samples (G, M)
    known_variance: Array  # of the known error of a label, units of y squared, shape (G,)
    sign: Array  # 1 or -1, shape (G,)

    @cached_property
    def start(self) -> Array:
        """First row of each group, int, shape (G,)."""
        return np.cumsum(self.length) - self.length

    @cached_property
    def group(self) -> Array:
        """Group of each row, int, shape (T,)."""
        return np.repeat(np.arange(len(self.length)), self.length)

    def subset(self, selected: Array) -> "Rows":
        """The rows of some groups, (G,) booleans."""
        by_group = {f.name: getattr(self, f.name)[selected] for f in fields(self)[1:]}
        return Rows(self.rows[selected[self.group]], **by_group)

    @staticmethod
    def stacked(parts: Sequence["Rows"]) -> "Rows":
        """The groups of several in turn."""
        columns = zip(
            *([getattr(part, f.name) for f in fields(Rows)] for part in parts), strict=True
        )
        return Rows(*map(np.concatenate, columns))

    @staticmethod
    def from_bags(rows: Array, sizes: Array, known_variance: Array) -> "Rows":
        """One row and one group per bag, in the given order."""
        ones = np.ones(len(rows), int)
        return Rows(rows, ones, ones, sizes, known_variance, ones)


def compress(
    z: ArrayLike,
    y: ArrayLike,
    sizes: ArrayLike,
    *,
    lossless: bool = True,
    ones: ArrayLike = 1.0,
    known_variance: ArrayLike = 0.0,
) -> Rows:
    """Compress the rows [z_i, 1, y_i] of all bags by one QR factorisation per group.

    ``lossless=False`` keeps one row and one group per bag, in the given order. z, shape (n, d), are
    coordinates of embeddings, and covariates; `ones` is the factor of the intercept in each label;
    `known_variance` the variance of each label's known error, units of y squared.
    """
    z, y, sizes = (np.asarray(a, float) for a in (z, y, sizes))
    rows = np.column_stack([z, np.broadcast_to(ones, len(y)), y])
    variance = np.broadcast_to(np.asarray(known_variance, float), len(y))
    one_per_bag = Rows.from_bags(rows, sizes, variance)
    return merged(one_per_bag) if lossless else one_per_bag


def merged(rows: Rows) -> Rows:
    """Groups of equal size, known variance and sign as one each, with the same Gram matrix."""
    keys = rows.sign, rows.known_variance, rows.bag_size
    order, first = equal_runs(*keys)
    in_order = np.argsort(np.argsort(order)[rows.group], kind="stable")  # of the rows
    values, length = rows.rows[in_order], rows.length[order]
    n_rows = np.add.reduceat(length, first)
    start = np.cumsum(n_rows) - n_rows
    blocks = [triangular(values[a : a + m]) for a, m in zip(start, n_rows, strict=True)]
    n_bags = np.add.reduceat(rows.n_bags[order], first)
    sign, known_variance, sizes = (key[order][first] for key in keys)
    length = np.array([len(block) for block in blocks])
    return Rows(np.concatenate(blocks), length, n_bags, sizes, known_variance, sign)


def triangular(rows: Array) -> Array:
    """Triangular factor with the Gram matrix of rows, by QR; the rows if no more than columns."""
    if len(rows) <= rows.shape[1]:
        return rows
    factor: Any = np.linalg.qr(rows, mode="r")
    return factor


def equal_runs(*keys: Array) -> tuple[Array, Array]:
    """Order by keys, arrays (n,), the last first, and starts of runs of equal keys in it."""
    order = np.lexsort(keys)
    changes = [np.diff(key[order]) != 0 for key in keys]
    return order, np.flatnonzero(np.append(True, np.logical_or.reduce(changes)))
