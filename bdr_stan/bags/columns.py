"""Columns of a table as columns of points: numbers unchanged, categories one-hot.

The encoding is kept with the bags, so that new tables are read in the same way.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.bags.text_columns import check_are_categories
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

# A text column of more values has names or ids rather than categories.
_MAX_CATEGORIES = 100
_MISSING_CODES = (-99999, -9999, -999, 999, 9999, 99999)  # common in tables
_ROWS_COMPARED = 1_000  # of the smallest bags, in search of repeated rows
_MIN_DIFFERENT_ROWS = 20  # with fewer, equal counts may be chance
_MIN_FOLLOWER_CORRELATION = 1 - 1e-6  # of a column that restates the label


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table that make a point.

    Attributes
    ----------
    names : tuple of str
        Columns of the table, in the order of the points' columns.
    categories : dict, name -> tuple
        Values of the columns that are not numeric: each has an indicator column "name=value".
    fills : dict, name -> float
        Replacement of a missing number, whose column is followed by an indicator column
        "name missing". NaN for categories, all of whose columns are 0 then.
    bag, weight : str, optional
        Columns of the table with the bag and the weight of each row.
    transformer : scikit-learn transformer, optional
        Your own, fitted, which replaces all of this.

    Examples
    --------
    >>> import pandas as pd
    >>> from bdr_stan import Bags
    >>> people = pd.DataFrame({"town": ["a", "a", "b"], "age": [31, 55, 42], "sex": [*"fmf"]})
    >>> columns = Bags.from_dataframe(people, "town").columns
    >>> columns.names, columns.categories
    (('age', 'sex'), {'sex': ('f', 'm')})
    >>> columns.features, columns.sources
    (['age', 'sex=f', 'sex=m'], array([0, 1, 1]))
    """

    names: tuple[str, ...]
    categories: Mapping[str, tuple] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    bag: str | None = None
    weight: str | None = None
    transformer: Any = None

    @property
    def features(self) -> list[str]:
        """Names of the points' columns."""
        if self.transformer is not None:
            return [str(name) for name in self.transformer.get_feature_names_out()]
        return [name for source in self.names for name in self._features_of(source)]

    @property
    def sources(self) -> Array:
        """For each column of the points the index of the table's column it comes from."""
        if self.transformer is not None:
            return np.arange(len(self.features))
        counts = [len(self._features_of(source)) for source in self.names]
        return np.repeat(np.arange(len(counts)), counts)

    def _features_of(self, name):
        values = self.categories.get(name)
        features = [name] if values is None else [f"{name}={plain(value)}" for value in values]
        return [*features, f"{name} missing"] if name in self.fills else features

    def points(self, table: Any, *, order: Array | None = None, unseen: str = "error") -> Array:
        """Points of a narwhals DataFrame, shape (n_rows, p), float32 where all its columns are.

        `order` sorts the rows into points; for values that are not among `categories`, `unseen` is
        "error" to raise or "other" to set all indicators to 0. Raises TypeError or ValueError for
        columns that are missing or of another type, and for missing values.
        """
        if self.transformer is not None:
            frame = table.select(self.names).to_pandas()
            points = np.asarray(self.transformer.transform(frame), np.float64)
            return points if order is None else points[order]
        single = all(_is_single(table[name], name in self.categories) for name in self.names)
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
        known = {value: k for k, value in enumerate(self.categories[name])}
        column_of = np.array([known.get(value, -1) for value in values] + [-1])
        columns = np.where(codes < 0, out.shape[1] - 1, column_of[codes])  # the last: missing
        unknown = columns < 0
        if unseen == "error" and unknown.any():
            n, new = int(unknown.sum()), [value for value in values if value not in known]
            raise ValueError(
                f"column {name!r} holds {_some(new, 3)} ({n} row{'s' * (n > 1)}), which the "
                f"training table does not; it has {_some(list(known), 10)}: leave these rows out, "
                "or read the table with unseen='other'"
            )
        columns = columns if order is None else columns[order]
        rows = np.flatnonzero(columns >= 0)
        out[rows, columns[rows]] = 1

    def check_complete(self, table: Any) -> None:
        """Raise ValueError with the counts of missing values in columns without fills."""
        if self.transformer is None:
            counts = missing_counts(table, [name for name in self.names if name not in self.fills])
            if counts:
                raise ValueError(_missing_message(counts))

    def same_points(self, other: "TableColumns") -> bool:
        """Whether each row of a table becomes the same point with these and other columns."""
        return (
            self.features == other.features
            and self.fills.keys() == other.fills.keys()
            and all(np.array_equal(v, other.fills[n], True) for n, v in self.fills.items())
        )

    def aligned(self, points: Array, own: "TableColumns", bag_of: Any) -> Array:
        """Points of a table that was read with `own` columns, in these columns, shape (N, p).

        A category that the table lacks gets a column of zeros, a new one raises ValueError, and
        fills are replaced by those of these columns. ``bag_of(row)`` names the bag of a point in
        messages.
        """
        position = {name: k for k, name in enumerate(own.features)}
        features = self.features
        for name, k in position.items():
            if name in features or not (points[:, k] != 0).any():
                continue
            source = own.names[own.sources[k]]
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
        """Settings for a file; TypeError with a transformer, which a file cannot keep."""
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
        }

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Self:
        """The columns from the settings that `config` returns."""
        categories = {name: tuple(values) for name, values in config["categories"].items()}
        return cls(**{**config, "names": tuple(config["names"]), "categories": categories})


