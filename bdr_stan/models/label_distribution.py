"""Distributions of labels before a bag is seen, as densities on a grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import gaussian_kde, norm

from bdr_stan.types import Array

LABEL_DISTRIBUTIONS = ("empirical", "normal", "uniform")

_LEAST_DENSITY = 1e-300  # of a label far from all others
_MOST_LABELS = 5_000  # of a kernel density estimate, whose cost grows with their square
_FOLDS = 10
_LEAST_GAIN = 2.0  # that an edge must add to the log density of held-out labels
_BEYOND = 40  # labels of the grid beyond those seen, at either end
_MARGIN = 4.0  # standard deviations by which the grid goes beyond the labels seen


@dataclass(frozen=True)
class LabelDistribution:
    """Log density of labels, not normalised, between two ends.

    low, high : float, the ends of the grid, units of y
    least, most : float, the ends of the labels seen
    log_density : callable, of labels of any shape; -inf beyond bounds
    """

    low: float
    high: float
    least: float
    most: float
    log_density: Callable[[Array], Array]

    def grid(self, n: int) -> Array:
        """n labels evenly from the least to the most seen, and some beyond, ever farther apart."""
        seen = np.linspace(self.least, self.most, n)
        first = (seen[1] - seen[0]) / 10  # an edge of the labels may be near
        below = np.geomspace(first, max(first, self.least - self.low), _BEYOND)
        above = np.geomspace(first, max(first, self.high - self.most), _BEYOND)
        grid = np.unique(np.concatenate([self.least - below, seen, self.most + above]))
        return np.unique(np.clip(grid, self.low, self.high))


def label_distribution(
    name: str, y: Array, bounds: Sequence[float | None] | None = None, *, seed: int = 0
) -> LabelDistribution:
    """Distribution of labels like the training labels.

    Parameters
    ----------
    name : {"empirical", "normal", "uniform"}
        "empirical": a kernel density estimate, with a little of a wide normal. At stated bounds it
        is reflected, and at the ends of the labels where this predicts held-out labels clearly
        better: labels with an edge. "normal": of their mean and standard deviation. "uniform":
        between bounds.
    y : array, shape (n,)
    bounds : (lower, upper), optional
        Labels are never outside; None for an end that is open.
    seed : int, of the folds that look for edges
    """
    low, high = open_ends(bounds)
    if name == "uniform":
        density: Callable[[Array], Array] = _flat
    elif name == "normal":
        density = norm(np.mean(y), np.std(y)).pdf
    else:
        density = _empirical(y, low, high, seed)

    def log_density(labels):
        inside = (labels >= low) & (labels <= high)
        values = np.where(inside, density(labels), 0.0)
        return np.log(values, out=np.full(np.shape(labels), -np.inf), where=values > 0)

    spread = np.inf if name == "uniform" else _MARGIN * float(np.std(y))
    least, most = float(y.min()), float(y.max())
    lowest, highest = float(max(low, least - spread)), float(min(high, most + spread))
    return LabelDistribution(lowest, highest, least, most, log_density)


def open_ends(bounds: Sequence[float | None] | None) -> tuple[float, float]:
    """Bounds as numbers, infinite where an end is open."""
    low, high = bounds or (None, None)
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


def _flat(labels):
    return np.ones(np.shape(labels))


def _empirical(y, low, high, seed):
    """Kernel density estimate, reflected at stated bounds and at edges that are found."""
    if len(y) > _MOST_LABELS:
        y = np.quantile(y, np.linspace(0, 1, _MOST_LABELS))
    folds = np.random.default_rng(seed).permutation(len(y)) % min(_FOLDS, len(y))
    best, best_score = (low, high), -np.inf
    for edges in product((False, True), repeat=2):
        score = -_LEAST_GAIN * sum(edges)
        for fold in np.unique(folds):
            seen, held = y[folds != fold], y[folds == fold]
            if np.ptp(seen) > 0:
                density = _reflected(seen, *_mirrors(seen, low, high, *edges))
                score += np.log(np.maximum(density(held), _LEAST_DENSITY)).sum()
        if score > best_score:
            best, best_score = _mirrors(y, low, high, *edges), score
    return _reflected(y, *best)


def _mirrors(y, low, high, left, right):
    """Where a density is reflected: stated bounds, or a little beyond the labels."""
    step = np.ptp(y) / len(y)
    a = low if np.isfinite(low) else y.min() - step if left else -np.inf
    b = high if np.isfinite(high) else y.max() + step if right else np.inf
    return a, b


def _reflected(y, a, b):
    kde, middle, wide = gaussian_kde(y), np.mean(y), 2 * np.std(y)
    share = 2 / (len(y) + 1)  # how likely a label lies beyond all that were seen

    def density(labels):
        flat = np.ravel(labels)
        value = kde(flat)
        for mirror in (a, b):
            if np.isfinite(mirror):
                value += kde(2 * mirror - flat)
        value = np.where((flat >= a) & (flat <= b), value, 0.0)
        value = (1 - share) * value + share * norm.pdf(flat, middle, wide)
        return value.reshape(np.shape(labels))

    return density
