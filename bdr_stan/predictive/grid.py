"""Predictive distributions of labels that have no simple form: densities on a grid of labels."""

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
from scipy.special import ndtr

from bdr_stan.predictive.mixture import Mixture
from bdr_stan.types import Array, ArrayLike

_MOST_KEPT = 20_000_000  # numbers of the densities that are kept (160 MB)
_MARGIN = 4.0  # of the largest noise, by which labels with noise go beyond the grid
_BEYOND = 40  # labels of the grid there, at either end
_LEAST_NOISE = 1e-9  # of the length of the grid: less is as none


class GridPredictive(Mixture):
    """Predictive distribution of the labels of n bags, as a density on a grid of labels.

    Between two labels of the grid the density is linear, beyond the ends it is 0. Noise widens it.

    Parameters
    ----------
    log_densities : callable
        ``log_densities(i)`` yields, one posterior draw after the other, the log density at the
        labels of the grid of the bags with integer indices `i`, shape (len(i), M).
    grid : array, shape (M,), ascending, units of y
    n_bags, n_draws : int
        n and S.
    noise_sd : array, shape (n,), >= 0, optional
        Standard deviation of normal noise that each label has besides, units of y.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import GridPredictive
    >>> grid = np.linspace(0, 1, 101)
    >>> with np.errstate(divide="ignore"):
    ...     log_density = np.log(2 * grid)  # of one bag, under its only draw
    ...
    >>> predictive = GridPredictive(lambda i: iter([log_density[None]]), grid, n_bags=1, n_draws=1)
    >>> predictive.mean.round(2), predictive.quantile(0.5).round(2)
    (array([0.67]), array([0.71]))
    >>> predictive.cdf([0.5]).round(2)
    array([0.25])
    """

    def __init__(
        self,
        log_densities: Callable[[Array], Iterator[Array]],
        grid: Array,
        n_bags: int,
        n_draws: int,
        noise_sd: Array | None = None,
    ) -> None:
        super().__init__(self._density, n_bags, n_draws, None)
        self.log_densities, self.grid = log_densities, grid
        self.noise_sd = noise_sd if noise_sd is not None and np.any(noise_sd) else None
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
        if self.noise_sd is not None:
            self.sd = np.hypot(self.sd, self.noise_sd)
        self._kept = kept

    def __repr__(self) -> str:
        return (
            f"GridPredictive({len(self)} bags, {self.n_draws} draws, {len(self.grid)} labels; "
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
            density, grid = self._with_noise(density, i)
            left, share = _places(grid, y[i])
            start, end = density[row, left], density[row, left + 1]
            piece = np.diff(grid)[left] * share * (start + 0.5 * (end - start) * share)
            below[i] = _cumulated(density, grid)[row, left] + piece
        return np.clip(below, 0.0, 1.0)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log predictive density of labels; array, shape (n,). Without noise -inf off the grid."""
        y = self._label_values(y)
        value = np.empty(len(self))
        for i, density in self._chunks():
            value[i] = self._reader(i, y[i])(density)
        return value

    @classmethod
    def pooled(cls, predictives: Sequence[Self], weights: Array) -> Self:
        raise TypeError("densities on grids are mixed as they are: use bdr_stan.predictive.mix")

    @property
    def _numbers_a_bag(self) -> int:
        return len(self.grid)

    def _quantiles(self, density, i, levels):
        density, grid = self._with_noise(density, i)
        cumulated, row = _cumulated(density, grid), np.arange(len(i))
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
        return values

    def _density(self, i):
        """Density of the bags `i` at the labels of the grid, averaged over the draws."""
        if self._kept is not None:
            return self._kept[i]
        total = np.zeros((len(i), len(self.grid)))
        for values in self.log_densities(i):
            total += np.exp(values)
        return total / self.n_draws

    def _with_noise(self, density, i):
        """Densities of the labels of the bags `i` with their noise, a row each, and their grid."""
        if self.noise_sd is None:
            return density, self.grid
        grid = _widened(self.grid, _MARGIN * self.noise_sd.max())
        wider = np.empty((len(i), len(grid)))
        for sd in np.unique(self.noise_sd[i]):
            of = self.noise_sd[i] == sd
            wider[of] = density[of] @ weights_at(grid, self.grid, sd).T
        mass = density @ trapezoid_weights(self.grid)
        return wider * (mass / (wider @ trapezoid_weights(grid)))[:, None], grid

    def _reader(self, i, labels):
        """From densities of the bags `i`, a row each, to the log of each one's at its own label."""
        if self.noise_sd is not None:
            weights = weights_at(labels, self.grid, self.noise_sd[i])
            return lambda density: _log(np.sum(weights * density, axis=1))
        row, (left, share) = np.arange(len(i)), _places(self.grid, labels)
        inside = (labels >= self.grid[0]) & (labels <= self.grid[-1])

        def log_at(density):
            value = (1 - share) * density[row, left] + share * density[row, left + 1]
            return _log(np.where(inside, value, 0.0))

        return log_at

    def _log_density(self, density, i, labels):
        log_at = self._reader(i, labels)
        return np.array([log_at(np.exp(values)) for values in self.log_densities(i)])

    def _labels(self, density, i, draws, rng):
        levels = rng.random((len(draws), len(i)))
        cumulated = _cumulated(density, self.grid)
        labels = np.column_stack(
            [np.interp(u, own, self.grid) for u, own in zip(levels.T, cumulated, strict=True)]
        )
        if self.noise_sd is not None:
            labels += self.noise_sd[i] * rng.standard_normal(labels.shape)
        return labels


def _log(density):
    return np.log(density, out=np.full(len(density), -np.inf), where=density > 0)


def _places(grid, labels):
    """Between which labels of the grid each label lies, and how far to the next."""
    at = np.clip(labels, grid[0], grid[-1])
    left = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, len(grid) - 2)
    return left, (at - grid[left]) / np.diff(grid)[left]


