"""Mean embeddings and within-bag covariance in one pass over the points.

Each thread keeps the features of one chunk of points in memory. Points in partitions are not moved:
each part returns its `BagSums`, which are then merged.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy.sparse import csr_array

from bdr_stan.bags import Bags, BagsLike, PartitionedBags, as_bags
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.clusters import cluster_variances
from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.embedding.replicates import effective_sizes
from bdr_stan.embedding.size_nodes import at_size_nodes
from bdr_stan.kernels import FeatureMap
from bdr_stan.threads import map_in_threads, n_threads_for
from bdr_stan.types import Array, ArrayLike

_CHUNK_BYTES = 1 << 22  # of features: small enough for caches
_CHUNKS_PER_TASK = 8  # few sums to join, yet tasks enough for all threads
TINY_ROOT = 1e-100  # instead of 0, which has no logarithm; its square is negligible


class Deviations(NamedTuple):
    """Deviations of bags' mean embeddings from their average, or fewer rows with the same sums.

    For functions q that are quadratic and f that are smooth, the sum of f(N_i) q(deviation_i) over
    the bags is the sum of sign_t f(size_t) q(row_t) over the rows.
    """

    rows: Array  # shape (T, d)
    size: Array  # shape (T,)
    sign: Array  # 1 or -1, shape (T,)
    n_bags: int

    def average(self, values: Array) -> float:
        """Average over the bags of a quadratic function with these values of the rows, (T,)."""
        return float(np.sum(self.sign * values) / self.n_bags)

    def in_coordinates(self, basis: Array) -> "Deviations":
        """The same in coordinates, columns of the basis, shape (d, d)."""
        return self._replace(rows=self.rows @ basis)

    def scatter(self, weight: Array) -> Array:
        """Sum of weight times deviation deviation' over the bags; its values of the rows, (T,)."""
        return (self.rows.T * (self.sign * weight)) @ self.rows


def moments_of_inverse(sizes: Array, weights: Array) -> tuple[float, float]:
    """Mean and variance of 1 / N over the bags, from `weighted_sizes`."""
    inverse = 1.0 / sizes
    mean = np.average(inverse, weights=weights)
    return float(mean), max(float(np.average((inverse - mean) ** 2, weights=weights)), 0.0)


class Movement(NamedTuple):
    """How far the mean embeddings of bags move if their points change."""

    mean: Array  # estimated movement, shape (n, d)
    sd: Array  # of its error, in units of the linear predictor, shape (n,)


