"""Groups of bags and smooth functions of their metadata, as columns of a regression.

A column of groups becomes one indicator per level, a smooth function of one or two columns sines on
a box around the training bags, see `bdr_stan.kernels.hilbert_space`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from zlib import crc32

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import near_names
from bdr_stan.embedding.metadata_columns import (
    column_levels,
    complete_column,
    indicators,
    numbers_of_column,
)
from bdr_stan.kernels.feature_maps import slices_of
from bdr_stan.kernels.hilbert_space import lowest_frequencies
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

# Half-width of the box, in half-widths of the training range, and numbers of sines, by columns. The
# process has variance 0 at the box's edge, so a box of 1.5 would keep half of it at the ends of the
# range. These values are within 0.04 of Matern 3/2 for lengths from 0.25 to 1 with one column,
# within 0.1 from 0.35 to 0.7 with two.
_BOX = {1: 2.5, 2: 2.0}
_N_SINES = {1: 35, 2: 130}
_FEWEST_VALUES = 4  # of a column; fewer are better groups or covariates


@dataclass(frozen=True)
class Smooth:
    """Sines of one or two columns of the metadata, each in units of its reach."""

    columns: tuple[str, ...]
    centre: Array  # shape (k,), middle of the training range
    reach: Array  # half of its width, shape (k,)
    mean: Array  # of the sines over the training bags, shape (m,)

    @property
    def frequency(self) -> Array:
        """Frequencies in units of 1 / reach, shape (m, k)."""
        k = len(self.columns)
        return np.pi * lowest_frequencies(_N_SINES[k], np.ones(k)) / (2 * _BOX[k])

    def place(self, bags: BagsBase) -> Array:
        """Positions of the bags, with the training bags in [-1, 1], shape (n, k)."""
        values = [numbers_of_column(bags, name, "smooth") for name in self.columns]
        return (np.column_stack(values) - self.centre) / self.reach

    def sines(self, place: Array) -> Array:
        """The sines minus their training averages, (n, m); outside, values at the box's edge."""
        box = _BOX[len(self.columns)]
        angles = np.clip(place, -box, box)[:, None, :] + box
        return np.prod(np.sin(angles * self.frequency) / np.sqrt(box), axis=2) - self.mean


