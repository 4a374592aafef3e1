"""Set kernels: inner products of the kernel means of bags.

    K(A, B) = sum_ab w_a w_b k(a, b),  weights of a bag with sum 1, equal if there are none

`BagMeans` are the kernel means. Weights may be those of any estimator of kernel means.

Source: Szabo, Sriperumbudur, Poczos, Gretton (2016), "Learning theory for distribution
regression".
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from bdr_stan.bags import Bags, Chunk
from bdr_stan.kernels import Kernel
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array

_BYTES_PER_THREAD = 1 << 22  # of kernel values


@dataclass(frozen=True)
class BagMeans:
    """Kernel means of bags: sum_j w_ij k(x_ij, .) over the points of bag i."""

    bags: Bags
    kernel: Kernel  # with numbers as parameters
    weights: Array | None = None  # w of all points, shape (N,); None for shares of their weights

    def products(self, others: Self | None = None, *, n_jobs: int | None = None) -> Array:
        """Inner products with m others, (n, m), or with each other in half the time, (n, n).

        Each of `n_jobs` threads, default all cores, holds kernel values of a block of points.
        """
        right, itself = self if others is None else others, others is None
        weights, right_weights = self._point_weights, right._point_weights
        rows = max(1, int(np.sqrt(_BYTES_PER_THREAD / 8)))
        chunks, right_chunks = self.bags.chunks(rows), right.bags.chunks(rows)

        def products(i):
            points = self.bags.read(chunks[i].start, chunks[i].stop)
            sums = _weighted_sums(weights, chunks[i])
            part = np.zeros((sums.shape[0], len(right.bags)))
            for j in range(i if itself else 0, len(right_chunks)):
                other = right_chunks[j]
                values = self.kernel(points, right.bags.read(other.start, other.stop))
                values = sums @ values @ _weighted_sums(right_weights, other).T
                # The other half of a symmetric matrix is added as the transpose of this one.
                part[:, other.first : other.last] += values / 2 if itself and i == j else values
            return part

        out = np.zeros((len(self.bags), len(right.bags)))
        parts = map_in_threads(products, range(len(chunks)), n_jobs)
        for chunk, part in zip(chunks, parts, strict=True):
            out[chunk.first : chunk.last] += part
        self.bags.release()
        right.bags.release()
        return out + out.T if itself else out

    def squared_norms(self) -> Array:
        """Squared RKHS norms, shape (n,)."""
        bags, weights = self.bags, self._point_weights

        def squared(i):
            points, w = bags[i], weights[bags.offsets[i] : bags.offsets[i + 1]]
            return w @ kernel_mean_values(self.kernel, points, w, points)

        squares = np.array(list(map_in_threads(squared, range(len(bags)))))
        bags.release()
        return squares

    @property
    def _point_weights(self):
        return self.bags.point_shares if self.weights is None else self.weights


def kernel_mean_values(kernel: Kernel, points: Array, weights: Array, x: Array) -> Array:
    """sum_j weights_j k(x_i, points_j) at points x, (m, p), by blocks of x; shape (m,)."""
    rows = max(1, _BYTES_PER_THREAD // (8 * len(points)))
    values = np.empty(len(x))
    for start in range(0, len(x), rows):
        block = x[start : start + rows]
        values[start : start + rows] = kernel(block, points) @ weights
    return values


def _weighted_sums(weights: Array, chunk: Chunk) -> csr_array:
    """Sparse matrix that sums values at the points of a chunk, weighted, by bag."""
    n_points = chunk.stop - chunk.start
    return csr_array(
        (weights[chunk.start : chunk.stop], np.arange(n_points), chunk.cuts),
        shape=(chunk.last - chunk.first, n_points),
    )
