"""Predictive distributions of any form: densities on a grid of labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.special import ndtr

from bdr_stan.predictive.mixture import NumericMixture, bags_at_once
from bdr_stan.types import Array, ArrayLike

_MOST_KEPT = 20_000_000  # numbers of the densities kept in memory (160 MB)
_NOISE_MARGIN = 6.0  # extension of its grid, in standard deviations of the largest noise
_MARGIN_LABELS = 60  # even ones of the longer grid in each margin, and more with growing distances
_LEAST_NOISE = 1e-9  # of the length of the grid: less is none


@dataclass(frozen=True)
class RepeatedLabels:
    """Labels that have probabilities, on a grid with each between two close labels.

    Its probability is its density, as high as its neighbours are close, times `trapezoid_weights`;
    in comparisons with other densities it is spread over the resolution.
    """

    labels: Array  # ascending, shape (A,), units of y
    resolution: Array  # width of the interval that each represents, shape (A,), units of y

    def places(self, grid: Array) -> Array:
        """Their indices in the grid, shape (A,)."""
        return np.searchsorted(grid, self.labels)

    def log_unit(self, labels: Array, grid: Array) -> Array:
        """What is added to log densities at `labels`, (n,): 0 but at repeated labels."""
        values = np.log(trapezoid_weights(grid)[self.places(grid)] / self.resolution)
        same = labels[:, None] == self.labels
        return np.where(same, values, 0.0).sum(axis=1)

    def whole(self, labels: Array, grid: Array) -> Array:
        """Labels (n,) moved to the end of the probability of the repeated label that they are."""
        moved = labels.copy()
        ends = np.minimum(self.places(grid) + 1, len(grid) - 1)
        for label, end in zip(self.labels, grid[ends], strict=True):
            moved[labels == label] = end
        return moved

    def snapped(self, values: Array, grid: Array) -> Array:
        """Values of any shape, those as close to a repeated label as its neighbours moved to it."""
        moved, steps = values.copy(), np.r_[np.inf, np.diff(grid), np.inf]
        for label, place in zip(self.labels, self.places(grid), strict=True):
            moved[np.abs(values - label) <= steps[place : place + 2].min()] = label
        return moved


NO_REPEATED_LABELS = RepeatedLabels(np.empty(0), np.empty(0))


class GridPredictive(NumericMixture):
    """Predictive distribution of the labels of n bags, as a density on a grid of labels.

    The density is linear between two labels of the grid, which ascend, and 0 beyond its ends;
    normal noise of sd `noise_sd`, shape (n,), widens it. ``log_densities(i)`` yields, one posterior
    draw after the other, the log density at the labels of the grid of the bags with indices `i`,
    shape (len(i), M). Labels that are `repeated` have probabilities: jumps of `cdf` and possible
    quantiles.
    """

    def __init__(
        self,
        log_densities: Callable[[Array], Iterator[Array]],
        grid: Array,
        n_bags: int,
        n_draws: int,
        noise_sd: Array | None = None,
        repeated: RepeatedLabels = NO_REPEATED_LABELS,
    ) -> None:
        self.log_densities, self.grid, self.repeated = log_densities, grid, repeated
        self.noise_sd = noise_sd if noise_sd is not None and np.any(noise_sd) else None
        self.n_draws, self._kept = n_draws, None
        if n_bags * len(grid) <= _MOST_KEPT:
            densities = np.empty((n_bags, len(grid)))
            for i in bags_at_once(n_bags, len(grid)):
                densities[i] = self._density(i)
            self._kept = densities
        super().__init__(self._density, n_bags, n_draws)

    @property
    def _described(self):
        return f"{super()._described}, {len(self.grid)} labels"

    def expected(self, i: Array) -> Array:
        """Expected label of the bags `i` under each draw, shape (S, len(i)), in units of y."""
        moment = trapezoid_weights(self.grid) * self.grid
        return np.array([np.exp(values) @ moment for values in self.log_densities(i)])

    def _moments(self, density, i):
        mass = density * trapezoid_weights(self.grid)
        mean = mass @ self.grid
        variance = np.sum(mass * (self.grid - mean[:, None]) ** 2, axis=1)
        if self.noise_sd is not None:
            variance += self.noise_sd[i] ** 2
        return mean[None], variance[None]  # the density is averaged over the draws already

    def _cdf(self, density, i, labels):
        row = np.arange(len(i))
        density, grid = self._with_noise(density, i)
        left, share = _places(grid, self.repeated.whole(labels, self.grid))
        start, end = density[row, left], density[row, left + 1]
        piece = np.diff(grid)[left] * share * (start + 0.5 * (end - start) * share)
        return np.clip(cumulative_trapezoid(density, grid, initial=0)[row, left] + piece, 0.0, 1.0)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log predictive density of labels `y`, shape (n,). Without noise -inf off the grid.

        For a repeated label its log probability minus the log of its resolution.
        """
        y = self._label_values(y)
        value = np.empty(len(self))
        for i, density in self._chunks():
            value[i] = self._reader(i, y[i])(density)
        return value

    def log_density_function(self, i: Array) -> Callable[[Array], Array]:
        """As for other distributions, of the bags `i`, but averaged over the draws, (1, m)."""
        density = self._density(i)
        return lambda labels: self._reader(i, labels)(density)[None]

    @property
    def numbers_per_bag(self) -> int:
        return len(self.grid)

    def _quantiles(self, density, i, levels):
        density, grid = self._with_noise(density, i)
        cumulated, row = cumulative_trapezoid(density, grid, initial=0), np.arange(len(i))
        steps = np.diff(grid)
        values = np.empty((len(levels), len(i)))
        for q, value in zip(levels, values, strict=True):
            left = np.clip(np.sum(cumulated <= q, axis=1) - 1, 0, len(grid) - 2)
            start, end = density[row, left], density[row, left + 1]
            rest = q - cumulated[row, left]
            slope = (end - start) / steps[left]
            # The root of start x + slope x^2 / 2 = rest, written so that no digits cancel.
            root = np.sqrt(np.maximum(start**2 + 2 * slope * rest, 0))
            step = np.divide(2 * rest, start + root, out=np.zeros(len(i)), where=start + root > 0)
            value[:] = grid[left] + np.clip(step, 0, steps[left])
        return self.repeated.snapped(values, self.grid)

    def _density(self, i):
        """Density of the bags `i` at the labels of the grid, averaged over the draws."""
        if self._kept is not None:
            return self._kept[i]
        total = np.zeros((len(i), len(self.grid)))
        for values in self.log_densities(i):
            total += np.exp(values)
        return total / self.n_draws

    def _with_noise(self, density, i):
        """Densities of the labels with their noise, one row per bag, and their grid."""
        if self.noise_sd is None:
            return density, self.grid
        grid = _widened(self.grid, _NOISE_MARGIN * self.noise_sd.max())
        wider = np.empty((len(i), len(grid)))
        for sd in np.unique(self.noise_sd[i]):
            with_sd = self.noise_sd[i] == sd
            wider[with_sd] = density[with_sd] @ weights_at(grid, self.grid, sd).T
        mass = density @ trapezoid_weights(self.grid)
        return wider * (mass / (wider @ trapezoid_weights(grid)))[:, None], grid

    def _reader(self, i, labels):
        """Function from densities of the bags `i`, (m, M), to each log density at its label."""
        if self.noise_sd is not None:
            weights = weights_at(labels, self.grid, self.noise_sd[i])
            return lambda density: _log(np.sum(weights * density, axis=1))
        row, (left, share) = np.arange(len(i)), _places(self.grid, labels)
        inside = _inside(self.grid, labels)
        log_unit = self.repeated.log_unit(labels, self.grid)

        def log_at(density):
            value = (1 - share) * density[row, left] + share * density[row, left + 1]
            return _log(np.where(inside, value, 0.0)) + log_unit

        return log_at

    def _log_density(self, density, i, labels):
        log_at = self._reader(i, labels)
        return np.array([log_at(np.exp(values)) for values in self.log_densities(i)])

    def _labels(self, density, i, draws, rng):
        levels = rng.random((len(draws), len(i)))
        cumulated = cumulative_trapezoid(density, self.grid, initial=0)
        labels = np.column_stack(
            [np.interp(u, below, self.grid) for u, below in zip(levels.T, cumulated, strict=True)]
        )
        labels = self.repeated.snapped(labels, self.grid)
        if self.noise_sd is not None:
            labels += self.noise_sd[i] * rng.standard_normal(labels.shape)
        return labels