def same_transformer(
    known: TableColumns | None,
    known_names: Sequence[str] | None,
    other: TableColumns | None,
    other_names: Sequence[str] | None,
) -> bool:
    """Whether two sets of points may have been made by the same transformer, or by none.

    Points that come from no table have no record: their names decide, unless the names before and
    after the transformer are the same.
    """
    transformers = [None if c is None else c.transformer for c in (known, other)]
    if transformers[0] is transformers[1]:
        return True
    if known is not None and other is not None:
        return None not in transformers and same_content(*transformers)
    recorded = known if other is None else other
    names = known_names if known is None else other_names
    assert recorded is not None
    return names is None or recorded.features != list(recorded.names)


def same_content(first: Any, second: Any) -> bool:
    """Whether two fitted transformers are the same, such as one and its unpickled copy."""
    import joblib

    try:
        return joblib.hash(first) == joblib.hash(second)
    except Exception:  # a transformer that cannot be pickled equals itself alone
        return False


def learn_columns(
    table: Any,
    names: Sequence[str],
    *,
    missing: str = "error",
    transformer: Any = None,
    bag: str | None = None,
    weight: str | None = None,
) -> TableColumns:
    """Encoding of the columns `names` of a narwhals DataFrame.

    Raises TypeError or ValueError for dates, nested values, mixed types, too many texts or missing
    values.
    """
    import narwhals as nw

    if transformer is not None:
        fitted = _fitted_transformer(transformer, table.select(list(names)).to_pandas())
        return TableColumns(tuple(names), bag=bag, weight=weight, transformer=fitted)
    categories, fills, counts = {}, {}, {}
    for name in names:
        series = table[name]
        if _is_number_column(series):
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
    return TableColumns(tuple(names), categories, fills, bag, weight)


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
        return clone(transformer).fit(table)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"the transformer cannot be fitted to the columns {', '.join(table)}: {error}"
        ) from error


@dataclass(frozen=True)
class PartColumns:
    """Columns of a point in one part of a table."""

    where: str  # name of the part in messages
    columns: TableColumns  # learned from this part alone
    n_rows: int
    missing: Mapping[str, int]  # number of missing values of each column that has some
    means: Mapping[str, float]  # of the values present in each numeric column

    @classmethod
    def from_points(cls, where: str, table: Any, columns: TableColumns, points: Array) -> Self:
        """Those of a part, a narwhals DataFrame, with points from its own columns."""
        position = {name: k for k, name in enumerate(columns.features)}
        means = {
            name: float(np.mean(points[:, position[name]], dtype=np.float64))
            for name in columns.names
            if name not in columns.categories
        }
        missing = missing_counts(table, list(columns.fills))
        return cls(where, columns, len(table), missing, means)

    def present(self, name: str) -> int:
        """Number of rows with a value in this column."""
        return self.n_rows - self.missing.get(name, 0)


def merged_columns(parts: Sequence[PartColumns]) -> TableColumns:
    """Columns of a table from those of its parts; raises where their types differ."""
    categories, fills = {}, {}
    for name in parts[0].columns.names:
        known = [part for part in parts if part.present(name)] or parts[:1]
        texts = [part for part in known if name in part.columns.categories]
        numbers = [part for part in known if name not in part.columns.categories]
        if texts and numbers:
            raise TypeError(
                f"column {name!r} holds texts in {texts[0].where}, but numbers in "
                f"{numbers[0].where}: give it one kind in all parts"
            )
        if texts:
            levels = {level for part in texts for level in part.columns.categories[name]}
            check_number_of_levels(levels, name)
            categories[name], fill = tuple(sorted(levels)), np.nan
        else:
            n = sum(part.present(name) for part in numbers)
            total = sum(part.means[name] * part.present(name) for part in numbers)
            fill = total / n if n else 0.0
        if any(name in part.missing for part in parts):
            fills[name] = fill
    return replace(parts[0].columns, categories=categories, fills=fills)


