"""Readers of bags: lists of arrays, stacked points, tables and files.

Each returns the arguments of `Bags`; parameters and errors are documented at `Bags.from_list`,
`Bags.from_points`, `Bags.from_dataframe`, `Bags.from_parquet`, `Bags.from_csv` and
`Bags.from_anndata`.
"""

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from bdr_stan.bags.cells import cell_features, cell_values, check_anndata, check_obs_columns
from bdr_stan.bags.checks import as_bag, as_points, as_sizes, as_vector, describe, near_names, plain
from bdr_stan.bags.columns import (
    TableColumns,
    as_numbers,
    counts_text,
    dropped_message,
    dropped_rows,
    learn_columns,
    missing_counts,
    warn_of_columns,
    warn_of_copies,
    warn_of_missing_codes,
)
from bdr_stan.bags.matching import check_same_rows
from bdr_stan.bags.memory_map import memory_map
from bdr_stan.bags.text_columns import ids_of_text, warn_of_similar_ids
from bdr_stan.types import Array, ArrayLike, PathName, as_path
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame

_TABLE_OPTIONS = ("missing", "transformer", "like", "unseen")  # of from_dataframe
# Options of read_csv that determine how a line is split into cells.
_LINE_OPTIONS = (
    *("sep", "delimiter", "quotechar", "quoting", "doublequote", "escapechar", "dialect"),
    *("encoding", "encoding_errors", "compression", "engine"),
    *("comment", "skiprows", "skipinitialspace", "skip_blank_lines"),
)


def from_list(
    arrays: Sequence[ArrayLike] | Array,
    ids: Sequence[object] | Array | None = None,
    weights: Sequence[ArrayLike] | None = None,
    metadata: "pd.DataFrame | None" = None,
    features: Iterable[object] | None = None,
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
        "offsets": _offsets([len(bag) for bag in bags]),
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
    bag: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    metadata: "pd.DataFrame | None" = None,
    features: Iterable[object] | None = None,
) -> dict[str, Any]:
    """Arguments of `Bags` from stacked points."""
    if (bag is None) == (sizes is None):
        raise TypeError("pass exactly one of bag (the bag of each point) and sizes")
    features = _names_of_columns(features, _columns_of_frame(points))
    for name, values in (("bag", bag), ("weights", weights)):
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
    return {
        "points": points,
        "offsets": _offsets(as_sizes(sizes, len(points))),
        "weights": weights,
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
    bag: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
    *,
    missing: str = "error",
    transformer: Any = None,
    like: Any = None,
    unseen: str = "error",
) -> dict[str, Any]:
    """Arguments of `Bags` from a table with one row per point."""
    import narwhals as nw

    frame: Any = df
    if bag in getattr(getattr(df, "index", None), "names", ()) and bag not in frame.columns:
        df = frame.reset_index(level=bag)
    try:
        table = nw.from_native(df, eager_only=True)
    except TypeError:
        raise TypeError(
            f"expected a pandas, polars or pyarrow table, found {type(df).__name__}"
        ) from None
    columns = resolve_like(like, features, missing, transformer, unseen)
    if columns is not None:
        features = columns.names
    features = feature_columns(table.columns, bag, features, weight, metadata)
    if len(table) == 0:
        raise ValueError("the table has no rows: there are no bags")
    if missing == "drop":
        table = _without_missing(table, features, bag)
    if columns is None:
        columns = learn_columns(
            table, features, missing=missing, transformer=transformer, bag=bag, weight=weight
        )
    else:
        columns.check_complete(table)
    read = bags_of_table(table, columns, bag, weight, metadata, unseen=unseen)
    warn_of_similar_ids(read["ids"])
    warn_of_copies(read["points"], read["offsets"])
    if columns.transformer is None:
        warn_of_missing_codes(read["points"], columns.features)
    if like is None:
        warn_of_columns(read["points"], read["offsets"], columns, read["metadata"])
    return read


def feature_columns(
    columns: Sequence[Any],
    bag: str,
    features: Sequence[str] | None,
    weight: str | None,
    metadata: Sequence[str] | None,
) -> list[str]:
    """The columns of a point: those given, or all without another role; raises without any."""
    named = named_columns(columns, bag, features, weight, metadata)
    if features is not None and len(features) == 0:
        raise ValueError("features is empty: name the columns of a point, or leave it out")
    if features is None:
        features = [column for column in columns if column not in named]
        if not features:
            raise ValueError("the table has no column left to be a feature")
    return list(features)


