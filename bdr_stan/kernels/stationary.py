"""Kernels of points divided by a bandwidth; those of the Euclidean distance have a profile.

Squared distances come from one matrix product, after moving the origin to the mean of the
landmarks. Their relative error is about 1e-16 (R / bandwidth)^2, R the distance of points from the
origin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

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

    def columns_and_lengths(self, landmarks: ArrayLike) -> tuple[Array, Any]:
        """The kernel's columns of landmarks, and `lengths`, numbers that fit them."""
        if isinstance(self.bandwidth, str):
            raise ValueError(
                f"bandwidth={self.bandwidth!r} is not a number yet: give a number, or call "
                "resolved(bags)"
            )
        columns = self.select(np.asarray(landmarks, np.float64))
        check_bandwidth(self.lengths, n_features=columns.shape[1])
        return columns, self.lengths


class PreparedLandmarks(NamedTuple):
    """Landmarks u prepared for `minus_half_squares`; s is 1 if one bandwidth b serves all."""

    centre: Array  # (p,), mean of the landmarks
    scale: Array | None  # s, (p,), divisor of points; None saves dividing by 1
    precision: float  # 1 / b^2; 1 if s is given
    matrix: Array  # (p + 2, d), rows [v / b^2, 1, -|v|^2 / 2b^2], v = (u - centre) / s
    radius: float  # largest |v|


def minus_half_squares(
    points: Array, prepared: PreparedLandmarks, out: Array, log_scale: ArrayLike = 0.0
) -> float:
    """Write -|x - u|^2 / 2 b^2, plus log_scale, to `out`; returns a bound of the distances."""
    n, p = points.shape
    rows = np.empty((n, p + 2))
    moved, norms = rows[:, :p], rows[:, p]
    np.subtract(points, prepared.centre, out=moved)
    if prepared.scale is not None:
        moved /= prepared.scale
    np.einsum("ij,ij->i", moved, moved, out=norms)
    farthest = np.sqrt(norms.max(initial=0)) + prepared.radius
    # x.u - |x|^2/2 - |u|^2/2 = -|x - u|^2/2 as one product: the norms are two more columns.
    norms *= -0.5 * prepared.precision
    norms += log_scale
    rows[:, p + 1] = 1
    np.matmul(rows, prepared.matrix, out=out)
    return farthest


@dataclass(frozen=True, eq=False, repr=False)
class Stationary(BandwidthKernel):
    """Kernels of the distance r = |(x - y) / bandwidth|; a subclass defines `profile`.

    Parameters
    ----------
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median", default "scaled"
        In the units of the points; an array gives each column its own length scale. "scaled" is the
        rule of `median_bandwidth` on columns divided by their standard deviations, so years and
        dollars have equal weight. "ard" (automatic relevance determination) starts with the same,
        but a length is learned per column. "median" is the rule on raw columns, for columns of one
        unit.
    columns : sequence of names or indices, optional
        Columns that the kernel depends on; default all.
    variance : float, > 0, default 1
        k(x, x).
    units : array of shape (p,), optional
        What the bandwidth is a multiple of; "scaled" sets the columns' standard deviations.

    Raises
    ------
    TypeError, ValueError : a bandwidth, unit or variance that is not positive, columns that are not
        a list of names or occur twice.

    Source: Rasmussen and Williams (2006), "Gaussian processes for machine learning", chapter 4.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import Stationary
    >>> class Triangle(Stationary):  # positive definite in one column
    ...     def profile(self, out):
    ...         return np.maximum(1 - np.sqrt(-2 * out), 0, out=out)
    ...
    >>> Triangle(bandwidth=2.0)([[0.0]], [[0.0], [1.0], [3.0]])
    array([[1. , 0.5, 0. ]])
    """

    metric = "sqeuclidean"
    has_spectral_density: ClassVar[bool] = False

    def profile(self, out: Array) -> Array:
        """From -r^2 / 2, in `out`, to the value at distance r and variance 1, in place."""
        raise NotImplementedError

    def spectral_density(self, squared_frequency: Array, n_columns: int) -> Array:
        """Spectral density at |w|^2, with bandwidth and variance 1: the integral of k(r) e^(-iw'r).

        `squared_frequency` is |w|^2, an array of any shape, of w in `n_columns` dimensions. Only
        for kernels with `has_spectral_density`.
        """
        raise NotImplementedError

    def prepare(self, landmarks: ArrayLike) -> PreparedLandmarks:
        landmarks, lengths = self.columns_and_lengths(landmarks)
        centre = landmarks.mean(axis=0)
        moved = landmarks - centre
        if np.ndim(lengths) == 0:
            scale, precision = None, float(lengths) ** -2.0
        else:
            scale, precision = np.asarray(lengths, np.float64), 1.0
            moved /= scale
        norms = np.einsum("ij,ij->i", moved, moved)
        matrix = np.vstack([precision * moved.T, np.ones(len(moved)), -0.5 * precision * norms])
        return PreparedLandmarks(centre, scale, precision, matrix, np.sqrt(norms.max()))

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        minus_half_squares(self.select(points), prepared, out)
        np.minimum(out, 0, out=out)  # rounding can make a squared distance negative
        self.profile(out)
