"""Matern kernels of smoothness 1/2 (the exponential kernel), 3/2 and 5/2."""

from typing import ClassVar

import numpy as np
from scipy.special import gamma

from bdr_stan.kernels.stationary import Stationary, distances
from bdr_stan.types import Array


class Matern(Stationary):
    """Base of the Matern kernels, which differ in their smoothness nu; as `Stationary`."""

    smoothness: ClassVar[float]
    has_spectral_density = True

    def profile(self, out: Array) -> Array:
        distances(out, np.sqrt(2 * self.smoothness))
        factor = self.polynomial(out)
        np.exp(np.negative(out, out=out), out=out)
        out *= factor
        return out

    def polynomial(self, s: Array) -> Array | float:
        """What exp(-s) is multiplied by at s = sqrt(2 nu) r."""
        return 1.0

    def spectral_density(self, squared_frequency: Array, n_columns: int) -> Array:
        nu, half = self.smoothness, n_columns / 2
        constant = (4 * np.pi) ** half * gamma(nu + half) * (2 * nu) ** nu / gamma(nu)
        return constant * (2 * nu + squared_frequency) ** -(nu + half)


class Exponential(Matern):
    """exp(-r), the Matern kernel of smoothness 1/2; parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Exponential
    >>> Exponential(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.368, 0.135]])
    """

    smoothness = 0.5


class Matern32(Matern):
    """(1 + s) exp(-s), s = sqrt(3) r: Matern of smoothness 3/2; parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Matern32
    >>> kernel = Matern32(bandwidth=50.0, columns=["x", "y"]).on(["x", "y", "rain"], 3)
    >>> kernel([[0.0, 0.0, 7.0]], [[0.0, 0.0, 9.0], [30.0, 40.0, 7.0]]).round(3)
    array([[1.   , 0.483]])
    """

    smoothness = 1.5

    def polynomial(self, s: Array) -> Array:
        return 1 + s


class Matern52(Matern):
    """(1 + s + s^2/3) exp(-s), s = sqrt(5) r: Matern of smoothness 5/2; as `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Matern52
    >>> Matern52(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.524, 0.139]])
    """

    smoothness = 2.5

    def polynomial(self, s: Array) -> Array:
        return 1 + s * (1 + s / 3)