@dataclass(frozen=True)
class Embedding:
    """Estimated mean embeddings of bags."""

    # Effective number of points per bag, float, shape (n,), with M samples (n, M), 0 if lacking.
    sizes: Array
    mean: Array  # average features, for example kernel values at landmarks, shape (n, d)
    covariance: Array | None  # of the features of one point within its bag, shape (d, d)
    covariates: Array | None = field(default=None, kw_only=True)  # with terms, shape (n, Q + U)
    new_levels: Array | None = field(default=None, kw_only=True)  # see `Terms.new_levels`
    movement: Any = field(default=None, kw_only=True)  # Movement, for contrasts
    prior_mean: Array | None = field(default=None, kw_only=True)  # m0 if not the average, (d,)
    cluster_variances: Array | None = field(default=None, kw_only=True)  # of the bags, (2,)

    @property
    def x(self) -> Array:
        """Columns of covariates and terms, shape (n, Q + U); no columns if there are none."""
        return np.empty((len(self.mean), 0)) if self.covariates is None else self.covariates

    def sizes_of(self, m: int) -> Array:
        """Effective numbers of points of the sample of this number, shape (n,)."""
        return self.sizes.reshape(len(self.sizes), -1)[:, m]

    @property
    def m0(self) -> Array:
        """Mean embedding of the prior, by default their average, shape (d,)."""
        return self.mean.mean(axis=0) if self.prior_mean is None else self.prior_mean

    @property
    def weighted_sizes(self) -> tuple[Array, Array]:
        """Sizes, and weights with which smooth functions of them sum to sums over the bags."""
        return self.sizes, np.ones(len(self.sizes))

    @property
    def deviations(self) -> Deviations:
        """Those of the bags in their order."""
        return Deviations(self.mean - self.m0, self.sizes, np.ones(len(self.mean)), len(self.mean))

    @property
    def extremes(self) -> Array:
        """Smallest and largest mean of each feature, shape (2, d)."""
        return np.stack([self.mean.min(axis=0), self.mean.max(axis=0)])

    @property
    def scatter(self) -> Array:
        """Sum of N_i e_i e_i', e_i the deviation from the average over all points, shape (d, d)."""
        deviation = self.mean - np.average(self.mean, axis=0, weights=self.sizes)
        return (deviation.T * self.sizes) @ deviation

    def error_of_trace(self, within: float) -> float:
        """Standard error of the average of |deviation_i|^2 - within / N_i, by the jackknife."""
        n = len(self.mean)
        squares = np.sum(self.deviations.rows**2, axis=1)
        # Leaving bag i out changes it by a_i / (n - 1) to first order, in closed form.
        a = squares * n / (n - 1) - within * (1.0 / self.sizes)
        return float(np.std(a, ddof=1) / np.sqrt(n))

    def labelled(
        self, z: Array, y: Array, sizes: Array, known_variance: ArrayLike, *, lossless: bool
    ) -> Rows:
        """Rows [z, x, 1, y], z the `deviations` in coordinates; see `compress`."""
        rows = compress(
            np.column_stack([z, self.x]), y, sizes, lossless=lossless, known_variance=known_variance
        )
        return at_size_nodes(rows) if lossless else rows

    def take(self, bags: ArrayLike) -> Self:
        """Embedding of the bags with these indices; what is shared by all bags is the same."""
        shared = ("covariance", "prior_mean", "cluster_variances")
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in shared}
        taken = {name: array[bags] for name, array in arrays.items() if array is not None}
        return replace(self, **taken)

    def columns(self, features: ArrayLike) -> Self:
        """Embedding by some of the features, given by indices or as booleans, shape (d,)."""
        covariance = None if self.covariance is None else self.covariance[features][:, features]
        return replace(self, mean=self.mean[:, features], covariance=covariance)


