"""Tables of users as data frames of narwhals, and their rows as points of bags."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import describe, offsets_of_sizes, plain
from bdr_stan.bags.column_roles import ColumnRoles, resolve_like
from bdr_stan.bags.column_values import (
    as_numbers,
    as_values,
    counts_text,
    dropped_rows,
    is_ordered,
    missing_counts,
    warn_of_categories,
    warn_of_similar_ids,
)
from bdr_stan.bags.column_warnings import dropped_message, warn_of_columns, warn_of_copies
from bdr_stan.bags.columns import TableColumns, learn_columns
from bdr_stan.extras import require
from bdr_stan.types import Array, DataFrame
from bdr_stan.user_warnings import warn


def is_table(values: Any) -> bool:
    """Whether this is a table with named columns, in contrast to bags and arrays."""
    is_frame = hasattr(values, "columns") and not isinstance(values, BagsBase)
    return is_frame or hasattr(values, "__arrow_c_stream__")


def as_table(values: Any) -> Any:
    """A table as a narwhals DataFrame; TypeError for other objects, ImportError without pyarrow."""
    import narwhals as nw

    try:
        return nw.from_native(values, eager_only=True)
    except TypeError:
        return nw.from_native(_read_stream(values), eager_only=True)


def _read_stream(values):
    """A pyarrow table of an object with an Arrow stream, for example a relation of DuckDB."""
    name = type(values).__name__
    for attribute, instead in (
        ("to_delayed", "a Dask DataFrame is for Bags.from_dask"),
        ("collect", "pass table.collect()"),
    ):
        if hasattr(values, attribute):
            raise TypeError(f"the table is a lazy {name}: {instead}") from None
    expected = "expected a pandas, polars or pyarrow table, or another that offers an Arrow stream"
    if not hasattr(values, "__arrow_c_stream__"):
        raise TypeError(f"{expected}, found {name}") from None
    require(f"reading a {name} needs pyarrow: pip install 'bdr-stan[parquet]'", "pyarrow")
    import pyarrow as pa

    try:
        return pa.table(values)
    except (TypeError, pa.ArrowInvalid):
        raise TypeError(f"{expected}, found {name}, a stream of one column") from None


def arguments_of_table(
    df: Any,
    roles: ColumnRoles,
    *,
    missing: str = "error",
    transformer: Any = None,
    like: Any = None,
    unseen: str = "error",
) -> dict[str, Any]:
    """Arguments of `Bags` from a table with one row per point; warns of suspicious values."""
    index_names = getattr(getattr(df, "index", None), "names", ())
    if roles.bag in index_names and roles.bag not in df.columns:
        df = df.reset_index(level=roles.bag)
    table = as_table(df)
    columns = resolve_like(like, roles.features, missing, transformer, unseen)
    roles = roles.like(like).with_features(table.columns)
    if len(table) == 0:
        raise ValueError("the table has no rows: there are no bags")
    if missing == "drop":
        table = _without_missing(table, roles)
    if columns is None:
        columns = learn_columns(table, roles, missing=missing, transformer=transformer)
    else:
        columns.check_complete(table)
    read = bags_of_table(table, columns, roles, unseen=unseen)
    warn_of_similar_ids(read["ids"])
    warn_of_copies(read["points"], read["offsets"])
    if like is None:
        ordered = [name for name in columns.categories if is_ordered(table[name])]
        warn_of_categories(columns.categories, ordered)
        warn_of_columns(read["points"], read["offsets"], columns, read["metadata"])
    return read


def _without_missing(table, roles):
    """Rows of a table without missing features; warns with counts of the other rows."""
    missing = dropped_rows(table, roles.features)
    if not missing.any():
        return table
    counts = missing_counts(table, roles.features)
    kept = table.filter((~missing).tolist())
    if len(kept) == 0:
        raise ValueError(
            f"every row has a missing value ({counts_text(counts)}): leave these columns out"
        )
    lost = table[roles.bag].n_unique() - kept[roles.bag].n_unique()
    warn(dropped_message(missing.sum(), len(table), counts, lost))
    return kept


def bags_of_table(
    table: Any, columns: TableColumns, roles: ColumnRoles, *, unseen: str
) -> dict[str, Any]:
    """Arguments of `Bags` from a narwhals DataFrame with rows, and how to read its columns."""
    weights = None if roles.weight is None else as_numbers(table[roles.weight], roles.weight)
    replicates = None
    if roles.replicate_weights is not None:
        columns_of_weights = [as_numbers(table[name], name) for name in roles.replicate_weights]
        replicates = np.column_stack(columns_of_weights or [np.empty((len(table), 0))])
    rows, order = grouped_rows(table, roles.bag, roles.metadata)
    of_points = {"weights": weights, "replicate_weights": replicates}
    for role in ("cluster", "strata"):
        if (name := getattr(roles, role)) is not None:
            message = f"row {{}} has no {role}: column {name!r} is missing"
            of_points[role] = bag_codes(table[name].to_numpy(), message)[0]
    if order is not None:
        of_points = {name: None if v is None else v[order] for name, v in of_points.items()}
    points = columns.points(table, order=order, unseen=unseen)
    return {"points": points, **of_points, **rows, "columns": columns}


def grouped_rows(
    table: Any, bag: str, metadata: Sequence[str] | None, message: str | None = None
) -> tuple[dict[str, Any], Array | None]:
    """Offsets, ids and metadata of the bags of a table's rows, and the order that groups rows."""
    codes, ids = row_codes(table, bag, message)
    about = None
    if metadata is not None:
        values = {name: as_values(table[name]) for name in metadata}
        about = one_row_per_bag(values, codes, ids, bag)
    offsets = offsets_of_sizes(np.bincount(codes))
    return {"offsets": offsets, "ids": ids, "metadata": about}, grouping(codes)


