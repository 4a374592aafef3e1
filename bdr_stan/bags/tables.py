"""Tables of users as data frames of narwhals: of pandas, polars, pyarrow, or as Arrow streams."""

from typing import Any

from bdr_stan.bags.base import BagsBase
from bdr_stan.extras import require


def is_table(values: Any) -> bool:
    """Whether this is a table with named columns, in contrast to bags and arrays."""
    known = hasattr(values, "columns") or hasattr(values, "__arrow_c_stream__")
    return known and not isinstance(values, BagsBase)


def as_table(values: Any) -> Any:
    """A table as a narwhals DataFrame; TypeError for others, ImportError without pyarrow."""
    import narwhals as nw

    try:
        return nw.from_native(values, eager_only=True)
    except TypeError:
        return nw.from_native(_read_stream(values), eager_only=True)


def _read_stream(values):
    """A pyarrow table of what offers an Arrow stream, such as a relation of DuckDB."""
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
