"""Points in clusters, such as households: the variance of bags' means by analysis of variance.

With features phi, shares p_ij of a bag's weight, B the covariance of phi between clusters of a
stratum and W the covariance within them, the mean of bag i has the covariance

    D_i = k_i B + l_i W,    k_i = sum_c (sum_{j in c} p_ij)^2,    l_i = sum_j p_ij^2

B and W are pooled over the bags: from scatter between clusters and within them, each equal to its
expectation (Henderson 1953, method 1). The effective size of a bag, for an average direction, is

    N_i = t / tr D_i,    t = average over bags of sum_j p_ij |phi_ij - mean_i|^2 + tr D_i
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

INDEPENDENT = np.array([0.0, 1.0])  # `cluster_variances` of independent points
_NUMBERS_AT_ONCE = 4_000_000  # of means of clusters (32 MB)
_FEW = 1e-9  # degrees of freedom, relative to all, that are rounding


class Clusters(NamedTuple):
    """Clusters with weight, matched within bags and strata, in the order of the bags."""

    rows: Array  # their points, cluster after cluster
    offsets: Array  # where clusters begin in `rows`, shape (C + 1,)
    bag: Array  # of each cluster, shape (C,)
    stratum: Array  # of each cluster, in its bag, shape (C,)
    share: Array  # of its bag's weight, shape (C,)
    squares: Array  # sum of squares of its points' shares, shape (C,)

    @classmethod
    def of_bags(cls, bags: Any) -> "Clusters":
        """Clusters of points in memory; an id in two bags, or strata of a bag, is two clusters."""
        bag = np.repeat(np.arange(len(bags)), bags.sizes)
        stratum = bag if bags.strata is None else _nested(bags.strata, bag)
        cluster = _nested(bags.cluster, stratum)
        shares = bags.point_shares
        rows = np.argsort(cluster, kind="stable")
        rows = rows[shares[rows] > 0]
        first = np.flatnonzero(np.diff(cluster[rows], prepend=-1))
        sums = [np.add.reduceat(values[rows], first) for values in (shares, shares**2)]
        of_cluster = bag[rows[first]], stratum[rows[first]]
        return cls(rows, np.append(first, len(rows)), *of_cluster, *sums)


def _nested(codes, groups):
    """Codes of the pairs of a group and a code, in the order of the groups."""
    return np.unique(groups * (codes.max() + 1) + codes, return_inverse=True)[1]


def _squares(bags):
    """k_i and l_i of the bags, shape (n, 2)."""
    clusters = Clusters.of_bags(bags)
    first = np.flatnonzero(np.diff(clusters.bag, prepend=-1))
    return np.add.reduceat(np.column_stack([clusters.share**2, clusters.squares]), first)


def clustered_sizes(bags: Any) -> Array:
    """Effective sizes of bags by their `cluster_variances`, float, shape (n,)."""
    return 1 / (_squares(bags) @ bags.cluster_variances)


def cluster_variances(
    bags: Any, total: Array, weights: Array, mean_of: Callable[[Any], Array]
) -> tuple[Array, Array]:
    """Shares tr B / t and tr W / t, (2,), and a covariance of trace t in the shape of D_i, (d, d).

    `total`, (d, d), is the sum of ``weights[i] p_ij`` times squares of deviations from the bags'
    means; `mean_of` returns the mean features of bags.
    """
    step = max(1, int(_NUMBERS_AT_ONCE * len(bags) / (len(total) * bags.n_points)))
    parts = [
        _scatter(bags[first : first + step], weights[first : first + step], mean_of)
        for first in range(0, len(bags), step)
    ]
    between, of_strata, degrees = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
    few = _FEW * degrees.sum()
    if degrees[2] <= few:
        warn(
            "no bag has two clusters, or none in a stratum, so their variance is unknown and the "
            "points are taken as independent: name clusters that are parts of a bag"
        )
    if degrees[2] <= few or np.trace(total) == 0:
        return INDEPENDENT, total
    in_strata = (total - of_strata) / degrees[:2].sum()  # with the expectation W + part_of_B * B
    part_of_B = degrees[2] / degrees[:2].sum()
    W = (total - of_strata - between) / degrees[0] if degrees[0] > few else 0 * total
    B, axes = np.linalg.eigh((between - degrees[1] * W) / degrees[2])
    b, B = max(B.sum(), 0.0), B.clip(0)
    w, squares = np.trace(in_strata) - part_of_B * b, _squares(bags)
    D = squares @ [b, w]
    t = max((np.trace(total) + weights @ D) / weights.sum(), b + w)
    lack = squares[:, 0].mean() / squares[:, 1].mean() - part_of_B
    shape = in_strata + lack * (axes * (b * B / max(B.sum(), 1e-300))) @ axes.T
    return np.array([b, w]) / t, shape * (t / np.trace(shape))


def _scatter(bags, weights, mean_of):
    """Scatter between clusters of a stratum and between strata, (d, d), and degrees of freedom.

    The degrees are of W within clusters, and of W and B between clusters.
    """
    c = Clusters.of_bags(bags)
    means = mean_of(bags.with_points(bags.read_rows(c.rows), c.offsets, c.rows, c.bag))
    of_stratum, stratum_share = _averages(means, c.share, c.stratum)
    of_bag, _ = _averages(means, c.share, c.bag)
    weight = weights[c.bag]
    roots = np.sqrt(weight * c.share)[:, None]
    between, of_strata = roots * (means - of_stratum), roots * (of_stratum - of_bag)
    each = c.squares / c.share
    degrees = c.share - each, each - c.squares / stratum_share, c.share - c.share**2 / stratum_share
    return between.T @ between, of_strata.T @ of_strata, np.stack(degrees) @ weight


def _averages(values, shares, groups):
    """Averages of the rows of values in their groups, and sums of shares, repeated for the rows."""
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    sums = np.add.reduceat(shares, first)
    averages = np.add.reduceat(values * shares[:, None], first) / sums[:, None]
    counts = np.diff(first, append=len(groups))
    return np.repeat(averages, counts, axis=0), np.repeat(sums, counts)


def variances_of_columns(bags: Any) -> Array:
    """The `cluster_variances` of the points' columns, each divided by its standard deviation."""
    scale = bags.points.std(axis=0, dtype=float)
    scale[scale <= _FEW * np.abs(bags.points).max(axis=0)] = 1.0  # constant columns

    def mean_of(some):
        return some.sums(some.point_shares[:, None] * (some.points / scale))

    sizes = bags.effective_sizes
    weights = np.where(sizes > 1 + _FEW, sizes / np.maximum(sizes - 1, _FEW), 0)
    roots = np.sqrt(bags.point_shares * np.repeat(weights, bags.sizes))[:, None]
    deviation = roots * (bags.points / scale - np.repeat(mean_of(bags), bags.sizes, axis=0))
    return cluster_variances(bags, deviation.T @ deviation, weights, mean_of)[0]
