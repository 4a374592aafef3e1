"""Columns of the bags' metadata that a regression uses, checked; messages name them by `role`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import check_each, near_names
from bdr_stan.bags.column_values import check_are_categories, warn_of_categories
from bdr_stan.types import Array

if TYPE_CHECKING:
    import pandas as pd


def complete_column(bags: BagsBase, name: str, role: str) -> "pd.Series":
    """A complete column of the metadata; raises ValueError if it is missing or has gaps."""
    table = bags.metadata
    if table is None:
        raise ValueError(
            f"{role} {name!r} is a column of the bags' metadata, but these bags have none: "
            "pass metadata, a table of one row per bag, where the Bags are made"
        )
    if name not in table.columns:
        raise ValueError(
            f"the bags' metadata have no column {name!r}: {near_names(name, table.columns)}"
        )
    if list(table.columns).count(name) > 1:
        raise ValueError(f"the bags' metadata have several columns {name!r}: rename all but one")
    values = table[name].infer_objects()
    missing = np.flatnonzero(values.isna())
    if len(missing):
        raise ValueError(
            f"{role} {name!r} is missing for {bags.name(missing[0])} ({len(missing)} in "
            "total): fill it in or leave the bag out, with its label"
        )
    return values


def is_numeric(values: "pd.Series") -> bool:
    """Whether a column holds numbers, not booleans."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    other = is_bool_dtype(values) or is_complex_dtype(values)
    return is_numeric_dtype(values) and not other


def numbers_of_column(bags: BagsBase, name: str, role: str) -> Array:
    """A column of finite numbers, shape (n,); TypeError or ValueError for another."""
    values = complete_column(bags, name, role)
    if not is_numeric(values):
        raise TypeError(f"{role} {name!r} holds {values.dtype}: give a column of numbers")
    numbers = values.to_numpy(float)
    rule = "it must be finite, so correct it or leave the bag out"
    check_each(bags, numbers, np.isfinite(numbers), f"{role} {name!r}", rule)
    return numbers


def indicators(values: list[Any], levels: Sequence[Any]) -> Array:
    """A column per level, shape (n, levels); zeros for a value that is none of them."""
    place = {level: k for k, level in enumerate(levels)}
    codes = np.array([place.get(value, -1) for value in values], int)
    return (codes[:, None] == np.arange(len(levels))).astype(float)


def column_levels(values: "pd.Series", name: str, role: str) -> list[Any]:
    """Levels of a column of text, booleans, categories or numbers, in order."""
    from pandas import CategoricalDtype

    levels = values.tolist()
    others = [level for level in levels if not isinstance(level, (str, bool, int, float))]
    if others:
        raise TypeError(
            f"{role} {name!r} holds {type(others[0]).__name__}: give numbers, text or booleans"
        )
    in_order = sorted(set(levels), key=lambda level: (type(level).__name__, level))
    categorical = isinstance(values.dtype, CategoricalDtype)
    if role != "group" and not categorical:  # which may be codes
        check_are_categories([str(level) for level in in_order], name)
    ordered = categorical and values.cat.ordered and role != "group"
    warn_of_categories({name: in_order}, [name] if ordered else [])
    return in_order
