"""Readers of bags: lists of arrays, stacked points, tables and files.

Each gives the arguments of `Bags`. Their public face, with parameters and errors, are the
classmethods `Bags.from_list`, `Bags.from_points`, `Bags.from_dataframe`, `Bags.from_parquet` and
`Bags.from_csv`.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags.checks import as_bag, as_points, as_sizes, as_vector, describe, plain
from bdr_stan.bags.memory_map import memory_map
from bdr_stan.types import Array, ArrayLike, PathName

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame

__all__ = ["from_csv", "from_dataframe", "from_list", "from_parquet", "from_points"]


def from_list(
    arrays: Sequence[ArrayLike] | Array,
    ids: Sequence[object] | Array | None = None,
    weights: Sequence[ArrayLike] | None = None,
    metadata: "pd.DataFrame | None" = None,
    features: Iterable[object] | None = None,
) -> dict[str, Any]:
    """Arguments of `Bags` from 2-D arrays, one a bag; see `Bags.from_list`."""
    names = [describe(i, ids) for i in range(len(arrays))]
    _check_same_frames(arrays, names)
    bags = [as_bag(array, name) for array, name in zip(arrays, names)]
    for bag, name in zip(bags, names):
        if bag.shape[1] != bags[0].shape[1]:
            raise ValueError(
                f"{name} has points of {bag.shape[1]} features, but {names[0]} of "
                f"{bags[0].shape[1]}: give every bag the same columns"
            )
    return {
        "points": np.concatenate(bags) if bags else np.empty((0, 1)),
        "offsets": _offsets([len(bag) for bag in bags]),
        "weights": None if weights is None else _stack_weights(weights, bags, names),
        "ids": ids,
        "metadata": metadata,
        "features": features,
    }


def _check_same_frames(arrays, names):
    """Refuse data frames whose columns differ: their values would be mixed up by position."""
    frames = [(name, list(a.columns)) for name, a in zip(names, arrays) if hasattr(a, "columns")]
    for name, columns in frames[1:]:
        if columns != frames[0][1]:
            raise ValueError(
                f"{name} is a table with the columns {', '.join(map(str, columns))}, but "
                f"{frames[0][0]} has {', '.join(map(str, frames[0][1]))}: give every bag the same "
                "columns in the same order"
            )


def from_points(
    points: ArrayLike,
    bag: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    metadata: "pd.DataFrame | None" = None,
    features: Iterable[object] | None = None,
) -> dict[str, Any]:
    """Arguments of `Bags` from stacked points; see `Bags.from_points`."""
    if (bag is None) == (sizes is None):
        raise TypeError("pass exactly one of bag (the bag of each point) and sizes")
    points = as_points(points)
    if sizes is None:
        if ids is not None:
            raise TypeError("ids come from bag: pass only one of them")
        bag = as_vector(bag, len(points), "bag", "point")
        codes, ids = _bag_codes(bag, "point {} has no bag")
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
    return {
        "points": points,
        "offsets": _offsets(as_sizes(sizes, len(points))),
        "weights": weights,
        "ids": ids,
        "metadata": metadata,
        "features": features,
    }


def from_dataframe(
    df: "IntoDataFrame",
    bag: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Arguments of `Bags` from a table with one row a point; see `Bags.from_dataframe`."""
    import narwhals as nw

    try:
        table = nw.from_native(df, eager_only=True)
    except TypeError:
        raise TypeError(
            f"expected a pandas, polars or pyarrow table, found {type(df).__name__}"
        ) from None
    named = _named_columns(table.columns, bag, features, weight, metadata)
    if features is None:
        features = [
            column
            for column, dtype in table.schema.items()
            if column not in named and (dtype.is_numeric() or dtype == nw.Boolean)
        ]
        if not features:
            raise ValueError("the table has no numeric column left to be a feature")
    columns = [_numeric_column(table[column], column) for column in features]
    weights = None if weight is None else _numeric_column(table[weight], weight)
    if len(table) == 0:
        raise ValueError("the table has no rows: there are no bags")
    codes, ids = _bag_codes(
        table[bag].to_numpy(), f"row {{}} has no bag: column {bag!r} is missing", by_id=True
    )
    order = _grouping(codes)
    single = all(column.dtype == np.float32 for column in columns)
    points = np.empty((len(table), len(columns)), np.float32 if single else np.float64)
    for k, column in enumerate(columns):
        points[:, k] = column if order is None else column[order]
    if weights is not None and order is not None:
        weights = weights[order]
    values = None if metadata is None else {name: table[name].to_numpy() for name in metadata}
    return {
        "points": points,
        "offsets": _offsets(np.bincount(codes)),
        "weights": weights,
        "ids": ids,
        "metadata": None if values is None else _one_row_a_bag(values, codes, ids, bag),
        "features": features,
    }


