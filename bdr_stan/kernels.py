"""Kernels between points, and the convolution kernel r of the shrinkage prior.

Each kernel is a plain function of two stacks of points, so a further one stands beside these.
"""

from typing import NamedTuple

import numpy as np

from bdr_stan.bags import as_bags

# exp is up to 100 times slower where it underflows; below this, 1e-304, nothing is lost.
SMALLEST_EXPONENT = -700.0


def rbf(x, y, bandwidth):
    """Gaussian kernel k(x, y) = exp(-|x - y|^2 / (2 bandwidth^2)).

    Parameters
    ----------
    x : array, shape (n, p)
    y : array, shape (m, p), in the units of x
    bandwidth : float, > 0, in the units of x

    Returns
    -------
    float64 array, shape (n, m), values in [0, 1]

    Notes
    -----
    Squared distances come from one matrix product, after moving the origin to the mean of `y`.
    The relative error is about 1e-16 (R / bandwidth)^2, R the distance of points from there.
    """
    x = np.asarray(x)
    values = rbf_features(x, rbf_basis(y, bandwidth), np.empty((len(x), len(y))))
    return np.minimum(values, 1, out=values)  # rounding can make a squared distance negative


class RBFBasis(NamedTuple):
    """Landmarks prepared for `rbf_features`."""

    centre: np.ndarray  # (p,), mean of the landmarks
    precision: float  # 1 / bandwidth^2
    matrix: np.ndarray  # (p + 2, d), rows [(u - centre) / b^2, 1, -|u - centre|^2 / 2b^2]
    radius: float  # largest |u - centre|


def rbf_basis(landmarks, bandwidth):
    """Prepare landmarks, shape (d, p), for repeated calls of `rbf_features`."""
    check_bandwidth(bandwidth)
    landmarks = np.asarray(landmarks, np.float64)
    centre = landmarks.mean(axis=0)
    moved = landmarks - centre
    norms = np.einsum("ij,ij->i", moved, moved)
    precision = bandwidth**-2.0
    matrix = np.vstack([precision * moved.T, np.ones(len(moved)), -0.5 * precision * norms])
    return RBFBasis(centre, precision, matrix, np.sqrt(norms.max()))


def rbf_features(points, basis, out, scratch=None, log_scale=0.0):
    """Kernel of points, shape (n, p), at the landmarks of `basis`, written to `out` (n, d).

    `scratch`, shape (at least n, p + 2), saves an allocation; the values of point j come times
    exp(log_scale[j]). Computed in float64 whatever the points' type. Where a point meets a
    landmark, rounding may leave a value just above 1.
    """
    n, p = points.shape
    rows = np.empty((n, p + 2)) if scratch is None else scratch[:n]
    moved, norms = rows[:, :p], rows[:, p]
    np.subtract(points, basis.centre, out=moved)
    np.einsum("ij,ij->i", moved, moved, out=norms)
    farthest = np.sqrt(norms.max(initial=0)) + basis.radius
    # x.u - |x|^2/2 - |u|^2/2 = -|x - u|^2/2 as one product: the norms are two more columns.
    norms *= -0.5 * basis.precision
    norms += log_scale
    rows[:, p + 1] = 1
    np.matmul(rows, basis.matrix, out=out)
    if -0.5 * basis.precision * farthest**2 + np.min(log_scale, initial=0) < SMALLEST_EXPONENT:
        np.maximum(out, SMALLEST_EXPONENT, out=out)
    return np.exp(out, out=out)


def rbf_convolution(x, y, bandwidth, measure_scale):
    """Convolution r(x, y) = integral of k(x, z) k(z, y) exp(-|z|^2 / (2 l^2)) dz, k = `rbf`.

    A Gaussian process with this covariance has its draws in the function space of k, which the
    prior of the mean embeddings needs. With s the bandwidth and p the dimension

        r(x, y) = (2 pi / (2/s^2 + 1/l^2))^(p/2)
                  exp(-|x - y|^2 / (4 s^2)) exp(-|x + y|^2 / (8 (s^2/2 + l^2)))

    Parameters
    ----------
    x : array, shape (n, p)
    y : array, shape (m, p), in the units of x
    bandwidth : float, > 0, s, in the units of x
    measure_scale : float, > 0, l, in the units of x
        Scale of the Gaussian measure around the origin: centre the points beforehand.

    Returns
    -------
    float64 array, shape (n, m)

    Source: Flaxman et al. (2016), "Bayesian learning of kernel embeddings", section 4.
    """
    check_bandwidth(bandwidth)
    check_bandwidth(measure_scale, "measure_scale")
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    p = x.shape[1]
    height = (2 * np.pi / (2 / bandwidth**2 + 1 / measure_scale**2)) ** (p / 2)
    near = rbf(x, y, np.sqrt(2) * bandwidth)
    central = rbf(x, -y, 2 * np.sqrt(bandwidth**2 / 2 + measure_scale**2))
    return height * near * central


def median_bandwidth(bags, *, sample=2000, seed=None):
    """Bandwidth by the median rule: sqrt(median of |x - x'|^2 / 2) over pairs of points.

    Parameters
    ----------
    bags : Bags, or list of arrays, shapes (n_points, p)
    sample : int, >= 2
        Number of points, drawn without replacement from all points of all bags, whose pairs
        enter the median; all points where there are fewer.
    seed : int or numpy Generator, optional

    Returns
    -------
    float, > 0, in the units of the points

    Raises
    ------
    ValueError : at least half of the sampled pairs coincide, so the rule gives no bandwidth.
    """
    from scipy.spatial.distance import pdist

    if not isinstance(sample, (int, np.integer)) or sample < 2:
        raise ValueError(f"sample must be an integer >= 2, found {sample!r}")
    points = as_bags(bags).sample_points(sample, np.random.default_rng(seed))
    if len(points) < 2:
        raise ValueError("there is only one point: give the bandwidth as a number")
    squared = np.median(pdist(points, "sqeuclidean"))
    if squared == 0:
        what = "all" if np.all(points == points[0]) else "most"
        raise ValueError(
            f"{what} sampled points coincide, so their median distance is 0: "
            "give the bandwidth as a number"
        )
    return float(np.sqrt(squared / 2))


def check_bandwidth(value, name="bandwidth"):
    """Raise unless `value` is a positive finite number."""
    if not (np.isscalar(value) and np.isreal(value) and 0 < value < np.inf):
        raise ValueError(f"{name} must be a positive number, found {value!r}")
