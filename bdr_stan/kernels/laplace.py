"""The Laplace kernel, of the sum of absolute differences."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from bdr_stan.kernels.bandwidth import check_bandwidth
from bdr_stan.kernels.bandwidth_kernel import BandwidthKernel
from bdr_stan.types import Array, ArrayLike


class DividedLandmarks(NamedTuple):
    """Landmarks divided by the bandwidth of each column."""

    landmarks: Array  # (d, p)
    lengths: ArrayLike  # (p,) or a number


@dataclass(frozen=True, eq=False, repr=False)
class Laplace(BandwidthKernel):
    """exp(-sum_k |x_k - y_k| / bandwidth_k); parameters as for `Stationary`.

    A product of exponential kernels of the columns: rough functions of each column, less sensitive
    to outlying points than kernels of squared distances. "median" and "scaled" here mean exp(-1) at
    the median sum of absolute differences.

    Examples
    --------
    >>> from bdr_stan import Laplace
    >>> Laplace(bandwidth=2.0)([[0.0, 0.0]], [[0.0, 2.0], [2.0, 2.0]]).round(3)
    array([[0.368, 0.135]])
    """

    metric = "cityblock"

    def prepare(self, landmarks: ArrayLike) -> DividedLandmarks:
        landmarks = self.select(np.asarray(landmarks, np.float64))
        lengths = self.lengths_for_values()
        check_bandwidth(lengths, n_features=landmarks.shape[1])
        return DividedLandmarks(landmarks / lengths, lengths)

    def fill(self, points: Array, prepared: Any, out: Array, scratch: Array | None) -> None:
        divided = self.select(points) / prepared.lengths
        np.negative(cdist(divided, prepared.landmarks, self.metric), out=out)
        np.exp(out, out=out)
