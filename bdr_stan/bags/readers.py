"""Readers of bags: lists of arrays, stacked points, tables and files.

Each returns the arguments of `Bags`; parameters and errors are documented at `Bags.from_list`,
`Bags.from_points`, `Bags.from_dataframe`, `Bags.from_parquet`, `Bags.from_csv` and
`Bags.from_anndata`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags.cells import cell_features, cell_values, check_anndata, check_obs_columns
from bdr_stan.bags.checks import (
    as_bag,
    as_columns,
    as_points,
    as_sizes,
    as_vector,
    describe,
    offsets_of_sizes,
    plain,
)
from bdr_stan.bags.column_roles import ColumnRoles, resolve_like
from bdr_stan.bags.column_values import (
    as_numbers,
    as_values,
    counts_text,
    dropped_rows,
    is_ordered,
    missing_counts,
)
from bdr_stan.bags.column_warnings import (
    dropped_message,
    warn_of_columns,
    warn_of_copies,
)
from bdr_stan.bags.columns import TableColumns, learn_columns
from bdr_stan.bags.csv_files import csv_table
from bdr_stan.bags.matching import check_same_rows
from bdr_stan.bags.memory_map import memory_map
from bdr_stan.bags.parquet_files import folder_columns, index_columns, parquet_files
from bdr_stan.bags.tables import as_table
from bdr_stan.bags.text_columns import warn_of_categories, warn_of_similar_ids
from bdr_stan.extras import require
from bdr_stan.types import Array, ArrayLike, PathName
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame

_TABLE_OPTIONS = ("missing", "transformer", "like", "unseen")  # of from_dataframe


def from_list(
    arrays: Any,
    ids: Sequence[object] | Array | None,
    weights: Sequence[ArrayLike] | None,
    metadata: "pd.DataFrame | None",
    features: Iterable[object] | None,
) -> dict[str, Any]:
    """Arguments of `Bags` from 2-D arrays, one per bag."""
    if not isinstance(arrays, (Sequence, np.ndarray)) or isinstance(arrays, str):
        raise TypeError(
            f"expected a list of 2-D arrays, one per bag, found a {type(arrays).__name__}"
        )
    names = [describe(i, ids) for i in range(len(arrays))]
    features = _names_of_frames(arrays, names, features)
    bags = [as_bag(array, name) for array, name in zip(arrays, names)]
    for bag, name in zip(bags, names):
        if bag.shape[1] != bags[0].shape[1]:
            raise ValueError(
                f"{name} has points of {bag.shape[1]} features, but {names[0]} of "
                f"{bags[0].shape[1]}: give every bag the same columns"
            )
    return {
        "points": np.concatenate(bags) if bags else np.empty((0, 1)),
        "offsets": offsets_of_sizes([len(bag) for bag in bags]),
        "weights": None if weights is None else _stack_weights(weights, arrays, names),
        "ids": ids,
        "metadata": metadata,
        "features": features,
    }


def _names_of_frames(arrays, names, features):
    """Names of the points' columns: those given, else of data frames, which must agree."""
    frames = [(name, _columns_of_frame(array)) for name, array in zip(names, arrays)]
    frames = [(name, columns) for name, columns in frames if columns is not None]
    for name, columns in frames[1:]:
        if columns != frames[0][1]:
            raise ValueError(
                f"{name} is a table with the columns {', '.join(columns)}, but "
                f"{frames[0][0]} has {', '.join(frames[0][1])}: give every bag the same "
                "columns in the same order"
            )
    return _names_of_columns(features, frames[0][1] if frames else None)


def _columns_of_frame(values):
    """Names of a data frame's columns; None for an array or the default 0, 1, .. ."""
    columns = getattr(values, "columns", None)
    if columns is None or list(columns) == list(range(len(columns))):
        return None
    return [str(name) for name in columns]


def _names_of_columns(features, columns):
    """The names given, unless they are names of other columns; else those of the columns."""
    if features is None or columns is None or isinstance(features, str):
        return columns if features is None else features
    features = [str(name) for name in features]
    if features != columns and set(features) & set(columns):
        raise ValueError(
            f"features names the columns {', '.join(features)}, but the table has "
            f"{', '.join(columns)}: leave features out, or select df[features] before"
        )
    return features


