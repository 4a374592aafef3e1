"""A kernel from the users' argument: a name with a bandwidth, or a kernel.

"linear + " is for tables: linear and quadratic effects of each column, and a kernel of all columns.
Columns with long tails, for example incomes, enter each part with their values and their normal
scores.
"""

from dataclasses import replace
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels.bandwidth import check_bandwidth, column_spreads, typical_bandwidth
from bdr_stan.kernels.inner_products import LinearEffects, QuadraticEffects
from bdr_stan.kernels.kernel import Kernel
from bdr_stan.kernels.normal_scores import LongTails, NormalScores
from bdr_stan.kernels.shapes import KERNELS
from bdr_stan.kernels.stationary import BandwidthKernel
from bdr_stan.kernels.summands import fields_of
from bdr_stan.types import ArrayLike, Seed

# Before the name of a kernel, or by itself: a kernel of the name on each column, added up.
ADDITIVE = "additive"
# Before the name of a kernel: it is added to linear and quadratic effects of each column.
LINEAR_PLUS = "linear + "
# "linear + rbf" for tables; "rbf" for points of many columns with little effect each, for example
# images.
AUTO = "auto"
_MOST_COLUMNS_OF_TABLES = 60
# Variances relative to the kernel of the distance, chosen on real tables, see
# experiments/real_tables.py. Models may choose a larger one for the linear effects.
LINEAR_VARIANCE, QUADRATIC_VARIANCE = 3.0, 1.0
_MOST_SQUARES = 30  # quadratic effects; with more columns there would be too many features
_POINTS_LOOKED_AT = 10_000  # for tails and distinct values
_PAIRED = 2000  # of these, for computing distances
_LONG_TAILS = LongTails(5.0, 500, 15)  # for example exponential ones


def check_kernel(kernel: str | Kernel) -> None:
    """Raise ValueError unless this is a kernel, or a name of `KERNELS` with or without a prefix."""
    if isinstance(kernel, Kernel):
        return
    if not isinstance(kernel, str) or _parsed(kernel)[1] not in KERNELS:
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(
            f"kernel must be a Kernel, 'auto' or one of {names}, with 'additive' before it where "
            f"each column has a kernel of its own, or 'linear + ' to add linear and quadratic "
            f"effects of each column, found {kernel!r}"
        )


def _parsed(name):
    """ADDITIVE, LINEAR_PLUS or nothing, and the name of a kernel after it; "rbf" for "auto"."""
    if name.startswith(LINEAR_PLUS):
        return LINEAR_PLUS, name.removeprefix(LINEAR_PLUS)
    head, _, rest = name.partition(" ")
    if head == ADDITIVE:
        return ADDITIVE, rest or "rbf"
    return "", "rbf" if name == AUTO else name


def name_for(kernel: str | Kernel, n_columns: int) -> str | Kernel:
    """The kernel, or the name that "auto" means for points of this number of columns."""
    if not isinstance(kernel, str) or kernel != AUTO:
        return kernel
    return f"{LINEAR_PLUS}rbf" if n_columns <= _MOST_COLUMNS_OF_TABLES else "rbf"


def is_additive(kernel: str | Kernel) -> bool:
    """Whether this is the name of a kernel on each column, added up."""
    return isinstance(kernel, str) and _parsed(kernel)[0] == ADDITIVE


def additive_kernel(kind: type[BandwidthKernel], bandwidth: ArrayLike | str, bags: Bags) -> Kernel:
    """Sum of kernels of this kind on each column of the points; a category is one column."""
    parts: list[Kernel] = []
    for source in np.unique(bags.sources):
        columns = np.flatnonzero(bags.sources == source)
        lengths = bandwidth if np.ndim(bandwidth) == 0 else np.asarray(bandwidth)[columns]
        parts.append(kind(lengths, columns=tuple(columns.tolist())))
    return reduce(add, parts)


