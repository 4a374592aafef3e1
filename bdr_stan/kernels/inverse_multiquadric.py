"""The inverse multiquadric kernel."""

import numpy as np

from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array


class InverseMultiquadric(Stationary):
    """1 / sqrt(1 + r^2); parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import InverseMultiquadric
    >>> kernel = InverseMultiquadric(bandwidth=2.0)
    >>> kernel([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.707, 0.447]])
    """

    def profile(self, out: Array) -> Array:
        return np.reciprocal(np.sqrt(1 - 2 * out), out=out)
