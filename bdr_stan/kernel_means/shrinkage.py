"""Shrinkage estimators of kernel means, after Muandet et al. (2014).

The kernel mean of a distribution is estimated from n points by sum_j beta_j k(x_j, .). How far to
shrink it towards zero is the minimiser of the leave-one-out score

    (1/n) sum_i | mu_lambda^(-i) - k(x_i, .) |^2

where mu_lambda^(-i) is the estimate at the same lambda from the other n - 1 points. One point has
no score: its estimate stays unshrunk, lambda = 0.

`s_kmse` and `f_kmse` are the estimators on kernel matrices, `kernel_mean_weights` those on points,
by name.
"""

from collections.abc import Callable

import numpy as np

from bdr_stan.types import Array, ArrayLike

Scores = Callable[[Array, Array, ArrayLike], Array]
ESTIMATORS = ("kme", "s-kmse", "f-kmse")

# In eigenvalues of K, the ends of the search for n lambda: beyond them nothing changes.
_BELOW_SMALLEST = 1e-2
_ABOVE_LARGEST = 1e4
_GRID_PER_DECADE = 3
_BLOCK_BYTES = 1 << 22  # of kernel values


def check_estimator(estimator: str) -> None:
    """Raise ValueError unless there is an estimator of this name."""
    if estimator not in ESTIMATORS:
        names = ", ".join(map(repr, ESTIMATORS))
        raise ValueError(f"estimator must be one of {names}, found {estimator!r}")


def kernel_mean_weights(
    points: Array, kernel: Callable[[Array, Array], Array], estimator: str
) -> tuple[Array, float]:
    """Weights of points, (n,), in an estimate of their kernel mean, and its lambda (0 of "kme")."""
    check_estimator(estimator)
    n = len(points)
    if estimator == "f-kmse":
        return f_kmse(kernel(points, points))
    shrinkage = 0.0
    if estimator == "s-kmse":
        shrinkage = s_kmse_shrinkage(n, *gram_means(points, kernel))
    return np.full(n, 1 / (n * (1 + shrinkage))), shrinkage


def s_kmse(gram: ArrayLike) -> tuple[Array, float]:
    """Simple shrinkage estimator: every weight is 1 / (n (1 + lambda)).

    Parameters
    ----------
    gram : array, shape (n, n)
        Kernel values k(x_i, x_j) of the points.

    Returns
    -------
    weights : array, shape (n,)
    shrinkage : float, >= 0
        lambda, see `s_kmse_shrinkage`; infinite, with weights 0, if points are dissimilar on
        average.

    Raises
    ------
    ValueError
        `gram` is not a square, symmetric matrix of finite numbers.

    Source: Muandet et al. (2014), section 3.1, equation 4 and Theorem 3.
    """
    gram = _check_gram(gram)
    n = len(gram)
    shrinkage = s_kmse_shrinkage(n, gram.mean(), gram.diagonal().mean())
    return np.full(n, 1 / (n * (1 + shrinkage))), shrinkage


def s_kmse_shrinkage(n: int, mean_gram: float, mean_diagonal: float) -> float:
    """Lambda of the simple shrinkage estimator mu / (1 + lambda), mu = (1/n) sum_i k(x_i, .).

    `mean_gram` is (1/n^2) sum_ij k(x_i, x_j), `mean_diagonal` (1/n) sum_i k(x_i, x_i). Lambda is 0
    for one point, and infinite, with the estimate 0, if the k(x_i, x_j), i != j, are not positive
    on average (points far apart for a kernel with negative values).

    With a = 1 / (1 + lambda) and m_i the mean of the other points, (n mu - k(x_i, .)) / (n - 1),
    the score is a^2 A - 2 a B + mean_diagonal, where

        A = (1/n) sum_i |m_i|^2 = (n (n - 2) mean_gram + mean_diagonal) / (n - 1)^2
        B = (1/n) sum_i <m_i, k(x_i, .)> = (n mean_gram - mean_diagonal) / (n - 1)

    so lambda = A / B - 1. Source: Muandet et al. (2014), Theorem 3.
    """
    if n == 1 or mean_diagonal <= mean_gram:  # equal: no spread; rounding may make it less
        return 0.0
    unlike = (n - 1) * (n * mean_gram - mean_diagonal)
    return float(n * (mean_diagonal - mean_gram) / unlike) if unlike > 0 else np.inf


