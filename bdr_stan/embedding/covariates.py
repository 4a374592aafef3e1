"""Columns of the bags' metadata as covariates x of a regression.

A number becomes one column, standardised over the training bags. Text, categories and booleans
become one centred indicator column per level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from bdr_stan.bags import Bags
from bdr_stan.bags.checks import near_names
from bdr_stan.bags.text_columns import check_are_categories
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Covariates:
    """How columns of the bags' metadata become columns x."""

    levels: dict[str, list | None]  # of each metadata column; None for numbers
    mean: Array  # over the training bags, shape (Q,)
    scale: Array  # the standard deviation of numbers, 1 for levels; shape (Q,)

    @property
    def names(self) -> list[str]:
        """Names of the columns x: "population", or "region=north" for a level."""
        return [
            name
            for column, levels in self.levels.items()
            for name in ([column] if levels is None else [f"{column}={level}" for level in levels])
        ]

    def transform(self, bags: Bags) -> Array:
        """Columns x of bags, shape (n, Q), in units of `scale`."""
        return (_stacked(bags, self.levels) - self.mean) / self.scale

    def in_given_units(self, gamma: Array) -> Array:
        """Weights of the covariates in their given units, from those of x, shape (..., Q).

        The weights of levels are centred: their average over the training bags is not identified,
        because the indicators of a column sum to 1 and are centred.
        """
        weights, start = gamma / self.scale, 0
        for levels in self.levels.values():
            block = slice(start, start + (1 if levels is None else len(levels)))
            if levels is not None:
                weights[..., block] -= (weights[..., block] @ self.mean[block])[..., None]
            start = block.stop
        return weights


def learn_covariates(bags: Bags, names: Sequence[str]) -> Covariates:
    """Levels and scales of covariates of the training bags; warns of constant ones."""
    levels = {name: _levels(_values(bags, name), name) for name in names}
    scaler = StandardScaler().fit(_stacked(bags, levels))
    table: Any = bags.metadata
    for name in levels:
        if len(bags) > 1 and table[name].nunique() == 1:
            warn(
                f"covariate {name!r} is the same for all training bags: it carries no information, "
                "and its weight keeps its prior"
            )
    is_number = [np.repeat(known is None, len(known or [None])) for known in levels.values()]
    scale = np.where(np.concatenate(is_number), scaler.scale_, 1.0)
    return Covariates(levels, scaler.mean_, scale)


def check_covariates(names: Any) -> None:
    """Raise unless this is None or a list of different names."""
    if isinstance(names, str):
        raise TypeError(f"covariates must be a list of names, found {names!r}: use [{names!r}]")
    if names is None:
        return
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"covariates must be a list of names of metadata, found {names!r}")
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"covariates names {twice[0]!r} twice: leave one of them out")


def _values(bags: Bags, name: str) -> "pd.Series":
    """A complete column of the metadata; raises ValueError where it is missing or has gaps."""
    table = bags.metadata
    if table is None:
        raise ValueError(
            f"covariate {name!r} is a column of the bags' metadata, but these bags have none: "
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
            f"covariate {name!r} is missing for {bags.name(missing[0])} ({len(missing)} in "
            "all): fill it in or leave the bag out, with its label"
        )
    return values


def _is_numeric(values):
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    other = is_bool_dtype(values) or is_complex_dtype(values)
    return is_numeric_dtype(values) and not other


def _levels(values, name):
    """Levels of a column in order; None for numbers."""
    from pandas import CategoricalDtype

    if _is_numeric(values):
        return None
    levels = values.tolist()
    others = [level for level in levels if not isinstance(level, (str, bool, int, float))]
    if others:
        raise TypeError(
            f"covariate {name!r} holds {type(others[0]).__name__}: give numbers, text or booleans"
        )
    texts = {level for level in levels if isinstance(level, str)}
    if not isinstance(values.dtype, CategoricalDtype):  # which may be codes
        check_are_categories(texts, name)
    return sorted(set(levels), key=lambda level: (type(level).__name__, level))


def _stacked(bags, levels):
    """All covariates as numbers in the units of the metadata, shape (n, Q)."""
    return np.column_stack([_columns(bags, name, known) for name, known in levels.items()])


def _columns(bags, name, levels):
    """One covariate as numbers, shape (n, 1), or as indicators of its levels."""
    values = _values(bags, name)
    if levels is None:
        if not _is_numeric(values):
            raise TypeError(
                f"covariate {name!r} holds {values.dtype}, but in the training bags it holds "
                "numbers: give numbers"
            )
        numbers = values.to_numpy(float)
        infinite = np.flatnonzero(~np.isfinite(numbers))
        if len(infinite):
            raise ValueError(
                f"covariate {name!r} of {bags.name(infinite[0])} is {numbers[infinite[0]]}, but "
                "must be finite: correct it or leave the bag out"
            )
        return numbers[:, None]
    values = values.tolist()
    for i, value in enumerate(values):
        if value not in levels:
            raise ValueError(
                f"covariate {name!r} of {bags.name(i)} is {value!r}, which no training bag has: "
                f"they have {', '.join(map(repr, levels))}, so fit with such a bag or leave it out"
            )
    return np.array([[value == level for level in levels] for value in values], float)
