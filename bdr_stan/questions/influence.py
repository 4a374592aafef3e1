"""The influence of a point: a label is the intercept plus the average over its bag of

    f(x) = (phi(x) - m0)' beta,

where m0 is the average embedding of the training bags, so f averages 0 over them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.aggregate.links import IDENTITY
from bdr_stan.bags import BagsLike
from bdr_stan.bags.samples import sample_of
from bdr_stan.kernels import FeatureMap
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.questions.points import as_points, evenly_spaced
from bdr_stan.questions.protocol import Fit, check_stock
from bdr_stan.types import Array, ArrayLike, DataFrame, check_counts, check_seed, is_integer

# Influence along a column of numbers: at all its values, if they are few, else on a grid.
_MOST_VALUES, _GRID_VALUES = 12, 60


class Influence(Fit):
    """The influence of a point, and of a column."""

    def influence(
        self: Any, points: Any, *, sample: str | None = None, n_draws: int = 1000
    ) -> PointPredictive:
        """Posterior of f at points: a label is the intercept plus the average of f over its bag.

        f(x) = (phi(x) - m0)' beta, m0 the average embedding of the training bags: f averages 0 over
        them. Covariates add to the label separately.

        Returns
        -------
        PointPredictive
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, each of shape (n,), in units of y,
            of classes on the scale of the latent function; computed in chunks when asked for.
        """
        model = self.fit_of_sample(sample)
        bags = model.like_training(as_points(model, points), need_weights=False)
        theta = _theta(model, n_draws)
        return PointPredictive(
            bags.read_checked, len(bags.points), model.feature_map_, theta, IDENTITY
        )

    def influence_along(
        self: Any,
        column: str | int,
        bags: BagsLike | None = None,
        *,
        sample: str | None = None,
        n_points: int = 500,
        n_draws: int = 1000,
        seed: int = 0,
    ) -> tuple[Array, PointPredictive]:
        """Posterior of the influence of one column: its partial dependence.

        Partial dependence: each value is set in a sample of the points, which keep their other
        columns, and f is averaged over the points.

        Parameters
        ----------
        column : str or int
            Column of the table that the bags were made of, or of the points, by name or number.
        bags : Bags, or list of arrays, optional
            Bags to draw points from, of all samples or of this one; default the landmarks.
        n_points : int, default 500
            Points of the sample.
        seed : int, default 0
            Seed of the sample.

        Returns
        -------
        values : array, shape (m,)
            Values of the column in the sample, or if there are more than 12, 60 from the 1st to the
            99th percentile; for a category its levels.
        influence : PointPredictive, of m values
            As for `influence`.

        Raises
        ------
        ValueError
            The column does not exist.
        """
        values, _, influence = _along(self, column, bags, sample, n_points, n_draws, seed)
        return values, influence

    def influence_table(
        self: Any,
        bags: BagsLike,
        *,
        sample: str | None = None,
        level: float = 0.95,
        n_points: int = 500,
        n_draws: int = 1000,
        seed: int = 0,
    ) -> DataFrame:
        """Columns of the points by how much their influence varies, the largest first.

        Parameters
        ----------
        n_points, n_draws, seed
            As for `influence_along`.

        Returns
        -------
        pandas DataFrame, one row per column of the table that the bags were made of
            mean, lower and upper of the standard deviation, over the points, of the column's
            `influence_along`: units of y, for families of the linear predictor. It is also positive
            for irrelevant columns: compare it with the other columns.
        """
        import pandas as pd

        ends, rows = interval_ends(level), {}
        for name in named_columns(self.fit_of_sample(sample)):
            _, shares, influence = _along(self, name, bags, sample, n_points, n_draws, seed)
            curves = influence.draws(np.arange(len(shares)))
            sd = np.sqrt((curves - (curves @ shares)[:, None]) ** 2 @ shares)
            rows[name] = [sd.mean(), *np.quantile(sd, ends)]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "lower", "upper"])
        return table.sort_values("mean", ascending=False)


def _along(fit, column, bags, sample, n_points, n_draws, seed):
    """Values of a column, the share of the points at each, and the influence there."""
    check_counts(n_points=n_points)
    check_seed(seed, "seed")
    model = fit.fit_of_sample(sample)
    theta = _theta(model, n_draws)
    where = find_column(model, column)
    if bags is None:
        # Landmarks have NaN in columns that their summand does not use.
        landmarks = model.landmarks_
        chosen = np.where(np.isnan(landmarks), np.nanmean(landmarks, axis=0), landmarks)
    else:
        like = model.like_training(sample_of(bags, sample), need_weights=False)
        chosen = like.sample_points(n_points, np.random.default_rng(seed))
    values = where.values(chosen)
    along = AlongColumn(model.feature_map_, where, chosen)
    influence = PointPredictive(
        lambda start, stop: values[start:stop, None], len(values), along, theta, IDENTITY
    )
    shares = where.shares(chosen, values)
    return (values if where.levels is None else np.array(where.levels)), shares, influence


def _theta(model, n_draws):
    """Draws of f: the weights of the features, and its constant, shape (S, d + 1)."""
    check_counts(n_draws=n_draws)
    check_stock(model)
    beta = evenly_spaced(model.result_.draws("beta"), n_draws)
    return np.column_stack([beta, -beta @ model.coordinates_.m0])


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
        """Values for a curve: all, or 60 from the 1st to 99th percentile; numbers of levels."""
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


def find_column(model: Any, name: Any) -> Column:
    """A column by its name in the table or among the points, or by its number; else ValueError."""
    sources, names = _sources(model.columns_), _names_of_points(model)
    if name in sources:
        indices = np.flatnonzero(model.columns_.sources == sources.index(name))
        return Column(indices, model.columns_.categories.get(name))
    if isinstance(name, str) and name in names:
        return Column(np.array([names.index(name)]))
    if is_integer(name) and 0 <= name < model.n_features_in_:
        return Column(np.array([int(name)]))
    columns = ", ".join(map(repr, named_columns(model)))
    raise ValueError(f"the points have no column {name!r}: there are {columns}")


def named_columns(model: Any) -> list[Any]:
    """Names of the table's columns, else of the points', else their numbers."""
    names = _sources(model.columns_) or _names_of_points(model)
    return names or list(range(model.n_features_in_))


def _sources(columns):
    return [] if columns is None or columns.transformer is not None else list(columns.names)


def _names_of_points(model):
    return list(getattr(model, "feature_names_in_", ()))


def rates_along(
    model: Any, bags: Any, name: Any, *, n_points: int, n_draws: int, seed: int = 0
) -> tuple[Array, Array]:
    """Values of a column, (k,), and by draw average rates of a sample with each value, (k, S)."""
    axis = find_column(model, name)
    sample = bags.sample_points(n_points, np.random.default_rng(seed))
    values, rows = axis.values(sample), np.arange(len(sample))
    rates = [
        model.predict_points(axis.set_to(sample, value), n_draws=n_draws).draws(rows).mean(1)
        for value in values
    ]
    return values if axis.levels is None else np.array(axis.levels), np.array(rates)


class AlongColumn(FeatureMap):
    """Map from values of a column to average features of points, (n, p), with that value."""

    n_inputs = 1

    def __init__(self, features: FeatureMap, column: Column, points: Array):
        self._features, self._column, self._points = features, column, points
        self.n_columns = features.n_columns

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        for row, value in zip(out, points[:, 0], strict=True):
            changed = self._column.set_to(self._points, value)
            row[:] = self._features(changed, None, log_scale).mean(axis=0)