def row_codes(table: Any, bag: str, message: str | None = None) -> tuple[Array, Array]:
    """Index of each row's bag, in the order of the ids, and the bags' ids."""
    message = message or f"row {{}} has no bag: column {bag!r} is missing"
    return bag_codes(table[bag].to_numpy(), message, by_id=True)


def bag_codes(bag: Array, message: str, *, by_id: bool = False) -> tuple[Array, Array]:
    """Index of each point's bag, ordered by first appearance or by id, and the bags' ids."""
    import pandas as pd

    try:
        codes, ids = pd.factorize(bag)
    except TypeError:  # lists and dicts cannot be hashed
        raise TypeError(
            f"bags and clusters are named by {type(bag[0]).__name__}s, such as {bag[0]!r}: give "
            "each row one number or text"
        ) from None
    if by_id:
        try:
            order = np.argsort(ids, kind="stable")
        except TypeError:  # ids of several kinds have no order
            order = np.argsort([str(value) for value in ids], kind="stable")
        rank = np.empty(len(ids) + 1, np.int64)
        rank[order], rank[-1] = np.arange(len(ids)), -1  # a missing id keeps its code, -1
        codes, ids = rank[codes], ids[order]
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise ValueError(
            f"{message.format(missing[0])} ({len(missing)} in total): fill it in or drop these "
            "points"
        )
    return codes, ids


def grouping(codes: Array) -> Array | None:
    """Order that sorts points by bag; None if they already are."""
    grouped = np.all(codes[1:] >= codes[:-1])
    return None if grouped else np.argsort(codes, kind="stable")


def one_row_per_bag(columns: dict[str, Array], codes: Array, ids: Array, bag: str) -> "DataFrame":
    """Table with one row per bag from columns of the points that are constant within bags."""
    import pandas as pd

    first = np.unique(codes, return_index=True)[1]
    for name, values in columns.items():
        kinds = pd.factorize(values)[0]
        changed = np.flatnonzero(kinds != kinds[first][codes])
        if len(changed):
            i = codes[changed[0]]
            raise ValueError(
                f"column {name!r} is not constant in {describe(i, ids)}: "
                f"{plain(values[first[i]])!r} and {plain(values[changed[0]])!r}; it must have one "
                "value for each bag"
            )
    return pd.DataFrame(
        {name: values[first] for name, values in columns.items()}, index=pd.Index(ids, name=bag)
    )