def linear_plus(
    kind: type[BandwidthKernel], bandwidth: ArrayLike | str, bags: Bags, seed: Seed = None
) -> Kernel:
    """Linear and quadratic effects of the columns of bags, plus a kernel of this kind.

    With bandwidth "scaled" columns with long tails have a second such kernel, of their normal
    scores; a bandwidth in numbers, "ard" or "median" is for the columns as they are.
    """
    points = bags.sample_points(_POINTS_LOOKED_AT, np.random.default_rng(seed))
    n_values = np.array([len(np.unique(column)) for column in points.T])
    long_tailed = _LONG_TAILS.columns(points)
    by_source = [np.flatnonzero(bags.sources == source) for source in np.unique(bags.sources)]
    numbers = [k[0] for k in by_source if n_values[k[0]] > 2]  # an indicator of gaps may follow
    squares = numbers if len(numbers) <= _MOST_SQUARES else []
    parts: list[Kernel] = []
    for columns in map(tuple, map(np.ndarray.tolist, by_source)):
        if n_values[list(columns)].max() == 1:
            continue  # constant
        parts.append(LinearEffects(columns, LINEAR_VARIANCE))
        number = columns[:1]
        scored = number[0] in long_tailed
        if scored:
            parts.append(NormalScores(LinearEffects(), number, LINEAR_VARIANCE))
        if number[0] in squares and scored:
            parts.append(NormalScores(QuadraticEffects(), number, QUADRATIC_VARIANCE))
        elif number[0] in squares:
            parts.append(QuadraticEffects(number, QUADRATIC_VARIANCE))
    if isinstance(bandwidth, str) and bandwidth == "scaled" and long_tailed:
        parts.append(_on_scores(kind, points, long_tailed, bags.sources))
    return reduce(add, [*parts, kind(bandwidth)])


def with_linear_variance(kernel: Kernel, variance: float) -> Kernel:
    """The kernel, its linear effects with another variance each."""
    parts: list[Any] = fields_of(kernel)
    for k, part in enumerate(parts):
        if type(getattr(part, "base", part)) is LinearEffects:
            parts[k] = replace(part, variance=variance)
    return reduce(add, parts)


def _on_scores(kind, points, long_tailed, sources):
    """Product of a kernel of the other columns and kernels of the scores, of one bandwidth."""
    scores = [NormalScores(kind(1.0), [k]).resolved([points]) for k in long_tailed]
    rest = [k for k in range(points.shape[1]) if k not in long_tailed]
    units = column_spreads(points[:, rest], sources[rest]) if rest else np.empty(0)
    together = np.column_stack([points[:, rest] / units, *(part.scores(points) for part in scores)])
    every = -(-len(together) // _PAIRED)
    bandwidth = typical_bandwidth(together[::every], kind.metric)
    factors: list[Kernel] = [NormalScores(kind(bandwidth), [k]) for k in long_tailed]
    if rest:
        factors.append(kind(bandwidth, tuple(rest), units=units))
    return reduce(mul, factors)


def kernel_named(name: str, bandwidth: ArrayLike | str) -> BandwidthKernel:
    """Kernel of a name in `KERNELS` and this bandwidth; ValueError if there is none."""
    check_kernel(name)
    return KERNELS[_parsed(name)[1]](bandwidth)


def check_kernel_and_bandwidth(kernel: str | Kernel, bandwidth: ArrayLike | str) -> None:
    """Raise ValueError unless both go together: a Kernel has its own, which "scaled" leaves."""
    check_kernel(kernel)
    if isinstance(kernel, Kernel):
        if isinstance(bandwidth, str) and bandwidth == "scaled":
            return
        raise ValueError(
            f"bandwidth={bandwidth!r} goes with the name of a kernel: give "
            f"{type(kernel).__name__} its own"
        )
    if isinstance(bandwidth, str) and bandwidth not in ("scaled", "ard", "median"):
        raise ValueError(
            "bandwidth must be 'scaled', 'ard', 'median', a positive number, or one for each "
            f"column, found {bandwidth!r}"
        )
    kernel_named(kernel, bandwidth)


def resolve_kernel(
    kernel: str | Kernel,
    bandwidth: ArrayLike | str,
    bags: Bags,
    *,
    seed: Seed = None,
    scale: float = 1.0,
) -> Kernel:
    """Kernel to use on the points of `bags`: its columns are indices, its bandwidths numbers.

    `kernel` and `bandwidth` are parameters of estimators; all bandwidths are times `scale`, and
    `seed` is of the sample of points for the median distance. ValueError for no such column.
    """
    check_kernel_and_bandwidth(kernel, bandwidth)
    kernel = name_for(kernel, bags.n_features)
    if isinstance(kernel, str):
        if np.ndim(bandwidth):
            check_bandwidth(bandwidth, n_features=bags.n_features)
        prefix, name = _parsed(kernel)
        if prefix == LINEAR_PLUS:
            kernel = linear_plus(KERNELS[name], bandwidth, bags, seed)
        elif prefix == ADDITIVE:
            kernel = additive_kernel(KERNELS[name], bandwidth, bags)
        else:
            kernel = KERNELS[name](bandwidth)
    elif (
        isinstance(kernel, BandwidthKernel) and kernel.columns is None and np.ndim(kernel.bandwidth)
    ):
        check_bandwidth(kernel.bandwidth, n_features=bags.n_features)
    return kernel.on(bags.features, bags.n_features).resolved(bags, seed=seed).scaled(scale)
