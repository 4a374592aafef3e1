"""Matern kernels of smoothness 1/2 (the exponential kernel), 3/2 and 5/2."""

import numpy as np

from bdr_stan.kernels.stationary import Stationary, distances
from bdr_stan.types import Array


class Exponential(Stationary):
    """exp(-r), the Matern kernel of smoothness 1/2; parameters as for `Stationary`."""

    def profile(self, out: Array) -> Array:
        distances(out, 1.0)
        return np.exp(np.negative(out, out=out), out=out)


class Matern32(Stationary):
    """(1 + s) exp(-s), s = sqrt(3) r: Matern of smoothness 3/2; parameters as for `Stationary`."""

    def profile(self, out: Array) -> Array:
        distances(out, np.sqrt(3))
        factor = 1 + out
        np.exp(np.negative(out, out=out), out=out)
        out *= factor
        return out


class Matern52(Stationary):
    """(1 + s + s^2/3) exp(-s), s = sqrt(5) r: Matern of smoothness 5/2; as `Stationary`."""

    def profile(self, out: Array) -> Array:
        distances(out, np.sqrt(5))
        factor = 1 + out * (1 + out / 3)
        np.exp(np.negative(out, out=out), out=out)
        out *= factor
        return out
