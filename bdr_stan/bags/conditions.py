"""Which points belong to a subgroup, for `Bags.where`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdr_stan.bags.checks import near_names
from bdr_stan.types import Array

_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)  # of values in a condition


def points_that_meet(bags: Any, conditions: Mapping[str, Any]) -> Array:
    """Whether each point of `Bags` meets all conditions, by names of columns; bool, (N_points,)."""
    if not conditions:
        raise ValueError('where needs a condition, such as where(sex="f")')
    met: Array = np.ones(len(bags.points), dtype=np.bool_)
    for name, condition in conditions.items():
        values, categories = _values(bags, name)
        met = met & _meets(values, name, condition, categories)
        missing = f"{name} missing"
        # A value that was filled in is missing; a missing category is None among the values.
        if bags.columns is not None and name in bags.columns.fills and missing in bags.features:
            met = met & (bags.points[:, bags.features.index(missing)] == 0)
    return met


def _values(bags, name):
    """Values of a column for each point; and its categories, None for numbers."""
    features = bags.names_of_columns
    categories = {} if bags.columns is None else bags.columns.categories
    if name in categories:
        levels = list(categories[name])
        values = np.full(len(bags.points), None, object)
        columns = np.flatnonzero(bags.sources == bags.columns.names.index(name))
        for value, column in zip(levels, columns, strict=False):  # the last may be "missing"
            values[bags.points[:, column] == 1] = value
        return values, levels
    if name not in features:
        raise ValueError(
            f"the points have no column {name!r}: {near_names(name, [*features, *categories])}"
        )
    return np.asarray(bags.points[:, features.index(name)]), None


def _meets(values, name, condition, categories):
    if callable(condition):
        met = np.asarray(condition(values))
        if met.dtype != bool or met.shape != values.shape:
            raise ValueError(
                f"the condition on {name!r} gives {met.dtype} of shape {met.shape}: it gets the "
                f"column, shape {values.shape}, and must return a boolean array of this shape"
            )
        return met
    wanted = list(condition) if isinstance(condition, _COLLECTIONS) else [condition]
    if categories is not None:
        for value in wanted:
            if value not in categories:
                raise ValueError(
                    f"column {name!r} has no value {value!r}: {near_names(value, categories)}"
                )
    elif not all(isinstance(value, (int, float, np.number)) for value in wanted):
        raise TypeError(
            f"column {name!r} has numbers, found the condition {condition!r}: give a number, a "
            f"list of numbers, or a function, such as {name}=lambda values: values > 0"
        )
    return np.isin(values, np.array(wanted, values.dtype if categories is None else object))
