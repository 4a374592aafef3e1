"""Bags from mixtures of Gaussians, whose label is the number of their components.

    y_i ~ uniform{1, .., C};  component k = 1 .. y_i, all of weight 1 / y_i:
    means m_k ~ uniform(-5, 5)^d,  covariances S_k = a_k A_k A_k' + diag(b_k),
    A_k ~ uniform(-1, 1)^(d x d),  a_k ~ uniform(1, 4),  b_k ~ uniform(0, 1)^d

The label does not change when a bag is moved, and is far from linear in the distribution.
"""

import numpy as np

from bdr_stan.bags import Bags

_LARGEST_MEAN = 5.0


def mode_mixtures(seed, *, n_bags=100, n_points=50, most=2, n_features=2):
    """Draw mixtures and their points.

    Parameters
    ----------
    seed : int, >= 0; 0 to 19 in the experiments of Bachoc et al.
    n_bags : int, >= 1
    n_points : int, >= 1, in every bag
    most : int, >= 1, default 2
        C, the largest number of components.
    n_features : int, >= 1, default 2
        d.

    Returns
    -------
    bags : Bags, `n_bags` of them
    y : int array, shape (n_bags,), 1 to C

    Raises
    ------
    ValueError : an argument outside its range.

    Notes
    -----
    NumPy's legacy stream, mixture by mixture: number of components, means, A, a, b, numbers of
    points of the components, points. With equal arguments the points are those of Bachoc et al.

    Source: Meunier et al. (2022), "Distribution regression with sliced Wasserstein kernels", the
    synthetic experiment; Bachoc et al. (2023), arXiv 2308.14335, the toy experiment.
    """
    sizes = {"n_bags": n_bags, "n_points": n_points, "most": most, "n_features": n_features}
    for name, value in sizes.items():
        if not (value >= 1 and value == int(value)):
            raise ValueError(f"{name} must be a whole number, >= 1, found {value}")
    random = np.random.RandomState(seed)
    drawn = [_mixture(random, n_points, most, n_features) for _ in range(n_bags)]
    points, y = zip(*drawn)
    return Bags(np.concatenate(points), np.arange(n_bags + 1) * n_points), np.array(y)


def _mixture(random, n_points, most, d):
    """Points of one bag, shape (n_points, d), and its number of components."""
    k = random.randint(1, most + 1)
    means = random.uniform(-_LARGEST_MEAN, _LARGEST_MEAN, (k, d))
    factors = random.uniform(-1, 1, (k, d, d))
    scales = random.uniform(1, 4, k)
    diagonals = random.uniform(0, 1, (k, d))
    covariances = scales[:, None, None] * factors @ factors.transpose(0, 2, 1)
    covariances[:, range(d), range(d)] += diagonals
    counts = random.multinomial(n_points, np.full(k, 1 / k))
    parts = map(random.multivariate_normal, means, covariances, counts)
    return np.concatenate(list(parts)), k
