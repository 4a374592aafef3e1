"""Lossless compression of the rows of a Gaussian regression on bags.

Bags of equal size and equal known label variance share their shrinkage factors and their predictive
variance, so the likelihood depends on their rows [z, 1, y] only through the rows' Gram matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class Rows:
    """Rows [z, 1, y] of all bags, compressed or not, in groups of one size and known variance.

    A group's bags have the Gram matrix of its rows, times its sign: see `at_size_nodes`.
    """

    rows: Array  # shape (T, d + 2), group by group
    length: Array  # rows of each group, int, shape (G,)
    n_bags: Array  # in the group, shape (G,)
    bag_size: Array  # points per bag, shape (G,)
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

    def of_groups(self, selected: Array) -> "Rows":
        """The rows of some groups, (G,) booleans."""
        of_group = {f.name: getattr(self, f.name)[selected] for f in fields(self)[1:]}
        return Rows(self.rows[selected[self.group]], **of_group)

    @staticmethod
    def stacked(parts: Sequence["Rows"]) -> "Rows":
        """The groups of several in turn."""
        columns = zip(
            *([getattr(part, f.name) for f in fields(Rows)] for part in parts), strict=True
        )
        return Rows(*map(np.concatenate, columns))


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

    For every (w, a) and every group g of bags,

        sum over bags i of g of (y_i - a - z_i' w)^2  =  | R_g [w; a; -1] |^2

    so a normal likelihood with a linear mean is exact if its variance is the same within a group.
    For other likelihoods ``lossless=False`` keeps one row and one group per bag, in the given
    order.

    Parameters
    ----------
    z : array, shape (n, d)
        Coordinates of the embeddings; covariates are further columns.
    y, sizes : arrays, shape (n,)
        Labels, and points per bag.
    ones : float or array, shape (n,), default 1
        Factor of the intercept in each label.
    known_variance : float or array, shape (n,), default 0
        Variance of the known error of each label, units of y squared.
    """
    z, y, sizes = (np.asarray(a, float) for a in (z, y, sizes))
    known = np.broadcast_to(np.asarray(known_variance, float), len(y))
    rows = np.column_stack([z, np.broadcast_to(ones, len(y)), y])
    if not lossless:
        ones = np.ones(len(y), int)
        return Rows(rows, ones, ones, sizes, known, ones)
    order = np.lexsort((known, sizes))
    rows = rows[order]
    groups, first, n_bags = np.unique(
        np.column_stack([sizes, known])[order], axis=0, return_index=True, return_counts=True
    )
    # QR rather than Gram matrices: normal equations would square the condition number. A group of
    # fewer bags than columns gains nothing and keeps its rows.
    blocks = [
        np.linalg.qr(rows[a : a + m], mode="r") if m > rows.shape[1] else rows[a : a + m]
        for a, m in zip(first, n_bags, strict=True)
    ]
    length = np.array([len(block) for block in blocks])
    return Rows(
        np.vstack(blocks), length, n_bags, groups[:, 0], groups[:, 1], np.ones(len(groups), int)
    )
