"""Ridge regression for all penalties from one decomposition: the closed form of MERR.

`KernelRidgePath` on a set kernel or outer kernel is the estimator of Szabo et al. (2016), `MERR`;
`RidgePath` on mean embeddings at landmarks is `RBFNetwork`. With U the left singular vectors of the
centred features, or the eigenvectors of the kernel matrix, d the squared singular values or the
eigenvalues, and level the average label, the fitted labels are

    level + U diag(d / (d + penalty)) U' (y - level)

With H the matrix from y to the fitted labels f, leave-one-out errors are (y_i - f_i) / (1 - H_ii),
without refitting.

Labels y are (n,), or (n, k) of k outputs: one regression each, with the penalty in common. Results
then end in an axis of the outputs, and errors are averages over them.
"""

from typing import Any

import numpy as np

from bdr_stan.types import Array, ArrayLike

# Penalties tried by default, as parts of the largest eigenvalue: four per decade.
_SHARES_OF_LARGEST = np.geomspace(1e-12, 1, 49)


class _Path:
    """What the two paths share.

    vectors : array, shape (n, r), U without directions that are rounding errors
    eigenvalues : array, shape (r,), d
    largest : largest eigenvalue, before the omission
    penalty_unit : penalty at alpha = 1
    level_leverage : weight of a bag's label in its level; 0 if leave-one-out keeps the level
    """

    def __init__(self, y, vectors, eigenvalues, largest, *, penalty_unit, level_leverage):
        self.level, self.largest = np.mean(y, axis=0), float(largest)
        self._vectors, self._eigenvalues = vectors, eigenvalues
        self._projections = vectors.T @ (y - self.level)
        self._outside = y - self.level - vectors @ self._projections
        self._penalty_unit, self._level_leverage = penalty_unit, level_leverage

    def alphas(self, alpha: str | ArrayLike | None = None) -> Array:
        """Penalties to try: given numbers, or 49 from 10^-12 to 1 times the largest eigenvalue."""
        if alpha is None or isinstance(alpha, str):
            largest = self.largest if self.largest > 0 else 1.0  # 0 if all bags are the same
            return _SHARES_OF_LARGEST * largest / self._penalty_unit
        return np.atleast_1d(np.asarray(alpha, float))

    def leave_one_out(self, alphas: Array) -> Array:
        """Mean squared error of each bag predicted from all others, per penalty; shape (l,)."""
        penalties = self._penalty_unit * np.atleast_1d(alphas)
        unfitted = penalties / self._shifted(alphas)  # of each direction, (r, l)
        residual = self._outside[:, None] + self._weighted(self._vectors, unfitted)
        squares = self._vectors**2
        # 1 - H_ii as a sum over directions: no difference of nearly equal numbers at small alpha.
        outside = np.maximum(1 - self._level_leverage - np.sum(squares, axis=1), 0)
        leverage = outside[:, None] + squares @ unfitted  # 1 - H_ii, (n, l)
        return mean_squares((residual.T / leverage.T).T)

    def best(self, alphas: Array) -> int:
        """Index of least squared error of leave-one-out."""
        return 0 if len(alphas) == 1 else int(np.argmin(self.leave_one_out(alphas)))

    def _shifted(self, alphas):
        """d + penalty, shape (r, l)."""
        return self._eigenvalues[:, None] + self._penalty_unit * np.atleast_1d(alphas)

    def _weighted(self, basis, factors):
        """basis diag(factors) U' (y - level) for factors, (r, l), of each penalty; (m, l[, k])."""
        return np.tensordot(basis, np.einsum("rl,r...->rl...", factors, self._projections), 1)


class RidgePath(_Path):
    """Least squares of y on x with intercept and penalty alpha |beta|^2, for any alpha.

    f(x) = level + (x - origin)' beta minimises sum_i (y_i - f(x_i))^2 + alpha |beta|^2, with x of
    shape (n, d), `origin` the average row and `level` the average of y.
    """

    def __init__(self, x: Array, y: Array):
        self.origin = x.mean(axis=0)
        left, singular, right = np.linalg.svd(x - self.origin, full_matrices=False)
        positive = singular > singular[0] * max(x.shape) * np.finfo(float).eps
        singular, largest = singular[positive], singular[0] ** 2
        self._rows = right[positive].T * singular
        super().__init__(
            y,
            left[:, positive],
            singular**2,
            largest,
            penalty_unit=1,
            level_leverage=1 / len(y),
        )

    def weights(self, alphas: Array) -> Array:
        """beta for each of the penalties, shape (l,) and > 0; array, shape (d, l)."""
        return self._weighted(self._rows, 1 / self._shifted(alphas))


class KernelRidgePath(_Path):
    """Kernel ridge regression of y, (n,), on a kernel matrix K, (n, n), for any penalty.

    f = level + sum_i c_i K(B_i, .),  c = (K + n alpha I)^-1 (y - level),  level the average of y

    minimises (1/n) sum_i (y_i - f(B_i))^2 + alpha |f - level|^2 in the RKHS of K. Leave-one-out
    keeps the level. Source: Szabo et al. (2016), section 3.
    """

    def __init__(self, gram: Array, y: Array):
        eigenvalues, vectors = np.linalg.eigh(gram)
        positive = eigenvalues > eigenvalues[-1] * len(y) * np.finfo(float).eps
        super().__init__(
            y,
            vectors[:, positive],
            eigenvalues[positive],
            eigenvalues[-1],
            penalty_unit=len(y),
            level_leverage=0,
        )

    def dual(self, alphas: Array) -> Array:
        """c for each of the penalties, shape (l,) and > 0; array, shape (n, l).

        Without the part of y outside the span of K, which no row of the kernel reaches.
        """
        return self._weighted(self._vectors, 1 / self._shifted(alphas))

    def scale(self, alpha: float) -> Any:
        """Maximum likelihood standard deviation s of y ~ normal(level, s^2 (K + n alpha I))."""
        n = len(self._outside)
        inside = (1 / self._shifted(alpha)[:, 0]) @ self._projections**2
        return np.sqrt((inside + np.sum(self._outside**2, axis=0) / (n * alpha)) / n)

    def label_sd(self, cross: Array, variance: Array, alpha: float) -> Array:
        """Standard deviations of the labels of m bags under that normal distribution, shape (m,).

        `cross`, shape (m, n), is K between them and the training bags, `variance`, shape (m,), K
        of each with itself.
        """
        # k' (K + n alpha I)^-1 k for each row k of `cross`
        explained = (cross @ self._vectors) ** 2 @ (1 / self._shifted(alpha)[:, 0])
        unexplained = np.maximum(variance - explained, 0)
        spread = np.sqrt(unexplained + len(self._outside) * alpha)
        return np.multiply.outer(spread, self.scale(alpha))


def mean_squares(errors: Array) -> Array:
    """Mean squared errors of each penalty over bags and outputs, from (m, l[, k]); (l,)."""
    by_output = np.mean(errors**2, axis=0)
    return by_output.reshape(len(by_output), -1).mean(axis=1)
