"""The generalised t-student kernel."""

from dataclasses import dataclass

import numpy as np

from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array, is_number


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Stationary):
    """1 / (1 + r^degree), the generalised t-student kernel; other parameters as for `Stationary`.

    0 < `degree` <= 2, default 1. Above degree 2 it is not positive definite, and
    raises ValueError.

    Examples
    --------
    >>> from bdr_stan import StudentT
    >>> StudentT(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [6.0]])
    array([[1.  , 0.5 , 0.25]])
    >>> StudentT(bandwidth=2.0, degree=2)([[0.0]], [[0.0], [2.0], [6.0]])
    array([[1. , 0.5, 0.1]])
    """

    degree: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not (is_number(self.degree) and 0 < self.degree <= 2):
            raise ValueError(f"degree of StudentT must be in (0, 2], found {self.degree!r}")

    def profile(self, out: Array) -> Array:
        return np.reciprocal(1 + (-2 * out) ** (self.degree / 2), out=out)
