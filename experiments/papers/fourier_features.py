"""Random Fourier features, as a feature map in place of a kernel at landmarks."""

import numpy as np

from bdr_stan.kernels import FeatureMap, check_bandwidth
from bdr_stan.kernels.feature_maps import checked_rows, scale_rows
from bdr_stan.types import Array, ArrayLike, Seed, check_counts


class FourierFeatures(FeatureMap):
    """Random Fourier features, a cosine and a sine for each frequency.

    sqrt(1/d) [cos(x'W/bandwidth), sin(x'W/bandwidth)], with inner products that are on average the
    Gaussian kernel. The `frequencies` W', (d, p), one a row, are from `draw_frequencies`, without
    unit; there are twice as many features. The bandwidth is a number or of shape (p,).

    Source: Rahimi and Recht (2007), "Random features for large-scale kernel machines".
    """

    def __init__(self, frequencies: ArrayLike, bandwidth: ArrayLike):
        self.frequencies, self.bandwidth = checked_rows(frequencies, "frequencies"), bandwidth
        d, self.n_inputs = self.frequencies.shape
        self.n_columns = 2 * d
        check_bandwidth(bandwidth, n_features=self.n_inputs)
        self._matrix = (self.frequencies / bandwidth).T

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        d = self._matrix.shape[1]
        angles, sines = out[:, :d], out[:, d:]
        np.matmul(np.asarray(points, np.float64), self._matrix, out=angles)
        np.sin(angles, out=sines)
        np.cos(angles, out=angles)
        out *= np.sqrt(1 / d)
        scale_rows(out, log_scale)


def draw_frequencies(n_frequencies: int, n_features: int, *, seed: Seed = None) -> Array:
    """Frequencies, (d, p), of random Fourier features of the Gaussian kernel with bandwidth 1."""
    check_counts(n_frequencies=n_frequencies, n_features=n_features)
    return np.random.default_rng(seed).standard_normal((n_frequencies, n_features))
