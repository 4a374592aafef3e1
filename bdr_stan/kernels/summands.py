"""Sums of kernels that look at different columns: their summands, and landmarks of each.

A sum of kernels is the kernel of features side by side. A summand that looks at one column needs
few landmarks, and these have entries in that column alone: NaN stands for the others.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from bdr_stan.kernels.feature_maps import ConcatenatedFeatures, LandmarkFeatures
from bdr_stan.kernels.kernel import Kernel, Sum
from bdr_stan.types import Array, ArrayLike

Columns = tuple[int, ...]


def summands(kernel: Kernel, n_columns: int) -> dict[Columns, Kernel]:
    """The summands of a kernel, by the columns that they look at.

    Parameters
    ----------
    kernel : Kernel, from `resolve_kernel`
    n_columns : int
        Columns of the points.

    Returns
    -------
    dict, indices of columns -> Kernel
        One entry where the kernel is no sum. Summands of the same columns stay together.
    """
    found: dict[Columns, list[Kernel]] = {}
    for term in terms(kernel):
        found.setdefault(term.columns_seen(n_columns), []).append(term)
    return {columns: reduce(add, terms) for columns, terms in found.items()}


def terms(kernel: Any, factor: float = 1.0) -> list[Kernel]:
    """Kernels that are no sums and add up to a kernel times a factor."""
    factor *= kernel.variance
    if isinstance(kernel, Sum):
        return [*terms(kernel.first, factor), *terms(kernel.second, factor)]
    return [kernel if factor == kernel.variance else replace(kernel, variance=factor)]


class SummandFeatures(ConcatenatedFeatures):
    """Values of each summand of a kernel at landmarks of its own, side by side.

    Parameters
    ----------
    kernel : Kernel, from `resolve_kernel`
    landmarks : array, shape (d, p), in the units of the points
        NaN in the columns that a landmark's summand does not look at; those of a summand lie
        together.

    Raises
    ------
    ValueError : a landmark with other columns than a summand has.
    """

    maps: tuple[LandmarkFeatures, ...]

    def __init__(self, kernel: Kernel, landmarks: ArrayLike):
        self.kernel, self.landmarks = kernel, np.asarray(landmarks, np.float64)
        parts = summands(kernel, self.landmarks.shape[1])
        blocks = _blocks(self.landmarks, parts)
        super().__init__([LandmarkFeatures(parts[columns], rows) for columns, rows in blocks])

    def gram(self) -> Array:
        """Inner products of the features' representers, shape (d, d): no summand sees another."""
        return block_diag(*(each.gram() for each in self.maps))


def landmark_features(kernel: Kernel, landmarks: ArrayLike) -> LandmarkFeatures | SummandFeatures:
    """Values of a kernel at landmarks; where these have NaN, those of its summands."""
    if np.isnan(landmarks).any():
        return SummandFeatures(kernel, landmarks)
    return LandmarkFeatures(kernel, landmarks)


def _blocks(landmarks: Array, parts: dict[Columns, Kernel]) -> list[tuple[Columns, Array]]:
    """Runs of landmarks of one summand, with its columns."""
    given = [tuple(np.flatnonzero(np.isfinite(row)).tolist()) for row in landmarks]
    for k, columns in enumerate(given):
        if columns not in parts:
            known = ", ".join(map(str, map(list, parts)))
            raise ValueError(
                f"landmark {k} has numbers in the columns {list(columns)} alone, but the "
                f"kernel's summands look at {known}: give each landmark all columns, or those of "
                "one summand"
            )
    starts = [k for k in range(len(given)) if k == 0 or given[k] != given[k - 1]]
    return [
        (given[start], landmarks[start:stop])
        for start, stop in zip(starts, [*starts[1:], len(given)], strict=True)
    ]


def shares(total: Any, parts: Collection[Any]) -> list[int]:
    """A number of landmarks divided among summands, as evenly as can be.

    Raises
    ------
    ValueError : fewer than one for each.
    """
    n = len(parts)
    if total < n:
        raise ValueError(
            f"the kernel has {n} summands, each with landmarks of its own, but n_landmarks is "
            f"{total}: ask for {n} or more"
        )
    return [total // n + (k < total % n) for k in range(n)]
