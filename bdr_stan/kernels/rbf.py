"""The Gaussian kernel."""

import numpy as np

from bdr_stan.kernels.stationary import PreparedLandmarks, Stationary, minus_half_squares
from bdr_stan.types import Array, ArrayLike

# exp is up to 100 times slower where it underflows; below this, 1e-304, nothing is lost.
SMALLEST_EXPONENT = -700.0


class RBF(Stationary):
    """Gaussian kernel exp(-r^2 / 2); parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import RBF
    >>> RBF(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.607, 0.135]])
    >>> RBF(bandwidth=[2.0, 50.0])([[0.0, 0.0]], [[2.0, 50.0]]).round(3)
    array([[0.368]])
    """

    has_spectral_density = True

    def profile(self, out: Array) -> Array:
        return np.exp(np.maximum(out, SMALLEST_EXPONENT, out=out), out=out)

    def spectral_density(self, squared_frequency: Array, n_columns: int) -> Array:
        return (2 * np.pi) ** (n_columns / 2) * np.exp(-squared_frequency / 2)

    def evaluate(
        self,
        points: Array,
        prepared: PreparedLandmarks,
        out: Array,
        scratch: Array | None = None,
        log_scale: ArrayLike = 0.0,
    ) -> Array:
        """As `Kernel.evaluate`, in the fewest passes over the values.

        Factors go into the exponent. Where points have factors of their own and one meets a
        landmark, rounding may leave its value just above the variance.
        """
        if self.variance != 1:
            log_scale = log_scale + np.log(self.variance)
        farthest = minus_half_squares(self.select(points), prepared, out, scratch, log_scale)
        smallest = -0.5 * prepared.precision * farthest**2 + np.min(log_scale, initial=0)
        if np.ndim(log_scale) == 0:
            np.minimum(out, log_scale, out=out)  # rounding can make a squared distance negative
        if smallest < SMALLEST_EXPONENT:
            np.maximum(out, SMALLEST_EXPONENT, out=out)
        return np.exp(out, out=out)
