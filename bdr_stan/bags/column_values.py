"""Values of a table's columns: numbers, categories, and which are missing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bdr_stan.types import Array


def missing_counts(table: Any, names: Sequence[str]) -> dict[str, int]:
    """Number of missing values in each of these columns that has some."""
    return {name: n for name in names if (n := int(is_missing(table[name], name).sum()))}


def is_missing(series: Any, name: str) -> Array:
    """Whether each value of a column is missing; bool array, shape (n_rows,)."""
    if is_number_column(series):
        return np.isnan(as_numbers(series, name))
    return as_categories(series, name)[0] < 0


def dropped_rows(table: Any, names: Sequence[str]) -> Array:
    """Whether each row has a missing value in one of these columns; bool array, (n_rows,)."""
    missing = np.zeros(len(table), bool)
    for name in names:
        missing |= is_missing(table[name], name)
    return missing


def is_number_column(series: Any) -> bool:
    """Whether a column has numbers or booleans."""
    import narwhals as nw

    return series.dtype.is_numeric() or series.dtype == nw.Boolean


def as_numbers(series: Any, name: str) -> Array:
    """Column of numbers or booleans as floats, shape (n_rows,); TypeError for other columns."""
    import narwhals as nw

    if not is_number_column(series):
        raise TypeError(
            f"column {name!r} holds {series.dtype}, not numbers: encode it or leave it out"
        )
    dtype = nw.Float32 if series.dtype == nw.Float32 else nw.Float64
    return series.cast(dtype).to_numpy()


def as_categories(series: Any, name: str) -> tuple[Array, list[str]]:
    """Column of texts or categories as codes, -1 if missing, and sorted values as str."""
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
        texts = [value for value in values if isinstance(value, str)]
        example = f", such as {texts[0]!r}" if texts else ""
        raise TypeError(
            f"column {name!r} holds {found}{example}: make numbers or texts of all its values, or "
            "leave it out of the features"
        )
    texts, place = np.unique([str(value) for value in values], return_inverse=True)
    return np.append(place, -1)[codes], texts.tolist()


def as_values(series: Any) -> Any:
    """Values of a column of metadata; categories stay categories, as they may be codes."""
    import narwhals as nw
    import pandas as pd

    values = series.to_numpy()
    if series.dtype not in (nw.Categorical, nw.Enum):
        return values
    levels = levels_in_order(series)
    return pd.Categorical(values, levels, ordered=levels is not None)


def levels_in_order(series: Any) -> list[Any] | None:
    """Categories of a column from the lowest to the highest; None if they have no order."""
    native = series.to_native()
    if getattr(getattr(native, "type", None), "ordered", False):  # pyarrow's dictionary
        return native.unify_dictionaries().chunk(0).dictionary.to_pylist()
    levels = getattr(series.dtype, "categories", None)  # of narwhals's Enum
    return None if levels is None else list(levels)


def is_ordered(series: Any) -> bool:
    """Whether a column of pandas or pyarrow has categories with an order."""
    native = series.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", None))
    return bool(getattr(kind, "ordered", False))


def counts_text(counts: Mapping[str, int]) -> str:
    """Columns with their counts of missing values, as messages show them."""
    return ", ".join(f"{name!r} {n}" for name, n in counts.items())


def first_of(values: Sequence[Any], at_most: int) -> str:
    """The first values of a list, as messages show them."""
    return ", ".join(map(repr, values[:at_most])) + ", ..." * (len(values) > at_most)
