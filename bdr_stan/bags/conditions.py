"""Points that meet conditions on columns, for subgroups of the points of bags."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdr_stan.bags.checks import near_names
from bdr_stan.types import Array

_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)


def points_that_meet(bags: Any, conditions: Mapping[str, Any]) -> Array:
    """Whether each point meets all `conditions`, by the names of columns; bool, (N_points,)."""
    if not conditions:
        raise ValueError('where needs a condition, such as where(sex="f")')
    met: Array = np.ones(len(bags.points), dtype=np.bool_)
    for name, condition in conditions.items():
        values, known = _values(bags, name)
        met = met & _meets(values, name, condition, known) & _observed(bags, values, name)
    return met


def _values(bags, name):
    """Values of a column for each point; and the categories, where it has some."""
    features = bags.features or [f"x{k}" for k in range(bags.n_features)]
    categories = {} if bags.columns is None else bags.columns.categories
    if name in categories:
        known = list(categories[name])
        values = np.full(len(bags.points), None, object)
        source = bags.columns.names.index(name)
        columns = np.flatnonzero(bags.sources == source)
        for value, column in zip(known, columns, strict=False):  # the last may be "missing"
            values[bags.points[:, column] == 1] = value
        return values, known
    if name not in features:
        raise ValueError(
            f"the points have no column {name!r}: {near_names(name, [*features, *categories])}"
        )
    return np.asarray(bags.points[:, features.index(name)]), None


def _meets(values, name, condition, known):
    if callable(condition):
        met = np.asarray(condition(values))
        if met.dtype != bool or met.shape != values.shape:
            raise ValueError(
                f"the condition on {name!r} gives {met.dtype} of shape {met.shape}: it gets the "
                f"column, shape {values.shape}, and must return a boolean array of this shape"
            )
        return met
    wanted = list(condition) if isinstance(condition, _COLLECTIONS) else [condition]
    if known is not None:
        for value in wanted:
            if value not in known:
                raise ValueError(
                    f"column {name!r} has no value {value!r}: {near_names(value, known)}"
                )
    elif not all(isinstance(value, (int, float, np.number)) for value in wanted):
        raise TypeError(
            f"column {name!r} has numbers, found the condition {condition!r}: give a number, a "
            f"list of numbers, or a function, such as {name}=lambda values: values > 0"
        )
    return np.isin(values, np.array(wanted, values.dtype if known is None else object))


def _observed(bags, values, name):
    """Whether the value of each point was observed, not filled in; categories are None else."""
    features = bags.features or []
    missing = f"{name} missing"
    if bags.columns is not None and name in bags.columns.fills and missing in features:
        return bags.points[:, features.index(missing)] == 0
    return np.ones(len(values), bool)
