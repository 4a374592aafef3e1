"""Parts of a table that is too large for memory, and summaries of their bags."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np

from bdr_stan.bags.column_values import dropped_rows, missing_counts
from bdr_stan.bags.columns import TableColumns, check_number_of_levels, learn_columns
from bdr_stan.bags.readers import bags_of_table, row_codes
from bdr_stan.types import Array

if TYPE_CHECKING:
    import pandas as pd


class Part(NamedTuple):
    """A part of a table: its name in messages, and a Dask Delayed of a pandas or pyarrow table."""

    where: str
    table: Any


@dataclass(frozen=True)
class PartReader:
    """How the rows of a part become bags; fields as arguments of `Bags.from_dataframe`.

    `kind` is `Bags`, the type to make; `columns` is None until they are known for all parts
    together.
    """

    kind: Callable[..., Any]
    bag: str
    weight: str | None
    metadata: Sequence[str] | None
    names: Sequence[str]
    missing: str
    unseen: str
    columns: TableColumns | None = None

    def rows(self, table: Any, keep: Array | None = None) -> Any:
        """The rows of a part that count, a narwhals DataFrame.

        `keep`, a bool per bag of the part in the order of their ids, selects bags.
        """
        import narwhals as nw

        rows = nw.from_native(table, eager_only=True)
        if self.missing == "drop":
            missing = dropped_rows(rows, self.names)
            rows = rows.filter((~missing).tolist()) if missing.any() else rows
        if keep is None:
            return rows
        codes, _ = row_codes(rows, self.bag)
        return rows.filter(keep[codes].tolist())

    def read(self, rows: Any) -> dict[str, Any]:
        """Arguments of `Bags` from rows of `rows`."""
        columns = cast(TableColumns, self.columns)
        return bags_of_table(
            rows, columns, self.bag, self.weight, self.metadata, unseen=self.unseen
        )

    def bags(self, rows: Any) -> Any:
        """Bags of rows from `rows`."""
        return self.kind(**self.read(rows))

    def points(self, rows: Any) -> Array:
        """Points of rows from `rows`, in their order."""
        return cast(TableColumns, self.columns).points(rows, unseen=self.unseen)


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


@dataclass(frozen=True)
class PartSurvey:
    """Summary of a part: its bags, and the columns of a point."""

    ids: Array  # of the k bags with points in the part, in order
    sizes: Array  # int, shape (k,)
    largest: Array  # weight of each bag in the part, shape (k,)
    sums: Array  # of its weights, relative to the largest
    squares: Array  # sums of their squares
    metadata: "pd.DataFrame | None"  # k rows
    columns: PartColumns
    low: Mapping[str, float]  # smallest value of each numeric column
    high: Mapping[str, float]  # largest value
    varies: Mapping[str, bool]  # whether it differs between points of a bag


@dataclass(frozen=True)
class Dropped:
    """Rows of a part that were dropped for missing values."""

    n: int
    missing: Mapping[str, int]  # number of missing values of each column
    ids: Array  # of bags that have no other rows in this part


def survey(table: Any, where: str, reader: PartReader) -> tuple[PartSurvey | None, Dropped | None]:
    """Summary of a part, None if it has no rows, and its dropped rows, None if there are none.

    Checks all values; the errors that it raises name the part, `where`.
    """
    try:
        rows = reader.rows(table)
        dropped = _dropped(table, rows, reader)
        return (_survey(table, rows, reader, where) if len(rows) else None), dropped
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}: {error}") from error


def _dropped(table, rows, reader):
    import narwhals as nw

    whole = nw.from_native(table, eager_only=True)
    if len(rows) == len(whole):
        return None
    _, ids = row_codes(whole, reader.bag)
    known = set(rows[reader.bag].to_list())
    lost = np.array([value for value in ids.tolist() if value not in known], dtype=ids.dtype)
    return Dropped(len(whole) - len(rows), missing_counts(whole, reader.names), lost)


def _survey(table, rows, reader, where):
    columns = reader.columns
    if columns is None:
        columns = learn_columns(
            rows, reader.names, missing=reader.missing, bag=reader.bag, weight=reader.weight
        )
    else:
        columns.check_complete(rows)
    reader = replace(reader, columns=columns)
    read = reader.read(rows)
    points, offsets = read["points"], read["offsets"]
    starts, sizes = offsets[:-1], np.diff(offsets)
    largest, sums, squares = np.ones(len(sizes)), sizes.astype(float), sizes.astype(float)
    if read["weights"] is None:
        reader.kind(**read)  # checks all values
    else:
        # Bags may have all of their weight in other parts: then nothing here is checked or kept.
        has_weight = np.add.reduceat(np.abs(read["weights"]), starts) != 0
        if has_weight.all():
            reader.kind(**read)
        elif has_weight.any():
            reader.bags(reader.rows(table, has_weight))
        largest = np.maximum.reduceat(read["weights"], starts)
        scaled = read["weights"] / np.repeat(np.where(has_weight, largest, 1), sizes)
        sums, squares = np.add.reduceat(scaled, starts), np.add.reduceat(scaled**2, starts)
    position = {name: k for k, name in enumerate(columns.features)}
    numeric = {name: position[name] for name in columns.names if name not in columns.categories}
    lowest, highest = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    return PartSurvey(
        read["ids"],
        sizes,
        largest,
        sums,
        squares,
        read["metadata"],
        PartColumns.from_points(where, rows, columns, points),
        {name: lowest[:, k].min() for name, k in numeric.items()},
        {name: highest[:, k].max() for name, k in numeric.items()},
        {name: bool(np.any(lowest[:, k] < highest[:, k])) for name, k in numeric.items()},
    )


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