def from_points(
    points: ArrayLike,
    bag: ArrayLike | None,
    sizes: ArrayLike | None,
    *,
    weights: ArrayLike | None,
    replicate_weights: ArrayLike | None,
    ids: ArrayLike | None,
    metadata: "pd.DataFrame | None",
    features: Iterable[object] | None,
) -> dict[str, Any]:
    """Arguments of `Bags` from stacked points."""
    if (bag is None) == (sizes is None):
        raise TypeError("pass exactly one of bag (the bag of each point) and sizes")
    features = _names_of_columns(features, _columns_of_frame(points))
    given = {"bag": bag, "weights": weights, "replicate_weights": replicate_weights}
    for name, values in given.items():
        check_same_rows(points, values, ("points", name))
    points = as_points(points)
    if sizes is None:
        if ids is not None:
            raise TypeError("ids come from bag: pass only one of them")
        bag = as_vector(bag, len(points), "bag", "point")
        codes, ids = bag_codes(bag, "point {} has no bag")
        warn_of_similar_ids(ids)
        sizes, order = np.bincount(codes), _grouping(codes)
        if order is not None:
            if memory_map(points) is not None:
                raise ValueError(
                    "the points of a bag do not lie together in the memory map: "
                    "sort the file by bag, or load it into memory first"
                )
            points = points[order]
            if weights is not None:
                weights = as_vector(weights, len(order), "weights", "point")[order]
            if replicate_weights is not None:
                replicate_weights = as_columns(replicate_weights, len(order))[order]
    return {
        "points": points,
        "offsets": offsets_of_sizes(as_sizes(sizes, len(points))),
        "weights": weights,
        "replicate_weights": replicate_weights,
        "ids": ids,
        "metadata": metadata,
        "features": features,
    }


def is_grouped(table: Any) -> bool:
    """Whether this is what ``groupby`` of pandas returns."""
    return hasattr(table, "obj") and hasattr(table, "ngroups")


def ungrouped(table: Any, bag: str | None) -> tuple[Any, str]:
    """A table and its column of bags, from ``table.groupby(column)`` too."""
    if is_grouped(table):
        keys = table.keys if isinstance(table.keys, list) else [table.keys]
        if bag is None and len(keys) == 1 and isinstance(keys[0], str):
            bag = keys[0]
        table = table.obj
    if bag is None:
        raise TypeError("give bag, the name of the column with the bag of each row")
    return table, bag


def from_dataframe(
    df: "IntoDataFrame",
    roles: ColumnRoles,
    *,
    missing: str = "error",
    transformer: Any = None,
    like: Any = None,
    unseen: str = "error",
) -> dict[str, Any]:
    """Arguments of `Bags` from a table with one row per point."""
    frame: Any = df
    index_names = getattr(getattr(df, "index", None), "names", ())
    if roles.bag in index_names and roles.bag not in frame.columns:
        df = frame.reset_index(level=roles.bag)
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


def bags_of_table(
    table: Any, columns: TableColumns, roles: ColumnRoles, *, unseen: str
) -> dict[str, Any]:
    """Arguments of `Bags` from a narwhals DataFrame with rows, and how to read its columns."""
    weights = None if roles.weight is None else as_numbers(table[roles.weight], roles.weight)
    replicates = None
    if roles.replicate_weights is not None:
        columns_of_weights = [as_numbers(table[name], name) for name in roles.replicate_weights]
        replicates = np.column_stack(columns_of_weights or [np.empty((len(table), 0))])
    codes, ids = row_codes(table, roles.bag)
    order = _grouping(codes)
    points = columns.points(table, order=order, unseen=unseen)
    if weights is not None and order is not None:
        weights = weights[order]
    if replicates is not None and order is not None:
        replicates = replicates[order]
    metadata = None
    if roles.metadata is not None:
        values = {name: as_values(table[name]) for name in roles.metadata}
        metadata = one_row_per_bag(values, codes, ids, roles.bag)
    return {
        "points": points,
        "offsets": offsets_of_sizes(np.bincount(codes)),
        "weights": weights,
        "replicate_weights": replicates,
        "ids": ids,
        "metadata": metadata,
        "columns": columns,
    }


def row_codes(table: Any, bag: str) -> tuple[Array, Array]:
    """Index of each row's bag, in the order of the ids, and the bags' ids."""
    return bag_codes(
        table[bag].to_numpy(), f"row {{}} has no bag: column {bag!r} is missing", by_id=True
    )


