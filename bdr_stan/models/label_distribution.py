"""Distributions of labels before a bag is seen, as densities on a grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import lomax, norm
from scipy.stats import t as student_t

from bdr_stan.predictive.grid import NO_REPEATED_LABELS, RepeatedLabels, trapezoid_weights
from bdr_stan.types import Array

LABEL_DISTRIBUTIONS = ("empirical", "normal", "uniform")

_REPEATED_SHARE, _REPEATED_LABELS = 0.05, 5  # minimum for a label to have a probability
_REPEATED_WIDTH = 1e-6  # of its density on the grid, in ranges of the labels
_LEAST_DENSITY = 1e-300  # of a label far from all others
_MAX_KERNEL_LABELS = 5_000  # of a kernel density estimate; its cost grows with their square
_MAX_LABELS_FOR_EDGES = 1_000  # for the search for edges: more add nothing
_DISTANCES_AT_ONCE = 1_000_000  # distances of labels
_EDGE_FOLDS = 10
# The wide part: degrees of freedom, and scale in standard deviations of the labels.
_WIDE_DF, _WIDE_SCALE = 3.0, 2.0
_LEAST_SPACING = 0.1  # of labels at an end, in average spacings: there they may be equal
_LABELS_BEYOND = 60  # labels of the grid beyond those seen, at either end
# Extension of the grid beyond the observed labels, in standard deviations.
_MARGINS = {"empirical": 1000.0, "normal": 4.0, "uniform": np.inf}


@dataclass(frozen=True)
class LabelDistribution:
    """Log density of labels, not normalised, between two ends."""

    low: float  # ends of the grid, units of y
    high: float
    least: float  # ends of the labels seen
    most: float
    log_density: Callable[[Array], Array]  # of labels of any shape; -inf beyond bounds
    repeated: RepeatedLabels
    probabilities: Array  # of the atoms, shape (A,)

    def on_grid(self, n: int) -> tuple[Array, Array]:
        """A grid of about n labels, and the log density there."""
        grid = self._grid(n)
        log_density = self.log_density(grid)
        places = self.repeated.places(grid)
        log_density[places] = np.log(self.probabilities / trapezoid_weights(grid)[places])
        return grid, log_density

    def _grid(self, n):
        """n labels evenly from the least to the most seen, and some beyond, ever farther apart."""
        seen = np.linspace(self.least, self.most, n)
        first = (seen[1] - seen[0]) / 10  # an edge of the labels may be near
        below = np.geomspace(first, max(first, self.least - self.low), _LABELS_BEYOND)
        above = np.geomspace(first, max(first, self.high - self.most), _LABELS_BEYOND)
        width = _REPEATED_WIDTH * (self.most - self.least)
        repeated = np.add.outer([-width, 0.0, width], self.repeated.labels).ravel()
        grid = np.unique(np.concatenate([self.least - below, seen, self.most + above, repeated]))
        return np.unique(np.clip(grid, self.low, self.high))


def label_distribution(
    name: str, y: Array, bounds: Sequence[float | None] | None = None, *, seed: int = 0
) -> LabelDistribution:
    """Distribution of labels like the training labels y, shape (n,), all within `bounds`.

    "empirical": probabilities of repeated labels, and a density with edges, see
    ``docs/explanation/inverse.md``.
    "normal": with their mean and standard deviation. "uniform": between bounds.
    """
    low, high = open_ends(bounds)
    repeated, probabilities = NO_REPEATED_LABELS, np.empty(0)
    if name == "uniform":
        density: Callable[[Array], Array] = np.ones_like
    elif name == "normal":
        density = norm(np.mean(y), np.std(y)).pdf
    else:
        repeated, probabilities = _repeated(y)
        rest = y[~np.isin(y, repeated.labels)]
        density = _empirical(rest if len(np.unique(rest)) > 2 else y, low, high, seed)
    share = 1 - probabilities.sum()

    def log_density(labels):
        inside = (labels >= low) & (labels <= high)
        values = np.where(inside, share * density(labels), 0.0)
        return np.log(values, out=np.full(np.shape(labels), -np.inf), where=values > 0)

    spread = _MARGINS[name] * float(np.std(y))
    least, most = float(y.min()), float(y.max())
    lowest, highest = float(max(low, least - spread)), float(min(high, most + spread))
    return LabelDistribution(lowest, highest, least, most, log_density, repeated, probabilities)


def _repeated(y):
    """Labels that many bags have, and their probabilities.

    A label represents the labels nearer to it than to another one, and no more than the kernel of
    the density estimate would spread it over.
    """
    labels, counts = np.unique(y, return_counts=True)
    often = counts >= max(_REPEATED_SHARE * len(y), _REPEATED_LABELS)
    labels, counts = labels[often], counts[often]
    resolution = np.full(len(labels), np.sqrt(2 * np.pi) * _bandwidth(y))
    if len(labels) > 1:
        resolution = np.minimum(resolution, np.gradient(labels))
    return RepeatedLabels(labels, resolution), counts / (len(y) + 1)


def open_ends(bounds: Sequence[float | None] | None) -> tuple[float, float]:
    """Bounds as numbers, infinite if an end is open."""
    low, high = bounds or (None, None)
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


def _empirical(y, low, high, seed):
    """Kernel density estimate, reflected at stated bounds and at edges that the labels support."""
    if len(y) > _MAX_KERNEL_LABELS:
        y = _quantiles(y, _MAX_KERNEL_LABELS)
    searched = y if len(y) <= _MAX_LABELS_FOR_EDGES else _quantiles(y, _MAX_LABELS_FOR_EDGES)
    return _with_edges(y, low, high, _edges(searched, low, high, seed))


def _quantiles(y, n):
    return np.quantile(y, np.linspace(0, 1, n))


def _edges(y, low, high, seed):
    """Whether labels have an edge below and one above, as labels held out of the density show."""
    folds = np.random.default_rng(seed).permutation(len(y)) % min(_EDGE_FOLDS, len(y))
    possible = [(False,) if np.isfinite(end) else (False, True) for end in (low, high)]

    def score(edges):
        total = -0.5 * np.log(len(y)) * sum(edges)
        for fold in np.unique(folds):
            training, held_out = y[folds != fold], y[folds == fold]
            if np.ptp(training) > 0:
                density = _with_edges(training, low, high, edges)
                total += np.log(np.maximum(density(held_out), _LEAST_DENSITY)).sum()
        return total

    return max(product(*possible), key=score)


def _with_edges(y, low, high, edges):
    """Density of labels given the edges, with the mass 1 / (n + 1) beyond each edge."""
    share = 1 / (len(y) + 1)
    centre, scale = np.mean(y), _WIDE_SCALE * np.std(y)
    spacings = _spacing(y), _spacing(-y)
    a = y.min() - spacings[0] if edges[0] else low
    b = y.max() + spacings[1] if edges[1] else high

    def density(labels):
        flat = np.ravel(labels)
        value = _kernel_density(y, flat)
        for mirror in (a, b):
            if np.isfinite(mirror):
                value += _kernel_density(y, 2 * mirror - flat)
        value = np.where((flat >= a) & (flat <= b), value, 0.0) * (1 - share * (1 + sum(edges)))
        value += share * student_t.pdf(flat, _WIDE_DF, centre, scale)
        for edge, beyond, spacing in zip(edges, (a - flat, flat - b), spacings, strict=True):
            if edge:
                value += share * lomax.pdf(beyond, 1, scale=spacing)
        return value.reshape(np.shape(labels))

    return density


def _kernel_density(y, labels):
    """Of a normal kernel."""
    sd = _bandwidth(y)
    parts = np.array_split(labels, -(-len(labels) * len(y) // _DISTANCES_AT_ONCE) or 1)
    sums = [np.exp(-0.5 * ((part[:, None] - y) / sd) ** 2).sum(axis=1) for part in parts]
    return np.concatenate(sums) / (np.sqrt(2 * np.pi) * sd * len(y))


def _bandwidth(y):
    """Standard deviation of the kernel by Scott's rule."""
    return np.std(y, ddof=1) * len(y) ** -0.2


def _spacing(y):
    """Average distance of the least labels, as many as the root of n."""
    among = min(int(np.ceil(np.sqrt(len(y)))), len(y) - 1)
    lowest = np.partition(y, (0, among))[: among + 1]
    average = np.ptp(y) / len(y)
    return max((lowest[-1] - lowest[0]) / among, _LEAST_SPACING * average)
