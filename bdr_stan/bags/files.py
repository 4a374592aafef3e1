"""CSV and Parquet files as tables; Parquet also in parts small enough to be read at once."""

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.bags.column_values import ids_of_text
from bdr_stan.bags.parts import Part
from bdr_stan.extras import require
from bdr_stan.types import PathName, as_path

# Bytes of the wanted columns as floats, small next to a worker's memory; row groups are never cut.
_PART_BYTES = 1 << 25
# Options of read_csv that determine how a line is split into cells.
_LINE_OPTIONS = (
    *("sep", "delimiter", "quotechar", "quoting", "doublequote", "escapechar", "dialect"),
    *("encoding", "encoding_errors", "compression", "engine"),
    *("comment", "skiprows", "skipinitialspace", "skip_blank_lines"),
)


def csv_table(path: PathName, roles: ColumnRoles, options: dict[str, Any]) -> Any:
    """The table in a CSV file, a pandas DataFrame; only the named columns if features are known."""
    import pandas as pd

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return _read(path, roles, options)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not in UTF-8 ({error.reason}): pass encoding='latin-1', or its own"
        ) from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a CSV table: {str(error).strip()}") from error


def _read(path, roles, options):
    import pandas as pd

    header = pd.read_csv(path, **options | {"nrows": 0}).columns
    separators = [sign for sign in ";\t|," if sign in str(header[0])]
    if len(header) == 1 and separators:
        raise ValueError(
            f"{path} has one column, {header[0]!r}: pass sep={separators[0]!r}, and decimal=',' "
            "for numbers such as 1,5"
        )
    _check_header(path, options)
    named = roles.named(list(header))
    if roles.features is not None:
        options = {"usecols": named} | options
    elif unnamed := [name for name in header if str(name).startswith("Unnamed:")]:
        raise ValueError(
            f"{path} has a column without a name ({unnamed[0]!r}), most likely the rows' numbers: "
            "name the columns of a point by features"
        )
    bag, kinds = roles.bag, options.get("dtype")
    ids_as_written = bag not in (options.get("converters") or {}) and (
        kinds is None or (isinstance(kinds, Mapping) and bag not in kinds)
    )
    if ids_as_written:
        options = options | {"dtype": {**(kinds or {}), bag: str}}
    table = pd.read_csv(path, **options)
    if ids_as_written and bag in table:
        table[bag] = ids_of_text(table[bag])
    return table


def _check_header(path, options):
    """Raise ValueError if a column name occurs twice in the first row of a CSV file."""
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


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of one file, and columns from the names of its folders ("year=2020")."""

    path: str
    groups: tuple[int, ...]
    folder_values: dict[str, Any]
    state: tuple[int, int]  # of the file when its footer was read

    def table(self, columns: Sequence[str]) -> Any:
        """These columns as a pyarrow table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not Path(self.path).is_file() or _state_of(self.path) != self.state:
            raise OSError(
                f"{self.path} is gone or has changed since the bags were made: make them again by "
                "Bags.from_parquet(..., lazy=True)"
            )
        stored = [name for name in columns if name not in self.folder_values]
        table = pq.ParquetFile(self.path).read_row_groups(list(self.groups), columns=stored)
        for name in columns:
            if name in self.folder_values:
                value = pa.scalar(self.folder_values[name])
                table = table.append_column(name, pa.repeat(value, len(table)))
        return table.select(columns)


def _state_of(path):
    """Size and modification time of a file."""
    state = Path(path).stat()
    return state.st_size, state.st_mtime_ns


def read_groups(groups: Sequence[RowGroups], columns: Sequence[str]) -> Any:
    """Row groups stacked in one pyarrow table."""
    import pyarrow as pa

    tables = [each.table(columns) for each in groups]
    return pa.concat_tables(tables, promote_options="permissive")


def parquet_table(path: PathName, roles: ColumnRoles) -> Any:
    """The table in a Parquet file or folder, of pyarrow; only the columns that are needed."""
    require("reading Parquet needs pyarrow: pip install 'bdr-stan[parquet]'", "pyarrow.parquet")
    parts, roles = _row_groups(path, roles)
    if not parts:
        raise ValueError("the table has no rows: there are no bags")
    return read_groups([groups for part in parts for groups in part], roles.given)


def parts_of(path: PathName, roles: ColumnRoles, like: Any) -> tuple[list[Part], Sequence[str]]:
    """Parts of the table in Parquet files, and names of the feature columns, from the footers."""
    require(
        "reading Parquet part by part needs Dask and pyarrow: pip install 'bdr-stan[dask]'",
        "dask",
        "pyarrow.parquet",
    )
    from dask import delayed

    parts, roles = _row_groups(path, roles.like(like))
    read = delayed(read_groups, pure=False)
    return [Part(_where(part), read(part, roles.given)) for part in parts], roles.features or []


