"""What the kernels of points divided by a bandwidth share, whatever their distance."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernels.bandwidth import check_bandwidth, column_spreads, typical_bandwidth
from bdr_stan.kernels.kernel import ColumnKernel, store_arrays
from bdr_stan.types import Array, ArrayLike, Seed


@dataclass(frozen=True, eq=False, repr=False)
class BandwidthKernel(ColumnKernel):
    """Kernels with a bandwidth, or one per column, see `Stationary`; k(x, x) is `variance`."""

    bandwidth: ArrayLike = "scaled"
    columns: Sequence[str | int] | None = None
    variance: float = 1.0
    units: ArrayLike | None = None

    metric: ClassVar[str]  # of SciPy's pdist

    def __post_init__(self):
        super().__post_init__()
        if self.units is not None:
            check_bandwidth(self.units, "units")
            store_arrays(self, "units")
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in ("scaled", "ard", "median"):
                raise ValueError(
                    f"bandwidth of {type(self).__name__} must be a positive number, an array of "
                    f"such, 'scaled', 'ard' or 'median', found {self.bandwidth!r}"
                )
        else:
            check_bandwidth(self.bandwidth)
            if np.ndim(self.bandwidth):
                store_arrays(self, "bandwidth")

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        if not isinstance(self.bandwidth, str):
            return self
        bags = as_bags(bags, in_parts=True)
        points = self.select(bags.sample_points(2000, np.random.default_rng(seed)))
        if self.bandwidth == "median":
            typical = typical_bandwidth(points, self.metric, or_mean=False)
            return replace(self, bandwidth=typical)
        if points.shape[1] == 1:  # one column needs no unit
            return replace(self, bandwidth=typical_bandwidth(points, self.metric))
        units = column_spreads(points, self.select(bags.sources[None])[0])
        factor = typical_bandwidth(points / units, self.metric)
        if self.bandwidth == "ard":
            return replace(self, bandwidth=factor * units)
        return replace(self, bandwidth=factor, units=units)

    def in_units(self, points: Array) -> Array:
        """The kernel's columns of points, divided by `units` if there are any."""
        seen = self.select(points)
        return seen if self.units is None else seen / self.units

    @property
    def lengths(self) -> ArrayLike:
        """Bandwidth in the units of the points: a number, or one for each column."""
        return self.bandwidth if self.units is None else self.bandwidth * self.units

    def scaled(self, factor: float) -> Self:
        return self if factor == 1 else replace(self, bandwidth=self.bandwidth * factor)

    def diagonal(self, x: ArrayLike) -> Array:
        return np.full(len(x), float(self.variance))

    def learnable(self) -> list[tuple[str, float]]:
        lengths = np.atleast_1d(self.bandwidth)
        if len(lengths) == 1:
            return [("bandwidth", lengths[0])]
        columns = self.columns or range(len(lengths))
        return [(f"bandwidth[{c}]", b) for c, b in zip(columns, lengths, strict=True)]

    def with_log_parameters(self, values: ArrayLike) -> Self:
        new = np.exp(values)
        return replace(self, bandwidth=new if np.ndim(self.bandwidth) else float(new[0]))

    def lengths_for_values(self) -> ArrayLike:
        """`lengths`, which must be numbers by now."""
        if isinstance(self.bandwidth, str):
            raise ValueError(
                f"bandwidth={self.bandwidth!r} is no number yet: give a number, or call "
                "resolved(bags)"
            )
        return self.lengths