def embed(
    bags: BagsLike,
    features: FeatureMap,
    *,
    covariance: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Embedding:
    """Mean embeddings of bags, and the covariance of their features within bags.

    With phi(x) the features of a point

        mean[i] = sum_j w_ij phi(x_ij) / sum_j w_ij,            w = 1 without weights
        S_i = sum_j w_ij (phi(x_ij) - mean[i]) (phi(x_ij) - mean[i])' / (V1 - V2 / V1)

    where V1 = sum_j w_ij, V2 = sum_j w_ij^2: the sample covariance, generalised without bias to
    weights that state reliability rather than counts. The covariance, if it is wanted, is the mean
    of S_i over the bags of more than one point. Sizes are effective sizes, from replicate weights
    if the bags have some. For bags in clusters without the `cluster_variances` of a fit these are
    estimated, and the covariance is as in `bdr_stan.bags.clusters`. `progress` is called with the
    points done and their total from time to time.
    """
    bags = as_bags(bags, in_parts=True)
    if features.n_inputs != bags.n_features:
        raise ValueError(
            f"the feature map takes points of {features.n_inputs} columns, but the points of the "
            f"bags have {bags.n_features}: give it landmarks with the same columns"
        )
    sizes = bags.effective_sizes
    factors = scatter_factors(bags, sizes) if covariance else None
    in_clusters = bags.cluster is not None and bags.cluster_variances is None
    if in_clusters and factors is None and np.any(sizes > 1 + 1e-9):
        factors = scatter_factors(bags, sizes)
    embed_part = partial(sums_of_part, features=features)
    sums = BagSums.merged(
        bags.map_parts(embed_part, factors, progress=progress), factors, len(bags)
    )
    scatter, variances = sums.scatter, bags.cluster_variances
    if in_clusters and factors is not None:
        variances, scatter = cluster_variances(
            cast(Bags, bags),
            cast(Array, scatter),
            factors * bags.totals,
            lambda part: sums_of_part(part, features=features).mean,
        )
        bags = bags.with_cluster_variances(variances)
    sizes = effective_sizes(bags, features)
    within = scatter if covariance else None
    return Embedding(sizes, sums.mean, within, cluster_variances=variances)


def check_several_points(any_bag: bool) -> None:
    """Raise ValueError unless any bag has several points, for the covariance within bags."""
    if not any_bag:
        raise ValueError(
            "all bags have one point, which has no covariance within its bag: use BLR, which needs "
            "none"
        )


def scatter_factors(bags: BagsBase, sizes: Array) -> Array:
    """Factor of each bag's scatter in the covariance, shape (n,)."""
    several = sizes > 1 + 1e-9  # effective size 1: all but one weight may be zero
    check_several_points(bool(several.any()))
    factors = np.zeros(len(sizes))
    # S_i = scatter_i / (total (1 - 1 / size)): V2 = V1^2 / size
    factors[several] = (sizes / bags.totals)[several] / (sizes - 1)[several] / several.sum()
    return factors


@dataclass
class BagSums:
    """Sums over some points of bags, which `merged` turns into sums over all points."""

    weight: Array  # sum of the weights of each bag's points, shape (n,)
    mean: Array  # average of their features, shape (n, d)
    scatter: Array | None  # about the bags' means, times the bags' factors, shape (d, d)

    @classmethod
    def empty(cls, n: int, d: int, *, scatter: bool) -> Self:
        """Sums over no points."""
        return cls(np.zeros(n), np.zeros((n, d)), np.zeros((d, d)) if scatter else None)

    @classmethod
    def merged(cls, parts: Iterable[tuple[Array, Self]], factors: Array | None, n: int) -> Self:
        """Sums of n bags from pairs (indices of the bags in a part, their sums), in that order.

        `factors`, shape (n,), are from `scatter_factors`; the bags of a part are all different.
        """
        whole = None
        for which, part in parts:
            if whole is None:
                if np.array_equal(which, np.arange(n)):  # most often all bags are in one part
                    whole = part
                    continue
                whole = cls.empty(n, part.mean.shape[1], scatter=factors is not None)
            whole.join(which, part, factors)
        return cast(Self, whole)

    def join(self, which: Array | slice, part: Self, factors: Array | None) -> None:
        """Add the points of a part to its bags `which` (Chan, Golub & LeVeque 1983)."""
        before, weight = self.weight[which], part.weight
        after = before + weight
        share = np.divide(weight, after, out=np.zeros_like(after), where=after > 0)
        delta = part.mean - self.mean[which]
        if self.scatter is not None and factors is not None:
            if part.scatter is not None:
                self.scatter += part.scatter
            between = factors[which] * before * share
            cut = between > 0  # bags with points outside this part
            deviation = delta[cut] * np.sqrt(between[cut])[:, None]
            self.scatter += deviation.T @ deviation
        self.mean[which] += share[:, None] * delta
        self.weight[which] = after


def results_by_part(
    bags: Bags | PartitionedBags,
    features: FeatureMap,
    of_bags: Callable[..., Any],
    *per_bag: Array | None,
    joined: BagSums,
    factors: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Array, Any]]:
    """Indices of bags and ``of_bags(mean, *per_bag)`` of their embeddings, part by part.

    Bags with points in several parts follow in the end; their sums, and the scatter of all bags,
    are added to `joined`. Nothing else leaves a part.
    """
    cut = bags.cut
    place, (of_cut,) = np.cumsum(cut) - 1, _selected(cut, factors)
    run = partial(_result_of_part, features=features, of_bags=of_bags)
    for which, (result, pieces) in bags.map_parts(run, cut, factors, *per_bag, progress=progress):
        is_cut = cut[which]
        joined.join(place[which[is_cut]], pieces, of_cut)
        if not is_cut.all():
            yield which[~is_cut], result
    if cut.any():
        yield np.flatnonzero(cut), of_bags(joined.mean, *_selected(cut, *per_bag))


