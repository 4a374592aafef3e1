"""Scans of the parts of a table for bags, columns and dropped rows; and all scans together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from bdr_stan.bags.checks import check_bags_have_weight, describe
from bdr_stan.bags.column_values import (
    counts_text,
    missing_counts,
    warn_of_categories,
    warn_of_similar_ids,
)
from bdr_stan.bags.column_warnings import (
    CODES_OF_POINTS,
    column_messages,
    dropped_message,
    warn_of_odd_sums,
)
from bdr_stan.bags.columns import TableColumns, check_number_of_levels, learn_columns
from bdr_stan.bags.missing_codes import Ends, ends_of, joined, warn_of_codes
from bdr_stan.bags.parts import PartReader
from bdr_stan.bags.tables import bag_codes, one_row_per_bag, row_codes
from bdr_stan.types import Array, DataFrame
from bdr_stan.user_warnings import warn


class PartScan(NamedTuple):
    """Summary of a part: its bags, and the columns of a point."""

    where: str  # name of the part in messages
    ids: Array  # of the k bags with points in the part, in order
    sizes: Array  # int, shape (k,)
    largest: Array  # weight of each bag in the part, shape (k,)
    sums: Array  # of its weights, relative to the largest
    squares: Array  # sums of their squares
    metadata: "DataFrame | None"  # k rows
    columns: TableColumns  # learned from only this part
    missing: Mapping[str, int]  # number of missing values of each column that has some
    means: Mapping[str, float]  # of the values present in each numeric column
    ends: Mapping[str | int, Ends]  # of each column of numbers, and of the weights
    varies: Mapping[str, bool]  # whether it differs between points of a bag

    def present(self, name: str) -> int:
        """Number of rows with a value in this column."""
        return int(self.sizes.sum()) - self.missing.get(name, 0)


class Dropped(NamedTuple):
    """Rows of a part that were dropped for missing values."""

    n: int
    missing: Mapping[str, int]  # number of missing values of each column
    ids: Array  # of bags that have no other rows in this part


def scan(table: Any, where: str, reader: PartReader) -> tuple[PartScan | None, Dropped | None]:
    """Summary of a part and its dropped rows, None without; errors name the part, `where`."""
    try:
        rows = reader.rows(table)
        dropped = _dropped(table, rows, reader)
        return (_scan(table, rows, reader, where) if len(rows) else None), dropped
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}: {error}") from error


def _dropped(table, rows, reader):
    import narwhals as nw

    whole = nw.from_native(table, eager_only=True)
    if len(rows) == len(whole):
        return None
    bag = reader.roles.bag
    _, ids = row_codes(whole, bag)
    with_rows = set(rows[bag].to_list())
    lost = np.array([value for value in ids.tolist() if value not in with_rows], dtype=ids.dtype)
    return Dropped(len(whole) - len(rows), missing_counts(whole, reader.roles.features), lost)


def _scan(table, rows, reader, where):
    columns = reader.columns
    if columns is None:
        columns = learn_columns(rows, reader.roles, missing=reader.missing)
    else:
        columns.check_complete(rows)
    reader = replace(reader, columns=columns)
    read = reader.read(rows)
    points, offsets = read["points"], read["offsets"]
    starts, sizes = offsets[:-1], np.diff(offsets)
    largest, sums, squares = np.ones(len(sizes)), sizes.astype(float), sizes.astype(float)
    if read["weights"] is None:
        reader.kind(**read, copy=False)  # checks all values
    else:
        # Bags may have all of their weight in other parts: then nothing here is checked or kept.
        has_weight = np.add.reduceat(np.abs(read["weights"]), starts) != 0
        if has_weight.all():
            reader.kind(**read, copy=False)
        elif has_weight.any():
            reader.bags(reader.rows(table, has_weight))
        largest = np.maximum.reduceat(read["weights"], starts)
        scaled = read["weights"] / np.repeat(np.where(has_weight, largest, 1), sizes)
        sums, squares = np.add.reduceat(scaled, starts), np.add.reduceat(scaled**2, starts)
    position = {name: k for k, name in enumerate(columns.features)}
    numeric = {name: position[name] for name in columns.names if name not in columns.categories}
    ends: dict[str | int, Ends] = {name: ends_of(points[:, k]) for name, k in numeric.items()}
    if read["weights"] is not None:
        ends["weights"] = ends_of(read["weights"])
    lowest, highest = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    return PartScan(
        where,
        read["ids"],
        sizes,
        largest,
        sums,
        squares,
        read["metadata"],
        columns,
        missing_counts(rows, list(columns.fills)),
        {name: float(np.mean(points[:, k], dtype=np.float64)) for name, k in numeric.items()},
        ends,
        {name: bool(np.any(lowest[:, k] < highest[:, k])) for name, k in numeric.items()},
    )


class ScannedTable(NamedTuple):
    """What the scans of all parts show together."""

    codes: list[Array]  # of the bags of each part, their indices among all; -1 without weight
    ids: Array  # of all n bags, in order
    sizes: Array  # int, shape (n,)
    effective_sizes: Array  # shape (n,)
    totals: Array  # shape (n,)
    metadata: "DataFrame | None"  # n rows
    columns: TableColumns


def merge_scans(
    scans: Sequence[PartScan], dropped: Sequence[Dropped | None], reader: PartReader
) -> ScannedTable:
    """All scans together; warns of dropped rows, similar ids, and columns without information."""
    if not scans:
        if any(dropped):
            counts = counts_text(_missing_in_dropped(dropped))
            raise ValueError(f"every row has a missing value ({counts}): leave these columns out")
        raise ValueError("no part of the table has a row: there are no bags")
    roles = reader.roles
    codes, ids = _number_bags(scans, roles.bag)
    code_of_piece = np.concatenate(codes)
    sizes = np.zeros(len(ids), np.int64)
    np.add.at(sizes, code_of_piece, np.concatenate([each.sizes for each in scans]))
    _warn_of_dropped(dropped, sizes, ids)
    metadata = None
    if roles.metadata is not None:
        values = {
            name: np.concatenate([cast(Any, each.metadata)[name].to_numpy() for each in scans])
            for name in roles.metadata
        }
        metadata = one_row_per_bag(values, code_of_piece, ids, roles.bag)
    columns = reader.columns
    ends = {
        name: joined([each.ends[name] for each in scans if name in each.ends])
        for name in dict.fromkeys(name for each in scans for name in each.ends)
    }
    warn_of_codes(ends, "points", CODES_OF_POINTS)
    if columns is None:
        columns = merged_columns(scans)
        _warn_of_columns(scans, ends, columns)
        warn_of_categories(columns.categories)
    effective_sizes = totals = sizes.astype(float)
    if roles.weight is not None:
        effective_sizes, totals = _merged_weights(scans, codes, ids)
        if not np.allclose(effective_sizes, sizes):
            warn_of_odd_sums(totals, lambda i: describe(i, ids))
        # If all weights of a bag in a part are 0, its points there contribute nothing.
        codes = [np.where(each.largest > 0, c, -1) for c, each in zip(codes, scans)]
    return ScannedTable(codes, ids, sizes, effective_sizes, totals, metadata, columns)


def merged_columns(parts: Sequence[PartScan]) -> TableColumns:
    """Columns of a table from its parts' columns; raises if their types differ."""
    categories, fills = {}, {}
    for name in parts[0].columns.names:
        with_values = [part for part in parts if part.present(name)] or parts[:1]
        texts = [part for part in with_values if name in part.columns.categories]
        numbers = [part for part in with_values if name not in part.columns.categories]
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


