"""Columns of a table as columns of points: numbers unchanged, categories one-hot.

Bags keep the encoding, so new tables are read in the same way. Codes go straight into the array of
points: an encoder of scikit-learn would make a second array of all indicators.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from bdr_stan.bags.checks import near_names, plain
from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.bags.column_values import (
    as_categories,
    as_numbers,
    check_are_categories,
    counts_text,
    first_of,
    is_number_column,
    missing_counts,
)
from bdr_stan.types import Array

# A text column of more values has names or ids rather than categories.
_MAX_CATEGORIES = 100
_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)  # of values in a condition


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table that make a point."""

    names: tuple[str, ...]  # columns of the table, in the order of the points' columns
    # Values of the columns that are not numeric: each has an indicator column "name=value".
    categories: Mapping[str, tuple] = field(default_factory=dict)
    # Replacements of missing numbers; an indicator column "name missing" follows the column. NaN
    # for categories: all their columns are then 0.
    fills: Mapping[str, float] = field(default_factory=dict)
    # Columns of the table with the bag, weight, cluster and stratum of each row.
    bag: str | None = None
    weight: str | None = None
    cluster: str | None = None
    strata: str | None = None
    transformer: Any = None  # the user's own, fitted, which replaces all of this

    @property
    def features(self) -> list[str]:
        """Names of the points' columns."""
        if self.transformer is not None:
            return [str(name) for name in self.transformer.get_feature_names_out()]
        return [name for source in self.names for name in self._features_of(source)]

    @property
    def sources(self) -> Array:
        """For each column of the points, the index of its column in the table."""
        if self.transformer is not None:
            return np.arange(len(self.features))
        counts = [len(self._features_of(source)) for source in self.names]
        return np.repeat(np.arange(len(counts)), counts)

    def _features_of(self, name):
        values = self.categories.get(name)
        features = [name] if values is None else [f"{name}={plain(value)}" for value in values]
        return [*features, f"{name} missing"] if name in self.fills else features

    def points(self, table: Any, *, order: Array | None = None, unseen: str = "error") -> Array:
        """Points of `table`, narwhals, shape (n_rows, p), float32 if all its columns are.

        `order` sorts the rows into points; for values that are not among `categories`, `unseen` is
        "error" to raise or "other" to set all indicators to 0. Raises TypeError or ValueError for
        columns that are missing or of another type, and for missing values.
        """
        import narwhals as nw

        if self.transformer is not None:
            points = _transformed(self.transformer, table.select(self.names).to_pandas())
            return points if order is None else points[order]
        numbers = [name for name in self.names if name not in self.categories]
        single = all(table[name].dtype == nw.Float32 for name in numbers)
        points = np.zeros((len(table), len(self.features)), np.float32 if single else np.float64)
        first = 0
        for name in self.names:
            block = points[:, first : first + len(self._features_of(name))]
            if name in self.categories:
                self._write_categories(table[name], name, order, unseen, block)
            else:
                self._write_numbers(table[name], name, order, block)
            first += block.shape[1]
        return points

    def _write_numbers(self, series, name, order, out):
        values = as_numbers(series, name)
        out[:, 0] = values if order is None else values[order]
        if name in self.fills:
            out[:, 1] = missing = np.isnan(out[:, 0])
            out[missing, 0] = self.fills[name]

    def _write_categories(self, series, name, order, unseen, out):
        codes, values = as_categories(series, name)
        code_of = {value: k for k, value in enumerate(self.categories[name])}
        column_of = np.array([code_of.get(value, -1) for value in values] + [-1])
        columns = np.where(codes < 0, out.shape[1] - 1, column_of[codes])  # the last: missing
        unknown = columns < 0
        if unseen == "error" and unknown.any():
            n, new = int(unknown.sum()), [value for value in values if value not in code_of]
            raise ValueError(
                f"column {name!r} holds {first_of(new, 3)} ({n} row{'s' * (n > 1)}), which the "
                f"training table does not; it has {first_of(list(code_of), 10)}: leave these rows "
                "out, or read the table with unseen='other'"
            )
        columns = columns if order is None else columns[order]
        rows = np.flatnonzero(columns >= 0)
        out[rows, columns[rows]] = 1

    def check_complete(self, table: Any) -> None:
        """ValueError with the counts of missing values of a table in columns without fills."""
        if self.transformer is None:
            counts = missing_counts(table, [name for name in self.names if name not in self.fills])
            if counts:
                raise ValueError(_missing_message(counts))

    def same_points(self, other: "TableColumns") -> bool:
        """Whether each row of a table becomes the same point with these columns as with `other`."""
        return (
            self.features == other.features
            and self.fills.keys() == other.fills.keys()
            and all(np.array_equal(v, other.fills[n], True) for n, v in self.fills.items())
        )

    def aligned(self, points: Array, current: "TableColumns", bag_of: Any) -> Array:
        """Points with `current` columns in these columns, shape (N, p).

        A category that the points lack gets a column of zeros, a new one raises ValueError, and
        fills are replaced by the fills of these columns. ``bag_of(row)`` names the bag of a point
        in messages.
        """
        position = {name: k for k, name in enumerate(current.features)}
        features = self.features
        for name, k in position.items():
            if name in features or not (points[:, k] != 0).any():
                continue
            source = current.names[current.sources[k]]
            if source in self.names:
                row = int(np.flatnonzero(points[:, k])[0])
                raise ValueError(
                    f"{bag_of(row)} has {name!r}, which the model was not fitted to: leave such "
                    "points out, or read the table with like=model and unseen='other'"
                )
        zeros = np.zeros((len(points), 1), points.dtype)
        aligned = np.hstack(
            [points[:, [position[name]]] if name in position else zeros for name in features]
        )
        for name, value in self.fills.items():
            if name not in self.categories:
                missing = aligned[:, features.index(f"{name} missing")] == 1
                aligned[missing, features.index(name)] = value
        return aligned

    def config(self) -> dict[str, Any]:
        """Settings for a file; TypeError with a transformer."""
        if self.transformer is not None:
            raise TypeError(
                "a file cannot keep the transformer of the table's columns: pickle the estimator, "
                "or transform the table before it becomes bags"
            )
        return {
            "names": list(self.names),
            "categories": {name: list(values) for name, values in self.categories.items()},
            "fills": dict(self.fills),
            "bag": self.bag,
            "weight": self.weight,
            "cluster": self.cluster,
            "strata": self.strata,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The columns from the settings that `config` returns."""
        categories = {name: tuple(values) for name, values in config["categories"].items()}
        return cls(**{**config, "names": tuple(config["names"]), "categories": categories})


def same_transformer(
    recorded_columns: TableColumns | None,
    known_names: Sequence[str] | None,
    other: TableColumns | None,
    other_names: Sequence[str] | None,
) -> bool:
    """Whether two sets of points may have been made by the same transformer, or by none.

    Points without a record of a table are compared by their names, unless the names before and
    after the transformer are the same.
    """
    transformers = [None if c is None else c.transformer for c in (recorded_columns, other)]
    if transformers[0] is transformers[1]:
        return True
    if recorded_columns is not None and other is not None:
        return None not in transformers and same_content(*transformers)
    recorded = recorded_columns if other is None else other
    names = known_names if recorded_columns is None else other_names
    assert recorded is not None
    return names is None or recorded.features != list(recorded.names)


def same_content(first: Any, second: Any) -> bool:
    """Whether two fitted transformers are the same, for example one and its unpickled copy."""
    import joblib

    try:
        return joblib.hash(first) == joblib.hash(second)
    except Exception:  # a transformer that cannot be pickled equals only itself
        return False


def learn_columns(
    table: Any, roles: ColumnRoles, *, missing: str, transformer: Any = None
) -> TableColumns:
    """Encoding of the features of a narwhals DataFrame, with its values checked."""
    import narwhals as nw

    names = tuple(roles.features or ())
    of_rows = {role: getattr(roles, role) for role in ("bag", "weight", "cluster", "strata")}
    with_roles = partial(TableColumns, names, **of_rows)
    if transformer is not None:
        fitted = _fitted_transformer(transformer, table.select(names).to_pandas())
        return with_roles(transformer=fitted)
    categories, fills, counts = {}, {}, {}
    for name in names:
        series = table[name]
        if is_number_column(series):
            values = as_numbers(series, name)
            gaps = np.isnan(values)
            fill = 0.0 if gaps.all() else float(np.mean(values[~gaps], dtype=np.float64))
        else:
            codes, levels = as_categories(series, name)
            if series.dtype not in (nw.Categorical, nw.Enum):  # which may be codes
                check_are_categories(levels, name)
            check_number_of_levels(levels, name)
            categories[name] = tuple(levels)
            gaps, fill = codes < 0, np.nan
        if gaps.any():
            fills[name], counts[name] = fill, int(gaps.sum())
    if counts and missing != "indicator":
        raise ValueError(_missing_message(counts))
    return with_roles(categories=categories, fills=fills)


def _fitted_transformer(transformer, table):
    """A fitted copy of a user's transformer."""
    from sklearn.base import clone

    is_class = isinstance(transformer, type)
    if is_class or not hasattr(transformer, "transform"):
        example = f"{transformer.__name__}()" if is_class else "StandardScaler()"
        raise TypeError(
            f"transformer must be a transformer of scikit-learn, such as {example}, found "
            f"{transformer!r}"
        )
    try:
        fitted = clone(transformer).fit(table)
    except Exception as error:  # of any kind, as it may be the user's code
        raise ValueError(
            f"the transformer cannot be fitted to the columns {', '.join(table)}: {error}"
        ) from error
    try:
        fitted.get_feature_names_out()
    except AttributeError as error:
        raise ValueError(
            "the transformer does not name its columns: it needs get_feature_names_out, which "
            "FunctionTransformer has with feature_names_out='one-to-one'"
        ) from error
    return fitted


def _transformed(transformer, table):
    """Points that a fitted transformer makes of the rows of a table, float64, shape (n, p)."""
    try:
        points = transformer.transform(table)
        points = np.asarray(points.toarray() if issparse(points) else points, np.float64)
    except Exception as error:  # of any kind, as it may be the user's code
        raise ValueError(
            f"the transformer fails on the columns {', '.join(table)}: {error}"
        ) from error
    if points.ndim != 2 or len(points) != len(table):
        raise ValueError(
            f"the transformer makes an array of shape {points.shape} of {len(table)} rows: it must "
            "give one row of numbers for each"
        )
    return points


def check_number_of_levels(values: Collection[str], name: str) -> None:
    """Raise ValueError if a text column has too many values for a category."""
    if len(values) > _MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} holds {len(values)} different texts, too many for a category: group "
            "them, or leave it out of the features if it is a name or an id"
        )


