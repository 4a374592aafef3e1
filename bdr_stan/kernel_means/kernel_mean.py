"""Kernel means of samples and their shrinkage estimators, after Muandet et al. (2014).

The kernel mean of a distribution is estimated from n points by sum_j beta_j k(x_j, .). Equal
weights 1/n are unbiased; shrunk towards zero the estimate is biased and, on average, nearer. How
far to shrink is the minimiser of the leave-one-out score

    (1/n) sum_i | mu_lambda^(-i) - k(x_i, .) |^2

where mu_lambda^(-i) is the estimate at the same lambda from the other n - 1 points. One point has
no such score: its estimate stays unshrunk, lambda = 0.

`KernelMean` is the estimate as a function, `bag_inner_products` what methods on bags need of the
estimates of many bags; `s_kmse` and `f_kmse` are the estimators on kernel matrices.
"""

from functools import cached_property

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from bdr_stan.bags import as_bags
from bdr_stan.embedding.mean_embedding import point_chunks
from bdr_stan.kernels import Kernel, kernel_config, kernel_named

ESTIMATORS = ("kme", "s-kmse", "f-kmse")

# Of the eigenvalues of K, the ends of the search for n lambda: beyond them nothing changes.
_BELOW_SMALLEST = 1e-2
_ABOVE_LARGEST = 1e4
_GRID_PER_DECADE = 3
_CHUNK_BYTES = 1 << 22  # of kernel values held at a time