def bags_of_table(
    table: Any,
    columns: TableColumns,
    bag: str,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
    *,
    unseen: str = "error",
) -> dict[str, Any]:
    """Arguments of `Bags` from a narwhals DataFrame with rows, and how to read its columns."""
    weights = None if weight is None else as_numbers(table[weight], weight)
    codes, ids = row_codes(table, bag)
    order = _grouping(codes)
    points = columns.points(table, order=order, unseen=unseen)
    if weights is not None and order is not None:
        weights = weights[order]
    values = None if metadata is None else {name: _values_of(table[name]) for name in metadata}
    return {
        "points": points,
        "offsets": _offsets(np.bincount(codes)),
        "weights": weights,
        "ids": ids,
        "metadata": None if values is None else one_row_per_bag(values, codes, ids, bag),
        "columns": columns,
    }


def _values_of(series):
    """Values of a column of metadata; categories stay categories, as they may be codes."""
    import narwhals as nw
    import pandas as pd

    values = series.to_numpy()
    return pd.Categorical(values) if series.dtype in (nw.Categorical, nw.Enum) else values


def row_codes(table: Any, bag: str) -> tuple[Array, Array]:
    """Index of each row's bag, in the order of the ids, and the bags' ids."""
    return bag_codes(
        table[bag].to_numpy(), f"row {{}} has no bag: column {bag!r} is missing", by_id=True
    )


def from_parquet(
    path: PathName,
    bag: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Arguments of `Bags` from a Parquet file or folder."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            "reading Parquet needs pyarrow: pip install 'bdr-stan[parquet]'"
        ) from None
    files = parquet_files(path)
    dataset = pq.ParquetDataset(
        path if Path(path).exists() else files, partitioning=folder_columns(files)
    )
    wanted = known_features(options.get("like"), features)
    index = index_columns(dataset.schema, [bag, weight, *(wanted or []), *(metadata or [])])
    columns = [c for c in dataset.schema.names if c not in index]
    named = named_columns(columns, bag, wanted, weight, metadata)
    table = dataset.read(columns=columns if wanted is None else named)
    return from_dataframe(table, bag, features, weight, metadata, **options)


def index_columns(schema: Any, wanted: Sequence[str | None]) -> set[str]:
    """Columns of a Parquet schema with the pandas index of its rows, except wanted ones."""
    kept = (schema.pandas_metadata or {}).get("index_columns", [])
    kept = {name for name in kept if isinstance(name, str)}
    return (kept | {n for n in schema.names if n.startswith("__index_level_")}) - set(wanted)


def folder_columns(files: Sequence[str]) -> Any:
    """Partitioning of files by the names of their folders ("year=2020"), with codes as text.

    A column has codes where a number in it has leading zeros: "01" is not 1.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    found = ds.dataset(list(files), format="parquet", partitioning="hive").partitioning
    if found is None or not len(found.schema):
        return "hive"
    texts: dict[str, set[str]] = {}
    for path in files:
        for folder in Path(path).parts[:-1]:
            name, is_column, value = folder.partition("=")
            if is_column:
                texts.setdefault(name, set()).add(unquote(value))
    fields = [
        pa.field(field.name, pa.string())
        if any(re.fullmatch(r"-?0\d+", text) for text in texts.get(field.name, ()))
        else field
        for field in found.schema
    ]
    return ds.partitioning(pa.schema(fields), flavor="hive")


def parquet_files(path: PathName) -> list[str]:
    """Paths of a file, the Parquet files in a folder tree, or a pattern; raises if none."""
    place = as_path(path)
    if place.is_dir():
        inside = sorted(place.rglob("*.parquet"))
        # Spark and others use such names for files that are not data.
        found = [p for p in inside if not p.relative_to(place).as_posix().startswith(("_", "."))]
        if not found:
            raise FileNotFoundError(f"the folder {path} holds no file that ends in .parquet")
        return [str(p.absolute()) for p in found]
    if place.exists():
        return [str(place.absolute())]
    matching = sorted(glob.glob(str(place), recursive=True))
    if not matching:
        raise FileNotFoundError(f"there is no file {path}")
    return [str(Path(p).absolute()) for p in matching]


def from_csv(
    path: PathName,
    bag: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    metadata: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Arguments of `Bags` from a CSV file; `options` of `from_dataframe` and of pandas."""
    import pandas as pd

    for_table = {name: options.pop(name) for name in _TABLE_OPTIONS if name in options}

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    header = pd.read_csv(path, **options | {"nrows": 0}).columns
    _check_header(path, options)
    wanted = known_features(for_table.get("like"), features)
    named = named_columns(list(header), bag, wanted, weight, metadata)
    if wanted is not None:
        options = {"usecols": named} | options
    else:
        _check_named_header(path, header)
    kinds = options.get("dtype")
    ids_as_written = bag not in (options.get("converters") or {}) and (
        kinds is None or (isinstance(kinds, Mapping) and bag not in kinds)
    )
    if ids_as_written:
        options = options | {"dtype": {**(kinds or {}), bag: str}}
    table = pd.read_csv(path, **options)
    if ids_as_written and bag in table:
        table[bag] = ids_of_text(table[bag])
    return from_dataframe(table, bag, features, weight, metadata, **for_table)