@dataclass(frozen=True)
class Terms:
    """Smooth functions and groups of a regression, in this order; none by default."""

    groups: Mapping[str, list] = field(default_factory=dict)  # levels of each column
    smooths: Sequence[Smooth] = ()

    @property
    def names(self) -> list[str]:
        """Names of the terms: "state", or "lon, lat" of a smooth function of two columns."""
        return [*(", ".join(smooth.columns) for smooth in self.smooths), *self.groups]

    @property
    def length_names(self) -> list[str]:
        """Columns of smooth functions, each with a length scale."""
        return [name for smooth in self.smooths for name in smooth.columns]

    @property
    def n_effects(self) -> list[int]:
        """Effects of each term."""
        return [*(len(smooth.mean) for smooth in self.smooths), *map(len, self.groups.values())]

    @property
    def n_columns(self) -> list[int]:
        """Columns of each term if it is a smooth function, else 0."""
        return [len(smooth.columns) for smooth in self.smooths] + [0] * len(self.groups)

    @property
    def effect_names(self) -> list[str]:
        """Names of all effects: "state=Ohio", or "year[3]" of the third sine."""
        of_groups = [f"{name}={level}" for name, levels in self.groups.items() for level in levels]
        smooths = zip(self.names, self.smooths, strict=False)
        sines = [f"{n}[{k + 1}]" for n, smooth in smooths for k in range(len(smooth.mean))]
        return sines + of_groups

    @property
    def slices(self) -> list[slice]:
        """Slices of each term's effects among all."""
        return slices_of(self.n_effects)

    def transform(self, bags: BagsBase, *, groups: bool = True) -> Array:
        """Columns v of all terms, (n, U): zeros for unknown levels, for all without `groups`."""
        sines = [smooth.sines(smooth.place(bags)) for smooth in self.smooths]
        of_groups = [
            indicators(_values(bags, name) if groups else [None] * len(bags), levels)
            for name, levels in self.groups.items()
        ]
        return np.hstack([np.empty((len(bags), 0)), *sines, *of_groups])

    def new_levels(self, bags: BagsBase) -> Array:
        """For each column of groups a number > 0 per level that is not known, (n, groups)."""
        numbers = np.zeros((len(bags), len(self.groups)), np.int64)
        for k, (name, levels) in enumerate(self.groups.items()):
            values = _values(bags, name)
            new = {v: 0 if v in levels else 1 + crc32(repr(v).encode()) for v in set(values)}
            numbers[:, k] = [new[value] for value in values]
        return numbers

    def check_levels(self, bags: BagsBase) -> None:
        """Raise ValueError for a level of a group that no training bag has."""
        for name, levels in self.groups.items():
            for i, value in enumerate(_values(bags, name)):
                if value not in levels:
                    raise ValueError(
                        f"group {name!r} of {bags.name(i)} is {value!r}, which the basis does not "
                        "have: make it with a bag of each level"
                    )

    def warn_of_new(self, bags: BagsBase) -> None:
        """Warn of levels that no training bag has, and of bags far outside of smooth functions."""
        for name, levels in self.groups.items():
            new = [level for level in _values(bags, name) if level not in levels]
            if new:
                warn(
                    f"group {name!r} has levels that no training bag has, such as {new[0]!r}, for "
                    f"{len(new)} of {len(bags)} bags: their effects are drawn from "
                    "normal(0, term_sd), like the effects of any new level"
                )
        for smooth, name in zip(self.smooths, self.names, strict=False):
            outside = np.any(np.abs(smooth.place(bags)) > 1 + 1e-9, axis=1)
            if outside.any():
                i = int(np.flatnonzero(outside)[0])
                warn(
                    f"smooth {name!r}: {int(outside.sum())} of {len(bags)} bags lie outside the "
                    f"range of the training bags, such as {bags.name(i)}: there the function is an "
                    "extrapolation, back to its average"
                )

    def along(self, name: str, n_points: int) -> tuple[Array, Array]:
        """Levels of groups, or points of a smooth function, and their columns v, (m, effects)."""
        if name in self.groups:
            levels = np.array(self.groups[name], object)
            return levels, np.eye(len(levels))
        smooths = dict(zip(self.names, self.smooths, strict=False))
        if name not in smooths:
            raise ValueError(f"the fit has no term {name!r}; {near_names(name, self.names)}")
        smooth, k = smooths[name], len(smooths[name].columns)
        side = np.linspace(-1, 1, max(2, round(n_points ** (1 / k))))
        place = np.stack(np.meshgrid(*[side] * k, indexing="ij"), axis=-1).reshape(-1, k)
        values = smooth.centre + place * smooth.reach
        return values[:, 0] if k == 1 else values, smooth.sines(place)

    def config(self) -> dict[str, Any]:
        """As numbers and text, for a file."""
        return {"groups": dict(self.groups), "smooths": [vars(smooth) for smooth in self.smooths]}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The terms from their `config`."""
        return cls(config["groups"], [Smooth(**smooth) for smooth in config["smooths"]])


NO_TERMS = Terms()


def learn_terms(bags: BagsBase, groups: Sequence[str], smooths: Sequence[Any]) -> Terms:
    """Levels of groups, ranges of smooth functions, of the training bags."""
    levels = {name: _levels(bags, name) for name in groups}
    return Terms(levels, [_learn_smooth(bags, columns) for columns in smooth_columns(smooths)])


def smooth_columns(smooths: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    """The columns of each smooth function."""
    for columns in smooths:
        yield (columns,) if isinstance(columns, str) else tuple(columns)


def _values(bags, name):
    return complete_column(bags, name, "group").tolist()


def _levels(bags, name):
    levels = column_levels(complete_column(bags, name, "group"), name, "group")
    if len(levels) < 2:
        raise ValueError(
            f"group {name!r} is {levels[0]!r} for all training bags: there is nothing to compare, "
            "so leave it out"
        )
    return levels


def _learn_smooth(bags, columns):
    values = np.column_stack([numbers_of_column(bags, name, "smooth") for name in columns])
    for name, column in zip(columns, values.T, strict=True):
        n = len(np.unique(column))
        if n < _FEWEST_VALUES:
            raise ValueError(
                f"smooth {name!r} has {n} different values in the training bags, too few for a "
                "function: use covariates= or groups="
            )
    low, high = values.min(axis=0), values.max(axis=0)
    centre, reach = (low + high) / 2, (high - low) / 2
    free = Smooth(columns, centre, reach, np.zeros(_N_SINES[len(columns)]))
    return Smooth(columns, centre, reach, free.sines(free.place(bags)).mean(axis=0))
