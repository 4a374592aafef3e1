"""A warning about columns with long tails, where few large values determine the scale."""

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.base import BagsBase
from bdr_stan.kernels.normal_scores import tail_ratios
from bdr_stan.types import Array
from bdr_stan.user_warnings import warn

_SAMPLE_SIZE = 10_000  # points from which quantiles are estimated
_MIN_POINTS = 1_000  # with fewer, the 1% and 99% quantiles are too uncertain
_MIN_VALUES = 20  # of a column that is a measurement rather than a code or a small count
_MAX_TAIL_RATIO = 7.0  # see `tail_ratios`
_SHOWN = 5  # in the message


def warn_of_skewed_columns(bags: BagsBase) -> None:
    """Warn of columns with long tails; bags in partitions are not checked."""
    if not isinstance(bags, Bags):
        return
    skewed = skewed_columns(bags.sample_points(_SAMPLE_SIZE, np.random.default_rng(0)))
    if not len(skewed):
        return
    names = bags.features or [str(k) for k in range(bags.n_features)]
    shown = ", ".join(repr(names[k]) for k in skewed[:_SHOWN]) + ", .." * (len(skewed) > _SHOWN)
    first = repr(names[skewed[0]]) if bags.features else skewed[0]
    kernel = f"NormalScores(columns=[{first}])" + " + RBF(columns=[..])" * (bags.n_features > 1)
    warn(
        f"columns with long tails: {shown}; a few large values determine the scale on which the "
        f"kernel compares points: take logarithms, or give the column a kernel of normal scores, "
        f"{kernel}"
    )


def skewed_columns(points: Array) -> Array:
    """Indices of the columns of points, shape (n_points, p), with a long tail."""
    if len(points) < _MIN_POINTS:
        return np.empty(0, np.int64)
    long = np.flatnonzero(tail_ratios(points) > _MAX_TAIL_RATIO)
    several = [len(np.unique(points[:, k])) >= _MIN_VALUES for k in long]
    return long[np.array(several, bool)]
