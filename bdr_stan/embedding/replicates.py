"""Effective sizes of bags from the replicate weights of a survey, or from clusters of points.

The spread of a bag's mean embedding over the replicates is its whole sampling variance. The models
need a number N_i for each bag, so it becomes the equivalent number of independent points:

    N_i = tr(Sigma_i) / tr(D_i),    D_i = sum_r scale_r (mu_ir - mu_i) (mu_ir - mu_i)'
    tr(Sigma_i) = average of |phi(x_ij) - mu_i|^2 with weights w_ij  +  tr(D_i)

With equal weights and the jackknife of points N_i is their number. The effective size is for an
average direction: the design effect of a single function of the points may be larger or smaller.
"""

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.clusters import clustered_sizes
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_SUMS_AT_ONCE = 4_000_000  # and features (32 MB)
_UNVARIED = 1e-12  # variance over replicates, relative to that within the bag, that is rounding


def effective_sizes(bags: BagsBase, features: FeatureMap) -> Array:
    """Effective number of points per bag, float, shape (n,): Kish's for independent points."""
    sizes = bags.effective_sizes
    if isinstance(bags, Bags) and bags.cluster_variances is not None:
        return clustered_sizes(bags)
    if not isinstance(bags, Bags) or bags.replicate_weights is None:
        return sizes
    within, design = np.empty((2, len(bags)))
    n_sums = (bags.replicate_weights.shape[1] + 1) * features.n_columns
    step = max(1, _SUMS_AT_ONCE // n_sums)
    for first in range(0, len(bags), step):
        some = slice(first, first + step)
        within[some], design[some] = _traces(bags[some], features)
    several = within > 0
    unvaried, empty = several & (design <= _UNVARIED * within), several & np.isnan(design)
    for wrong, why in (
        (unvaried, "are in proportion to each other"),
        (empty, "leave no point in some replicates, as in small subgroups"),
    ):
        if wrong.any():
            warn(
                f"replicate weights of {wrong.sum()} bags, such as "
                f"{bags.name(np.flatnonzero(wrong)[0])}, {why}: their effective sizes equal the "
                "numbers of points, as for independent points"
            )
    varied = several & ~unvaried & ~empty
    return np.where(varied, 1 + within / np.where(varied, design, 1), sizes)


def _traces(bags, features):
    """Weighted scatter within each bag, and variance of its embedding over replicates, (n,).

    The variance is NaN if the weights of a replicate on the points have no positive sum.
    """
    weights = np.column_stack([bags.weights, bags.replicate_weights])
    totals = bags.sums(weights)
    totals[totals <= 0] = np.nan
    weights /= np.repeat(totals, bags.sizes, axis=0)  # in each bag of sum 1
    means = np.zeros((len(bags), weights.shape[1], features.n_columns))
    origins, squares = np.empty((len(bags), features.n_columns)), np.zeros(len(bags))
    for chunk in bags.chunks(max(16, _SUMS_AT_ONCE // features.n_columns)):
        phi = features(bags.read_checked(chunk.start, chunk.stop))
        for i, (start, stop) in enumerate(zip(chunk.cuts[:-1], chunk.cuts[1:]), chunk.first):
            if chunk.start + start == bags.offsets[i]:
                origins[i] = phi[start:stop].mean(axis=0)
            deviations = phi[start:stop] - origins[i]  # with squares that lose no digits
            shares = weights[chunk.start + start : chunk.start + stop]
            means[i] += shares.T @ deviations
            squares[i] += shares[:, 0] @ np.sum(deviations**2, axis=1)
    bags.release()
    within = squares - np.sum(means[:, 0] ** 2, axis=1)
    moved = np.sum((means[:, 1:] - means[:, :1]) ** 2, axis=2)
    return np.maximum(within, 0), moved @ bags.replicate_scale