def missing_counts(table: Any, names: Sequence[str]) -> dict[str, int]:
    """Number of missing values in each of these columns that has some."""
    return {name: n for name in names if (n := int(is_missing(table[name], name).sum()))}


def is_missing(series: Any, name: str) -> Array:
    """Which values of a column are missing; bool array, shape (n_rows,)."""
    if _is_number_column(series):
        return np.isnan(as_numbers(series, name))
    return as_categories(series, name)[0] < 0


def _is_number_column(series):
    import narwhals as nw

    return series.dtype.is_numeric() or series.dtype == nw.Boolean


def _is_single(series, is_category):
    """Whether float32 represents a column exactly."""
    import narwhals as nw

    return is_category or series.dtype == nw.Float32


def as_numbers(series: Any, name: str) -> Array:
    """Column of numbers or booleans as floats, shape (n_rows,); TypeError for others."""
    import narwhals as nw

    if not _is_number_column(series):
        raise TypeError(
            f"column {name!r} holds {series.dtype}, not numbers: encode it or leave it out"
        )
    dtype = nw.Float32 if series.dtype == nw.Float32 else nw.Float64
    return series.cast(dtype).to_numpy()


def as_categories(series: Any, name: str) -> tuple[Array, list[str]]:
    """Column of texts or categories as codes, -1 where missing, and sorted values as str.

    Raises TypeError for dates, nested values, or values of several types.
    """
    import narwhals as nw
    import pandas as pd

    dtype = series.dtype
    if dtype.is_temporal():
        raise TypeError(
            f"column {name!r} holds {str(dtype).partition('(')[0]} values: make a number of them, "
            "such as years since 2000, or leave it out of the features"
        )
    try:
        codes, values = pd.factorize(np.fromiter(series.to_list(), object, len(series)))
        kinds = {type(value) for value in values}
    except TypeError:  # only containers cannot be hashed
        kinds = {list}
    if dtype.is_nested() or kinds & {list, tuple, dict, set}:
        raise TypeError(
            f"column {name!r} holds several values in one cell: give each a column of its own, or "
            "leave it out of the features"
        )
    texts_alone = all(issubclass(kind, str) for kind in kinds)  # NumPy's are a kind of them
    if dtype not in (nw.Categorical, nw.Enum) and not texts_alone:
        found = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(
            f"column {name!r} holds {found}: make numbers or texts of all its values, or leave it "
            "out of the features"
        )
    texts, place = np.unique([str(value) for value in values], return_inverse=True)
    return np.append(place, -1)[codes], texts.tolist()


def _some(values, at_most):
    """The first values of a list as messages show them."""
    return ", ".join(map(repr, values[:at_most])) + ", ..." * (len(values) > at_most)


def check_number_of_levels(values: Collection[str], name: str) -> None:
    """Raise ValueError where a text column has too many values for a category."""
    if len(values) > _MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} holds {len(values)} different texts, too many for a category: group "
            "them, or leave it out of the features if it is a name or an id"
        )


def counts_text(counts: Mapping[str, int]) -> str:
    """Columns with their counts of missing values, as messages show them."""
    return ", ".join(f"{name!r} {n}" for name, n in counts.items())


def dropped_message(n: int, n_points: int, counts: Mapping[str, int], n_lost: int) -> str:
    """Message about n dropped points with missing values, and bags lost with them."""
    lost = f"; {n_lost} bags have no other points and are dropped" if n_lost else ""
    return f"dropped {n} of {n_points} points with missing values ({counts_text(counts)}){lost}"


def _missing_message(counts):
    return (
        f"missing values in the columns {counts_text(counts)}: fill them in, or pass "
        "missing='drop' to drop these points, missing='indicator' for means and indicators"
    )


