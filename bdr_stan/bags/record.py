"""Properties of the training bags that a fit keeps to check new bags."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, SupportsIndex

import numpy as np

from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.checks import describe
from bdr_stan.bags.column_warnings import CODES_OF_POINTS, ends_of_points
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.container import Bags
from bdr_stan.bags.missing_codes import codes_in, warn_of_codes
from bdr_stan.bags.partitions import PartitionedBags
from bdr_stan.bags.samples import Samples
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

_SAMPLE_SIZE = 5_000  # points for estimating quantiles
_MIN_VALUES = 20  # of a column in new bags; fewer may all be unusual
_MAX_SHARE_OUTSIDE = 0.95  # of new values outside the range of 98% of the training values

# What a fit keeps of the record in its settings: by its name there, the name here.
RECORDED = {
    "n_features": "n_features",
    "feature_names": "features",
    "columns": "columns",
    "weighted": "weighted",
    "design": "design",
    "cluster_variances": "cluster_variances",
    "column_ranges": "ranges",
    "file": "file",
    "constant_columns": "constants",
}


@dataclass(frozen=True)
class BagsRecord:
    """Ids, columns and weights of training bags; with several samples only what they share."""

    index: Array  # ids of the bags, or 0 to n - 1
    has_ids: bool
    n_features: int
    weighted: bool  # whether points have weights
    features: list[str] | None = None  # names of the points' columns
    columns: TableColumns | None = None  # how the points were made from the columns of a table
    design: str | None = None  # as in `BagsBase`
    cluster_variances: Array | None = None  # as in `cluster_variances`, (2,); None without clusters
    ranges: Array | None = None  # as `column_ranges`, shape (2, p)
    file: str | None = None  # path that the points were read from
    constants: Array | None = None  # as `constant_columns`, shape (p,)
    parts: "Mapping[str, BagsRecord]" = field(default_factory=dict)  # of several samples, by name

    @classmethod
    def from_bags(cls, bags: Any) -> Self:
        """The record of bags; warns of codes of missing values in a sample of a memory map."""
        record = cls(np.asarray(bags.index), bags.ids is not None, bags.n_features, bags.weighted)
        if isinstance(bags, Samples):
            parts = {name: cls.from_bags(each) for name, each in bags.samples.items()}
            return replace(record, parts=parts)
        if isinstance(bags, Bags) and bags.is_memory_map:
            warn_of_codes(ends_of_points(bags), "points", CODES_OF_POINTS)
        return replace(
            record,
            features=bags.features,
            columns=bags.columns,
            design=bags.design,
            ranges=column_ranges(bags),
            file=bags.file,
            constants=constant_columns(bags),
        )

    def __len__(self) -> int:
        return len(self.index)

    def name(self, i: SupportsIndex) -> str:
        """Name of bag i in messages, as for bags."""
        return describe(i, self.ids)

    @property
    def samples(self) -> "Mapping[str, BagsRecord]":
        """Record of each sample by its name; itself, without a name, if there is one."""
        return self.parts or {"": self}

    def has(self, name: str) -> Array:
        """Whether each bag has the sample called `name`; bool array, shape (n,)."""
        import pandas as pd

        return pd.Index(self.index).isin(self.samples[name].index)

    @property
    def ids(self) -> Array | None:
        """Ids of the bags, shape (n,), or None."""
        return self.index if self.has_ids else None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Entries in the settings of a fit, by name."""
        settings = {name: getattr(self, field) for name, field in RECORDED.items()}
        samples = {name: dict(record.settings) for name, record in self.parts.items()}
        return settings | ({"samples": samples} if samples else {})

    def take(self, bags: ArrayLike) -> Self:
        """The record of the bags with these indices."""
        return replace(self, index=self.index[bags])


def column_ranges(bags: BagsBase) -> Array | None:
    """1% and 99% quantiles of nonzero values in a sample, (2, p), NaN without such; or None."""
    if isinstance(bags, PartitionedBags):
        return None
    points = bags.sample_points(_SAMPLE_SIZE, np.random.default_rng(0))
    points[points == 0] = np.nan  # zeros are the same in all units
    ranges = np.full((2, points.shape[1]), np.nan)
    nonzero = ~np.isnan(points).all(axis=0)
    ranges[:, nonzero] = np.nanquantile(points[:, nonzero], [0.01, 0.99], axis=0)
    return ranges


def constant_columns(bags: Any) -> Array | None:
    """Value of each constant column, NaN for other columns, (p,); None if not in memory."""
    if isinstance(bags, PartitionedBags) or bags.is_memory_map:
        return None
    first = bags.points[0]
    return np.where(np.all(bags.points == first, axis=0), first, np.nan)


def warn_of_varying(bags: BagsBase, constants: Array | None) -> None:
    """Warn of columns with the values `constants` in training that have others in these bags."""
    if constants is None or isinstance(bags, PartitionedBags):
        return
    points = bags.sample_points(_SAMPLE_SIZE, np.random.default_rng(0))
    for k in np.flatnonzero(np.isfinite(constants)):
        share = 1 - np.isclose(points[:, k], constants[k]).mean()
        if share > 0:
            name = k if bags.features is None else repr(bags.features[k])
            warn(
                f"column {name} is {constants[k]:.4g} at all training points, but not at "
                f"{share:.0%} of the new ones: its effect is unknown and predictions are "
                "unreliable, so fit without it, or to points that differ in it"
            )


def warn_of_other_ranges(bags: BagsBase, ranges: Array | None) -> None:
    """Warn of columns with codes, or nearly all nonzero values, outside the training `ranges`."""
    if ranges is None or isinstance(bags, PartitionedBags):
        return
    ends = {name: e for name, e in ends_of_points(bags).items() if not codes_in(e)}
    training = dict(zip(bags.features or range(bags.n_features), ranges.T.tolist()))
    nonzero = {name: e for name, e in ends.items() if not np.isnan(training[name]).any()}
    warn_of_codes(nonzero, "points", CODES_OF_POINTS, training)
    if len(bags) < 2:
        return  # a single bag may well differ from all others
    points = bags.sample_points(_SAMPLE_SIZE, np.random.default_rng(0))
    outside = ((points < ranges[0]) | (points > ranges[1])) & (points != 0)
    n_values = np.sum(points != 0, axis=0)
    share = outside.sum(axis=0) / np.maximum(n_values, 1)
    for k in np.flatnonzero((share > _MAX_SHARE_OUTSIDE) & (n_values >= _MIN_VALUES)):
        name = k if bags.features is None else repr(bags.features[k])
        values = points[points[:, k] != 0, k]
        warn(
            f"{share[k]:.0%} of the nonzero values of column {name}, {values.min():.4g} to "
            f"{values.max():.4g}, lie outside the range of the training values, "
            f"{ranges[0, k]:.4g} to {ranges[1, k]:.4g}: check that its units are the same"
        )
