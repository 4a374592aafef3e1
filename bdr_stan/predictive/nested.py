"""Predictive distributions of real labels that, given each draw, are mixtures of normals too."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from bdr_stan.predictive.normal import Predictive, normal_quantile
from bdr_stan.types import Array

# Quantiles use every k-th normal where there are more: enough for three digits.
_NORMALS_OF_QUANTILES = 8000


class NestedPredictive(Predictive):
    """Predictive distribution of the labels of n bags, which may be skewed.

    For each bag a mixture, over S posterior draws, of mixtures of M = `n_points` normals of equal
    weight. ``components(i)`` gives their means and standard deviations, each of shape
    (S M, len(i)): the M normals of the first draw, then those of the second, and so on.
    """

    def __init__(
        self,
        components: Callable[[Array], tuple[Array, Array]],
        n_bags: int,
        n_draws: int,
        n_points: int,
        weights: Array | None = None,
    ) -> None:
        self.n_points = n_points
        super().__init__(components, n_bags, n_draws, weights)

    @property
    def _settings(self):
        return {"n_points": self.n_points}

    @property
    def _numbers_per_bag(self):
        return self.n_draws * self.n_points

    def _by_draw(self, values):
        """Values of the normals, shape (S M, m), as (S, M, m)."""
        return values.reshape(self.n_draws, self.n_points, -1)

    def _moments(self, components, i):
        means, sds = map(self._by_draw, components)
        mean = means.mean(axis=1)
        # The law of total variance within each draw.
        return mean, np.mean(sds**2 + (means - mean[:, None]) ** 2, axis=1)

    def _cdf(self, components, i, labels):
        return self._by_draw(super()._cdf(components, i, labels)).mean(axis=1)

    def _quantiles(self, components, i, levels):
        # Every step-th of the S M normals, from the middle of the first step on. M is even: an even
        # step could share a factor with it and always take the same points of a draw, an odd one
        # passes through all of them.
        step = -(-self._numbers_per_bag // _NORMALS_OF_QUANTILES)
        step += step % 2 == 0
        subset = slice(step // 2, None, step)
        mean, sd = (values[subset] for values in components)
        weights = np.repeat(self._draw_weights, self.n_points)[subset]
        weights = weights / weights.sum()
        tolerance = 1e-10 * sd.min(axis=0)
        return np.array([normal_quantile(mean, sd, q, weights, tolerance) for q in levels])

    def _log_density(self, components, i, labels):
        each = super()._log_density(components, i, labels)
        return logsumexp(self._by_draw(each), axis=1) - np.log(self.n_points)

    def _labels(self, components, i, draws, rng):
        normals = draws * self.n_points + rng.integers(self.n_points, size=len(draws))
        return super()._labels(components, i, normals, rng)
