"""Kernels of inner products: polynomials, and linear and quadratic effects of columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernels.bandwidth import column_spreads
from bdr_stan.kernels.kernel import ColumnKernel, store_arrays
from bdr_stan.types import Array, ArrayLike, Seed, is_number

_POINTS_FOR_UNITS = 2000  # for estimating means and standard deviations of columns
_CUT = 3.0  # columns are clipped at this many standard deviations, so no square dominates


@dataclass(frozen=True, eq=False, repr=False)
class Polynomial(ColumnKernel):
    """(x'y + constant)^degree.

    Parameters
    ----------
    degree : int, >= 1, default 2, the power
    constant : float, >= 0, default 1, in the squared units of the points
    columns : as for `Stationary`
    variance : float, > 0, default 1, factor on the values

    Raises
    ------
    TypeError, ValueError : an invalid parameter.

    Examples
    --------
    >>> from bdr_stan import Polynomial
    >>> kernel = Polynomial(degree=2, constant=1.0)
    >>> kernel([[1.0, 2.0]], [[1.0, 0.0], [3.0, 4.0]])
    array([[  4., 144.]])
    """

    degree: int = 2
    constant: float = 1.0
    columns: Sequence[str | int] | None = None
    variance: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.degree, (int, np.integer)) or self.degree < 1:
            raise ValueError(f"degree of Polynomial must be an integer >= 1, found {self.degree!r}")
        if not (is_number(self.constant) and 0 <= self.constant < np.inf):
            raise ValueError(
                f"constant of Polynomial must be a number >= 0, found {self.constant!r}"
            )

    def prepare(self, landmarks: ArrayLike) -> Array:
        """The transposed landmarks."""
        return np.ascontiguousarray(self.select(np.asarray(landmarks, np.float64)).T)

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        np.matmul(np.asarray(self.select(points), np.float64), prepared, out=out)
        out += self.constant
        base = out.copy() if self.degree > 1 else None
        for _ in range(self.degree - 1):
            out *= base

    def diagonal(self, x: ArrayLike) -> Array:
        x = np.asarray(self.select(np.asarray(x)), np.float64)
        return self.variance * (np.einsum("ij,ij->i", x, x) + self.constant) ** self.degree


def Linear(columns: Sequence[str | int] | None = None, variance: float = 1.0) -> Polynomial:
    """x'y: `Polynomial` of degree 1 and constant 0; the parameters are as there.

    Examples
    --------
    >>> from bdr_stan import Linear
    >>> Linear()([[1.0, 2.0]], [[1.0, 0.0], [3.0, 4.0]])
    array([[ 1., 11.]])
    >>> Linear(columns=[1])([[1.0, 2.0]], [[1.0, 0.0], [3.0, 4.0]])
    array([[0., 8.]])
    """
    return Polynomial(1, 0.0, columns, variance)


@dataclass(frozen=True, eq=False, repr=False)
class LinearEffects(ColumnKernel):
    """((x - centre) / units)'((y - centre) / units): straight lines in the columns.

    Parameters
    ----------
    columns : as for `Stationary`
    variance : float, > 0, default 1, factor on the values
    centre, units : arrays of shape (k,), optional, in the units of the points
        Means and standard deviations of these columns, set by estimators: years and dollars have
        equal weight.

    Raises
    ------
    TypeError, ValueError : columns that are not a list of names or occur twice, a variance that is
        not positive, or only one of `centre` and `units`.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import LinearEffects
    >>> points = np.array([[20.0, 30_000.0], [40.0, 50_000.0]])
    >>> kernel = LinearEffects().resolved([points])
    >>> kernel.standardised(points)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> kernel(points, points)
    array([[ 2., -2.],
           [-2.,  2.]])
    """

    columns: Sequence[str | int] | None = None
    variance: float = 1.0
    centre: ArrayLike | None = field(default=None, repr=False)
    units: ArrayLike | None = field(default=None, repr=False)

    def __post_init__(self):
        super().__post_init__()
        if (self.centre is None) != (self.units is None):
            raise ValueError("LinearEffects has centre and units, or neither: give both")
        store_arrays(self, "centre", "units")

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        """The kernel with mean and sd of its columns in `bags`; `seed` is not used."""
        if self.units is not None:
            return self
        bags = as_bags(bags, in_parts=True)
        points = self.select(bags.sample_points(_POINTS_FOR_UNITS, np.random.default_rng(seed)))
        units = column_spreads(points, self.select(bags.sources[None])[0])
        return replace(self, centre=points.mean(axis=0), units=units)

    def standardised(self, points: Array) -> Array:
        """The kernel's columns of points, less `centre`, in `units`; shape (n, k).

        Raises ValueError until they are set from data, see `resolved`.
        """
        if self.units is None:
            raise ValueError("LinearEffects has no numbers yet: call resolved(bags)")
        seen = np.asarray(self.select(points), np.float64)
        return (seen - np.asarray(self.centre)) / self.units

    def prepare(self, landmarks: ArrayLike) -> Any:
        """A = (u - c)' / s^2 of `landmarks` u, and c'A: ((x - c) / s)'((u - c) / s) = x'A - c'A."""
        values = self.standardised(np.asarray(landmarks))
        matrix = np.ascontiguousarray((values / self.units).T)
        return matrix, self.centre @ matrix

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        matrix, offset = prepared
        np.matmul(np.asarray(self.select(points), np.float64), matrix, out=out)
        out -= offset

    def diagonal(self, x: ArrayLike) -> Array:
        values = self.standardised(np.asarray(x))
        return self.variance * np.einsum("ij,ij->i", values, values)


@dataclass(frozen=True, eq=False, repr=False)
class QuadraticEffects(LinearEffects):
    """q(x)'q(y), q_k(x) = (z_k^2 - 1) / sqrt(2), z the standardised columns cut at 3.

    The average of q over a bag is the mean square of its points around the overall mean: with
    `LinearEffects` labels are linear in means and mean squares of columns. If means differ, the
    variance around the bag's own mean is not linear in them; use a column of deviations from the
    bag's mean. Parameters as for `LinearEffects`.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import QuadraticEffects
    >>> kernel = QuadraticEffects(centre=[0.0], units=[1.0])
    >>> kernel(np.array([[1.0], [np.sqrt(3)]]), np.array([[1.0], [np.sqrt(3)]])).round(2)
    array([[0., 0.],
           [0., 2.]])
    """

    def standardised(self, points: Array) -> Array:
        """q of points, shape (n, k)."""
        z = np.clip(super().standardised(points), -_CUT, _CUT)
        return (z**2 - 1) / np.sqrt(2)

    def prepare(self, landmarks: ArrayLike) -> Array:
        return self.standardised(np.asarray(landmarks))

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        np.matmul(self.standardised(points), prepared.T, out=out)
