"""Parquet files: their paths, and columns from the names of folders or a pandas index."""

import glob
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bdr_stan.types import PathName, as_path


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


def index_columns(schema: Any, wanted: Sequence[str]) -> set[str]:
    """Columns of a Parquet schema with the pandas index of its rows, except wanted ones."""
    kept = (schema.pandas_metadata or {}).get("index_columns", [])
    kept = {name for name in kept if isinstance(name, str)}
    return (kept | {n for n in schema.names if n.startswith("__index_level_")}) - set(wanted)
