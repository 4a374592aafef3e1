"""Mixtures of Gaussians, and the random ones of Muandet et al. (2014).

x ~ sum_{i=1}^4 pi_i N(theta_i, Sigma_i) + e,    pi = (0.05, 0.3, 0.4, 0.25)
theta_ij ~ uniform(-10, 10),  Sigma_i ~ Wishart(2 I, 7 degrees),  e ~ N(0, 0.2 I)
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from bdr_stan.types import Array, Seed, is_integer

WEIGHTS = np.array([0.05, 0.3, 0.4, 0.25])
_DEGREES, _SCALE, _NOISE = 7, 2.0, 0.2


@dataclass(frozen=True)
class GaussianMixture:
    """sum_j weights_j N(means_j, covariances_j).

    weights : array, shape (m,), >= 0 with sum 1
    means : array, shape (m, p)
    covariances : array, shape (m, p, p), or (m,) for variances times the unit matrix
    """

    weights: Array
    means: Array
    covariances: Array

    @property
    def covariance_matrices(self) -> Array:
        """The covariances as matrices, shape (m, p, p)."""
        if self.covariances.ndim == 3:
            return self.covariances
        return self.covariances[:, None, None] * np.eye(self.means.shape[1])

    def sample(self, n: int, *, seed: Seed = None) -> Array:
        """n independent points, array of shape (n, p); `seed` is an int or numpy Generator."""
        if not is_integer(n) or n < 1:
            raise ValueError(f"n must be an integer >= 1, found {n!r}")
        rng = np.random.default_rng(seed)
        m, p = self.means.shape
        component = rng.choice(m, n, p=self.weights)
        noise = rng.standard_normal((n, p, 1))
        factors = np.linalg.cholesky(self.covariance_matrices)
        return self.means[component] + (factors[component] @ noise)[..., 0]

    def log_density(self, points: Array) -> Array:
        """Log density at points, shape (n, p); array, shape (n,)."""
        from scipy.stats import multivariate_normal  # takes a second to import

        parts = zip(self.means, self.covariance_matrices, strict=True)
        logs = [multivariate_normal.logpdf(points, *part) for part in parts]
        return logsumexp(np.reshape(logs, (-1, len(points))), b=self.weights[:, None], axis=0)


def random_mixture(n_features, *, seed=None):
    """One distribution drawn at random.

    Parameters
    ----------
    n_features : int, >= 1
        p.
    seed : int or numpy Generator, optional

    Returns
    -------
    GaussianMixture
        Four components, the noise in their covariances. From p = 8 on the Wishart covariances
        have rank 7, and the noise alone fills the other directions.

    Source: Muandet et al. (2014), section 4.1.
    """
    rng = np.random.default_rng(seed)
    means = rng.uniform(-10, 10, (len(WEIGHTS), n_features))
    factors = rng.normal(0, np.sqrt(_SCALE), (len(WEIGHTS), n_features, _DEGREES))
    covariances = factors @ factors.transpose(0, 2, 1) + _NOISE * np.eye(n_features)
    return GaussianMixture(WEIGHTS, means, covariances)
