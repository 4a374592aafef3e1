"""One streaming pass over the points: mean embeddings and within-bag covariance.

The pass holds one chunk of features per thread, never those of all points.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, cast

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array, ArrayLike, is_number

CHUNKS_PER_TASK = 8
TINY_ROOT = 1e-100  # stands for 0, which has no logarithm; its square adds nothing


@dataclass(frozen=True)
class Embedding:
    """What the data say about the bags' mean embeddings.

    sizes : float array, shape (n,)
        Effective number of points of each bag (see `Bags.effective_sizes`).
    mean : array, shape (n, d)
        Mean embedding of each bag: its average features, d kernel values at the landmarks.
    covariance : array, shape (d, d), or None
        Covariance of the features of one point within its bag.
    covariates : array, shape (n, Q), or None
        Covariates of each bag, from `Covariates.of`.
    """

    sizes: Array
    mean: Array
    covariance: Array | None
    covariates: Array | None = field(default=None, kw_only=True)

    @property
    def x(self) -> Array:
        """Covariates of the bags, shape (n, Q), with Q = 0 where there are none."""
        return np.empty((len(self.mean), 0)) if self.covariates is None else self.covariates

    def take(self, bags: ArrayLike) -> Self:
        """Embedding of the bags with these indices; the covariance stays that of all."""
        held = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "covariance"}
        return replace(self, **{name: v[bags] for name, v in held.items() if v is not None})


def embed(
    bags: BagsLike,
    features: FeatureMap,
    *,
    covariance: str | None = None,
    tau: float = 1.0,
    n_jobs: int | None = None,
    chunk_bytes: int = 1 << 22,
    progress: Callable[[int, int], None] | None = None,
) -> Embedding:
    """Mean embeddings of bags, and the covariance of their features within bags.

    With phi(x) the features of a point, such as [k(x, u_1) .. k(x, u_d)] at landmarks u,

        mean[i] = sum_j w_ij phi(x_ij) / sum_j w_ij,            w = 1 without weights
        S_i = sum_j w_ij (phi(x_ij) - mean[i]) (phi(x_ij) - mean[i])' / (V1 - V2 / V1)

    where V1 = sum_j w_ij, V2 = sum_j w_ij^2: without weights the sample covariance (ddof 1),
    with them its unbiased generalisation for weights that state reliability, not counts.

    Parameters
    ----------
    bags : Bags, or list of arrays, shapes (n_points, p)
    features : feature map
        phi: a kernel at landmarks (``LandmarkFeatures(RBF(2.0), landmarks)``), random Fourier
        features, Nystrom features, or several maps side by side; see
        `bdr_stan.kernels.feature_maps`.
    covariance : None (default), "average", "pooled" or "identity"
        "average": mean of S_i over the bags of more than one point, each weighing the same.
        "pooled": mean of S_i with weights N_i - 1, N_i the effective size.
        "identity": tau^2 I.
    tau : float, > 0, standard deviation for "identity"
    n_jobs : int, optional
        Number of threads, default all cores. The result does not depend on it.
    chunk_bytes : int, optional
        Size of the kernel values that a thread works on, default 4 MB: small enough for caches,
        large enough that threads seldom wait for the interpreter's lock.
    progress : callable, optional
        Called as progress(points done, points in all) from time to time.

    Returns
    -------
    Embedding

    Raises
    ------
    ValueError : the map takes points of another number of columns; no bag has more than one
        point, and the covariance is to be estimated; a memory map holds NaN, infinite or nodata
        values.

    Notes
    -----
    Computed in float64 whatever the points' type. Deviations are taken from the mean of the
    same bag before they are squared, so a covariance small beside the means keeps its digits.

    Source: Law et al. (2018), "Bayesian approaches to distribution regression".
    """
    bags = as_bags(bags)
    if features.n_inputs != bags.n_features:
        raise ValueError(
            f"the feature map takes points of {features.n_inputs} columns, but those of the bags "
            f"have {bags.n_features}: give it landmarks or frequencies with the same columns"
        )
    sizes = bags.effective_sizes
    factors = scatter_factors(bags, sizes, covariance, tau)
    n_jobs = effective_n_jobs(-1 if n_jobs is None else n_jobs)
    d = features.n_columns
    mean = np.empty((len(bags), d))
    scatter = None if factors is None else np.zeros((d, d))
    chunk_rows = max(16, chunk_bytes // (8 * max(d, bags.n_features + 2)))
    chunks = bags.chunks(chunk_rows)
    tasks = [chunks[k : k + CHUNKS_PER_TASK] for k in range(0, len(chunks), CHUNKS_PER_TASK)]
    # Reused: fresh memory costs more than the arithmetic on it.
    workspaces: SimpleQueue[_Workspace] = SimpleQueue()
    n_threads = min(n_jobs, len(tasks))
    for _ in range(n_threads):
        workspaces.put(_Workspace.allocate(min(chunk_rows, len(bags.points)), d, bags.n_features))

    def run(task):
        workspace = workspaces.get()
        try:
            return _embed_chunks(bags, features, task, mean, factors, workspace)
        finally:
            workspaces.put(workspace)

    seen: dict[int, float] = {}
    # One BLAS thread in each of ours: small products gain nothing from more.
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(n_threads) as threads,
        closing(cast(Any, threads.map(run, tasks))) as results,  # closed early, it cancels the rest
    ):
        for task, (part, pieces) in zip(tasks, results, strict=True):
            if scatter is not None:
                scatter += part
            for piece in pieces:
                _merge_piece(piece, mean, seen, scatter, factors)
            if progress is not None:
                progress(task[-1].stop, len(bags.points))
    if covariance == "identity":
        scatter = tau**2 * np.eye(d)
    return Embedding(sizes, mean, scatter)


def scatter_factors(bags: Bags, sizes: Array, covariance: str | None, tau: float) -> Array | None:
    """Factor of each bag's weighted scatter in the covariance; None where it is not estimated."""
    if covariance is None:
        return None
    if covariance == "identity":
        if not is_number(tau) or not 0 < tau < np.inf:
            raise ValueError(f"tau must be a positive number, found {tau!r}")
        return None
    if covariance not in ("average", "pooled"):
        raise ValueError(
            f"covariance must be None, 'average', 'pooled' or 'identity', found {covariance!r}"
        )
    several = sizes > 1 + 1e-9  # all but one weight may be zero
    if not several.any():
        raise ValueError(
            f"all bags have one point, so covariance={covariance!r} has nothing to estimate "
            "from: use covariance='identity' and give tau"
        )
    total = bags.totals
    factors = np.zeros(len(sizes))
    # S_i = scatter_i / (total (1 - 1 / size)): V2 = V1^2 / size
    if covariance == "average":
        degrees = sizes - 1
        factors[several] = (sizes / total)[several] / degrees[several] / several.sum()
    else:
        factors[several] = (sizes / total)[several] / (sizes - 1)[several].sum()
    return factors


