"""Sums of kernels of different columns: their summands, and landmarks of each.

Landmarks of a summand have numbers in its columns and NaN in the others.
"""

from dataclasses import replace
from functools import reduce
from itertools import groupby
from operator import add
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from bdr_stan.kernels.feature_maps import ConcatenatedFeatures, LandmarkFeatures, slices_of
from bdr_stan.kernels.inner_products import LinearEffects
from bdr_stan.kernels.kernel import Kernel, Product, Sum
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.stationary import BandwidthKernel
from bdr_stan.types import Array, ArrayLike

Columns = tuple[int, ...]


def summands(kernel: Kernel, n_columns: int) -> dict[Columns, Kernel]:
    """The summands of a resolved kernel by their columns, merged if columns are the same."""
    by_columns: dict[Columns, list[Kernel]] = {}
    for field in fields_of(kernel):
        by_columns.setdefault(field.columns_seen(n_columns), []).append(field)
    return {columns: reduce(add, fields) for columns, fields in by_columns.items()}


def fields_of(kernel: Any) -> list[Kernel]:
    """The fields of a kernel, which add up to it: its summands, or the kernel itself."""
    if not isinstance(kernel, Sum):
        return [kernel]
    parts: list[Any] = [*fields_of(kernel.first), *fields_of(kernel.second)]
    if kernel.variance == 1:
        return parts
    return [replace(part, variance=kernel.variance * part.variance) for part in parts]


def rank(kernel: Any, n_columns: int) -> int | None:
    """Number of functions that a kernel of linear or quadratic effects combines, else None."""
    if isinstance(kernel, Sum):
        first, second = rank(kernel.first, n_columns), rank(kernel.second, n_columns)
        return None if first is None or second is None else first + second
    if isinstance(kernel, NormalScores):
        return rank(kernel.base, 1)
    return len(kernel.columns_seen(n_columns)) if isinstance(kernel, LinearEffects) else None


def single_bandwidth(kernel: Kernel) -> Any:
    """Bandwidth, in the units of the points, if one term of a kernel has one; else None."""
    lengths = [term.lengths for term in fields_of(kernel) if isinstance(term, BandwidthKernel)]
    return lengths[0] if len(lengths) == 1 else None


def scored_columns(kernel: Any) -> dict[int, NormalScores]:
    """Columns that a resolved kernel uses by their normal scores, also in products."""
    if isinstance(kernel, (Sum, Product)):
        return scored_columns(kernel.first) | scored_columns(kernel.second)
    if not isinstance(kernel, NormalScores):
        return {}
    columns: Any = kernel.columns
    return {columns[0]: kernel}


class SummandFeatures(ConcatenatedFeatures):
    """Values of each summand of a kernel at its own landmarks, concatenated.

    Landmarks, (d, p), have NaN in the columns that their summand does not depend on; a summand's
    are consecutive. ValueError for a landmark with other columns than a summand has.
    """

    maps: tuple[LandmarkFeatures, ...]

    def __init__(self, kernel: Kernel, landmarks: ArrayLike):
        self.kernel, self.landmarks = kernel, np.asarray(landmarks, np.float64)
        parts = summands(kernel, self.landmarks.shape[1])
        blocks = _blocks(self.landmarks, parts)
        super().__init__([LandmarkFeatures(parts[columns], rows) for columns, rows in blocks])

    def gram(self) -> Array:
        """Inner products of the features' representers, (d, d); 0 between summands."""
        return block_diag(*(feature_map.gram() for feature_map in self.maps))


def landmark_features(kernel: Kernel, landmarks: ArrayLike) -> LandmarkFeatures | SummandFeatures:
    """Values of a resolved kernel at landmarks, (d, p); if they have NaN, of its summands."""
    if np.isnan(landmarks).any():
        return SummandFeatures(kernel, landmarks)
    return LandmarkFeatures(kernel, landmarks)


def _blocks(landmarks: Array, parts: dict[Columns, Kernel]) -> list[tuple[Columns, Array]]:
    """Runs of landmarks of one summand, with its columns."""
    columns_of_rows = [tuple(np.flatnonzero(np.isfinite(row)).tolist()) for row in landmarks]
    for k, columns in enumerate(columns_of_rows):
        if columns not in parts:
            listed = ", ".join(map(str, map(list, parts)))
            raise ValueError(
                f"landmark {k} has numbers only in the columns {list(columns)}, but the "
                f"kernel's summands depend on {listed}: give each landmark all columns, or the "
                "columns of one summand"
            )
    runs = [(columns, len(list(run))) for columns, run in groupby(columns_of_rows)]
    blocks = slices_of(n for _, n in runs)
    return [(columns, landmarks[b]) for (columns, _), b in zip(runs, blocks, strict=True)]
