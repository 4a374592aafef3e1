"""Predictive distributions of real labels that are mixtures of normals given each draw, too."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from scipy.special import logsumexp, ndtr

from bdr_stan.predictive.mixture import Mixture
from bdr_stan.predictive.normal import normal_quantile
from bdr_stan.types import Array, ArrayLike

# Quantiles are those of every k-th normal if there are more: enough for three digits.
_NORMALS_OF_QUANTILES = 8000


class NestedPredictive(Mixture):
    """Predictive distribution of the labels of n bags, which may be skewed.

    For each bag a mixture, over the posterior draws, of mixtures of M normals of equal weight.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives the means and the standard deviations, each of shape
        (S M, len(i)), of the normals of the bags with integer indices `i`, draw by draw.
    n_bags, n_draws, n_points : int
        n, S and M.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Exact moments of the mixture.
    """

    def __init__(
        self,
        components: Callable[[Array], tuple[Array, Array]],
        n_bags: int,
        n_draws: int,
        n_points: int,
        weights: Array | None = None,
    ) -> None:
        super().__init__(components, n_bags, n_draws, weights)
        self.n_points = n_points
        each = self._normal_weights
        for i, (mean, sd) in self._chunks():
            self.mean[i] = each @ mean
            self.sd[i] = np.sqrt(each @ (sd**2 + (mean - self.mean[i]) ** 2))

    def __repr__(self) -> str:
        return (
            f"NestedPredictive({len(self)} bags, {self.n_draws} draws; "
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
        y, each = self._label_values(y), self._normal_weights
        below = np.empty(len(self))
        for i, (mean, sd) in self._chunks():
            below[i] = each @ ndtr((y[i] - mean) / sd)
        return below

    @classmethod
    def pooled(cls, predictives: Sequence[Self], weights: Array) -> Self:
        def components(i):
            parts = [p.components(i) for p in predictives]
            mean, sd = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            return mean, sd

        first = predictives[0]
        return cls(components, len(first), len(weights), first.n_points, weights)

    @property
    def _normal_weights(self):
        return np.repeat(self._draw_weights, self.n_points) / self.n_points

    @property
    def _numbers_a_bag(self):
        return self.n_draws * self.n_points

    def _of_draws(self, values):
        """Values of the normals, shape (S M, m), as (S, M, m)."""
        return values.reshape(self.n_draws, self.n_points, -1)

    def _expected(self, components, i):
        return self._of_draws(components[0]).mean(axis=1)

    def _quantiles(self, components, i, levels):
        step = -(-self._numbers_a_bag // _NORMALS_OF_QUANTILES)
        step += step % 2 == 0  # an odd step comes by all points, whose number is even
        few = slice(step // 2, None, step)
        mean, sd, weights = components[0][few], components[1][few], self._normal_weights[few]
        tolerance = 1e-10 * sd.min(axis=0)
        weights = weights / weights.sum()
        return np.array([normal_quantile(mean, sd, q, weights, tolerance) for q in levels])

    def _log_density(self, components, i, labels):
        mean, sd = components
        each = -0.5 * ((labels - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
        return logsumexp(self._of_draws(each), axis=1) - np.log(self.n_points)

    def _labels(self, components, i, draws, rng):
        mean, sd = components
        at = draws * self.n_points + rng.integers(self.n_points, size=len(draws))
        return rng.normal(mean[at], sd[at])
