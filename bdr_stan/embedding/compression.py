"""Lossless compression of a Gaussian regression on bags.

Bags of equal size, and equal known variance of the labels' errors, share their shrinkage factors
and their predictive variance, so all that the likelihood needs of them is the triangular factor of
their rows [z, 1, y].
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class CompressedRows:
    """Rows [z, 1, y] of all bags, stacked group by group of equal bag size and known variance.

    Attributes
    ----------
    rows : array, shape (T, d + 2)
        For group g, ``rows[start[g] : start[g] + length[g]]`` has the same Gram matrix as the
        group's own rows [z, 1, y].
    start, length : int arrays, shape (G,)
        Where each group's rows lie.
    n_bags : int array, shape (G,)
        Bags in the group.
    bag_size : array, shape (G,)
        Points in each of its bags.
    known_variance : array, shape (G,)
        Variance of the known error of each of its labels, units of y squared; 0 for none.
    """

    rows: Array
    start: Array
    length: Array
    n_bags: Array
    bag_size: Array
    known_variance: Array

    def groups(self) -> Iterator[Array]:
        """Yield the block of rows of each group."""
        for start, length in zip(self.start, self.length, strict=True):
            yield self.rows[start : start + length]


def compress(
    z: ArrayLike,
    y: ArrayLike,
    sizes: ArrayLike,
    *,
    lossless: bool = True,
    ones: ArrayLike = 1.0,
    known_variance: ArrayLike = 0.0,
) -> CompressedRows:
    """Compress the rows [z_i, 1, y_i] of all bags, one QR factorisation per group.

    For every (w, a) and every group g of bags of equal size and known variance,

        sum over bags i of g of (y_i - a - z_i' w)^2  =  | R_g [w; a; -1] |^2

    so normal likelihoods of y_i whose mean is linear and whose parameters depend on the bag
    through these two alone are kept exactly.

    Parameters
    ----------
    z : array, shape (n, d)
        Coordinates of the embeddings; covariates are further columns.
    y : array, shape (n,)
        Labels.
    sizes : array, shape (n,)
        Points per bag.
    lossless : bool, default True
        False keeps each bag as a group of its own, with its own row, in the given order: for
        programs whose likelihood is not normal.
    ones : float or array, shape (n,), default 1
        What stands for 1 in the rows: the intercept's factor in each label.
    known_variance : float or array, shape (n,), default 0
        Variance of the known error of each label, units of y squared.

    Returns
    -------
    CompressedRows
        A group has at most d + 2 rows; groups with fewer bags keep their rows as they are.

    Notes
    -----
    QR, not normal equations: it does not square the condition number.
    """
    z, y, sizes = (np.asarray(a, float) for a in (z, y, sizes))
    known = np.broadcast_to(np.asarray(known_variance, float), len(y))
    rows = np.column_stack([z, np.broadcast_to(ones, len(y)), y])
    if not lossless:
        n = len(y)
        ones = np.ones(n, int)
        return CompressedRows(rows, np.arange(n), ones, ones, sizes, known)
    order = np.lexsort((known, sizes))
    rows = rows[order]
    groups, first, n_bags = np.unique(
        np.column_stack([sizes, known])[order], axis=0, return_index=True, return_counts=True
    )
    blocks = [
        np.linalg.qr(rows[a : a + m], mode="r") if m > rows.shape[1] else rows[a : a + m]
        for a, m in zip(first, n_bags, strict=True)
    ]
    length = np.array([len(block) for block in blocks])
    start = np.cumsum(length) - length
    return CompressedRows(np.vstack(blocks), start, length, n_bags, groups[:, 0], groups[:, 1])