def _missing_message(counts):
    return (
        f"missing values in the columns {counts_text(counts)}: fill them in, or pass "
        "missing='drop' to drop these points, missing='indicator' for means and indicators"
    )


def points_that_meet(bags: Any, conditions: Mapping[str, Any]) -> Array:
    """Whether each point of `Bags` meets all conditions, by names of columns; bool, (N_points,)."""
    if not conditions:
        raise ValueError('where needs a condition, such as where(sex="f")')
    met: Array = np.ones(len(bags.points), dtype=np.bool_)
    for name, condition in conditions.items():
        values, categories = _values_of_points(bags, name)
        met = met & _meets(values, name, condition, categories)
        missing = f"{name} missing"
        # A value that was filled in is missing; a missing category is None among the values.
        if bags.columns is not None and name in bags.columns.fills and missing in bags.features:
            met = met & (bags.points[:, bags.features.index(missing)] == 0)
    return met


def _values_of_points(bags, name):
    """Values of a column for each point; and its categories, None for numbers."""
    features = bags.names_of_columns
    categories = {} if bags.columns is None else bags.columns.categories
    if name in categories:
        levels = list(categories[name])
        values = np.full(len(bags.points), None, object)
        columns = np.flatnonzero(bags.sources == bags.columns.names.index(name))
        for value, column in zip(levels, columns, strict=False):  # the last may be "missing"
            values[bags.points[:, column] == 1] = value
        return values, levels
    if name not in features:
        raise ValueError(
            f"the points have no column {name!r}: {near_names(name, [*features, *categories])}"
        )
    return np.asarray(bags.points[:, features.index(name)]), None


def _meets(values, name, condition, categories):
    if callable(condition):
        met = np.asarray(condition(values))
        if met.dtype != bool or met.shape != values.shape:
            raise ValueError(
                f"the condition on {name!r} gives {met.dtype} of shape {met.shape}: it gets the "
                f"column, shape {values.shape}, and must return a boolean array of this shape"
            )
        return met
    wanted = list(condition) if isinstance(condition, _COLLECTIONS) else [condition]
    if categories is not None:
        for value in wanted:
            if value not in categories:
                raise ValueError(
                    f"column {name!r} has no value {value!r}: {near_names(value, categories)}"
                )
    elif not all(isinstance(value, (int, float, np.number)) for value in wanted):
        raise TypeError(
            f"column {name!r} has numbers, found the condition {condition!r}: give a number, a "
            f"list of numbers, or a function, such as {name}=lambda values: values > 0"
        )
    return np.isin(values, np.array(wanted, values.dtype if categories is None else object))