def warn_of_columns(
    points: Array, offsets: Array, columns: TableColumns, metadata: Any = None
) -> None:
    """Warn of columns that are constant, that identify the bag, or that follow a label."""
    starts = offsets[:-1]
    lowest, highest = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    several = np.diff(offsets) > 1
    constant: list[str] = []
    within: list[str] = []  # constant within each bag
    ids: list[str] = []
    for k, source in enumerate(columns.names if columns.transformer is None else ()):
        block = columns.sources == k
        low, high = lowest[:, block], highest[:, block]
        if np.all(low.min(axis=0) == high.max(axis=0)):
            constant.append(source)
        elif len(starts) > 1 and several.any() and np.all(low == high):
            unique = len(np.unique(low, axis=0)) == len(low)
            (ids if unique else within).append(source)
    messages = column_messages(constant, within, ids)
    if metadata is not None:
        messages += _follower_messages(points, offsets, columns.features, metadata)
    if messages:
        warn("; ".join(messages))


def warn_of_missing_codes(points: Array, names: Sequence[str]) -> None:
    """Warn of columns whose smallest or largest value looks like a missing-value code."""
    ends = np.stack([points.min(axis=0), points.max(axis=0)])
    for end, k in np.argwhere(np.isin(ends, _MISSING_CODES)):
        code = ends[end, k]
        coded = points[:, k] == code
        n_coded = int(coded.sum())
        if 1 < n_coded < len(points) and np.all(points[~coded, k] / code < 0.5):
            warn(
                f"column {names[k]!r} is {code:g} in {n_coded} rows, far from all others: if "
                f"that marks missing values, read them as missing, as by na_values=[{code:g}]"
            )


def warn_of_copies(points: Array, offsets: Array) -> None:
    """Warn where every row seems to occur several times in its bag, as after a join.

    Only the smallest bags are compared; a table of whole numbers may well have equal rows.
    """
    import pandas as pd

    sizes = np.diff(offsets)
    if np.gcd.reduce(sizes) == 1:
        return  # with every row repeated r times, r divides each size
    smallest = np.argsort(sizes, kind="stable")
    smallest = smallest[: 1 + np.searchsorted(np.cumsum(sizes[smallest]), _ROWS_COMPARED)]
    rows = np.concatenate([points[offsets[i] : offsets[i + 1]] for i in smallest])
    if np.all(rows == np.floor(rows)):
        return
    table = pd.DataFrame(rows).assign(bag=np.repeat(smallest, sizes[smallest]))
    counts = pd.util.hash_pandas_object(table, index=False).value_counts().to_numpy()
    if len(counts) >= _MIN_DIFFERENT_ROWS and counts[0] > 1 and np.all(counts == counts[0]):
        warn(
            f"each row occurs {counts[0]} times in its bag: was the table joined or appended to "
            "itself? drop_duplicates() leaves one of each"
        )


def column_messages(
    constant: Sequence[str], within: Sequence[str], ids: Sequence[str] = ()
) -> list[str]:
    """Messages about columns that are constant, constant within bags, or like an id."""
    return [
        sentence.format(_some(names, 5))
        for sentence, names in (
            ("constant columns, which carry no information: {}", constant),
            (
                "columns that are the same for all points of a bag: {}; name the label and "
                "covariates of the bags in metadata= and leave them out of the features",
                within,
            ),
            (
                "columns that are the same for all points of a bag and different in every bag, "
                "like an id or a label: {}; name them in metadata=, or leave them out",
                ids,
            ),
        )
        if names
    ]


def _follower_messages(points, offsets, features, metadata):
    """Messages about columns whose bag means are a linear function of bag metadata."""
    n = len(offsets) - 1
    if n < 5:
        return []
    means = np.add.reduceat(points, offsets[:-1], axis=0, dtype=np.float64)
    means /= np.diff(offsets)[:, None]
    means -= means.mean(axis=0)
    norms = np.sqrt(np.sum(means**2, axis=0))
    messages = []
    for name in metadata.columns:
        values = metadata[name].to_numpy()
        if values.dtype.kind not in "fiu" or not np.isfinite(values.astype(float)).all():
            continue
        values = values.astype(float) - values.astype(float).mean()
        bounds = norms * np.sqrt(np.sum(values**2)) * _MIN_FOLLOWER_CORRELATION
        follows = (np.abs(values @ means) >= bounds) & (bounds > 0)
        messages += [
            f"column {features[k]!r} is a linear function of {name!r}: does it restate the label?"
            for k in np.flatnonzero(follows)
        ]
    return messages


def dropped_rows(table: Any, names: Sequence[str]) -> Array:
    """Which rows have a missing value in one of these columns; bool array, (n_rows,)."""
    missing = np.zeros(len(table), bool)
    for name in names:
        missing |= is_missing(table[name], name)
    return missing