def gram_means(points: Array, kernel: Callable[[Array, Array], Array]) -> tuple[float, float]:
    """Means of a kernel matrix of points, (n, p), and of its diagonal, computed by blocks."""
    n = len(points)
    rows = max(1, int(np.sqrt(_BLOCK_BYTES / 8)))
    total = diagonal = 0.0
    for start in range(0, n, rows):
        block = points[start : start + rows]
        values = kernel(block, block)
        total += values.sum()
        diagonal += values.diagonal().sum()
        for other in range(start + rows, n, rows):  # the part below the diagonal is the same
            total += 2 * kernel(block, points[other : other + rows]).sum()
    return float(total / n**2), float(diagonal / n)


def f_kmse(gram: ArrayLike, *, scores: Scores | None = None) -> tuple[Array, float]:
    """Flexible shrinkage estimator: weights (K + n lambda I)^-1 K 1 / n, 1 a vector of ones.

    Shrinks each principal direction of the points by its own factor, d / (d + n lambda) for
    the eigenvalue d of K: strong directions little, weak ones much. Costs an
    eigendecomposition, that is time n^3 and memory n^2.

    Parameters
    ----------
    gram : array, shape (n, n)
        Kernel values k(x_i, x_j) of the points; positive semi-definite.
    scores : callable, optional
        What lambda minimises, from the eigenvalues and eigenvectors of K, at lambda > 0, a number
        or (l,); default the scores of `f_kmse_score`.

    Returns
    -------
    weights : array, shape (n,)
    shrinkage : float, >= 0
        lambda; 0 if no lambda beats the equal weights 1 / n. n lambda stays below 10^4 times the
        largest eigenvalue: there the weights are nearly 0.

    Raises
    ------
    ValueError
        `gram` is not a square, symmetric matrix of finite numbers, or has a negative eigenvalue.

    Source: Muandet et al. (2014), section 3.2, where n lambda is called lambda.
    """
    from scipy.optimize import minimize_scalar

    gram = _check_gram(gram)
    scores = scores or _leave_one_out
    n = len(gram)
    equal = np.full(n, 1 / n)
    values, vectors = _eigen(gram)
    positive = values[values > 0]
    if n == 1 or len(positive) == 0:
        return equal, 0.0

    def score(log_shrinkage):
        return float(scores(values, vectors, np.exp(log_shrinkage)))

    ends = np.array([_BELOW_SMALLEST * positive[0], _ABOVE_LARGEST * positive[-1]]) / n
    count = int(_GRID_PER_DECADE * np.log10(ends[1] / ends[0])) + 2
    grid = np.linspace(np.log(ends[0]), np.log(ends[1]), count)
    # The score may have several minima: bracket the lowest on a grid first.
    best = int(np.argmin(scores(values, vectors, np.exp(grid))))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, count - 1)]
    lowest = minimize_scalar(score, bounds=bracket, method="bounded", options={"xatol": 1e-5})
    if lowest.fun >= f_kmse_score(gram, 0.0):
        return equal, 0.0
    shrinkage = float(np.exp(lowest.x))
    factors = values / (values + n * shrinkage)
    return vectors @ (factors * vectors.sum(axis=0)) / n, shrinkage


