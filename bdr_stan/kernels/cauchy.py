"""The Cauchy kernel."""

import numpy as np

from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array


class Cauchy(Stationary):
    """1 / (1 + r^2); parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Cauchy
    >>> kernel = Cauchy(bandwidth=2.0)
    >>> kernel([[0.0]], [[0.0], [2.0], [4.0]])
    array([[1. , 0.5, 0.2]])
    """

    def profile(self, out: Array) -> Array:
        return np.reciprocal(1 - 2 * out, out=out)
