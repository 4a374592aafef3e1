"""The Gaussian kernel; its convolution with itself, a prior covariance of mean embeddings."""

import numpy as np

from bdr_stan.kernels.bandwidth import check_bandwidth
from bdr_stan.kernels.stationary import PreparedLandmarks, Stationary, minus_half_squares
from bdr_stan.types import Array, ArrayLike

# exp is up to 100 times slower if it underflows; below this, 1e-304, nothing is lost.
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

        Factors go into the exponent. If points have their own factors and one meets a landmark,
        rounding may leave its value just above the variance.
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


def rbf_convolution(
    x: ArrayLike, y: ArrayLike, bandwidth: ArrayLike, measure_scale: ArrayLike
) -> Array:
    """Convolution r(x, y) = integral of k(x, z) k(z, y) exp(-|z|^2 / (2 l^2)) dz, k = `RBF`.

    A Gaussian process with this covariance has its draws in the function space of k, which the
    prior of the mean embeddings needs. It is a product over the features; with s and l the
    lengths of a feature, its factor is

        r(x, y) = sqrt(2 pi / (2/s^2 + 1/l^2))
                  exp(-(x - y)^2 / (4 s^2)) exp(-(x + y)^2 / (8 (s^2/2 + l^2)))

    of points x, shape (n, p), and y, (m, p), centred beforehand, as l is the scale of the measure
    around the origin; s and l are numbers or of shape (p,), in the units of the points.

    Source: Flaxman et al. (2016), "Bayesian learning of kernel embeddings", section 4.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    p = x.shape[1]
    check_bandwidth(bandwidth, n_features=p)
    check_bandwidth(measure_scale, "measure_scale", n_features=p)
    s, l = np.asarray(bandwidth), np.asarray(measure_scale)
    height = np.sqrt(np.prod(np.broadcast_to(2 * np.pi / (2 / s**2 + 1 / l**2), p)))
    near = RBF(np.sqrt(2) * s)(x, y)
    central = RBF(2 * np.sqrt(s**2 / 2 + l**2))(x, -y)
    return height * near * central
