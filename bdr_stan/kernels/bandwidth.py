"""Bandwidths: the median rule, spreads of columns, and the check that a number is a bandwidth."""

import numpy as np
from scipy.spatial.distance import pdist

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.types import Array, ArrayLike, Seed

_SAMPLED_POINTS = 2000


def median_bandwidth(bags: BagsLike, *, seed: Seed = None) -> float:
    """Bandwidth by the median rule: sqrt(median of |x - x'|^2 / 2) over pairs of points.

    Parameters
    ----------
    bags : Bags, or list of arrays, shapes (n_points, p)
    seed : int or numpy Generator, optional
        Seed of the sample of at most 2000 points, drawn without replacement from all bags.

    Returns
    -------
    float, > 0, in the units of the points

    Raises
    ------
    ValueError : at least half of the sampled pairs coincide, or there is only one point.
    TypeError, ValueError : invalid bags.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan.kernels import median_bandwidth
    >>> bags = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> round(median_bandwidth(bags), 3)  # of the squares 1, 4 and 9: sqrt(4 / 2)
    1.414
    """
    bags, rng = as_bags(bags, in_parts=True), np.random.default_rng(seed)
    points = bags.sample_points(_SAMPLED_POINTS, rng)
    return typical_bandwidth(points, "sqeuclidean", or_mean=False)


def typical_bandwidth(points: Array, metric: str, *, or_mean: bool = True) -> float:
    """Bandwidth of points (n, p): exp(-1) at the median distance or, if that is 0, at the mean."""
    if len(points) < 2:
        raise ValueError("there is only one point: give the bandwidth as a number")
    distances = pdist(points, metric)
    typical = np.median(distances)
    if typical == 0 and or_mean:
        typical = distances.mean()
    if typical == 0:
        what = "most" if distances.any() else "all"
        raise ValueError(
            f"{what} sampled points coincide, so their median distance is 0: "
            "give the bandwidth as a number"
        )
    return float(np.sqrt(typical / 2) if metric == "sqeuclidean" else typical)


def column_spreads(points: Array, sources: Array | None = None) -> Array:
    """Standard deviation of each column of points, shape (n, p) to (p,), 1 for a constant one.

    Columns with the same entry in `sources`, see `Bags.sources`, for example of a category, share
    the root of the sum of their variances: in a distance they have the weight of one numeric
    column.
    """
    from sklearn.preprocessing import StandardScaler  # needs a second to import

    scaler = StandardScaler().fit(points)
    if sources is None:
        return scaler.scale_
    _, source = np.unique(sources, return_inverse=True)
    constant = np.ptp(points, axis=0) == 0
    together = np.bincount(source, np.where(constant, 0, scaler.scale_**2))[source]
    return np.where(together > 0, np.sqrt(together), 1.0)


def check_bandwidth(
    value: ArrayLike, name: str = "bandwidth", *, n_features: int | None = None
) -> None:
    """Raise ValueError, calling it `name`, unless it is a number > 0 or `n_features` numbers."""
    try:
        lengths = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        lengths = np.array(np.nan)
    if lengths.ndim > 1 or lengths.size == 0:
        raise ValueError(
            f"{name} has shape {lengths.shape}: give a positive number, or one for each feature"
        )
    for k in np.flatnonzero(~((lengths > 0) & (lengths < np.inf))):
        if lengths.ndim == 0:
            raise ValueError(f"{name} must be a positive number, found {value!r}")
        raise ValueError(f"{name} of feature {k} must be a positive number, found {lengths[k]}")
    if lengths.ndim == 1 and n_features is not None and len(lengths) != n_features:
        raise ValueError(
            f"{name} has {len(lengths)} entries, but the points have {n_features} features: "
            "give one number, or one for each feature"
        )
