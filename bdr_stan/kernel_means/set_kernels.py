"""Set kernels: inner products of the kernel means of bags, for one kernel or a whole grid.

    K(A, B) = sum_ab w_a w_b k(a, b),  weights of a bag with sum 1, equal if there are none

`BagMeans` are the kernel means, `ProjectedMeans` their projections on the kernel at landmarks.
Weights may be those of any estimator of kernel means.
`set_kernels` is for a grid of kernels. Nearly all of the work is in the pairs of points, which the
kernels share: kernels of the distance with histograms of the squared distances
(`distance_histograms`), polynomials with the means of the powers of inner products.

Source: Szabo, Sriperumbudur, Poczos, Gretton (2016), "Learning theory for distribution
regression".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from bdr_stan.bags import Bags, BagsLike, Chunk, as_bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.distance_histograms import stationary_set_kernels
from bdr_stan.kernels import Kernel, LandmarkFeatures, Polynomial, Stationary
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


@dataclass(frozen=True)
class ProjectedMeans:
    """Kernel means projected on the span of the kernel at landmarks (Nystrom)."""

    coordinates: Array  # (n, r), in an orthonormal basis of the span

    @classmethod
    def at_landmarks(cls, bags: Bags, kernel: Kernel, landmarks: Array) -> Self:
        """Projections of the bags' kernel means, in one pass over the points.

        With mu_i the mean embedding of bag i at the landmarks and K = V diag(s) V' the kernel
        between the landmarks, the coordinates are mu_i' V diag(s)^-1/2, without directions with
        eigenvalues at rounding error.
        """
        eigenvalues, vectors = np.linalg.eigh(kernel(landmarks, landmarks))
        positive = eigenvalues > eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
        root = vectors[:, positive] / np.sqrt(eigenvalues[positive])
        return cls(embed(bags, LandmarkFeatures(kernel, landmarks)).mean @ root)

    def products(self, others: Self | None = None) -> Array:
        """Inner products with other projections, or with each other; shape (n, m) or (n, n)."""
        others = self if others is None else others
        return self.coordinates @ others.coordinates.T

    def squared_norms(self) -> Array:
        """Squared RKHS norms, shape (n,)."""
        return np.sum(self.coordinates**2, axis=1)


def kernel_mean_values(kernel: Kernel, points: Array, weights: Array, x: Array) -> Array:
    """sum_j weights_j k(x_i, points_j) at points x, (m, p), by blocks of x; shape (m,)."""
    rows = max(1, _BYTES_PER_THREAD // (8 * len(points)))
    values = np.empty(len(x))
    for start in range(0, len(x), rows):
        block = x[start : start + rows]
        values[start : start + rows] = kernel(block, points) @ weights
    return values


def set_kernels(
    bags: BagsLike,
    kernels: Sequence[Kernel],
    others: BagsLike | None = None,
    *,
    n_jobs: int | None = None,
) -> Array:
    """Set kernels between bags, for each kernel of a list.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    kernels : list of Kernel
        Their bandwidths numbers, or arrays of shape (p,). Kernels of the distance with one number
        as bandwidth and the same columns and units share their work, and so do polynomials.
    others : Bags, or list of m arrays, optional
        Default `bags` again, with half the work.
    n_jobs : int, optional
        Threads, default all cores.

    Returns
    -------
    array, shape (len(kernels), n, m), or (len(kernels), n, n) and symmetric

    Raises
    ------
    ValueError : a column that the points lack, a bandwidth that is not yet a number, `others` with
        another number of features, or values of a memory map that are not numbers.

    Notes
    -----
    Kernel values of all pairs of points are never in memory at once. Sharing changes the value of
    one pair of points by at most about 1e-11 k(a, a), of two bags of 100 points by 1e-13. Time
    grows with the pairs of points, 15 to 25 ns each for all kernels of the distance together.
    """
    bags = as_bags(bags)
    others = None if others is None else as_bags(others)
    sides = [bags] if others is None else [bags, others]
    sides[-1].check_like(
        bags.n_features, bags.features, bags.columns, whose="the others", known="the bags have"
    )
    kernels = list(kernels)
    if not kernels:
        raise ValueError("kernels is empty: give at least one kernel")
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernels must be a list of kernels, such as RBF(1.0), found {kernel!r}"
            )
    kernels = [kernel.on(bags.features, bags.n_features) for kernel in kernels]
    for kernel in kernels:
        kernel.prepare(bags.read(0, 1))  # raises if the bandwidth is not yet a number
    for side in sides:
        if side.is_memory_map:
            side.check_values()
    groups: dict[Any, list[int]] = {}
    for k, kernel in enumerate(kernels):
        groups.setdefault(_sharing(kernel) or k, []).append(k)
    out = np.empty((len(kernels), len(bags), len(sides[-1])))

    def alone(kernel):
        right = None if others is None else BagMeans(others, kernel)
        return BagMeans(bags, kernel).products(right, n_jobs=n_jobs)

    for share, members in groups.items():
        group: list[Any] = [kernels[k] for k in members]
        parts = [out[k] for k in members]
        if len(group) > 1 and share[0] is Stationary:
            stationary_set_kernels(group, bags, others, parts, n_jobs=n_jobs)
        elif len(group) > 1 and len(group) > max(kernel.degree for kernel in group):
            _polynomial_set_kernels(group, alone, parts)
        else:
            for kernel, part in zip(group, parts, strict=True):
                part[:] = alone(kernel)
    return out


def _sharing(kernel):
    """Key of the kernels that share work; None for a kernel that shares none."""
    if isinstance(kernel, Stationary) and np.ndim(kernel.bandwidth) == 0:
        units = None if kernel.units is None else tuple(kernel.units)
        return Stationary, kernel.columns, units
    if isinstance(kernel, Polynomial):
        return Polynomial, kernel.columns
    return None


def _polynomial_set_kernels(
    kernels: list[Polynomial], alone: Callable[[Kernel], Array], out: list[Array]
) -> None:
    """Write set kernels of polynomials: (g + c)^p = sum_q (p choose q) c^(p - q) g^q."""
    columns = kernels[0].columns
    largest = max(kernel.degree for kernel in kernels)
    powers: list[Any] = [1.0, *(alone(Polynomial(q, 0.0, columns)) for q in range(1, largest + 1))]
    for kernel, part in zip(kernels, out, strict=True):
        p, c = kernel.degree, kernel.constant
        terms = (comb(p, q) * c ** (p - q) * powers[q] for q in range(p + 1))
        part[:] = kernel.variance * sum(terms)


def _weighted_sums(weights: Array, chunk: Chunk) -> csr_array:
    """Sparse matrix that sums values at the points of a chunk, weighted, by bag."""
    n_points = chunk.stop - chunk.start
    return csr_array(
        (weights[chunk.start : chunk.stop], np.arange(n_points), chunk.cuts),
        shape=(chunk.last - chunk.first, n_points),
    )