class HilbertMean:
    """What the mean of a sample and that of a distribution share as elements of the RKHS.

    A subclass has `kernel`, `inner(other)`, and can be called at points.
    """

    @cached_property
    def norm(self):
        """RKHS norm."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other):
        """RKHS distance to the mean of another sample or distribution.

        With the Gaussian kernel the maximum mean discrepancy. Relative to the norms it is good
        to about 1e-8: the difference of two nearly equal squares.
        """
        squared = self.norm**2 - 2 * self.inner(other) + other.norm**2
        return float(np.sqrt(max(squared, 0.0)))

    def _check_same_kernel(self, other):
        if kernel_config(self.kernel) != kernel_config(other.kernel):
            raise ValueError(
                f"the means have different kernels, {self.kernel} and {other.kernel}: give both "
                "the same, with a number for its bandwidth"
            )


class KernelMean(HilbertMean):
    """Kernel mean of a sample, sum_j beta_j k(x_j, .), shrunk or not.

    Parameters
    ----------
    points : array, shape (n, p)
    kernel : str or Kernel, default "rbf"
        Name of a kernel, see `bdr_stan.kernels.KERNELS`, or a kernel such as ``Polynomial(2)``.
    bandwidth : float, array of shape (p,), or "median", default "median"
        Of a kernel given by name, in the units of the points.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        "kme": weights 1/n. "s-kmse": all weights shrunk by one factor, in time n^2 and little
        memory. "f-kmse": each principal direction shrunk by its own factor, in time n^3 and
        memory n^2.

    Attributes
    ----------
    weights : array, shape (n,)
        beta.
    shrinkage : float, >= 0
        lambda; 0 for "kme".
    points : array, shape (n, p)
    kernel : Kernel
        With its bandwidth as a number.

    Raises
    ------
    ValueError, TypeError : unusable points, kernel, bandwidth or estimator.

    Examples
    --------
    >>> mean = KernelMean(points, bandwidth=2.0, estimator="s-kmse")
    >>> mean(new_points)  # at new points
    >>> mean.distance(KernelMean(others, bandwidth=2.0))
    """

    def __init__(self, points, kernel="rbf", bandwidth="median", estimator="kme"):
        bags = as_bags([points])
        check_estimator(estimator)
        self.points = bags.points
        self.kernel = resolve_kernel(kernel, bandwidth, bags)
        self.estimator = estimator
        self.weights, self.shrinkage = kernel_mean_weights(self.points, self.kernel, estimator)

    def __call__(self, x):
        """Value of the mean at points, shape (m, p); array, shape (m,)."""
        x = np.asarray(x, np.float64)
        if x.ndim != 2 or x.shape[1] != self.points.shape[1]:
            raise ValueError(
                f"points have shape {x.shape}, expected (m, {self.points.shape[1]}) like those of "
                "the mean"
            )
        return _weighted_kernel(self.kernel, x, self.points, self.weights)

    def inner(self, other):
        """Inner product in the RKHS with the mean of a sample or of a distribution."""
        self._check_same_kernel(other)
        return float(self.weights @ other(self.points))


def _weighted_kernel(kernel, x, points, weights):
    """sum_j weights_j k(x_i, points_j), shape (len(x),), by blocks."""
    rows = max(1, _CHUNK_BYTES // (8 * len(points)))
    values = np.empty(len(x))
    for start in range(0, len(x), rows):
        block = x[start : start + rows]
        values[start : start + rows] = kernel(block, points) @ weights
    return values


def resolve_kernel(kernel, bandwidth, bags, *, seed=None):
    """Kernel to use on the points of `bags`.

    Parameters
    ----------
    kernel : str or Kernel
    bandwidth : float, array of shape (p,), or "median"
        Of a kernel given by name.
    bags : Bags
    seed : int, optional
        Of the points from which the median distance comes, where there are many.

    Returns
    -------
    Kernel, its columns as indices and its bandwidth a number

    Raises
    ------
    ValueError : no such kernel or column, no positive bandwidth, or a bandwidth beside a kernel
        that has its own.
    """
    if not isinstance(kernel, Kernel):
        kernel = kernel_named(kernel, bandwidth)
    elif not (isinstance(bandwidth, str) and bandwidth == "median"):
        raise ValueError(
            f"bandwidth={bandwidth!r} goes with the name of a kernel: give {type(kernel).__name__} "
            "its own"
        )
    return kernel.on(bags.features, bags.n_features).at_median(bags, seed=seed)


def check_estimator(estimator):
    """Raise unless there is an estimator of this name."""
    if estimator not in ESTIMATORS:
        names = ", ".join(map(repr, ESTIMATORS))
        raise ValueError(f"estimator must be one of {names}, found {estimator!r}")


def kernel_mean_weights(points, kernel, estimator):
    """Weights of the points, shape (n,), in the named estimator of their kernel mean, and lambda."""
    n = len(points)
    if estimator == "f-kmse":
        return f_kmse(kernel(points, points))
    shrinkage = 0.0
    if estimator == "s-kmse":
        shrinkage = s_kmse_shrinkage(n, *gram_means(points, kernel))
    return np.full(n, 1 / (n * (1 + shrinkage))), shrinkage


def bag_weights(bags, kernel, estimator, *, n_jobs=None):
    """Weights of all points of bags in the estimates of the bags' kernel means.

    Parameters
    ----------
    bags : Bags
        With weights of their own for "kme" alone.
    kernel : Kernel, as from `resolve_kernel`
    estimator : {"kme", "s-kmse", "f-kmse"}
    n_jobs : int, optional
        Number of threads, default all cores; each works on a bag of its own.

    Returns
    -------
    weights : array, shape (N_points,)
    shrinkage : array, shape (n,)
        lambda of each bag.

    Raises
    ------
    ValueError : no such estimator, bags with weights that are to be shrunk, or unusable values
        in a memory map.
    """
    check_estimator(estimator)
    if bags.weights is not None and estimator != "kme":
        raise ValueError(
            f"{estimator!r} counts points equally, but the bags have weights: leave them out, "
            "or use 'kme'"
        )
    if bags.is_memory_map:
        bags.check_values()
    if estimator == "kme":
        weights = np.ones(len(bags.points)) if bags.weights is None else bags.weights
        totals = np.add.reduceat(weights, bags.offsets[:-1])
        return weights / np.repeat(totals, bags.sizes), np.zeros(len(bags))
    with threadpool_limits(1, user_api="blas"):
        threads = Parallel(-1 if n_jobs is None else n_jobs, require="sharedmem")
        weigh = delayed(kernel_mean_weights)
        found = threads(weigh(bags[i], kernel, estimator) for i in range(len(bags)))
    bags.release()
    weights, shrinkage = zip(*found, strict=True)
    return np.concatenate(weights), np.array(shrinkage)


def bag_inner_products(
    bags, weights, kernel, others=None, other_weights=None, *, n_jobs=None, chunk_bytes=_CHUNK_BYTES
):
    """Inner products of the kernel means of bags, by blocks of points.

    Parameters
    ----------
    bags : Bags, n of them
    weights : array, shape (N_points,)
        Weight of each point in the mean of its bag, as from `bag_weights`.
    kernel : Kernel
    others : Bags, m of them, optional
        Default `bags` again, of which half the work then suffices.
    other_weights : array, shape (M_points,), optional
    n_jobs : int, optional
        Number of threads, default all cores.
    chunk_bytes : int, default 4 MB
        Size of the kernel values that a thread holds. Those of all points are never held.

    Returns
    -------
    array, shape (n, m), or (n, n) and symmetric
    """
    itself = others is None
    if itself:
        others, other_weights = bags, weights
    rows = max(1, int(np.sqrt(chunk_bytes / 8)))
    chunks = point_chunks(bags.offsets, rows)
    other_chunks = point_chunks(others.offsets, rows)

    def products(i):
        start, stop, first, last = chunks[i]
        points, sums = bags.read(start, stop), _weighted_sums(bags, weights, chunks[i])
        part = np.zeros((last - first, len(others)))
        for j in range(i if itself else 0, len(other_chunks)):
            a, b, other_first, other_last = other_chunks[j]
            other_sums = _weighted_sums(others, other_weights, other_chunks[j])
            values = sums @ kernel(points, others.read(a, b)) @ other_sums.T
            # The other half of a symmetric matrix is added as the transpose of this one.
            part[:, other_first:other_last] += values / 2 if itself and i == j else values
        return part

    out = np.zeros((len(bags), len(others)))
    with threadpool_limits(1, user_api="blas"):
        threads = Parallel(-1 if n_jobs is None else n_jobs, require="sharedmem")
        parts = threads(delayed(products)(i) for i in range(len(chunks)))
    for (_, _, first, last), part in zip(chunks, parts, strict=True):
        out[first:last] += part
    bags.release()
    others.release()
    return out + out.T if itself else out


def bag_squared_norms(bags, weights, kernel, *, n_jobs=None):
    """Squared RKHS norms of the kernel means of bags, shape (n,); as `bag_inner_products`."""

    def squared(i):
        points, w = bags[i], weights[bags.offsets[i] : bags.offsets[i + 1]]
        return w @ _weighted_kernel(kernel, points, points, w)

    with threadpool_limits(1, user_api="blas"):
        threads = Parallel(-1 if n_jobs is None else n_jobs, require="sharedmem")
        squares = threads(delayed(squared)(i) for i in range(len(bags)))
    bags.release()
    return np.array(squares)


def _weighted_sums(bags, weights, chunk):
    """Sparse matrix that sums values at the points of a chunk, weighted, by bag."""
    start, stop, first, last = chunk
    cuts = np.clip(bags.offsets[first : last + 1], start, stop) - start
    return csr_array(
        (weights[start:stop], np.arange(stop - start), cuts), shape=(last - first, stop - start)
    )


def s_kmse(gram):
    """Simple shrinkage estimator: every weight is 1 / (n (1 + lambda)).

    Parameters
    ----------
    gram : array, shape (n, n)
        Kernel values k(x_i, x_j) of the points.

    Returns
    -------
    weights : array, shape (n,)
    shrinkage : float, >= 0
        lambda, see `s_kmse_shrinkage`; infinite, with weights 0, where points are unlike on
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