class _Workspace(NamedTuple):
    """Arrays that one thread fills anew for each chunk."""

    points: Array
    values: Array
    deviations: Array
    product: Array
    ones: Array
    counts: Array

    @classmethod
    def allocate(cls, rows, d, p):
        arrays = [np.empty(shape) for shape in [(rows, p + 2), (rows, d), (rows, d), (d, d)]]
        return cls(*arrays, np.ones(rows), np.arange(rows, dtype=np.int32))


def _embed_chunks(bags, features, chunks, mean, factors, workspace):
    """Fill `mean` for the whole bags of `chunks`; return the scatter and the pieces of bags."""
    d = mean.shape[1]
    scatter = np.zeros((d, d))
    pieces = []
    for chunk in chunks:
        start, stop, first, last = chunk.start, chunk.stop, chunk.first, chunk.last
        n = stop - start
        points = bags.read_checked(start, stop)
        cuts = chunk.cuts
        sizes = np.diff(cuts)
        which = np.repeat(workspace.counts[: last - first], sizes)
        if bags.weights is None:
            weights, totals = workspace.ones[:n], sizes
        else:
            weights = bags.weights[start:stop]
            totals = np.add.reduceat(weights, cuts[:-1])
        # Features come out times the root of their bag's factor, which costs no extra pass.
        roots = np.ones(last - first) if factors is None else np.sqrt(factors[first:last])
        roots[roots == 0] = TINY_ROOT
        phi = features(points, workspace.values[:n], workspace.points, np.log(roots)[which])
        bags.release()
        sums = csr_array(
            (weights, workspace.counts[:n], cuts.astype(np.int32)), shape=(last - first, n)
        )
        part = sums @ phi
        part /= np.where(totals > 0, totals, 1)[:, None]
        if factors is not None:
            rest = np.take(part, which, axis=0, out=workspace.deviations[:n], mode="clip")
            np.subtract(phi, rest, out=rest)
            if bags.weights is not None:
                rest *= np.sqrt(weights)[:, None]
            scatter += np.matmul(rest.T, rest, out=workspace.product)
        part /= roots[:, None]
        if n == bags.offsets[last] - bags.offsets[first]:
            mean[first:last] = part
        elif totals[0] > 0:
            pieces.append((first, totals[0], part[0]))
    return scatter, pieces


def _merge_piece(piece, mean, seen, scatter, factors):
    """Join a piece of a large bag to the pieces before it (Chan, Golub & LeVeque 1983)."""
    i, weight, piece_mean = piece
    before = seen.get(i, 0.0)
    seen[i] = before + weight
    if before == 0:
        mean[i] = piece_mean
        return
    delta = piece_mean - mean[i]
    mean[i] += delta * (weight / seen[i])
    if scatter is not None:
        scatter += factors[i] * before * weight / seen[i] * np.outer(delta, delta)
