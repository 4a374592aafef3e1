"""Mixtures of the predictive distributions of several models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bdr_stan.predictive.distributions import Distributions, check_sample_size
from bdr_stan.predictive.grid import GridPredictive
from bdr_stan.types import Array, ArrayLike, Seed

_BISECTIONS = 60  # of the bracket of a quantile: down to rounding


class Blend(Distributions):
    """Mixture of predictive distributions of real labels of different kinds; weights of sum 1."""

    def __init__(self, predictives: Sequence[Any], weights: Array) -> None:
        self.predictives, self.weights = list(predictives), weights
        self.with_ids_of(predictives[0])
        self.is_partly_known = any(getattr(p, "is_partly_known", False) for p in predictives)
        means = np.array([p.mean for p in predictives])
        second = np.array([p.sd**2 for p in predictives]) + means**2
        self.mean = weights @ means
        self.sd = np.sqrt(np.maximum(weights @ second - self.mean**2, 0))

    @property
    def _described(self):
        return f"{super()._described}, {len(self.predictives)} models"

    @property
    def is_count(self) -> bool:  # type: ignore[override]
        """Whether the labels are counts."""
        return all(p.is_count for p in self.predictives)

    def cdf(self, y: ArrayLike) -> Array:
        """Predictive probability of a label below each of `y`, shape (n,)."""
        return self.weights @ np.array([p.cdf(y) for p in self.predictives])

    def log_prob(self, y: ArrayLike) -> Array:
        """Log predictive density of labels `y`, shape (n,)."""
        densities = np.array([p.log_prob(y) for p in self.predictives])
        return logsumexp(densities, b=self.weights[:, None], axis=0)

    def _quantiles_at(self, levels):
        return np.array([self._quantile(level) for level in levels])

    def _quantile(self, level):
        """Quantile of each bag, shape (n,): bisection between the parts' quantiles."""
        of_parts = np.array([p.quantile(level) for p in self.predictives])
        low, high = of_parts.min(axis=0), of_parts.max(axis=0)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        value = np.round(high) if self.is_count else (low + high) / 2
        for part in self.predictives:
            if isinstance(part, GridPredictive):
                value = part.repeated.snapped(value, part.grid)
        return value

    def sample(self, size: int | None = None, *, seed: Seed = None) -> Array:
        """Labels drawn as in `Predictive.sample`; by default as many as the parts have draws."""
        check_sample_size(size)
        rng = np.random.default_rng(seed)
        n = sum(p.n_draws for p in self.predictives) if size is None else size
        part = rng.choice(len(self.predictives), n, p=self.weights)
        labels = [p.sample(n, seed=rng) for p in self.predictives]
        return np.array([labels[k][draw] for draw, k in enumerate(part)])


def mix(predictives: Sequence[Any], weights: ArrayLike) -> Any:
    """Mixture of predictive distributions of the same bags.

    Parameters
    ----------
    predictives : list of Predictive, GridPredictive and OutcomePredictive, of AggregatePredictive
        of one likelihood, of classifiers' with the same classes, or of Contrast
    weights : array, shape (len(predictives),), of sum 1

    Returns
    -------
    Predictive, OutcomePredictive, AggregatePredictive, ClassPredictive, MulticlassPredictive or \
            Contrast
        With the draws of all, each with its share of the weight.
    Blend
        If they are of several kinds or families, or one of them is a density on a grid.

    Raises
    ------
    ValueError
        No predictive, predictives of different bags, or weights that are negative or do not sum
        to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Predictive
    >>> from bdr_stan.predictive import mix
    >>> def normal(mean):
    ...     return Predictive(lambda i: (np.full((1, len(i)), mean), np.ones((1, len(i)))), 1, 1)
    ...
    >>> mixture = mix([normal(0.0), normal(4.0)], weights=[0.75, 0.25])
    >>> mixture.mean, mixture.sd
    (array([1.]), array([2.]))
    """
    weights = np.asarray(weights, float)
    if not len(predictives) or weights.shape != (len(predictives),):
        raise ValueError(
            f"weights have shape {weights.shape}, but there are {len(predictives)} predictives: "
            "one each, and at least one"
        )
    if len({len(p) for p in predictives}) > 1:
        raise ValueError(
            "the predictives are of different numbers of bags: pass predictives of the same bags"
        )
    named = [p for p in predictives if getattr(p, "ids", None) is not None]
    if any(not np.array_equal(p.ids, named[0].ids) for p in named):
        raise ValueError(
            "the predictives are of bags with different ids: pass predictives of the same bags"
        )
    if not np.isclose(weights.sum(), 1) or (weights < 0).any():
        raise ValueError(f"weights must be >= 0 and sum to 1, found {weights.tolist()}")
    kinds = {(type(p), getattr(p, "kind", None)) for p in predictives}
    if len(kinds) > 1 or isinstance(predictives[0], GridPredictive):
        return Blend(predictives, weights)
    shares = [
        np.full(p.n_draws, weight / p.n_draws) if p.weights is None else weight * p.weights
        for p, weight in zip(predictives, weights, strict=True)
    ]
    pooled = type(predictives[0]).pooled(predictives, np.concatenate(shares))
    return pooled.with_ids_of(named[0]) if named else pooled