def s_kmse_shrinkage(n, mean_gram, mean_diagonal):
    """Lambda of the simple shrinkage estimator mu / (1 + lambda), mu = (1/n) sum_i k(x_i, .).

    Parameters
    ----------
    n : int, >= 1
        Number of points.
    mean_gram : float
        (1/n^2) sum_ij k(x_i, x_j), the squared norm of mu.
    mean_diagonal : float
        (1/n) sum_i k(x_i, x_i).

    Returns
    -------
    float, >= 0
        0 for one point and where all points coincide; infinite where k(x_i, x_j) averages to
        zero or less over i != j (a Gaussian kernel far narrower than the distances, or a kernel
        with negative values): the score then falls all the way to the estimate 0.

    Notes
    -----
    With a = 1 / (1 + lambda) and m_i the mean of the others, (n mu - k(x_i, .)) / (n - 1), the
    score is a^2 A - 2 a B + mean_diagonal, where

        A = (1/n) sum_i |m_i|^2 = (n (n - 2) mean_gram + mean_diagonal) / (n - 1)^2
        B = (1/n) sum_i <m_i, k(x_i, .)> = (n mean_gram - mean_diagonal) / (n - 1)

    so lambda = A / B - 1. B is the average of k(x_i, x_j) over i != j. Source: Muandet et al.
    (2014), Theorem 3.
    """
    if n == 1 or mean_diagonal <= mean_gram:  # equal: no spread; rounding may make it less
        return 0.0
    unlike = (n - 1) * (n * mean_gram - mean_diagonal)
    return float(n * (mean_diagonal - mean_gram) / unlike) if unlike > 0 else np.inf