def from_anndata(
    adata: Any,
    bag: str,
    features: str | Sequence[str] = "X_pca",
    metadata: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Arguments of `Bags` from an AnnData object."""
    check_anndata(adata)
    metadata = check_obs_columns(adata, bag, metadata)
    place, columns, names = cell_features(adata, features)
    codes, ids = bag_codes(
        adata.obs[bag].to_numpy(),
        f"cell {{}} has no bag: column {bag!r} of adata.obs is missing",
        by_id=True,
    )
    warn_of_similar_ids(ids)
    about = {name: adata.obs[name].to_numpy() for name in metadata}
    return {
        "metadata": one_row_per_bag(about, codes, ids, bag) if about else None,
        "points": cell_values(adata, place, columns, _grouping(codes)),
        "offsets": _offsets(np.bincount(codes)),
        "ids": ids,
        "features": names,
    }


def resolve_like(like, features, missing, transformer, unseen):
    """The columns of bags or of a fit that a table is to be read like; None without `like`."""
    for name, value, known in (
        ("missing", missing, ("error", "drop", "indicator")),
        ("unseen", unseen, ("error", "other")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, found {value!r}")
    if like is None:
        if unseen != "error":
            raise ValueError("unseen='other' goes with like: pass the training bags or the fit")
        if transformer is not None and missing == "indicator":
            raise ValueError("missing='indicator' does not go with a transformer of your own")
        return None
    if features is not None or transformer is not None or missing == "indicator":
        raise ValueError(
            "like determines the columns of a point: leave out features, transformer and "
            "missing='indicator'"
        )
    columns = like.columns if hasattr(like, "offsets") else getattr(like, "columns_", None)
    if columns is None:
        raise ValueError(
            "like must be bags that come from a table, or an estimator fitted to such; those of "
            f"{type(like).__name__} have no record of a table"
        )
    return columns


def known_features(like, features):
    """Names of the feature columns if they are known before the table is read, else None."""
    columns = resolve_like(like, features, "error", None, "error") if like is not None else None
    return features if columns is None else list(columns.names)


def _check_header(path, options):
    """Raise ValueError where a column name occurs twice in the first row of a CSV file."""
    import pandas as pd

    if "header" in options or "names" in options:
        return
    kept = {name: options[name] for name in _LINE_OPTIONS if name in options}
    names = pd.read_csv(path, **kept, nrows=1, header=None, dtype=str).iloc[0]
    twice = names[names.notna() & names.duplicated()]
    if len(twice):
        raise ValueError(
            f"{path} has the column {twice.iloc[0]!r} twice: give each column its own name"
        )


def _check_named_header(path, header):
    unnamed = [name for name in header if str(name).startswith("Unnamed:")]
    if unnamed:
        raise ValueError(
            f"{path} has a column without a name ({unnamed[0]!r}), most likely the rows' numbers: "
            "name the columns of a point by features"
        )


def _without_missing(table, features, bag):
    """Rows of a table in which no feature is missing; warns with counts of the others."""
    missing = dropped_rows(table, features)
    if not missing.any():
        return table
    counts = missing_counts(table, features)
    kept = table.filter((~missing).tolist())
    if len(kept) == 0:
        raise ValueError(
            f"every row has a missing value ({counts_text(counts)}): leave these columns out"
        )
    lost = table[bag].n_unique() - kept[bag].n_unique()
    warn(dropped_message(missing.sum(), len(table), counts, lost))
    return kept


def _offsets(sizes):
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


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

    codes, ids = pd.factorize(bag)
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


def named_columns(columns, bag, features, weight, metadata):
    """The columns named by the arguments, each once; raises where one is missing."""
    for argument, names in (("features", features), ("metadata", metadata)):
        if isinstance(names, str):
            raise TypeError(f"{argument} must be a list of column names: pass [{names!r}]")
    for name in columns:
        if not isinstance(name, str):
            raise TypeError(
                f"the table has a column named {name!r}, which is not text: rename its columns, as "
                "by df.columns = df.columns.astype(str)"
            )
    features, metadata = list(features or []), list(metadata or [])
    named = [bag, *features, *([] if weight is None else [weight]), *metadata]
    for name in named:
        if name not in columns:
            raise ValueError(f"the table has no column {name!r}: {near_names(name, columns)}")
    repeated = [name for k, name in enumerate(features) if name in features[:k]]
    if repeated:
        raise ValueError(f"features names the column {repeated[0]!r} twice: name each once")
    roles = {"bag": [bag], "weight": [] if weight is None else [weight], "metadata": metadata}
    for role, names in roles.items():
        for name in names:
            if name in features:
                raise ValueError(
                    f"column {name!r} is both {role} and among the features: leave it out of one"
                )
    return list(dict.fromkeys(named))


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
