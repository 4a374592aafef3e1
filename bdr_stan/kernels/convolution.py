"""The convolution of the Gaussian kernel with itself, a prior covariance of mean embeddings."""

import numpy as np

from bdr_stan.kernels.bandwidth import check_bandwidth
from bdr_stan.kernels.rbf import RBF
from bdr_stan.types import Array, ArrayLike


def rbf_convolution(
    x: ArrayLike, y: ArrayLike, bandwidth: ArrayLike, measure_scale: ArrayLike
) -> Array:
    """Convolution r(x, y) = integral of k(x, z) k(z, y) exp(-|z|^2 / (2 l^2)) dz, k = `RBF`.

    A Gaussian process with this covariance has its draws in the function space of k, which the
    prior of the mean embeddings needs. It is a product over the features; with s and l the
    lengths of a feature, its factor is

        r(x, y) = sqrt(2 pi / (2/s^2 + 1/l^2))
                  exp(-(x - y)^2 / (4 s^2)) exp(-(x + y)^2 / (8 (s^2/2 + l^2)))

    Parameters
    ----------
    x : array, shape (n, p), points
    y : array, shape (m, p), points, in the units of x
    bandwidth : float or array, shape (p,), > 0, s, in the units of x
    measure_scale : float or array, shape (p,), > 0, l, in the units of x
        Scale of the Gaussian measure around the origin: centre the points beforehand.

    Returns
    -------
    float64 array, shape (n, m)

    Raises
    ------
    ValueError : a length that is not positive, or another number of lengths than features.

    Source: Flaxman et al. (2016), "Bayesian learning of kernel embeddings", section 4.

    Examples
    --------
    >>> from bdr_stan.kernels import rbf_convolution
    >>> x = [[0.0], [3.0]]
    >>> rbf_convolution(x, x, bandwidth=1.0, measure_scale=2.0).round(3)
    array([[1.671, 0.137],
           [0.137, 0.615]])
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
