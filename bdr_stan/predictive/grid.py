"""Predictive distributions of labels that have no simple form: densities on a grid of labels."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from bdr_stan.predictive.mixture import Mixture
from bdr_stan.types import Array, ArrayLike


class GridPredictive(Mixture):
    """Predictive distribution of the labels of n bags, as a density on a grid of labels.

    Between two labels of the grid the density is linear, beyond the ends it is 0.

    Parameters
    ----------
    densities : callable
        ``densities(i)`` gives the density, averaged over the posterior draws, of the bags with
        integer indices `i` at the labels of the grid, shape (len(i), M).
    log_densities : callable
        ``log_densities(i, y)`` gives the log density under each draw of the label of each of
        these bags, shape (S, len(i)).
    grid : array, shape (M,), ascending, units of y
    n_bags, n_draws : int
        n and S.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
    """

    def __init__(
        self,
        densities: Callable[[Array], Array],
        log_densities: Callable[[Array, Array], Array],
        grid: Array,
        n_bags: int,
        n_draws: int,
    ) -> None:
        super().__init__(densities, n_bags, n_draws, None)
        self.log_densities, self.grid = log_densities, grid
        self._widths = trapezoid_weights(grid)
        for i, density in self._chunks():
            mass = density * self._widths
            self.mean[i] = mass @ grid
            away = grid - self.mean[i][:, None]
            self.sd[i] = np.sqrt(np.sum(mass * away**2, axis=1))

    def __repr__(self) -> str:
        return (
            f"GridPredictive({len(self)} bags, {self.n_draws} draws, labels from "
            f"{self.grid[0]:.4g} to {self.grid[-1]:.4g}; "
            "mean, sd, quantile(q), interval(level), cdf(y), log_prob(y), sample(size))"
        )

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
            at = np.clip(y[i], self.grid[0], self.grid[-1])
            left = np.clip(np.searchsorted(self.grid, at, side="right") - 1, 0, len(self.grid) - 2)
            row = np.arange(len(i))
            start, end = density[row, left], density[row, left + 1]
            step = at - self.grid[left]
            slope = (end - start) / np.diff(self.grid)[left]
            below[i] = self._cumulated(density)[row, left] + step * (start + 0.5 * slope * step)
        return np.clip(below, 0.0, 1.0)

    @classmethod
    def pooled(cls, predictives: Sequence[Self], weights: Array) -> Self:
        raise TypeError("densities on grids are mixed as they are: use bdr_stan.predictive.mix")

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

    def _log_density(self, density, i, labels):
        return self.log_densities(i, labels)

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
