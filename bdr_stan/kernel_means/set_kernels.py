"""Set kernels: inner products of the kernel means of bags, and kernels of their distances.

    K(A, B) = sum_ab w_a w_b k(a, b),  weights of a bag with sum 1, equal if there are none

`BagMeans` are the kernel means. Weights may be those of any estimator of kernel means. Kernels of
the second level are of the distance between bags in the RKHS:

    K(A, B) = outer(|mu_A - mu_B|),  |mu_A - mu_B|^2 = <mu_A, mu_A> + <mu_B, mu_B> - 2 <mu_A, mu_B>

The kernel "linear" is the inner product itself; None represents it if bandwidths are numbers.

Source: Christmann and Steinwart (2010), "Universal kernels on non-standard input spaces"; Szabo,
Sriperumbudur, Poczos, Gretton (2016), "Learning theory for distribution regression".
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from bdr_stan.bags import Bags, Chunk
from bdr_stan.kernels import KERNELS, RBF, Kernel, Stationary
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array

_BYTES_PER_THREAD = 1 << 22  # of kernel values
# By name; papers on support measure machines use "gaussian" for "rbf".
OUTER_KERNELS: dict[str, type[Stationary]] = {
    **{name: kernel for name, kernel in KERNELS.items() if issubclass(kernel, Stationary)},
    "gaussian": RBF,
}


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


def values_at_squares(kernel: Stationary, squares: Array) -> Array:
    """Values of a kernel of the distance, of one bandwidth, at squared distances >= 0."""
    values = squares / (-2 * float(kernel.bandwidth) ** 2)
    kernel.profile(values)
    values *= kernel.variance
    return values


def squared_distances(products: Array, squares: Array, other_squares: Array) -> Array:
    """Squared RKHS distances, (n, m), from inner products and squared norms, (n,) and (m,)."""
    return np.maximum(squares[:, None] + other_squares - 2 * products, 0)


def between(outer: Stationary | None, products: Array, squares: Any, other_squares: Any) -> Array:
    """Kernel of kernel means, (n, m), from inner products and squared norms, (n,) and (m,).

    `outer` is None for the inner product itself, which needs no norms, or a kernel of the distance
    with one bandwidth.
    """
    if outer is None:
        return products
    return values_at_squares(outer, squared_distances(products, squares, other_squares))


def resolved_outer(outer: str | Stationary, products: Array) -> Stationary | None:
    """Kernel of kernel means with a number as bandwidth, None for "linear".

    `products`, (n, n), are for the training bags. The bandwidth "median", used for a kernel given
    by name, is sqrt(median squared distance / 2); a median of 0 raises ValueError.
    """
    if isinstance(outer, str) and outer == "linear":
        return None
    kernel = OUTER_KERNELS[outer]("median") if isinstance(outer, str) else outer
    if not isinstance(kernel.bandwidth, str):
        return kernel
    squares = products.diagonal()
    distances = squared_distances(products, squares, squares)[np.triu_indices(len(products), 1)]
    median = np.median(distances) if len(distances) else 0.0
    # Relative to the norms, smaller distances are rounding errors.
    if not median > 1e-14 * squares.max():
        raise ValueError(
            "most bags have the same kernel mean, so the median distance between them is 0: "
            "give outer as a kernel with a number as bandwidth"
        )
    return replace(kernel, bandwidth=float(np.sqrt(median / 2)))


def check_outer(outer: str | Kernel) -> None:
    """Raise ValueError unless this is "linear", or a kernel of the distance or the name of one."""
    if isinstance(outer, Kernel):
        if (
            isinstance(outer, Stationary)
            and not outer.columns
            and np.ndim(outer.lengths) == 0
            and outer.bandwidth != "ard"
        ):
            return
        raise ValueError(
            "outer must be a kernel of the distance between kernel means, with one bandwidth and "
            f"no columns, found {outer!r}"
        )
    if not isinstance(outer, str) or outer not in ("linear", *OUTER_KERNELS):
        names = ", ".join(map(repr, ("linear", *OUTER_KERNELS)))
        raise ValueError(f"outer must be a kernel or one of {names}, found {outer!r}")
