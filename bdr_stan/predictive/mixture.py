"""What predictive distributions share: for each bag a mixture over the posterior draws."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from bdr_stan.bags.checks import as_real_numbers
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.predictive.table import Tabular
from bdr_stan.types import Array, ArrayLike, Seed, is_integer, is_number

# Mixture components (draws x bags) held in memory at a time: 8 MB an array.
COMPONENTS_AT_ONCE = 1_000_000


class Mixture(Tabular, ABC):
    """Base of the predictive distributions of n bags, each a mixture over S posterior draws.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives an array or a pair of arrays, of shape (S, len(i)), that say what
        each draw predicts of the bags with integer indices `i`.
    n_bags, n_draws : int
        n and S.
    weights : array, shape (S,), or None
        Weight of each draw, of sum 1; None for equal weights.

    Attributes
    ----------
    ids : array, shape (n,), or None
        Of the bags, to which labels in a pandas Series are matched by its index.
    """

    def __init__(
        self,
        components: Callable[[Array], Any],
        n_bags: int,
        n_draws: int,
        weights: Array | None,
    ) -> None:
        self.components = components
        self.n_draws, self.weights = n_draws, weights
        self.mean, self.sd = np.empty(n_bags), np.empty(n_bags)

    def __len__(self) -> int:
        return len(self.mean)

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of the label of each bag; of classes, of the second one's probability.

        Parameters
        ----------
        q : float or array, shape (k,), 0 < q < 1

        Returns
        -------
        array, shape (n,) or (k, n), units of y
            Of counts the smallest whose `cdf` reaches q, so that an `interval` holds at least its
            level.

        Raises
        ------
        ValueError
            If a q is not strictly between 0 and 1.
        """
        levels = quantile_levels(q)
        values = np.empty((len(levels), len(self)))
        for i, components in self._chunks():
            values[:, i] = self._quantiles(components, i, levels)
        return values[0] if np.ndim(q) == 0 else values

    def expected(self, i: Array) -> Array:
        """Expected label of the bags `i` under each draw, shape (S, len(i)), in units of y.

        Of classes the probability of the second.
        """
        return self._expected(self.components(i), i)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central (equal-tailed) intervals, between two values of `quantile`.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95

        Returns
        -------
        lower, upper : arrays, shape (n,)

        Raises
        ------
        ValueError
            If the level is not strictly between 0 and 1.
        """
        lower, upper = self.quantile(interval_ends(level))
        return lower, upper

    def log_prob(self, y: ArrayLike) -> Array:
        """Log predictive density or probability of labels, averaged over the posterior.

        Parameters
        ----------
        y : array, shape (n,)

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError
            Another number of labels than bags, or a label that is no class.
        """
        weights = 1 / self.n_draws if self.weights is None else self.weights[:, None]
        value = np.empty(len(self))
        for i, each in self._log_components(y):
            value[i] = logsumexp(each, b=weights, axis=0)
        return value

    def log_likelihood(self, y: ArrayLike) -> Array:
        """Log density or probability of each label under each draw, shape (S, n)."""
        return np.concatenate([each for _, each in self._log_components(y)], axis=1)

    def sample(self, size: int | None = None, *, seed: Seed = None) -> Array:
        """Draw labels from the predictive distribution.

        Parameters
        ----------
        size : int, optional
            Labels per bag; default one for each posterior draw, in the order of the draws
            (drawn by weight where they have weights).
        seed : int or numpy Generator, optional

        Returns
        -------
        array, shape (size, n)
            In units of y, integers where labels are counts; of classes, out of `classes`.
        """
        if size is not None and not (is_integer(size) and size >= 1):
            raise ValueError(f"size must be None or an integer >= 1, found {size!r}")
        rng = np.random.default_rng(seed)
        if size is None and self.weights is None:
            draws = np.arange(self.n_draws)
        else:
            n = self.n_draws if size is None else size
            draws = rng.choice(self.n_draws, size=n, p=self.weights)
        labels = [self._labels(components, i, draws, rng) for i, components in self._chunks()]
        return np.concatenate(labels, axis=1)

    # ------------------------------------------------------------ what each distribution says

    @classmethod
    @abstractmethod
    def pooled(cls, predictives: Sequence[Self], weights: Array) -> Self:
        """The mixture over the draws of all `predictives`, which are of one kind.

        `weights` has one weight for each draw of the first, then of the second, and so on.
        """

    def _expected(self, components: Any, i: Array) -> Array:
        """Expected label of the bags `i` under each draw, shape (S, len(i))."""
        raise TypeError(
            f"{type(self).__name__} has no expected label, which contrasts are of: these are for "
            "labels that are numbers, and for two classes"
        )

    @abstractmethod
    def _quantiles(self, components: Any, i: Array, levels: Array) -> Array:
        """Quantiles of the bags `i`, shape (k, len(i))."""

    @abstractmethod
    def _log_density(self, components: Any, i: Array, labels: Array) -> Array:
        """Log density of the labels of the bags `i` under each draw, shape (S, len(i))."""

    @abstractmethod
    def _labels(self, components: Any, i: Array, draws: Array, rng: np.random.Generator) -> Array:
        """A label of each of the bags `i` under each of the draws, shape (len(draws), len(i))."""

    # ------------------------------------------------------------ for all of them

    @property
    def _draw_weights(self) -> Array:
        return np.full(self.n_draws, 1 / self.n_draws) if self.weights is None else self.weights

    @property
    def _numbers_a_bag(self) -> int:
        """How many numbers the components of a bag hold in memory."""
        return self.n_draws

    def _chunks(self) -> Iterator[tuple[Array, Any]]:
        """Indices of the bags, some at a time, and their components."""
        for i in bags_at_once(len(self), self._numbers_a_bag):
            yield i, self.components(i)

    def _log_components(self, y: ArrayLike) -> Iterator[tuple[Array, Array]]:
        labels = self._label_values(y)
        for i, components in self._chunks():
            yield i, self._log_density(components, i, labels[i])

    def _label_values(self, y: ArrayLike) -> Array:
        """Labels as `_log_density` takes them, checked, shape (n,)."""
        return self._one_a_bag(label_numbers(self._in_order(y)))

    def _in_order(self, y: ArrayLike) -> ArrayLike:
        """Labels in the order of the bags."""
        return match_to_ids(y, self.ids)

    def _one_a_bag(self, y: Array) -> Array:
        if y.shape != (len(self),):
            raise ValueError(f"y has shape {y.shape}, but there are {len(self)} bags")
        return y


def bags_at_once(n_bags: int, n_draws: int) -> Iterator[Array]:
    """Indices of bags, as many at a time as `COMPONENTS_AT_ONCE` allows."""
    chunk = max(1, COMPONENTS_AT_ONCE // n_draws)
    for first in range(0, n_bags, chunk):
        yield np.arange(first, min(first + chunk, n_bags))


def label_numbers(y: ArrayLike) -> Array:
    """Labels as floats; TypeError if they are not numbers."""
    try:
        return as_real_numbers(y)
    except (TypeError, ValueError):
        raise TypeError("the labels y are not numbers: pass one number per bag") from None


def interval_ends(level: float) -> list[float]:
    """Probabilities below the two ends of a central interval; ValueError unless 0 < level < 1."""
    check_level(level)
    return [(1 - level) / 2, (1 + level) / 2]


def check_level(level: float) -> None:
    """Raise ValueError unless 0 < level < 1."""
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level must be a probability between 0 and 1, found {level!r}")


def quantile_levels(q: ArrayLike) -> Array:
    """Probabilities of quantiles, shape (k,); ValueError unless 0 < q < 1."""
    try:
        levels = np.atleast_1d(np.asarray(q, float))
    except (TypeError, ValueError):
        levels = np.array([np.nan])
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"quantiles need 0 < q < 1, found q = {q}")
    return levels


def mixture_quantile(
    start: Array,
    low: Array,
    high: Array,
    level: float,
    weights: Array,
    cdf_and_density: Callable[[Array, Array], tuple[Array, Array]],
    tolerance: Array,
) -> Array:
    """Quantiles of mixtures of continuous components: Newton's method kept inside a bracket.

    Parameters
    ----------
    start, low, high : arrays, shape (m,)
        Where the search for the quantile of each mixture begins, and the smallest and largest of
        its components' quantiles, between which its own lies.
    level : float, 0 < level < 1
    weights : array, shape (S,), of sum 1
    cdf_and_density : callable
        ``cdf_and_density(x, of)`` gives both, of shape (S, len(of)), of the components of the
        mixtures `of`, each at its own x, shape (len(of),).
    tolerance : array, shape (m,)
        A step below it is the last.

    Returns
    -------
    array, shape (m,)
    """
    low, high = low.copy(), high.copy()
    x = np.clip(start, low, high)
    going = np.flatnonzero(high - low > tolerance)
    for _ in range(100):
        if not len(going):
            break
        at = x[going]
        below, density = (weights @ values for values in cdf_and_density(at, going))
        excess = below - level
        low[going] = np.where(excess < 0, at, low[going])
        high[going] = np.where(excess >= 0, at, high[going])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            new = at - excess / density
        inside = (new > low[going]) & (new < high[going])
        x[going] = np.where(inside, new, (low[going] + high[going]) / 2)
        going = going[np.abs(x[going] - at) > tolerance[going]]
    return x