def _result_of_part(bags, cut, factors, *per_bag, features, of_bags, progress=None):
    """Result of bags that have all their points here, and the sums of other bags."""
    sums = sums_of_part(bags, factors, features=features, progress=progress)
    pieces = BagSums(sums.weight[cut], sums.mean[cut], sums.scatter)
    if cut.all():
        return None, pieces
    return of_bags(sums.mean[~cut], *_selected(~cut, *per_bag)), pieces


def _selected(rows, *arrays):
    return [None if values is None else values[rows] for values in arrays]


def sums_of_part(
    bags: Bags,
    factors: Array | None = None,
    *,
    features: FeatureMap,
    progress: Callable[[int, int], None] | None = None,
) -> BagSums:
    """Sums over points in memory; `factors`, shape (n,), are for the whole bags."""
    d = features.n_columns
    sums = BagSums.empty(len(bags), d, scatter=factors is not None)
    chunk_rows = max(16, _CHUNK_BYTES // (8 * max(d, bags.n_features + 2)))
    chunks = bags.chunks(chunk_rows)
    tasks = [chunks[k : k + _CHUNKS_PER_TASK] for k in range(0, len(chunks), _CHUNKS_PER_TASK)]
    # Reused: allocating memory costs more than the arithmetic on it.
    workspaces: SimpleQueue[_Workspace] = SimpleQueue()
    for _ in range(n_threads_for(tasks)):
        workspaces.put(_Workspace.allocate(min(chunk_rows, len(bags.points)), d))

    def run(task):
        workspace = workspaces.get()
        try:
            return _embed_chunks(bags, features, task, sums, factors, workspace)
        finally:
            workspaces.put(workspace)

    with closing(map_in_threads(run, tasks)) as results:
        for task, (scatter, pieces) in zip(tasks, results, strict=True):
            if sums.scatter is not None:
                sums.scatter += scatter
            for i, piece in pieces:
                sums.join(slice(i, i + 1), piece, factors)
            if progress is not None:
                progress(task[-1].stop, len(bags.points))
    return sums


class _Workspace(NamedTuple):
    """Arrays that one thread reuses for each chunk."""

    values: Array
    deviations: Array
    product: Array
    ones: Array
    counts: Array

    @classmethod
    def allocate(cls, rows, d):
        arrays = [np.empty(shape) for shape in [(rows, d), (rows, d), (d, d)]]
        return cls(*arrays, np.ones(rows), np.arange(rows, dtype=np.int32))


def _embed_chunks(bags, features, chunks, sums, factors, workspace):
    """Fill `sums` for whole bags in `chunks`; return the scatter and pieces of cut bags."""
    d = features.n_columns
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
        # The feature map multiplies its output by exp(log root of the bag's factor), so scatter,
        # the only sum over bags, is weighted without another pass over the features.
        roots = np.ones(last - first) if factors is None else np.sqrt(factors[first:last])
        roots[roots == 0] = TINY_ROOT
        phi = features(points, workspace.values[:n], np.log(roots)[which])
        bags.release()
        sum_per_bag = csr_array(
            (weights, workspace.counts[:n], cuts.astype(np.int32)), shape=(last - first, n)
        )
        part = sum_per_bag @ phi
        part /= np.where(totals > 0, totals, 1)[:, None]
        if factors is not None:
            deviation = np.take(part, which, axis=0, out=workspace.deviations[:n], mode="clip")
            np.subtract(phi, deviation, out=deviation)
            if bags.weights is not None:
                deviation *= np.sqrt(weights)[:, None]
            scatter += np.matmul(deviation.T, deviation, out=workspace.product)
        part /= roots[:, None]
        if n == bags.offsets[last] - bags.offsets[first]:
            sums.weight[first:last], sums.mean[first:last] = totals, part
        elif totals[0] > 0:
            pieces.append((first, BagSums(totals.astype(float), part, None)))
    return scatter, pieces
