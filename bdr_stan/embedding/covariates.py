"""Columns of the bags' metadata as columns x of a regression, of covariates and of terms.

A covariate that is a number becomes one column, standardised over the training bags. Text,
categories and booleans become one centred indicator column per level. Columns of `Terms` follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.preprocessing import StandardScaler

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.embedding.metadata_columns import (
    column_levels,
    complete_column,
    indicators,
    is_numeric,
    numbers_of_column,
)
from bdr_stan.embedding.terms import NO_TERMS, Terms, learn_terms, smooth_columns
from bdr_stan.kernels.feature_maps import slices_of
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_MAX_SHARE_OUTSIDE = 0.95  # of new values outside the range of the training values


@dataclass(frozen=True)
class Covariates:
    """How columns of the bags' metadata become columns x."""

    levels: dict[str, list | None]  # of each metadata column; None for numbers
    mean: Array  # over the training bags, shape (Q,)
    scale: Array  # the standard deviation of numbers, 1 for levels; shape (Q,)
    terms: Terms = NO_TERMS
    ranges: Array | None = None  # smallest and largest training value, shape (2, Q)

    @property
    def names(self) -> list[str]:
        """Names of the columns x: "population", or "region=north" for a level."""
        return [
            name
            for column, levels in self.levels.items()
            for name in ([column] if levels is None else [f"{column}={level}" for level in levels])
        ]

    @property
    def slices(self) -> dict[str, slice]:
        """Slices of the columns x of each covariate and term."""
        lengths = [1 if levels is None else len(levels) for levels in self.levels.values()]
        slices = slices_of([*lengths, *self.terms.n_effects])
        return dict(zip([*self.levels, *self.terms.names], slices, strict=True))

    @property
    def coordinates(self) -> dict[str, list[str]]:
        """Names of the entries of arrays of the posterior, by dimension."""
        of_terms = {
            "effect": self.terms.effect_names,
            "term": self.terms.names,
            "smooth_column": self.terms.length_names,
        }
        return {"covariate": self.names} | {name: v for name, v in of_terms.items() if v}

    def transform(self, bags: BagsBase, *, groups: bool = True) -> Array:
        """Columns x of bags, covariates in units of `scale`, shape (n, Q + U)."""
        x = (_stacked(bags, self.levels) - self.mean) / self.scale
        return np.column_stack([x, self.terms.transform(bags, groups=groups)])

    def warn_of_codes(self, bags: BagsBase, *, new: bool = False) -> None:
        """Warn of codes of missing values in columns of numbers, of `new` bags or of the fit's."""
        ranges = {}  # of training values, of covariates their mean and three standard deviations
        for name in (name for name, levels in self.levels.items() if levels is None):
            (mean,), (scale,) = self.mean[self.slices[name]], self.scale[self.slices[name]]
            ranges[name] = mean - 3 * scale, mean + 3 * scale
        for smooth in self.terms.smooths:
            ends = smooth.centre - smooth.reach, smooth.centre + smooth.reach
            ranges |= dict(zip(smooth.columns, zip(*ends)))
        values = {name: ends_of(numbers_of_column(bags, name, "column")) for name in ranges}
        warn_of_codes(values, "bags", CODES_OF_BAGS, ranges if new else None)

    @property
    def named(self) -> dict[str, list]:
        """Names of columns by their role in estimators, without empty roles."""
        columns = (list(smooth.columns) for smooth in self.terms.smooths)
        smooths = [names if len(names) > 1 else names[0] for names in columns]
        named = {"covariates": list(self.levels), "groups": list(self.terms.groups)}
        return {role: names for role, names in (named | {"smooths": smooths}).items() if names}

    def of_bags(self, bags: BagsBase, *, groups: bool = True) -> dict[str, Array]:
        """What an `Embedding` has of bags: columns x, and levels of groups that are new."""
        self._warn_of_other_ranges(bags)
        has_levels = self.terms.groups and groups
        new = {"new_levels": self.terms.new_levels(bags)} if has_levels else {}
        return {"covariates": self.transform(bags, groups=groups), **new}

    def _warn_of_other_ranges(self, bags):
        """Warn of numbers that are nearly all outside the training range; a single bag may be."""
        if self.ranges is None or len(bags) < 2:
            return
        values = _stacked(bags, self.levels)
        outside = np.mean((values < self.ranges[0]) | (values > self.ranges[1]), axis=0)
        for k in np.flatnonzero(outside > _MAX_SHARE_OUTSIDE):
            low, high = self.ranges[:, k]
            warn(
                f"covariate {self.names[k]!r}, {values[:, k].min():.4g} to "
                f"{values[:, k].max():.4g}, lies outside the range of the training bags, "
                f"{low:.4g} to {high:.4g}, in {outside[k]:.0%} of the bags: its effect is "
                "extrapolated, so check that its units are the same"
            )

    def config(self) -> dict[str, Any]:
        """As numbers and text, for a file."""
        return {**vars(self), "terms": self.terms.config()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The covariates from their `config`."""
        terms = Terms.from_config(config["terms"]) if "terms" in config else NO_TERMS
        return cls(**{**config, "terms": terms})

    def in_given_units(self, gamma: Array) -> Array:
        """Weights of the covariates in their given units, from weights of x, shape (..., Q).

        The weights of levels are centred: their average over the training bags is not identified.
        """
        weights = gamma / self.scale
        for name, levels in self.levels.items():
            if levels is not None:
                block = self.slices[name]
                weights[..., block] -= (weights[..., block] @ self.mean[block])[..., None]
        return weights


def learn_covariates(
    bags: BagsBase,
    names: Sequence[str],
    groups: Sequence[str] = (),
    smooths: Sequence[Any] = (),
) -> Covariates:
    """Levels and scales of the training bags' columns; warns of constant covariates."""
    terms = learn_terms(bags, groups, smooths)
    if not names:
        learned = Covariates({}, np.empty(0), np.empty(0), terms)
        learned.warn_of_codes(bags)
        return learned
    levels = {name: _levels(bags, name) for name in names}
    values = _stacked(bags, levels)
    scaler, ranges = StandardScaler().fit(values), np.stack([values.min(0), values.max(0)])
    table: Any = bags.metadata
    for name in levels:
        if len(bags) > 1 and table[name].nunique() == 1:
            warn(
                f"covariate {name!r} is the same for all training bags: it carries no information, "
                "and its weight keeps its prior"
            )
    learned = Covariates(levels, scaler.mean_, scaler.scale_.copy(), terms, ranges)
    for name, of_column in levels.items():
        if of_column is not None:
            learned.scale[learned.slices[name]] = 1.0
    learned.warn_of_codes(bags)
    return learned


def check_columns(covariates: Any = None, groups: Any = None, smooths: Any = None) -> None:
    """Raise unless columns are None or lists of different names, smooths of names or pairs."""
    by_role = {"covariates": covariates, "groups": groups, "smooths": smooths}
    for role, names in by_role.items():
        if isinstance(names, str):
            raise TypeError(f"{role} must be a list of names, found {names!r}: use [{names!r}]")
        if names is not None and not isinstance(names, (list, tuple)):
            raise TypeError(f"{role} must be a list of names of metadata, found {names!r}")
        for name in names or ():
            pair = role == "smooths" and isinstance(name, (list, tuple)) and len(name) in (1, 2)
            if not all(isinstance(column, str) for column in (name if pair else [name])):
                pairs = ", or of pairs such as ['lon', 'lat']" * (role == "smooths")
                raise TypeError(
                    f"{role} must be a list of names of metadata{pairs}, found {names!r}"
                )
    by_role["smooths"] = [name for columns in smooth_columns(smooths or ()) for name in columns]
    roles: dict[str, str] = {}
    for role, names in by_role.items():
        for name in names or ():
            if roles.get(name) == role:
                raise ValueError(f"{role} names {name!r} twice: leave one of them out")
            if name in roles:
                raise ValueError(
                    f"{roles[name]} and {role} both name {name!r}: leave one of them out"
                )
            roles[name] = role


def _levels(bags, name):
    """Levels of a covariate in order; None for numbers."""
    values = complete_column(bags, name, "covariate")
    return None if is_numeric(values) else column_levels(values, name, "covariate")


def _stacked(bags, levels):
    """All covariates as numbers in the units of the metadata, shape (n, Q)."""
    blocks = [_columns(bags, name, of_column) for name, of_column in levels.items()]
    return np.column_stack([np.empty((len(bags), 0)), *blocks])


def _columns(bags, name, levels):
    """One covariate as numbers, shape (n, 1), or as indicators of its levels."""
    values = complete_column(bags, name, "covariate")
    if levels is None:
        if not is_numeric(values):
            raise TypeError(
                f"covariate {name!r} holds {values.dtype}, but in the training bags it holds "
                "numbers: give numbers"
            )
        return numbers_of_column(bags, name, "covariate")[:, None]
    values = values.tolist()
    for i, value in enumerate(values):
        if value not in levels:
            raise ValueError(
                f"covariate {name!r} of {bags.name(i)} is {value!r}, which no training bag has: "
                f"they have {', '.join(map(repr, levels))}, so fit with such a bag or leave it out"
            )
    return indicators(values, levels)