def from_parquet(
    path: PathName,
    bag: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Arguments of `Bags` from a Parquet file or folder; see `Bags.from_parquet`."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            "reading Parquet needs pyarrow: pip install 'bdr-stan[parquet]'"
        ) from None
    _check_exists(path)
    dataset = pq.ParquetDataset(path)
    # pandas keeps the index of its rows in columns of such names.
    columns = [c for c in dataset.schema.names if not c.startswith("__index_level_")]
    named = _named_columns(columns, bag, features, weight, metadata)
    table = dataset.read(columns=columns if features is None else named)
    return from_dataframe(table, bag, features, weight, metadata)


def from_csv(
    path: PathName,
    bag: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Arguments of `Bags` from a CSV file; see `Bags.from_csv`."""
    import pandas as pd

    _check_exists(path)
    header = pd.read_csv(path, **options | {"nrows": 0}).columns
    named = _named_columns(list(header), bag, features, weight, metadata)
    if features is not None:
        options = {"usecols": named} | options
    return from_dataframe(pd.read_csv(path, **options), bag, features, weight, metadata)


def _offsets(sizes):
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _stack_weights(weights, arrays, names):
    if len(weights) != len(arrays):
        raise ValueError(f"weights has {len(weights)} arrays, but there are {len(arrays)} bags")
    weights = [np.asarray(w) for w in weights]
    for w, array, name in zip(weights, arrays, names):
        if w.shape != (len(array),):
            raise ValueError(
                f"the weights of {name} have shape {w.shape}, expected ({len(array)},): one a point"
            )
    return np.concatenate(weights) if weights else np.empty(0)


def _bag_codes(bag: Array, message: str, *, by_id: bool = False) -> tuple[Array, Array]:
    """Number of each point's bag, in order of first appearance or of the ids, and the bags' ids."""
    import pandas as pd

    codes, ids = pd.factorize(bag)
    if by_id:
        try:
            order = np.argsort(ids, kind="stable")
        except TypeError:  # ids of several kinds have no order
            order = np.argsort([str(value) for value in ids], kind="stable")
        place = np.empty(len(ids) + 1, np.int64)
        place[order], place[-1] = np.arange(len(ids)), -1  # a missing id keeps its code, -1
        codes, ids = place[codes], ids[order]
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise ValueError(
            f"{message.format(missing[0])} ({len(missing)} such in all): "
            "fill it in or leave these points out"
        )
    return codes, ids


def _grouping(codes: Array) -> Array | None:
    """Order that brings each bag's points together; None where they already are."""
    grouped = np.all(codes[1:] >= codes[:-1])
    return None if grouped else np.argsort(codes, kind="stable")


def _named_columns(columns, bag, features, weight, metadata):
    """The columns named by the arguments, each once; ValueError where one is missing."""
    for argument, names in (("features", features), ("metadata", metadata)):
        if isinstance(names, str):
            raise TypeError(f"{argument} must be a list of column names: pass [{names!r}]")
    features, metadata = list(features or []), list(metadata or [])
    named = [bag, *features, *([] if weight is None else [weight]), *metadata]
    for name in named:
        if name not in columns:
            near = get_close_matches(str(name), [str(c) for c in columns], n=3, cutoff=0.5)
            hint = (
                f"did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"it has {', '.join(map(repr, columns))}"
            )
            raise ValueError(f"the table has no column {name!r}: {hint}")
    twice = [name for k, name in enumerate(features) if name in features[:k]]
    if twice:
        raise ValueError(f"features names the column {twice[0]!r} twice: name each once")
    roles = {"bag": [bag], "weight": [] if weight is None else [weight], "metadata": metadata}
    for role, names in roles.items():
        for name in names:
            if name in features:
                raise ValueError(
                    f"column {name!r} is both {role} and among the features: leave it out of one"
                )
    return list(dict.fromkeys(named))


def _numeric_column(series, name):
    import narwhals as nw

    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        raise TypeError(
            f"column {name!r} holds {series.dtype}, not numbers: encode it or leave it out"
        )
    dtype = nw.Float32 if series.dtype == nw.Float32 else nw.Float64
    return series.cast(dtype).to_numpy()


def _one_row_a_bag(columns: dict[str, Array], codes: Array, ids: Array, bag: str) -> "pd.DataFrame":
    """Table of columns of the points, constant within bags, with one row a bag."""
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


def _check_exists(path):
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
