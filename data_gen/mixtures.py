"""The random mixtures of Gaussians of Muandet et al. (2014), whose kernel means are known.

x ~ sum_{i=1}^4 pi_i N(theta_i, Sigma_i) + e,    pi = (0.05, 0.3, 0.4, 0.25)
theta_ij ~ uniform(-10, 10),  Sigma_i ~ Wishart(2 I, 7 degrees),  e ~ N(0, 0.2 I)
"""

import numpy as np

from bdr_stan.kernel_means.gaussian_mixtures import GaussianMixture

WEIGHTS = np.array([0.05, 0.3, 0.4, 0.25])
_DEGREES, _SCALE, _NOISE = 7, 2.0, 0.2


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
