"""Quadratic effects of columns: the squares of standardised columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.kernels.linear_effects import LinearEffects
from bdr_stan.types import Array, ArrayLike

_CUT = 3.0  # standard deviations at which columns are cut, so that no square dominates


@dataclass(frozen=True, eq=False, repr=False)
class QuadraticEffects(LinearEffects):
    """q(x)'q(y), q_k(x) = (z_k^2 - 1) / sqrt(2), z the standardised columns cut at 3.

    The average of q over a bag is the mean square of its points around the overall mean: with
    `LinearEffects` labels are linear in means and mean squares of columns. The variance around the
    bag's own mean is not linear in these if the means differ; a column of deviations from the bag's
    mean has it. Parameters are those of `LinearEffects`.

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

    def fill(self, points: Array, prepared: Any, out: Array, scratch: Array | None) -> None:
        np.matmul(self.standardised(points), prepared.T, out=out)
