"""Predictive distributions of labels that have no simple form: densities on a grid of labels."""

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from bdr_stan.predictive.mixture import Mixture
from bdr_stan.types import Array, ArrayLike

_MOST_KEPT = 20_000_000  # numbers of the densities that are kept (160 MB)


class GridPredictive(Mixture):
    """Predictive distribution of the labels of n bags, as a density on a grid of labels.

    Between two labels of the grid the density is linear, beyond the ends it is 0.

    Parameters
    ----------
    log_densities : callable
        ``log_densities(i)`` yields, one posterior draw after the other, the log density at the
        labels of the grid of the bags with integer indices `i`, shape (len(i), M).
    grid : array, shape (M,), ascending, units of y
    n_bags, n_draws : int
        n and S.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
    """

    def __init__(
        self,
        log_densities: Callable[[Array], Iterator[Array]],
        grid: Array,
        n_bags: int,
        n_draws: int,
    ) -> None:
        super().__init__(self._density, n_bags, n_draws, None)
        self.log_densities, self.grid = log_densities, grid
        self._kept: Array | None = None
        kept = np.empty((n_bags, len(grid))) if n_bags * len(grid) <= _MOST_KEPT else None
        widths = trapezoid_weights(grid)
        for i, density in self._chunks():
            if kept is not None:
                kept[i] = density
            mass = density * widths
            self.mean[i] = mass @ grid
            away = grid - self.mean[i][:, None]
            self.sd[i] = np.sqrt(np.sum(mass * away**2, axis=1))
        self._kept = kept

    def __repr__(self) -> str:
        return (
            f"GridPredictive({len(self)} bags, {self.n_draws} draws, labels from "
            f"{self.grid[0]:.4g} to {self.grid[-1]:.4g}; "
            "mean, sd, quantile(q), interval(level), cdf(y), log_prob(y), sample(size))"
        )

    def expected(self, i: Array) -> Array:
        """Expected label of the bags `i` under each draw, shape (S, len(i)), in units of y."""
        moment = trapezoid_weights(self.grid) * self.grid
        return np.array([np.exp(values) @ moment for values in self.log_densities(i)])

    def cdf(self, y: ArrayLike) -> Array:
        """Predictive probability of a label below each of `y`.

        Uniform on (0, 1) where the predictions are calibrated (probability integral transform).

        Parameters
        ----------
        y : array, shape (n,), units of y

        Returns
        -------
        array, shape (n,)
        """
        y = self._label_values(y)
        below = np.empty(len(self))
        for i, density in self._chunks():
            row = np.arange(len(i))
            left, share = self._places(y[i])
            start, end = density[row, left], density[row, left + 1]
            piece = np.diff(self.grid)[left] * share * (start + 0.5 * (end - start) * share)
            below[i] = self._cumulated(density)[row, left] + piece
        return np.clip(below, 0.0, 1.0)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log predictive density of labels, -inf beyond the grid; array, shape (n,)."""
        y = self._label_values(y)
        value = np.empty(len(self))
        for i, density in self._chunks():
            value[i] = self._log_at(density, y[i])
        return value

    @classmethod
    def pooled(cls, predictives: Sequence[Self], weights: Array) -> Self:
        raise TypeError("densities on grids are mixed as they are: use bdr_stan.predictive.mix")

    @property
    def _numbers_a_bag(self) -> int:
        return len(self.grid)

    def _quantiles(self, density, i, levels):
        cumulated, row = self._cumulated(density), np.arange(len(i))
        steps = np.diff(self.grid)
        values = np.empty((len(levels), len(i)))
        for q, value in zip(levels, values, strict=True):
            left = np.clip(np.sum(cumulated <= q, axis=1) - 1, 0, len(self.grid) - 2)
            start, end = density[row, left], density[row, left + 1]
            rest = q - cumulated[row, left]
            slope = (end - start) / steps[left]
            # The root of start x + slope x^2 / 2 = rest, written so that no digits cancel.
            root = np.sqrt(np.maximum(start**2 + 2 * slope * rest, 0))
            step = np.divide(2 * rest, start + root, out=np.zeros(len(i)), where=start + root > 0)
            value[:] = self.grid[left] + np.clip(step, 0, steps[left])
        return values

    def _density(self, i):
        """Density of the bags `i` at the labels of the grid, averaged over the draws."""
        if self._kept is not None:
            return self._kept[i]
        total = np.zeros((len(i), len(self.grid)))
        for values in self.log_densities(i):
            total += np.exp(values)
        return total / self.n_draws

    def _log_at(self, density, labels):
        """Log of densities, a row each, at one label each."""
        row = np.arange(len(labels))
        left, share = self._places(labels)
        value = (1 - share) * density[row, left] + share * density[row, left + 1]
        value = np.where((labels >= self.grid[0]) & (labels <= self.grid[-1]), value, 0.0)
        return np.log(value, out=np.full(len(labels), -np.inf), where=value > 0)

    def _places(self, labels):
        """Between which labels of the grid each label lies, and how far to the next."""
        at = np.clip(labels, self.grid[0], self.grid[-1])
        left = np.clip(np.searchsorted(self.grid, at, side="right") - 1, 0, len(self.grid) - 2)
        return left, (at - self.grid[left]) / np.diff(self.grid)[left]

    def _log_density(self, density, i, labels):
        return np.array([self._log_at(np.exp(v), labels) for v in self.log_densities(i)])

    def _labels(self, density, i, draws, rng):
        levels = rng.random((len(draws), len(i)))
        cumulated = self._cumulated(density)
        return np.column_stack(
            [np.interp(u, own, self.grid) for u, own in zip(levels.T, cumulated, strict=True)]
        )

    def _cumulated(self, density):
        """Probability below each label of the grid, shape (m, M)."""
        pieces = 0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(self.grid)
        return np.pad(np.cumsum(pieces, axis=1), ((0, 0), (1, 0)))


def trapezoid_weights(grid: Array) -> Array:
    """Weights of the trapezoidal rule on a grid, shape (M,)."""
    steps = np.diff(grid)
    weights = np.zeros(len(grid))
    weights[:-1] += steps / 2
    weights[1:] += steps / 2
    return weights