def gram_means(points, kernel, *, chunk_bytes=1 << 22):
    """What `s_kmse_shrinkage` needs of a kernel matrix, without holding it.

    Parameters
    ----------
    points : array, shape (n, p)
    kernel : callable
        ``kernel(x, y)`` gives the values between two stacks of points, shape (len(x), len(y)).
    chunk_bytes : int, default 4 MB
        Size of the kernel values held at a time. The work grows with n^2.

    Returns
    -------
    mean_gram, mean_diagonal : float
        (1/n^2) sum_ij k(x_i, x_j) and (1/n) sum_i k(x_i, x_i).
    """
    n = len(points)
    rows = max(1, int(np.sqrt(chunk_bytes / 8)))
    total = diagonal = 0.0
    for start in range(0, n, rows):
        block = points[start : start + rows]
        values = kernel(block, block)
        total += values.sum()
        diagonal += values.diagonal().sum()
        for other in range(start + rows, n, rows):  # the part below the diagonal is the same
            total += 2 * kernel(block, points[other : other + rows]).sum()
    return float(total / n**2), float(diagonal / n)


def f_kmse(gram, *, span="others"):
    """Flexible shrinkage estimator: weights (K + n lambda I)^-1 K 1 / n, 1 a vector of ones.

    Shrinks each principal direction of the points by its own factor, d / (d + n lambda) for
    the eigenvalue d of K: strong directions little, weak ones much. Costs an
    eigendecomposition, that is time n^3 and memory n^2.

    Parameters
    ----------
    gram : array, shape (n, n)
        Kernel values k(x_i, x_j) of the points; positive semi-definite.
    span : {"others", "all"}, default "others"
        The leave-one-out score that lambda minimises, see `f_kmse_score`.

    Returns
    -------
    weights : array, shape (n,)
    shrinkage : float, >= 0
        lambda; 0 where no lambda beats the equal weights 1 / n. n lambda stays below 10^4 times
        the largest eigenvalue, where the weights are nearly 0.

    Raises
    ------
    ValueError
        `gram` is not a square, symmetric matrix of finite numbers, or has a negative eigenvalue;
        there is no such score.

    Source: Muandet et al. (2014), section 3.2, where n lambda is called lambda.
    """
    from scipy.optimize import minimize_scalar

    gram = _check_gram(gram)
    scores = _scores(span)
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
    grid = np.linspace(*np.log(ends), count)
    # The score may have several minima: bracket the lowest on a grid first.
    best = int(np.argmin(scores(values, vectors, np.exp(grid))))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, count - 1)]
    found = minimize_scalar(score, bounds=bracket, method="bounded", options={"xatol": 1e-5})
    if found.fun >= f_kmse_score(gram, 0.0):
        return equal, 0.0
    shrinkage = float(np.exp(found.x))
    factors = values / (values + n * shrinkage)
    return vectors @ (factors * vectors.sum(axis=0)) / n, shrinkage


