"""Polynomial kernels, and the linear kernel among them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.kernels.kernel import ColumnKernel
from bdr_stan.types import Array, ArrayLike, is_number


@dataclass(frozen=True, eq=False, repr=False)
class Polynomial(ColumnKernel):
    """(x'y + constant)^degree.

    Parameters
    ----------
    degree : int, >= 1, default 2, the power
    constant : float, >= 0, default 1, in the squared units of the points
    columns : sequence of names or indices, optional
        Columns that the kernel depends on; default all.
    variance : float, > 0, default 1
        Factor on the values.

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

    def fill(self, points: Array, prepared: Any, out: Array, scratch: Array | None) -> None:
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
