"""Predictive distributions that are, for each bag, a mixture over the posterior draws."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from bdr_stan.bags.checks import as_vector, checked_numbers
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.predictive.distributions import Distributions, check_sample_size
from bdr_stan.types import Array, ArrayLike, Seed

# Mixture components (draws x bags) held in memory at a time: 8 MB per array.
COMPONENTS_AT_ONCE = 1_000_000


class Mixture(Distributions):
    """Base of distributions of n bags, each a mixture over S posterior draws.

    ``components(i)`` returns each draw's prediction for the bags with indices `i`: an array or a
    tuple of arrays, shape (S, len(i)). `weights` of the draws have shape (S,) and sum 1; None for
    equal ones.
    """

    def __init__(
        self,
        components: Callable[[Array], Any],
        n_bags: int,
        n_draws: int,
        weights: Array | None = None,
    ) -> None:
        self.components = components
        self.n_draws, self.weights = n_draws, weights
        shape = (n_bags, *self._shape)
        self.mean, self.sd = np.empty(shape), np.empty(shape)
        for i, components_i in self._chunks():
            mean, variance = self._moments(components_i, i)
            self.mean[i] = self._average(mean)
            self.sd[i] = np.sqrt(self._average(variance + (mean - self.mean[i]) ** 2))

    @classmethod
    def pooled(cls, predictives: Sequence[Self], weights: Array) -> Self:
        """The mixture of the draws of all `predictives`, of one kind, with their weights."""

        def components(i):
            parts = [p.components(i) for p in predictives]
            if isinstance(parts[0], np.ndarray):
                return np.concatenate(parts)
            return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

        n_bags, settings = len(predictives[0]), cls._pooled_settings(predictives)
        return cls(components, n_bags, len(weights), weights=weights, **settings)

    @classmethod
    def _pooled_settings(cls, predictives: Sequence[Self]) -> dict[str, Any]:
        """Further arguments of the constructor, for the draws of all predictives."""
        return {}

    @property
    def _described(self) -> str:
        return f"{len(self)} bags, {self.n_draws} draws"

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of the mean of one bag."""
        return ()

    @abstractmethod
    def _moments(self, components: Any, i: Array) -> tuple[Array, ArrayLike]:
        """Mean and variance of the bags `i` under each draw, shapes (S, len(i))."""

    @abstractmethod
    def _quantiles(self, components: Any, i: Array, levels: Array) -> Array:
        """Quantiles of the bags `i`, shape (k, len(i))."""

    def _average(self, values):
        """Average over the draws, which are the first axis."""
        return np.average(values, axis=0, weights=self.weights)

    @property
    def _draw_weights(self) -> Array:
        return np.full(self.n_draws, 1 / self.n_draws) if self.weights is None else self.weights

    @property
    def numbers_per_bag(self) -> int:
        """Numbers in memory for the components of a bag."""
        return self.n_draws

    def _chunks(self) -> Iterator[tuple[Array, Any]]:
        """Indices of the bags, some at a time, and their components."""
        for i in bags_at_once(len(self), self.numbers_per_bag):
            yield i, self.components(i)

    def _quantiles_at(self, levels):
        values = np.empty((len(levels), *self.mean.shape))
        for i, components in self._chunks():
            values[:, i] = self._quantiles(components, i, levels)
        return values


