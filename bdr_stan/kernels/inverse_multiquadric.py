"""The inverse multiquadric kernel."""

import numpy as np

from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array


class InverseMultiquadric(Stationary):
    """1 / sqrt(1 + r^2); parameters as for `Stationary`."""

    def profile(self, out: Array) -> Array:
        return np.reciprocal(np.sqrt(1 - 2 * out), out=out)
