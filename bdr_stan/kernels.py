"""Kernels, the features that embeddings average, and the convolution kernel r of the prior.

Features come in pairs of functions, listed in `FEATURES`: one prepares the landmarks, one
evaluates points at them. A bandwidth is one length, or an array (p,) with one for each feature.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bdr_stan.bags import as_bags

# exp is up to 100 times slower where it underflows; below this, 1e-304, nothing is lost.
SMALLEST_EXPONENT = -700.0


def rbf(x, y, bandwidth):
    """Gaussian kernel k(x, y) = exp(-sum_k (x_k - y_k)^2 / (2 bandwidth_k^2)).

    Parameters
    ----------
    x : array, shape (n, p)
    y : array, shape (m, p), in the units of x
    bandwidth : float or array, shape (p,), > 0, in the units of x
        One length for all features, or one for each.

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
    """Landmarks prepared for `rbf_features`; s is 1 where there is one bandwidth b for all."""

    centre: np.ndarray  # (p,), mean of the landmarks
    scale: np.ndarray | None  # s, (p,), what points are divided by; None saves dividing by 1
    precision: float  # 1 / b^2; 1 where s is given
    matrix: np.ndarray  # (p + 2, d), rows [v / b^2, 1, -|v|^2 / 2b^2], v = (u - centre) / s
    radius: float  # largest |v|

    @property
    def n_columns(self):
        return self.matrix.shape[1]


def rbf_basis(landmarks, bandwidth):
    """Prepare landmarks, shape (d, p), for repeated calls of `rbf_features`."""
    landmarks = np.asarray(landmarks, np.float64)
    check_bandwidth(bandwidth, n_features=landmarks.shape[1])
    centre = landmarks.mean(axis=0)
    moved = landmarks - centre
    if np.ndim(bandwidth) == 0:
        scale, precision = None, float(bandwidth) ** -2.0
    else:
        scale, precision = np.asarray(bandwidth, np.float64), 1.0
        moved /= scale
    norms = np.einsum("ij,ij->i", moved, moved)
    matrix = np.vstack([precision * moved.T, np.ones(len(moved)), -0.5 * precision * norms])
    return RBFBasis(centre, scale, precision, matrix, np.sqrt(norms.max()))


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
    if basis.scale is not None:
        moved /= basis.scale
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


class FourierBasis(NamedTuple):
    """Frequencies prepared for `fourier_features`."""

    matrix: np.ndarray  # (p, d), W' / bandwidth

    @property
    def n_columns(self):
        return 2 * self.matrix.shape[1]


def fourier_basis(frequencies, bandwidth):
    """Prepare frequencies W, shape (d, p), from `draw_frequencies`, for `fourier_features`."""
    frequencies = np.asarray(frequencies, np.float64)
    check_bandwidth(bandwidth, n_features=frequencies.shape[1])
    return FourierBasis((frequencies / bandwidth).T)


def fourier_features(points, basis, out, scratch=None, log_scale=0.0):
    """Random Fourier features of points, shape (n, p), written to `out` (n, 2d).

    sqrt(1/d) [cos(x'W/bandwidth), sin(x'W/bandwidth)], whose inner products are on average the
    Gaussian kernel. Arguments as for `rbf_features`.

    Source: Rahimi and Recht (2007), "Random features for large-scale kernel machines".
    """
    n, p = points.shape
    d = basis.matrix.shape[1]
    rows = np.empty((n, p)) if scratch is None else scratch[:n, :p]
    np.copyto(rows, points)
    angles, sines = out[:, :d], out[:, d:]
    np.matmul(rows, basis.matrix, out=angles)
    np.sin(angles, out=sines)
    np.cos(angles, out=angles)
    out *= np.sqrt(1 / d) * np.exp(np.broadcast_to(log_scale, n))[:, None]
    return out


def draw_frequencies(n_frequencies, n_features, *, seed=None):
    """Frequencies of random Fourier features of the Gaussian kernel with bandwidth 1.

    Parameters
    ----------
    n_frequencies : int, >= 1
        d; there are twice as many features.
    n_features : int, >= 1
        p, the number of features of a point.
    seed : int or numpy Generator, optional

    Returns
    -------
    array, shape (d, p), independent standard normal, the kernel's spectral distribution
    """
    return np.random.default_rng(seed).standard_normal((n_frequencies, n_features))


class Features(NamedTuple):
    """How points become features: ``evaluate(points, prepare(landmarks, bandwidth), out)``."""

    prepare: Callable
    evaluate: Callable


FEATURES = {
    "rbf": Features(rbf_basis, rbf_features),
    "fourier": Features(fourier_basis, fourier_features),
}


def features_of(kernel):
    """Entry of `FEATURES`.

    Raises
    ------
    ValueError : there is none of this name.
    """
    if kernel not in FEATURES:
        names = ", ".join(map(repr, FEATURES))
        raise ValueError(f"kernel must be one of {names}, found {kernel!r}")
    return FEATURES[kernel]


def rbf_convolution(x, y, bandwidth, measure_scale):
    """Convolution r(x, y) = integral of k(x, z) k(z, y) exp(-|z|^2 / (2 l^2)) dz, k = `rbf`.

    A Gaussian process with this covariance has its draws in the function space of k, which the
    prior of the mean embeddings needs. It is a product over the features; with s and l the
    lengths of a feature, its factor is

        r(x, y) = sqrt(2 pi / (2/s^2 + 1/l^2))
                  exp(-(x - y)^2 / (4 s^2)) exp(-(x + y)^2 / (8 (s^2/2 + l^2)))

    Parameters
    ----------
    x : array, shape (n, p)
    y : array, shape (m, p), in the units of x
    bandwidth : float or array, shape (p,), > 0, s, in the units of x
    measure_scale : float or array, shape (p,), > 0, l, in the units of x
        Scale of the Gaussian measure around the origin: centre the points beforehand.

    Returns
    -------
    float64 array, shape (n, m)

    Source: Flaxman et al. (2016), "Bayesian learning of kernel embeddings", section 4.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    p = x.shape[1]
    check_bandwidth(bandwidth, n_features=p)
    check_bandwidth(measure_scale, "measure_scale", n_features=p)
    s, l = np.asarray(bandwidth), np.asarray(measure_scale)
    height = np.sqrt(np.prod(np.broadcast_to(2 * np.pi / (2 / s**2 + 1 / l**2), p)))
    near = rbf(x, y, np.sqrt(2) * s)
    central = rbf(x, -y, 2 * np.sqrt(s**2 / 2 + l**2))
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


def check_bandwidth(value, name="bandwidth", *, n_features=None):
    """Raise unless `value` is a positive finite number, or an array of such, one a feature.

    The length of an array is held against `n_features` where that is given.
    """
    try:
        lengths = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        lengths = np.array(np.nan)
    if lengths.ndim > 1 or lengths.size == 0:
        raise ValueError(
            f"{name} has shape {lengths.shape}: give a positive number, or one for each feature"
        )
    for k in np.flatnonzero(~((lengths > 0) & (lengths < np.inf))):
        if lengths.ndim == 0:
            raise ValueError(f"{name} must be a positive number, found {value!r}")
        raise ValueError(f"{name} of feature {k} must be a positive number, found {lengths[k]}")
    if lengths.ndim == 1 and n_features is not None and len(lengths) != n_features:
        raise ValueError(
            f"{name} has {len(lengths)} entries, but the points have {n_features} features: "
            "give one number, or one for each feature"
        )
