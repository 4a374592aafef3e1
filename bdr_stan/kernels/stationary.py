"""Kernels of the distance between points, which differ in their profile alone.

Squared distances come from one matrix product, after moving the origin to the mean of the
landmarks. Their relative error is about 1e-16 (R / bandwidth)^2, R the distance of points from
there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernels.bandwidth import (
    check_bandwidth,
    column_spreads,
    median_bandwidth,
    scaled_bandwidth,
)
from bdr_stan.kernels.kernel import ColumnKernel, row_factors
from bdr_stan.types import Array, ArrayLike, Seed


class PreparedLandmarks(NamedTuple):
    """Landmarks prepared for `minus_half_squares`; s is 1 where one bandwidth b serves all."""

    centre: Array  # (p,), mean of the landmarks
    scale: Array | None  # s, (p,), what points are divided by; None saves dividing by 1
    precision: float  # 1 / b^2; 1 where s is given
    matrix: Array  # (p + 2, d), rows [v / b^2, 1, -|v|^2 / 2b^2], v = (u - centre) / s
    radius: float  # largest |v|


def prepare_landmarks(landmarks: ArrayLike, bandwidth: ArrayLike) -> PreparedLandmarks:
    """Prepare landmarks, shape (d, p), for repeated calls of `minus_half_squares`."""
    landmarks = np.asarray(landmarks, np.float64)
    check_bandwidth(bandwidth, n_features=landmarks.shape[1])
    centre = landmarks.mean(axis=0)
    moved = landmarks - centre
    if np.ndim(bandwidth) == 0:
        scale, precision = None, float(bandwidth) ** -2.0
    else:
        scale, precision = np.asarray(bandwidth, np.float64), 1.0
        moved /= scale
    norms = np.einsum("ij,ij->i", moved, moved)
    matrix = np.vstack([precision * moved.T, np.ones(len(moved)), -0.5 * precision * norms])
    return PreparedLandmarks(centre, scale, precision, matrix, np.sqrt(norms.max()))


def minus_half_squares(
    points: Array,
    prepared: PreparedLandmarks,
    out: Array,
    scratch: Array | None = None,
    log_scale: ArrayLike = 0.0,
) -> float:
    """Write -|x - u|^2 / 2 b^2, plus log_scale, to `out`; returns a bound of the distances."""
    n, p = points.shape
    rows = np.empty((n, p + 2)) if scratch is None else scratch[:n, : p + 2]
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


def distances(out: Array, factor: float) -> Array:
    """-r^2 / 2 to factor * r, in place."""
    out *= -2 * factor**2
    return np.sqrt(out, out=out)


@dataclass(frozen=True, eq=False)
class Stationary(ColumnKernel):
    """Kernels of the distance r = |(x - y) / bandwidth|; a subclass says what `profile` does.

    Parameters
    ----------
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median", default "scaled"
        In the units of the points; an array gives each column its own length scale. "scaled" is
        the rule of `median_bandwidth` on columns divided by their standard deviations, so that
        years and dollars count alike. "ard" (automatic relevance determination) is the same to
        begin with, but lengths are learned for each column by itself. "median" is the rule on
        columns as they are, for those of one unit.
    columns : sequence of names or indices, optional
        The columns that the kernel looks at; default all.
    variance : float, > 0, default 1
        k(x, x).
    units : array of shape (p,), optional
        What the bandwidth is a multiple of; "scaled" sets the columns' standard deviations.

    Raises
    ------
    TypeError, ValueError : a bandwidth, unit or variance that is not positive, columns that are no
        list of names or stand twice.

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

    bandwidth: ArrayLike = "scaled"
    columns: Sequence[str | int] | None = None
    variance: float = 1.0
    units: ArrayLike | None = None

    has_spectral_density: ClassVar[bool] = False

    def profile(self, out: Array) -> Array:
        """-r^2 / 2 to the kernel's value at distance r and variance 1, in place."""
        raise NotImplementedError

    def spectral_density(self, squared_frequency: Array, n_columns: int) -> Array:
        """Spectral density at |w|^2, with bandwidth and variance 1: the integral of k(r) e^(-iw'r).

        Of the kernels that have `has_spectral_density`.
        """
        raise NotImplementedError

    def __post_init__(self):
        super().__post_init__()
        if self.units is not None:
            check_bandwidth(self.units, "units")
            object.__setattr__(self, "units", np.asarray(self.units, np.float64))
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in ("scaled", "ard", "median"):
                raise ValueError(
                    f"bandwidth of {type(self).__name__} must be a positive number, an array of "
                    f"such, 'scaled', 'ard' or 'median', found {self.bandwidth!r}"
                )
        else:
            check_bandwidth(self.bandwidth)
            if np.ndim(self.bandwidth):  # a list is as good as an array
                object.__setattr__(self, "bandwidth", np.asarray(self.bandwidth, np.float64))

    def at_median(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        if not isinstance(self.bandwidth, str):
            return self
        bags = as_bags(bags, in_parts=True)
        points = self.select(bags.sample_points(2000, np.random.default_rng(seed)))
        if self.bandwidth == "median":
            return replace(self, bandwidth=median_bandwidth([points]))
        if points.shape[1] == 1:  # one column needs no unit
            return replace(self, bandwidth=scaled_bandwidth(points))
        units = column_spreads(points, self.select(bags.sources[None])[0])
        factor = scaled_bandwidth(points / units)
        if self.bandwidth == "ard":
            return replace(self, bandwidth=factor * units)
        return replace(self, bandwidth=factor, units=units)

    def in_units(self, points: Array) -> Array:
        """The columns that the kernel looks at, divided by `units` where there are some."""
        seen = self.select(points)
        return seen if self.units is None else seen / self.units

    @property
    def lengths(self) -> ArrayLike:
        """Bandwidth in the units of the points: a number, or one for each column."""
        return self.bandwidth if self.units is None else self.bandwidth * self.units

    def scaled(self, factor: float) -> Self:
        return self if factor == 1 else replace(self, bandwidth=self.bandwidth * factor)

    def prepare(self, landmarks: ArrayLike) -> PreparedLandmarks:
        if isinstance(self.bandwidth, str):
            raise ValueError(
                f"bandwidth={self.bandwidth!r} waits for data: give a number, or call "
                "at_median(bags)"
            )
        return prepare_landmarks(self.select(np.asarray(landmarks, np.float64)), self.lengths)

    def evaluate(
        self,
        points: Array,
        prepared: PreparedLandmarks,
        out: Array,
        scratch: Array | None = None,
        log_scale: ArrayLike = 0.0,
    ) -> Array:
        minus_half_squares(self.select(points), prepared, out, scratch)
        np.minimum(out, 0, out=out)  # rounding can make a squared distance negative
        self.profile(out)
        out *= row_factors(self.variance, log_scale)
        return out

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