def f_kmse_score(gram: ArrayLike, shrinkage: ArrayLike) -> Array:
    """Leave-one-out score of the flexible estimator at `shrinkage`, a number or (l,), >= 0.

    Without point i the estimate is a combination of k(x_j, .) of the other points, as if point i
    did not exist. Each lambda costs n^2 after one eigendecomposition for all.

    Leaving out a point is an update of rank one. With c = (n - 1) lambda, P = K (K + c I)^-1,
    b = P 1 and g_i = (1 - b_i) / (1 - P_ii), the residual of the estimate without point i is

        mu_lambda^(-i) - k(x_i, .) = sum_j r_j k(x_j, .)
        r = (b - n e_i + g_i (I - P) e_i) / (n - 1)

    with e_i the unit vector, and its squared norm r' K r.
    """
    gram = _check_gram(gram)
    n = len(gram)
    shrinkage = np.asarray(shrinkage, np.float64)
    if n < 2:
        raise ValueError("one point has no leave-one-out score: give at least two")
    if not np.all((shrinkage >= 0) & (shrinkage < np.inf)):
        raise ValueError(f"shrinkage must be finite and >= 0, found {shrinkage}")
    scores = np.empty(shrinkage.shape)
    zero = shrinkage == 0
    if zero.any():  # the mean of the others; its squared distance needs only K
        others = (gram.sum(axis=0) - gram.diagonal()) / (n - 1)
        norms = (gram.sum() - 2 * gram.sum(axis=0) + gram.diagonal()) / (n - 1) ** 2
        scores[zero] = np.mean(norms - 2 * others + gram.diagonal())
    if not zero.all():
        values, vectors = _eigen(gram)
        scores[~zero] = _leave_one_out(values, vectors, shrinkage[~zero])
    return scores


def _leave_one_out(values, vectors, shrinkage):
    """Scores at lambda > 0, shape (l,) or scalar, from the eigendecomposition of K."""
    n = len(values)
    c = (n - 1) * np.atleast_1d(shrinkage)
    d, ones = values[:, None], vectors.sum(axis=0)[:, None]
    removed = c / (d + c)  # eigenvalues of I - P
    retained = 1 - removed
    squares = vectors**2
    # 1 - b and 1 - P_ii as sums over I - P: no difference of nearly equal numbers.
    g = (vectors @ (removed * ones)) / (squares @ removed)
    # r' K r of the three parts b, -n e_i and g_i (I - P) e_i, and their products.
    parts = (
        np.sum(d * (retained * ones) ** 2, axis=0)
        + n**2 * (squares @ d)
        + g**2 * (squares @ (d * removed**2))
        - 2 * n * (vectors @ (d * retained * ones))
        + 2 * g * (vectors @ (d * retained * removed * ones))
        - 2 * n * g * (squares @ (d * removed))
    )
    return np.reshape(parts.mean(axis=0) / (n - 1) ** 2, np.shape(shrinkage))


def _eigen(gram):
    """Eigenvalues, rising, those that are rounding errors set to 0, and eigenvectors."""
    values, vectors = np.linalg.eigh(gram)
    noise = len(gram) * np.finfo(float).eps * np.abs(values).max()
    if values[0] < -100 * noise:
        raise ValueError(
            f"the kernel matrix has the negative eigenvalue {values[0]:.3g} (largest "
            f"{values[-1]:.3g}): use a positive definite kernel"
        )
    return np.where(values > noise, values, 0.0), vectors


def _check_gram(gram):
    gram = np.asarray(gram, np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or len(gram) == 0:
        raise ValueError(f"the kernel matrix has shape {gram.shape}, expected (n, n) with n >= 1")
    if not np.isfinite(gram).all():
        i, j = np.argwhere(~np.isfinite(gram))[0]
        raise ValueError(f"entry ({i}, {j}) of the kernel matrix is {gram[i, j]}")
    if not np.allclose(gram, gram.T, rtol=1e-8, atol=1e-10 * np.abs(gram).max()):
        raise ValueError(
            "the kernel matrix is not symmetric: pass k(x_i, x_j) of one set of points"
        )
    return gram
