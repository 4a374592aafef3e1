"""What bags say about rates at their points, compressed bag by bag in one pass over the points.

The function at a point is f(x) = f0 + psi(x)' w, with Nystrom features psi of a kernel. Where the
rate is f^2, a bag's total rate needs of its points only a triangular factor; where it is linear in
f, only a weighted sum. Other rates need the points' features.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from bdr_stan.aggregate.densities import rate
from bdr_stan.embedding.mean_embedding import point_chunks
from bdr_stan.kernels import Kernel

# Of the mean diagonal of the landmarks' kernel matrix, added to its diagonal.
JITTER = 1e-6
# Singular values of a bag's rows below this share of its largest are left out: their squares, which
# enter rates, are below rounding.
RANK_TOLERANCE = 1e-7
_CHUNK_BYTES = 1 << 22
_THETAS_AT_ONCE = 250


class Nystrom(NamedTuple):
    """Features psi(x) = L^-1 k(u, x) of points, K_uu = L L', so that psi(x)'psi(y) is nearly k.

    Made by `nystrom`. Calling it gives the rows [psi(x)', 1] of points, shape (n, d + 1).
    """

    kernel: Kernel
    landmarks: np.ndarray
    basis: tuple  # landmarks, prepared for the kernel
    projection: np.ndarray  # inverse of L', (d, d)

    def __call__(self, points):
        n, d = len(points), len(self.landmarks)
        values = self.kernel.evaluate(points, self.basis, np.empty((n, d)))
        rows = np.empty((n, d + 1))
        np.matmul(values, self.projection, out=rows[:, :d])
        rows[:, d] = 1
        return rows


def nystrom(kernel, landmarks):
    """Nystrom features of a kernel with numbers as parameters, at landmarks, shape (d, p).

    Raises
    ------
    ValueError : the landmarks' kernel matrix is not positive definite.
    """
    gram = kernel(landmarks, landmarks)
    gram = (gram + gram.T) / 2
    gram += JITTER * gram.diagonal().mean() * np.eye(len(gram))
    try:
        L = cholesky(gram, lower=True)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the kernel matrix of the {len(landmarks)} landmarks is not positive definite: use "
            "fewer landmarks or a smaller bandwidth"
        ) from None
    projection = solve_triangular(L, np.eye(len(L)), lower=True).T
    return Nystrom(kernel, landmarks, kernel.prepare(landmarks), np.ascontiguousarray(projection))


@dataclass(frozen=True)
class AggregateRows:
    """Rows of all bags, stacked bag by bag, with one column for each weight and one for f0.

    Attributes
    ----------
    rows : array, shape (T, d + 1)
        Bag a has ``rows[start[a] : start[a] + length[a]]``: a factor Q_a of sum_j p_j phi_j phi_j'
        (`square_factors`), or the points' own rows phi_j = [psi_j, 1] (`point_rows`).
    start, length : int arrays, shape (n,)
    weights : array, shape (T,), or None
        p_j of the points' own rows.
    total : array, shape (n,)
        sum_j p_j of each bag.
    noise_factor : array, shape (n,)
        sqrt(sum_j p_j^2) of each bag: the noise of its total in units of that of one point.
    """

    rows: np.ndarray
    start: np.ndarray
    length: np.ndarray
    weights: np.ndarray | None
    total: np.ndarray
    noise_factor: np.ndarray

    @property
    def packs(self):
        """Whether factors are larger than the packed triangles of their Gram matrices."""
        n, k = len(self.start), self.rows.shape[1]
        return self.weights is None and len(self.rows) > n * (k + 1) / 2

    def gram(self):
        """Q_a' Q_a of every bag, shape (n, d + 1, d + 1)."""
        ends = self.start + self.length
        blocks = (self.rows[a:b] for a, b in zip(self.start, ends, strict=True))
        return np.array([Q.T @ Q for Q in blocks])

    def packed(self):
        """Lower triangles of `gram`, shape (n, (d + 1)(d + 2) / 2), off-diagonal entries doubled.

        Their inner products with theta_i theta_j, j <= i, are the quadratic forms |Q_a theta|^2.
        """
        i, j = np.tril_indices(self.rows.shape[1])
        return self.gram()[:, i, j] * np.where(i == j, 1.0, 2.0)

    def means(self, theta, link, shift=None):
        """sum_j p_j rate(phi_j' theta) of each bag for each theta: (S, d + 1) to (S, n).

        `shift`, shape (S, n), is added to f at the points of each bag.
        """
        out = np.empty((len(theta), len(self.start)))
        for a, (start, length) in enumerate(zip(self.start, self.length, strict=True)):
            block = slice(start, start + length)
            weights = np.ones(length) if self.weights is None else self.weights[block]
            at = theta
            if shift is not None:
                at = np.column_stack([theta[:, :-1], theta[:, -1] + shift[:, a]])
            out[:, a] = _weighted_rates(self.rows[block], weights, at, link)
        return out


def square_factors(bags, features, *, n_jobs=None, tolerance=RANK_TOLERANCE):
    """Factors Q_a of the bags, for rates that are squares: one pass over the points.

    sum_j p_j (phi_j' theta)^2 = |Q_a theta|^2 for every theta = [w; f0], with phi_j = [psi_j, 1]
    the row of point j and p_j its weight.

    Parameters
    ----------
    bags : Bags
    features : callable
        Rows [psi, 1] of points, such as `nystrom`.
    n_jobs : int, optional
        Threads; default all cores.
    tolerance : float
        Singular values of Q_a below this share of the largest are left out.

    Returns
    -------
    AggregateRows
        Q_a has at most d + 1 rows; fewer where the features vary little within the bag.

    Notes
    -----
    QR, not the product itself, which would square the condition number.
    """

    def factor(rows, weights):
        return _triangular_factor(rows * np.sqrt(weights)[:, None], tolerance)

    parts = of_each_bag(bags, features, factor, n_jobs)
    blocks = [
        part[0] if len(part) == 1 else _triangular_factor(np.vstack(part), tolerance)
        for part in parts
    ]
    length = np.array([len(block) for block in blocks])
    return aggregate_rows(bags, np.vstack(blocks), np.cumsum(length) - length, length)


def _triangular_factor(rows, tolerance):
    """Fewer rows with nearly the same Gram matrix, ordered by their lengths."""
    R = np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows
    s, V = np.linalg.svd(R, full_matrices=False)[1:]
    kept = s > tolerance * s[0]
    return s[kept, None] * V[kept]


def weighted_sums(bags, features, *, n_jobs=None):
    """One row sum_j p_j phi_j of each bag, for rates that are f itself; one pass over the points."""
    parts = of_each_bag(bags, features, lambda rows, weights: weights @ rows, n_jobs)
    rows = np.array([np.sum(part, axis=0) for part in parts])
    n = len(bags)
    return aggregate_rows(bags, rows, np.arange(n), np.ones(n, int))


def point_rows(bags, features, *, n_jobs=None):
    """The rows [psi_j, 1] of all points of positive weight; memory grows with their number."""
    counted = weights_of(bags) > 0
    parts = of_each_bag(bags, features, lambda rows, weights: rows[weights > 0], n_jobs)
    rows = np.vstack([rows for part in parts for rows in part])
    length = np.add.reduceat(counted, bags.offsets[:-1], dtype=int)
    start = np.cumsum(length) - length
    return aggregate_rows(bags, rows, start, length, weights_of(bags)[counted])


def bag_means(bags, features, theta, link, *, n_jobs=None):
    """sum_j p_j rate(phi_j' theta) of bags whose rows are not kept: one pass over the points.

    Parameters
    ----------
    bags : Bags
    features : callable
    theta : array, shape (S, d + 1)
    link : {"square", "exp", "logit", "identity"}
    n_jobs : int, optional

    Returns
    -------
    array, shape (S, n)
    """

    def mean(rows, weights):
        return _weighted_rates(rows, weights, theta, link)

    parts = of_each_bag(bags, features, mean, n_jobs)
    return np.array([np.sum(part, axis=0) for part in parts]).T


def _weighted_rates(rows, weights, theta, link):
    blocks = (theta[s : s + _THETAS_AT_ONCE] for s in range(0, len(theta), _THETAS_AT_ONCE))
    return np.concatenate([weights @ rate(rows @ block.T, link) for block in blocks])


def aggregate_rows(bags, rows, start, length, weights=None):
    """AggregateRows with the totals of these bags."""
    squares = np.add.reduceat(weights_of(bags) ** 2, bags.offsets[:-1])
    return AggregateRows(rows, start, length, weights, totals(bags), np.sqrt(squares))


def weights_of(bags):
    """Weight p_j of every point, shape (N_points,)."""
    return np.ones(len(bags.points)) if bags.weights is None else bags.weights


def totals(bags):
    """Total weight of each bag, shape (n,)."""
    return np.add.reduceat(weights_of(bags), bags.offsets[:-1])


def of_each_bag(bags, features, reduce, n_jobs):
    """For each bag the list of reduce(rows, weights), one for each chunk that has points of it."""
    width = features(bags.read(0, 1)).shape[1] + bags.n_features
    chunks = point_chunks(bags.offsets, max(16, _CHUNK_BYTES // (8 * width)))

    def run(chunk):
        start, stop, first, last = chunk
        points = bags.read_checked(start, stop)
        rows = features(points)
        bags.release()
        cuts = np.clip(bags.offsets[first : last + 1], start, stop)
        weights = np.ones(stop - start) if bags.weights is None else bags.weights[start:stop]
        return [
            reduce(rows[a:b], weights[a:b])
            for a, b in zip(cuts[:-1] - start, cuts[1:] - start, strict=True)
        ]

    found = [[] for _ in range(len(bags))]
    n_threads = min(effective_n_jobs(-1 if n_jobs is None else n_jobs), len(chunks))
    # One BLAS thread in each of ours: small products gain nothing from more.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as threads:
        for (_, _, first, last), parts in zip(chunks, threads.map(run, chunks), strict=True):
            for i, part in zip(range(first, last), parts, strict=True):
                found[i].append(part)
    return found