def _where(groups):
    first, last = groups[0].path, groups[-1].path
    return first if first == last else f"{first} to {last}"


def _schemas(files, wanted):
    """Type of each column of each file, by name, and columns from the names of its folders."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    schemas = []
    for path in files:
        try:
            schema = pq.read_schema(path)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{path} is not a Parquet file: {' '.join(str(error).split())}"
            ) from error
        index = _index_columns(schema, wanted)
        schemas.append({f.name: _kind(f.type) for f in schema if f.name not in index})
    table = ds.dataset(files, format="parquet", partitioning=_folder_columns(files))
    values = [ds.get_partition_keys(each.partition_expression) for each in table.get_fragments()]
    return schemas, values


def _kind(kind):
    """Numbers, texts or another type of values; None for an empty column."""
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind):
        return None
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "texts"
    return str(kind)


def _check_same_columns(files, schemas, folder_values, columns, *, closed):
    """Raise if the files' columns differ; if `closed`, no file may have other columns."""
    seen = {}
    for path, schema, values in zip(files, schemas, folder_values, strict=True):
        for name in columns:
            if name not in schema and name not in values:
                raise ValueError(
                    f"{path} has no column {name!r}, which {files[0]} has: give all files the same "
                    "columns"
                )
            kind = schema.get(name)
            before, where = seen.setdefault(name, (kind, path))
            if before is None:
                seen[name] = kind, path
            elif kind is not None and kind != before:
                raise TypeError(
                    f"column {name!r} holds {before} in {where}, but {kind} in {path}: give it one "
                    "kind in all files"
                )
        more = [name for name in schema if name not in columns]
        if closed and more:
            raise ValueError(
                f"{path} has a column {more[0]!r}, which {files[0]} lacks: give all files the "
                "same columns, or name the columns of a point with features"
            )


def _row_groups(path, wanted):
    """Row groups of files in order, grouped into parts of limited size; roles with features."""
    import pyarrow.parquet as pq

    files = _parquet_files(path)
    states = {path: _state_of(path) for path in files}
    schemas, folder_values = _schemas(files, wanted.given)
    roles = wanted.with_features([*schemas[0], *folder_values[0]])
    columns = roles.given
    _check_same_columns(files, schemas, folder_values, columns, closed=wanted.features is None)
    max_rows = max(1, _PART_BYTES // (8 * len(columns)))
    parts = [{}]  # of each part, file -> numbers of row groups
    rows = 0
    for path in states:
        footer = pq.read_metadata(path)
        for k in range(footer.num_row_groups):
            n = footer.row_group(k).num_rows
            if parts[-1] and rows + n > max_rows:
                parts.append({})
                rows = 0
            parts[-1].setdefault(path, []).append(k)
            rows += n
    values = dict(zip(states, folder_values, strict=True))
    groups_of_parts = [
        [
            RowGroups(path, tuple(groups), values[path], states[path])
            for path, groups in part.items()
        ]
        for part in parts
        if part
    ]
    return groups_of_parts, roles


def _parquet_files(path):
    """Paths of a file, the Parquet files in a folder tree, or a pattern; raises if none."""
    place = as_path(path)
    if place.is_dir():
        inside = sorted(place.rglob("*.parquet"))
        # Spark and others use such names for files that are not data.
        data = [p for p in inside if not p.relative_to(place).as_posix().startswith(("_", "."))]
        if not data:
            raise FileNotFoundError(f"the folder {path} holds no file that ends in .parquet")
        return [str(p.absolute()) for p in data]
    if place.exists():
        return [str(place.absolute())]
    matching = sorted(glob.glob(str(place), recursive=True))
    if not matching:
        raise FileNotFoundError(f"there is no file {path}")
    return [str(Path(p).absolute()) for p in matching]


def _folder_columns(files):
    """Partitioning of files by their folders ("year=2020"); columns with "01" are text."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    partitioning = ds.dataset(list(files), format="parquet", partitioning="hive").partitioning
    if partitioning is None or not len(partitioning.schema):
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
        for field in partitioning.schema
    ]
    return ds.partitioning(pa.schema(fields), flavor="hive")


def _index_columns(schema, wanted):
    """Columns of a Parquet schema with the pandas index of its rows, except wanted ones."""
    kept = (schema.pandas_metadata or {}).get("index_columns", [])
    kept = {name for name in kept if isinstance(name, str)}
    return (kept | {n for n in schema.names if n.startswith("__index_level_")}) - set(wanted)