def _log(density):
    return np.log(density, out=np.full(len(density), -np.inf), where=density > 0)


def _places(grid, labels):
    """Index of the label of the grid below each label, and the share of the way to the next."""
    inside = np.clip(labels, grid[0], grid[-1])
    left = np.clip(np.searchsorted(grid, inside, side="right") - 1, 0, len(grid) - 2)
    return left, (inside - grid[left]) / np.diff(grid)[left]


def _inside(grid, labels):
    return (labels >= grid[0]) & (labels <= grid[-1])


def _widened(grid, margin):
    """A grid with margins: even labels for the tails of wide noise, close ones for narrow noise."""
    close = np.geomspace(min(np.diff(grid).min(), margin), margin, _MARGIN_LABELS)
    steps = np.union1d(close, np.linspace(0, margin, _MARGIN_LABELS + 1)[1:])
    return np.unique(np.concatenate([grid[0] - steps, grid, grid[-1] + steps]))


def trapezoid_weights(grid: Array) -> Array:
    """Weights of the trapezoidal rule on a grid, shape (M,)."""
    return np.convolve(np.diff(grid), [0.5, 0.5])


def weights_between(labels: Array, grid: Array) -> Array:
    """Weights, shape (m, M), of densities on a grid for densities at labels, shape (m,)."""
    row, (left, share) = np.arange(len(labels)), _places(grid, labels)
    weights = np.zeros((len(labels), len(grid)))
    weights[row, left] = 1 - share
    weights[row, left + 1] = share
    return np.where(_inside(grid, labels)[:, None], weights, 0.0)


def weights_at(labels: Array, grid: Array, noise_sd: ArrayLike) -> Array:
    """Weights, (m, M), of densities on a grid for densities of labels, (m,), with normal noise."""
    sd = np.maximum(noise_sd, _LEAST_NOISE * np.ptp(grid))
    sd = np.broadcast_to(sd, len(labels))[:, None]
    away = (grid - labels[:, None]) / sd
    above = away[:, :-1] > 0  # differences of upper tails keep the digits there
    mass = np.where(above, -np.diff(ndtr(-away), axis=1), np.diff(ndtr(away), axis=1))
    peak = sd * np.diff(np.exp(-0.5 * away**2), axis=1) / np.sqrt(2 * np.pi)
    right = ((labels[:, None] - grid[:-1]) * mass - peak) / np.diff(grid)
    weights = np.zeros(away.shape)
    weights[:, :-1] = mass - right
    weights[:, 1:] += right
    return np.maximum(weights, 0.0)  # rounding can make them negative
