"""F-KMSE from a kernel matrix of low rank, in time linear in the number of points.

With Nystrom features psi of d landmarks, K is nearly Psi Psi', of which the singular values of Psi,
shape (n, d), give all that the estimator takes from the eigenvalues and eigenvectors of K: time n
d^2 and memory n d, instead of n^3 and n^2. Source: Muandet et al. (2014), section 5.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from bdr_stan.kernels import Kernel, NystromFeatures
from bdr_stan.types import Array, ArrayLike

BELOW_SMALLEST, ABOVE_LARGEST, PER_DECADE = 1e-2, 1e4, 3  # of the search for n lambda


def nystrom_f_kmse(
    points: Array, kernel: Kernel, n_landmarks: int, *, seed: int | None = None
) -> tuple[Array, float]:
    """`low_rank_f_kmse` of points, (n, p), by landmarks drawn from them without replacement."""
    chosen = np.random.default_rng(seed).choice(len(points), n_landmarks, replace=False)
    return low_rank_f_kmse(NystromFeatures(kernel, points[chosen])(points))


def low_rank_f_kmse(features: Array) -> tuple[Array, float]:
    """F-KMSE of the kernel matrix Psi Psi': weights, (n,), and lambda; as `f_kmse` of it.

    Parameters
    ----------
    features : array, shape (n, d)
        Psi, d < n.

    Returns
    -------
    weights : array, shape (n,)
    shrinkage : float, >= 0
        0, with equal weights, if no lambda beats them.
    """
    n = len(features)
    vectors, singular, _ = np.linalg.svd(features, full_matrices=False)
    kept = singular > len(features) * np.finfo(float).eps * singular[0]
    vectors, values = vectors[:, kept], singular[kept] ** 2
    low, high = np.log10([values[-1] * BELOW_SMALLEST / n, values[0] * ABOVE_LARGEST / n])
    grid = np.linspace(low, high, int(PER_DECADE * (high - low)) + 2)
    best = int(np.argmin(low_rank_scores(values, vectors, 10**grid)))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    lowest = minimize_scalar(
        lambda power: float(low_rank_scores(values, vectors, 10**power)),
        bounds=bracket,
        method="bounded",
        options={"xatol": 1e-6},
    )
    if lowest.fun >= score_of_equal_weights(features):
        return np.full(n, 1 / n), 0.0
    shrinkage = float(10**lowest.x)
    return vectors @ (values / (values + n * shrinkage) * vectors.sum(axis=0)) / n, shrinkage


def low_rank_scores(values: Array, vectors: Array, shrinkage: ArrayLike) -> Array:
    """Leave-one-out scores at lambda > 0, a number or (l,): those of `f_kmse_score`.

    `values`, (r,), are the positive eigenvalues of the kernel matrix, `vectors`, (n, r), their
    eigenvectors: the other directions have no part in the norm of a residual.
    """
    n = len(vectors)
    c = (n - 1) * np.atleast_1d(shrinkage)
    d, ones = values[:, None], vectors.sum(axis=0)[:, None]
    retained = d / (d + c)
    removed = 1 - retained
    squares = vectors**2
    g = (1 - vectors @ (retained * ones)) / (1 - squares @ retained)
    parts = (
        np.sum(d * (retained * ones) ** 2, axis=0)
        + n**2 * (squares @ d)
        + g**2 * (squares @ (d * removed**2))
        - 2 * n * (vectors @ (d * retained * ones))
        + 2 * g * (vectors @ (d * retained * removed * ones))
        - 2 * n * g * (squares @ (d * removed))
    )
    return np.reshape(parts.mean(axis=0) / (n - 1) ** 2, np.shape(shrinkage))


def score_of_equal_weights(features: Array) -> float:
    """Leave-one-out score of the plain mean, from features whose products are the kernel."""
    n = len(features)
    errors = (features - features.mean(axis=0)) * n / (n - 1)
    return float(np.mean(np.sum(errors**2, axis=1)))