class LabelMixture(Mixture):
    """Base of the predictive distributions of labels."""

    # Attributes that distributions must share to be pooled, in addition to their class.
    kind: Any = None

    def expected(self, i: Array) -> Array:
        """Expected label, or probability of the second class, under each draw; (S, len(i))."""
        return self.label_moments(i)[0]

    def label_moments(self, i: Array) -> tuple[Array, Array]:
        """Mean and variance of the labels of the bags `i` under each draw, shapes (S, len(i))."""
        mean, variance = self._moments(self.components(i), i)
        return mean, np.broadcast_to(variance, mean.shape)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log predictive density or probability of labels, averaged over the posterior.

        Parameters
        ----------
        y : array, shape (n,), label of each bag, in its units

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError : another number of labels than bags, or a label that is not a class.
        """
        weights = self._draw_weights[:, None]
        value = np.empty(len(self))
        for i, densities in self._log_components(y):
            value[i] = logsumexp(densities, b=weights, axis=0)
        return value

    def log_likelihood(self, y: ArrayLike) -> Array:
        """Log density or probability of labels `y`, shape (n,), under each draw; shape (S, n)."""
        return np.concatenate([densities for _, densities in self._log_components(y)], axis=1)

    def log_density_function(self, i: Array) -> Callable[[Array], Array]:
        """Function from labels, of classes codes, of the bags `i` to log densities, (S, m)."""
        components = self.components(i)
        return lambda labels: self._log_density(components, i, labels)

    def sample(self, size: int | None = None, *, seed: Seed = None) -> Array:
        """Draw labels from the predictive distribution.

        Parameters
        ----------
        size : int, optional
            Labels per bag; default one for each posterior draw, in the order of the draws
            (drawn by weight if they have weights).
        seed : int or numpy Generator, optional

        Returns
        -------
        array, shape (size, n)
            In units of y, integers if labels are counts; for classes, out of `classes`.

        Raises
        ------
        ValueError : if the size is not a positive integer.
        """
        check_sample_size(size)
        rng = np.random.default_rng(seed)
        if size is None and self.weights is None:
            draws = np.arange(self.n_draws)
        else:
            n = self.n_draws if size is None else size
            draws = rng.choice(self.n_draws, size=n, p=self.weights)
        labels = [self._labels(components, i, draws, rng) for i, components in self._chunks()]
        return np.concatenate(labels, axis=1)

    @abstractmethod
    def _log_density(self, components: Any, i: Array, labels: Array) -> Array:
        """Log density of the labels of the bags `i` under each draw, shape (S, len(i))."""

    @abstractmethod
    def _labels(self, components: Any, i: Array, draws: Array, rng: np.random.Generator) -> Array:
        """A label of each of the bags `i` under each of the draws, shape (len(draws), len(i))."""

    def _label_values(self, y: ArrayLike) -> Array:
        """Labels in the form for `_log_density`, checked, shape (n,)."""
        return self._in_order(y, label_numbers)

    def _log_components(self, y: ArrayLike) -> Iterator[tuple[Array, Array]]:
        labels = self._label_values(y)
        for i, components in self._chunks():
            yield i, self._log_density(components, i, labels[i])

    def _in_order(self, y: ArrayLike, convert: Callable[[ArrayLike], Array]) -> Array:
        """Labels in the order of the bags as an array of shape (n,)."""
        return as_vector(convert(match_to_ids(y, self.ids)), len(self), "y", "bag")


class NumericMixture(LabelMixture):
    """Base of the predictive distributions of labels that are numbers."""

    def cdf(self, y: ArrayLike) -> Array:
        """Predictive probability, shape (n,), of a label at or below each bag's in `y`.

        Uniform on (0, 1) if the predictions are calibrated (probability integral transform). For
        counts it includes the probability of y itself and so exceeds uniform numbers, by little if
        counts are large.
        """
        y = self._label_values(y)
        below = np.empty(len(self))
        for i, components in self._chunks():
            below[i] = self._cdf(components, i, y[i])
        return below

    @abstractmethod
    def _cdf(self, components: Any, i: Array, labels: Array) -> Array:
        """Cdf of the bags `i` at their labels, shape (len(i),)."""


def pooled_scales(predictives: Sequence[Any]) -> dict[str, Array]:
    """`scales`, one per draw by name, of several mixtures, concatenated."""
    return {n: np.concatenate([p.scales[n] for p in predictives]) for n in predictives[0].scales}


def bags_at_once(n_bags: int, n_draws: int) -> Iterator[Array]:
    """Indices of bags, as many at a time as `COMPONENTS_AT_ONCE` allows."""
    chunk = max(1, COMPONENTS_AT_ONCE // n_draws)
    for first in range(0, n_bags, chunk):
        yield np.arange(first, min(first + chunk, n_bags))


def label_numbers(y: ArrayLike) -> Array:
    """Labels as floats; TypeError if they are not numbers."""
    return checked_numbers(y, "label")


def mixture_quantile(
    start: Array,
    low: Array,
    high: Array,
    level: float,
    weights: Array,
    cdf_and_density: Callable[[Array, Array], tuple[Array, Array]],
    tolerance: Array,
) -> Array:
    """Quantiles, shape (m,), of mixtures of continuous components: safeguarded Newton's method.

    From `start`, (m,), in the bracket of the components' quantiles to a step below `tolerance`.
    ``cdf_and_density(x, j)`` returns both, (S, len(j)), of components of the mixtures `j`, at x.
    """
    low, high = low.copy(), high.copy()
    x = np.clip(start, low, high)
    going = np.flatnonzero(high - low > tolerance)
    for _ in range(100):
        if not len(going):
            break
        old = x[going]
        below, density = (weights @ values for values in cdf_and_density(old, going))
        excess = below - level
        # The cdf is monotone: each evaluation moves one end of the bracket.
        low[going] = np.where(excess < 0, old, low[going])
        high[going] = np.where(excess >= 0, old, high[going])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            new = old - excess / density
        # Between far modes the density underflows and the Newton step leaves the bracket (or is
        # NaN): halve it instead.
        inside = (new > low[going]) & (new < high[going])
        x[going] = np.where(inside, new, (low[going] + high[going]) / 2)
        going = going[np.abs(x[going] - old) > tolerance[going]]
    return x