def _cumulated(density, grid):
    """Probability below each label of the grid, shape (m, M)."""
    pieces = 0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(grid)
    return np.pad(np.cumsum(pieces, axis=1), ((0, 0), (1, 0)))


def _widened(grid, beyond):
    """A grid and labels beyond its ends, ever farther apart."""
    steps = np.geomspace(min(np.diff(grid).min(), beyond), beyond, _BEYOND)
    return np.unique(np.concatenate([grid[0] - steps, grid, grid[-1] + steps]))


def trapezoid_weights(grid: Array) -> Array:
    """Weights of the trapezoidal rule on a grid, shape (M,)."""
    steps = np.diff(grid)
    weights = np.zeros(len(grid))
    weights[:-1] += steps / 2
    weights[1:] += steps / 2
    return weights


def weights_at(labels: Array, grid: Array, noise_sd: ArrayLike) -> Array:
    """Weights, shape (m, M), of a density on a grid, linear between, in that of noisy labels.

    Labels have shape (m,), the ascending grid (M,); `noise_sd` is a number or one per label.
    """
    sd = np.maximum(noise_sd, _LEAST_NOISE * np.ptp(grid))
    sd = np.broadcast_to(sd, len(labels))[:, None]
    away = (grid - labels[:, None]) / sd
    above = away[:, :-1] > 0  # where the upper tail keeps the digits
    mass = np.where(above, -np.diff(ndtr(-away), axis=1), np.diff(ndtr(away), axis=1))
    peak = sd * np.diff(np.exp(-0.5 * away**2), axis=1) / np.sqrt(2 * np.pi)
    right = ((labels[:, None] - grid[:-1]) * mass - peak) / np.diff(grid)
    weights = np.zeros(away.shape)
    weights[:, :-1] = mass - right
    weights[:, 1:] += right
    return np.maximum(weights, 0.0)  # rounding