def _number_bags(scans: Sequence[PartScan], bag: str) -> tuple[list[Array], Array]:
    """Indices of the bags of each part among all, and all ids in order."""
    kinds = ["numbers" if each.ids.dtype.kind in "iuf" else "other values" for each in scans]
    if len(set(kinds)) > 1:
        first, other = kinds.index("numbers"), kinds.index("other values")
        raise TypeError(
            f"column {bag!r} holds numbers in {scans[first].where}, but other values in "
            f"{scans[other].where}: give it one kind in all parts"
        )
    codes, ids = bag_codes(np.concatenate([each.ids for each in scans]), "{}", by_id=True)
    warn_of_similar_ids(ids)
    ends = np.cumsum([len(each.ids) for each in scans])
    return np.split(codes, ends[:-1]), ids


def _merged_weights(scans, codes, ids):
    """Effective sizes and sums of weights; relative to a bag's largest weight, see `Bags`."""
    largest = np.zeros(len(ids))
    for bags, part in zip(codes, scans):
        largest[bags] = np.maximum(largest[bags], part.largest)
    check_bags_have_weight(largest, ids)
    sums, squares = np.zeros((2, len(ids)))
    for bags, part in zip(codes, scans):
        relative = part.largest / largest[bags]
        sums[bags] += part.sums * relative
        squares[bags] += part.squares * relative**2
    return sums**2 / squares, sums * largest


def _missing_in_dropped(dropped):
    """Number of missing values in each column of the dropped rows."""
    return sum((Counter(each.missing) for each in dropped if each), Counter())


def _warn_of_dropped(dropped, sizes, ids):
    n = sum(each.n for each in dropped if each)
    if not n:
        return
    lost = {value for each in dropped if each for value in each.ids.tolist()} - set(ids.tolist())
    warn(dropped_message(n, n + sizes.sum(), _missing_in_dropped(dropped), len(lost)))


def _warn_of_columns(scans, ends, columns):
    constant, within = [], []
    for name in columns.names:
        parts = [each for each in scans if name in each.varies]
        if name in columns.categories or name in columns.fills:
            continue
        if len(ends[name].values) == 1:
            constant.append(name)
        elif max(each.sizes.max() for each in parts) > 1 and not any(
            each.varies[name] for each in parts
        ):
            within.append(name)
    messages = column_messages(constant, within)
    if messages:
        warn("; ".join(messages))
