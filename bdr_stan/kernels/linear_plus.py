"""The kernel of tables: linear and quadratic effects of each column, and a kernel of all columns.

Columns with long tails, for example incomes, enter each part with their values and their normal
scores.
"""

from dataclasses import replace
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels.bandwidth import column_spreads, typical_bandwidth
from bdr_stan.kernels.inner_products import LinearEffects, QuadraticEffects
from bdr_stan.kernels.kernel import Kernel
from bdr_stan.kernels.normal_scores import LongTails, NormalScores
from bdr_stan.kernels.stationary import BandwidthKernel
from bdr_stan.kernels.summands import fields_of
from bdr_stan.types import ArrayLike, Seed

# Variances relative to the kernel of the distance, chosen on real tables, see
# experiments/real_tables.py. Models may choose a larger one for the linear effects.
LINEAR_VARIANCE, QUADRATIC_VARIANCE = 3.0, 1.0
_MOST_SQUARES = 30  # quadratic effects; with more columns there would be too many features
_POINTS_LOOKED_AT = 10_000  # for tails and distinct values
_PAIRED = 2000  # of these, for computing distances
_LONG_TAILS = LongTails(5.0, 500, 15)  # such as those of an exponential distribution


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
