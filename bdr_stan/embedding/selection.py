"""Bounds of the mean of a function over a bag with unknown selection probabilities of points.

Let w_j be the weights of the points, and the correct ones lie between w_j / G and G w_j. The mean
of a function f under the correct weights is then largest for weights G w_j at values above a
threshold t and w_j / G below, with t the mean itself: a linear-fractional programme (Aronow and Lee
2013; Miratrix, Wager and Zubizarreta 2018). So the largest mean t solves

    h(t) = sum_j w_j (f_j - t) + (G^2 - 1) sum_j w_j max(f_j - t, 0) = 0

and the smallest the same with min. h is convex, decreasing and piecewise linear: from the mean
under w, Newton's steps rise to the root and arrive after finitely many, with no sorting, so points
may be read in blocks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array

_MOST_STEPS = 100  # some six are usual
_MEANS_TOLERANCE = 1e-13  # of the means, for the last step
_NUMBERS_PER_BLOCK = 1 << 18  # values of the function, points x draws: small enough for caches
_NUMBERS_KEPT = 1 << 23  # of a bag, between steps; those of larger bags are computed at each step

Blocks = Callable[[], Iterable[tuple[Array, Array]]]


def extreme_means(blocks: Blocks, factors: Array) -> tuple[Array, Array]:
    """Mean of f under the given weights, (S,), and its least and largest, (2, K, S).

    The correct weights are within each of the K `factors` G >= 1 of the given ones. ``blocks()``
    yields weights, shape (m,), and values of f under S draws, (m, S), some points at a time.
    """
    sums = [(weights.sum(), weights @ values) for weights, values in blocks()]
    total = sum(weight for weight, _ in sums)
    mean = sum(weighted for _, weighted in sums) / total
    extra = factors[:, None] ** 2 - 1
    extremes = np.broadcast_to(mean, (2, len(factors), len(mean))).copy()
    beyond = ((0, np.minimum), (1, np.maximum))  # parts of f - t for the smallest and largest
    memory = np.empty(0)  # reused: allocating it costs more than the arithmetic on it
    for _ in range(_MOST_STEPS):
        weight, excess = np.zeros((2, *extremes.shape))
        for weights, values in blocks():
            if memory.size < values.size:
                memory = np.empty(values.size)
            outside = memory[: values.size].reshape(values.shape)
            for side, part in beyond:
                for k in np.flatnonzero(extra):
                    np.subtract(values, extremes[side, k], out=outside)
                    part(outside, 0, out=outside)
                    excess[side, k] += weights @ outside
                    weight[side, k] += weights @ np.not_equal(outside, 0, out=outside)
        step = (total * (mean - extremes) + extra * excess) / (total + extra * weight)
        extremes += step
        size = np.maximum(np.abs(extremes), np.abs(extremes - mean))
        if np.all(np.abs(step) <= _MEANS_TOLERANCE * size):
            break
    return mean, extremes


@dataclass(frozen=True)
class SelectedPoints:
    """The part of the linear predictor that is the mean over points of one sample of the bags."""

    bags: Bags
    sizes: Array  # effective numbers of points of the bags, shape (n,)
    features: FeatureMap
    coordinates: Coordinates
    w: Array  # shape (S, d)
    eta: Array  # shape (S,)

    def shifts(self, i: int, factors: Array) -> Array:
        """How far selection within each factor moves the predictor of bag i, (2, K, S).

        f is shrunk like the bag's embedding, so its mean is the bag's predictor.
        """
        mean, extremes = extreme_means(self._blocks(i), factors)
        return extremes - mean

    def _blocks(self, i):
        start, stop = self.bags.offsets[i : i + 2]
        shrunk = self.w * shrinkage_factors(self.eta * self.sizes[i], self.coordinates.lam, 1.0)
        rows, weights = max(16, _NUMBERS_PER_BLOCK // len(self.w)), self.bags.weights

        def blocks():
            for first in range(start, stop, rows):
                last = min(first + rows, stop)
                z = self.coordinates.transform(self.features(self.bags.read_checked(first, last)))
                self.bags.release()
                yield np.ones(len(z)) if weights is None else weights[first:last], z @ shrunk.T

        if (stop - start) * len(self.w) > _NUMBERS_KEPT:
            return blocks
        in_memory = list(blocks())
        return lambda: in_memory
