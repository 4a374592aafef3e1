"""Predictive distributions of real labels that are mixtures of normals given each draw, too."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from bdr_stan.predictive.normal import Predictive, normal_quantile
from bdr_stan.types import Array, ArrayLike, Seed

# Quantiles are those of every k-th component if there are more: enough for three digits.
_COMPONENTS_OF_QUANTILES = 8000


class NestedPredictive(Predictive):
    """Predictive distribution of the labels of n bags, which may be skewed.

    For each bag a mixture, over the posterior draws, of mixtures of M normals of equal weight.

    Parameters
    ----------
    components : callable
        ``components(i)`` gives the means and the standard deviations, each of shape
        (S M, len(i)), of the normals of the bags with integer indices `i`, draw by draw.
    n_bags, n_components : int
        n and S M.
    weights : array, shape (S M,), optional
        Weight of each component, of sum 1; default equal weights.
    n_points : int, default 1
        M; 1 where the components are weighted.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Exact moments of the mixture.
    """

    def __init__(
        self,
        components: Callable[[Array], tuple[Array, Array]],
        n_bags: int,
        n_components: int,
        weights: Array | None = None,
        *,
        n_points: int = 1,
    ) -> None:
        super().__init__(components, n_bags, n_components, weights)
        self.n_points = n_points

    def __repr__(self) -> str:
        draws = self.n_draws // self.n_points
        return super().__repr__().replace(f"{self.n_draws} draws", f"{draws} draws")

    def log_likelihood(self, y: ArrayLike) -> Array:
        """Log density of each label under each draw, shape (S, n)."""
        by_chunk = [
            logsumexp(each.reshape(-1, self.n_points, each.shape[1]), axis=1)
            for _, each in self._log_components(y)
        ]
        return np.concatenate(by_chunk, axis=1) - np.log(self.n_points)

    def sample(self, size: int | None = None, *, seed: Seed = None) -> Array:
        """Draw labels from the predictive distribution.

        Parameters
        ----------
        size : int, optional
            Labels per bag; default one for each posterior draw, in the order of the draws.
        seed : int or numpy Generator, optional

        Returns
        -------
        array, shape (size, n), in units of y
        """
        if size is not None or self.weights is not None:
            return super().sample(size, seed=seed)
        rng = np.random.default_rng(seed)
        first = np.arange(0, self.n_draws, self.n_points)
        draws = first + rng.integers(self.n_points, size=len(first))
        labels = [self._labels(components, i, draws, rng) for i, components in self._chunks()]
        return np.concatenate(labels, axis=1)

    def _quantiles(self, components, i, levels):
        if self.weights is not None:
            return super()._quantiles(components, i, levels)
        mean, sd = components
        step = -(-len(mean) // _COMPONENTS_OF_QUANTILES)
        step += step % 2 == 0  # an odd step comes by all points, whose number is even
        few = slice(step // 2, None, step)
        mean, sd = mean[few], sd[few]
        weights, tolerance = np.full(len(mean), 1 / len(mean)), 1e-10 * sd.min(axis=0)
        return np.array([normal_quantile(mean, sd, q, weights, tolerance) for q in levels])
