"""The influence of a point: a label is the intercept plus the average over its bag of

    f(x) = (phi(x) - m0)' beta,

where m0 is the average embedding of the training bags, so f averages 0 over them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.aggregate.links import IDENTITY
from bdr_stan.bags import TableColumns
from bdr_stan.kernels import FeatureMap
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.types import Array, ArrayLike, is_integer

# Influence along a column of numbers: at all its values, if they are few, else on a grid.
_MOST_VALUES, _GRID_VALUES = 12, 60


def posterior_of_influence(
    read: Callable[[int, int], Array], n_points: int, features: FeatureMap, beta: Array, m0: Array
) -> PointPredictive:
    """Posterior of f at each of n points, from draws `beta` of the weights, (S, d), and m0, (d,).

    ``read(start, stop)`` returns points, shape (stop - start, p).
    """
    theta = np.column_stack([beta, -beta @ m0])
    return PointPredictive(read, n_points, features, theta, IDENTITY)


@dataclass(frozen=True)
class Column:
    """A column of the points, or the columns made from one column of a table."""

    indices: Array  # of the points' columns
    levels: tuple | None = None  # values of a category, each with its column; None of numbers

    def set_to(self, points: Array, value: float) -> Array:
        """Copy of points, shape (n, p), with this value, or level by number, in a column."""
        changed = points.copy()
        changed[:, self.indices] = 0.0
        if self.levels is None:
            changed[:, self.indices[0]] = value
        else:
            changed[:, self.indices[int(value)]] = 1.0
        return changed

    def values(self, points: Array) -> Array:
        """Values for a curve: all of the points', or 60 from their 1st to 99th percentile.

        For a category, the numbers of its levels.
        """
        if self.levels is not None:
            return np.arange(len(self.levels), dtype=float)
        values = np.unique(points[:, self.indices[0]])
        if len(values) <= _MOST_VALUES:
            return values
        low, high = np.quantile(points[:, self.indices[0]], [0.01, 0.99])
        return np.linspace(low, high, _GRID_VALUES)

    def shares(self, points: Array, values: Array) -> Array:
        """Share of the points nearest to each of these ascending values, shape (m,)."""
        if self.levels is not None:
            counts = points[:, self.indices].sum(axis=0)
        else:
            nearest = np.searchsorted((values[1:] + values[:-1]) / 2, points[:, self.indices[0]])
            counts = np.bincount(nearest, minlength=len(values))
        return counts / counts.sum()


def find_column(
    name: Any, n_features: int, features: Sequence[str] | None, columns: TableColumns | None
) -> Column:
    """A column by its name in the table or among the points, or by its number; else ValueError."""
    sources = _sources(columns)
    if columns is not None and name in sources:
        indices = np.flatnonzero(columns.sources == sources.index(name))
        return Column(indices, columns.categories.get(name))
    names = [] if features is None else list(features)
    if isinstance(name, str) and name in names:
        return Column(np.array([names.index(name)]))
    if is_integer(name) and 0 <= name < n_features:
        return Column(np.array([int(name)]))
    known = ", ".join(map(repr, named_columns(n_features, features, columns)))
    raise ValueError(f"the points have no column {name!r}: there are {known}")


def named_columns(
    n_features: int, features: Sequence[str] | None, columns: TableColumns | None
) -> list[Any]:
    """Names of the table's columns, else of the points', else their numbers."""
    names = _sources(columns) or ([] if features is None else list(features))
    return list(names) or list(range(n_features))


def _sources(columns):
    return () if columns is None or columns.transformer is not None else tuple(columns.names)


def rates_along(
    model: Any, bags: Any, name: Any, *, n_points: int, n_draws: int, seed: int = 0
) -> tuple[Array, Array]:
    """Values of a column of `bags`, shape (k,), and the average rate of each draw, shape (k, S).

    `model` has rates of points; the average is over a sample with the value.
    """
    axis = find_column(name, bags.n_features, bags.features, bags.columns)
    sample = bags.sample_points(n_points, np.random.default_rng(seed))
    values, rows = axis.values(sample), np.arange(len(sample))
    rates = [
        model.predict_points(axis.set_to(sample, value), n_draws=n_draws).draws(rows).mean(1)
        for value in values
    ]
    return values if axis.levels is None else np.array(axis.levels), np.array(rates)


def without_gaps(landmarks: Array) -> Array:
    """Landmarks with NaN, in columns that their summand does not use, replaced by averages."""
    return np.where(np.isnan(landmarks), np.nanmean(landmarks, axis=0), landmarks)


class AlongColumn(FeatureMap):
    """Feature map from values of a column to the average features of points with that value.

    The other columns of the points, shape (n, p), keep their values.
    """

    n_inputs = 1

    def __init__(self, features: FeatureMap, column: Column, points: Array):
        self._features, self._column, self._points = features, column, points
        self.n_columns = features.n_columns

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        for row, value in zip(out, points[:, 0], strict=True):
            changed = self._column.set_to(self._points, value)
            row[:] = self._features(changed, None, log_scale).mean(axis=0)