def f_kmse_score(gram, shrinkage, *, span="others"):
    """Leave-one-out score of the flexible estimator.

    Parameters
    ----------
    gram : array, shape (n, n), n >= 2
    shrinkage : float or array, shape (l,), >= 0
        lambda; each costs n^2 after one eigendecomposition for all.
    span : {"others", "all"}, default "others"
        The functions that the estimate without point i is made of: k(x_j, .) of the other points,
        as if point i had never been seen, or of all points, as in Theorem 4 of the paper.

    Returns
    -------
    float array of the shape of `shrinkage`

    Notes
    -----
    Leaving out a point is an update of rank one. With c = (n - 1) lambda, P = K (K + c I)^-1,
    b = P 1 and g_i = (1 - b_i) / (1 - P_ii), the residual of the estimate without point i is

        mu_lambda^(-i) - k(x_i, .) = sum_j r_j k(x_j, .),    r = (b - n e_i + g_i (I - P) e_i) / (n - 1)

    with e_i the unit vector, and its squared norm r' K r.

    With span "all", c = n lambda in P, the residual is r = (I - P / n)^-1 (P 1 / n - e_i): Theorem
    4 of Muandet et al. (2014). There point i is left out of the average alone: k(x_i, .) stays in
    the operator that shrinks, which leans the estimate towards it, the more the stronger the
    shrinkage. The lambda of this score is too large from some 10 points on: with the Gaussian
    kernel on the mixtures of the paper the estimate is then farther off than with equal weights,
    where that of "others" is nearer (``experiments/kmse_loss.py``).
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
    if zero.any():  # the mean of the others, whose squared distance needs K alone
        others = (gram.sum(axis=0) - gram.diagonal()) / (n - 1)
        norms = (gram.sum() - 2 * gram.sum(axis=0) + gram.diagonal()) / (n - 1) ** 2
        scores[zero] = np.mean(norms - 2 * others + gram.diagonal())
    if not zero.all():
        scores[~zero] = _scores(span)(*_eigen(gram), shrinkage[~zero])
    return scores


def _scores(span):
    if span not in ("others", "all"):
        raise ValueError(f"span must be 'others' or 'all', found {span!r}")
    return _leave_one_out if span == "others" else _leave_one_out_of_average


def _leave_one_out_of_average(values, vectors, shrinkage):
    """Scores of Theorem 4 at lambda > 0, as `_leave_one_out`."""
    n = len(values)
    d, ones = values[:, None], vectors.sum(axis=0)[:, None]
    kept = d / (d + n * np.atleast_1d(shrinkage))
    # Sum over i of r' K r with r = (I - P / n)^-1 (P 1 / n - e_i), in the eigenbasis.
    spread = 1 - kept * (2 - kept) * ones**2 / n
    scores = np.sum(d / (1 - kept / n) ** 2 * spread, axis=0) / n
    return np.reshape(scores, np.shape(shrinkage))


def _leave_one_out(values, vectors, shrinkage):
    """Scores at lambda > 0, shape (l,) or scalar, from the eigendecomposition of K."""
    n = len(values)
    c = (n - 1) * np.atleast_1d(shrinkage)
    d, ones = values[:, None], vectors.sum(axis=0)[:, None]
    left = c / (d + c)  # eigenvalues of I - P
    kept = 1 - left
    squares = vectors**2
    # 1 - b and 1 - P_ii as sums over I - P: no difference of nearly equal numbers.
    g = (vectors @ (left * ones)) / (squares @ left)
    # r' K r of the three parts b, -n e_i and g_i (I - P) e_i, and their products.
    parts = (
        np.sum(d * (kept * ones) ** 2, axis=0)
        + n**2 * (squares @ d)
        + g**2 * (squares @ (d * left**2))
        - 2 * n * (vectors @ (d * kept * ones))
        + 2 * g * (vectors @ (d * kept * left * ones))
        - 2 * n * g * (squares @ (d * left))
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
        raise ValueError("the kernel matrix is not symmetric: pass k(x_i, x_j) of one set of points")
    return gram