def from_parquet(path: PathName, roles: ColumnRoles, **options: Any) -> dict[str, Any]:
    """Arguments of `Bags` from a Parquet file or folder."""
    require("reading Parquet needs pyarrow: pip install 'bdr-stan[parquet]'", "pyarrow.parquet")
    import pyarrow.parquet as pq

    files = parquet_files(path)
    dataset = pq.ParquetDataset(
        path if Path(path).exists() else files, partitioning=folder_columns(files)
    )
    wanted = roles.like(options.get("like"))
    index = index_columns(dataset.schema, wanted.given)
    columns = [c for c in dataset.schema.names if c not in index]
    named = wanted.named(columns)
    table = dataset.read(columns=columns if wanted.features is None else named)
    return from_dataframe(table, roles, **options)


def from_csv(path: PathName, roles: ColumnRoles, **options: Any) -> dict[str, Any]:
    """Arguments of `Bags` from a CSV file; `options` of `from_dataframe` and of pandas."""
    import pandas as pd

    for_table = {name: options.pop(name) for name in _TABLE_OPTIONS if name in options}
    try:
        table = csv_table(path, roles.like(for_table.get("like")), options)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not in UTF-8 ({error.reason}): pass encoding='latin-1', or its own"
        ) from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a CSV table: {str(error).strip()}") from error
    return from_dataframe(table, roles, **for_table)


def from_anndata(
    adata: Any, bag: str, features: str | Sequence[str], metadata: Sequence[str] | None
) -> dict[str, Any]:
    """Arguments of `Bags` from an AnnData object."""
    import narwhals as nw

    check_anndata(adata)
    metadata = check_obs_columns(adata, bag, metadata)
    place, columns, names = cell_features(adata, features)
    codes, ids = bag_codes(
        adata.obs[bag].to_numpy(),
        f"cell {{}} has no bag: column {bag!r} of adata.obs is missing",
        by_id=True,
    )
    warn_of_similar_ids(ids)
    about = {
        name: as_values(nw.from_native(adata.obs[name], series_only=True)) for name in metadata
    }
    return {
        "metadata": one_row_per_bag(about, codes, ids, bag) if about else None,
        "points": cell_values(adata, place, columns, _grouping(codes)),
        "offsets": offsets_of_sizes(np.bincount(codes)),
        "ids": ids,
        "features": names,
    }


def _without_missing(table, roles):
    """Rows of a table in which no feature is missing; warns with counts of the others."""
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


def _stack_weights(weights, arrays, names):
    if len(weights) != len(arrays):
        raise ValueError(f"weights has {len(weights)} arrays, but there are {len(arrays)} bags")
    for w, array, name in zip(weights, arrays, names):
        check_same_rows(array, w, (name, f"the weights of {name}"))
    weights = [np.asarray(w) for w in weights]
    for w, array, name in zip(weights, arrays, names):
        if w.shape != (len(array),):
            raise ValueError(
                f"the weights of {name} have shape {w.shape}, expected ({len(array)},): one per "
                "point"
            )
    return np.concatenate(weights) if weights else np.empty(0)


def bag_codes(bag: Array, message: str, *, by_id: bool = False) -> tuple[Array, Array]:
    """Index of each point's bag, ordered by first appearance or by id, and the bags' ids."""
    import pandas as pd

    try:
        codes, ids = pd.factorize(bag)
    except TypeError:  # lists and dicts cannot be hashed
        raise TypeError(
            f"bags are named by {type(bag[0]).__name__}s, such as {bag[0]!r}: give each row one "
            "number or text, its bag"
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
            f"{message.format(missing[0])} ({len(missing)} in all): fill it in or drop these points"
        )
    return codes, ids


def _grouping(codes: Array) -> Array | None:
    """Order that sorts points by bag; None where they already are."""
    grouped = np.all(codes[1:] >= codes[:-1])
    return None if grouped else np.argsort(codes, kind="stable")


def one_row_per_bag(
    columns: dict[str, Array], codes: Array, ids: Array, bag: str
) -> "pd.DataFrame":
    """Table with one row per bag from columns of the points that are constant within bags."""
    import pandas as pd

    first = np.unique(codes, return_index=True)[1]
    for name, values in columns.items():
        _check_constant(values, codes, first, name, ids)
    return pd.DataFrame(
        {name: values[first] for name, values in columns.items()}, index=pd.Index(ids, name=bag)
    )


def _check_constant(values, codes, first, name, ids):
    import pandas as pd

    kinds = pd.factorize(values)[0]
    changed = np.flatnonzero(kinds != kinds[first][codes])
    if len(changed):
        i = codes[changed[0]]
        raise ValueError(
            f"column {name!r} is not constant in {describe(i, ids)}: "
            f"{plain(values[first[i]])!r} and {plain(values[changed[0]])!r}; it must have one "
            "value for each bag"
        )
