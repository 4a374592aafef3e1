"""Covariance operators of samples in the RKHS, shrunk like kernel means.

The covariance operator is a kernel mean too: the average of c_j (x) c_j, c_j = k(x_j, .) - mu,
whose inner products <c_i, c_j>^2 are the squares of the centred kernel matrix. The estimators of
kernel means thus shrink it (S-COSE and F-COSE of Muandet et al. 2014, section 3.3).
"""

from typing import Any

import numpy as np

from bdr_stan.estimators.validation import check_positive
from bdr_stan.kernel_means.kernel_mean import KernelMean, check_same_kernel
from bdr_stan.kernel_means.shrinkage import check_estimator, f_kmse, s_kmse
from bdr_stan.kernels import Kernel
from bdr_stan.types import Array, ArrayLike
from experiments.papers.hilbert_mean import HilbertMean


class CovarianceOperator(HilbertMean):
    """Covariance operator of a sample, sum_j beta_j c_j (x) c_j, c_j = k(x_j, .) - mu.

    Parameters
    ----------
    points : array, shape (n, p)
    kernel : str or Kernel, default "rbf"
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median", default "scaled"
        Of a kernel given by name, in the units of the points; see `Stationary`.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        "kme": the empirical operator, beta = 1/n. "s-kmse" is S-COSE, "f-kmse" F-COSE.
    mean : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of mu, around which the points are centred.
    shrinkage : float, > 0, optional
        lambda of F-COSE; by default chosen by the leave-one-out score.

    Attributes
    ----------
    mean : KernelMean
        mu.
    weights : array, shape (n,)
        beta.
    shrinkage : float, >= 0
        lambda of the operator; that of mu is ``mean.shrinkage``.
    centred : array, shape (n, n)
        <c_i, c_j>.
    points, kernel : as for `KernelMean`

    Notes
    -----
    `inner`, `norm` and `distance` are those of Hilbert-Schmidt. Leave-one-out scores take mu as
    given. Source: Muandet et al. (2014), section 3.3.
    """

    def __init__(
        self,
        points: ArrayLike,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        estimator: str = "kme",
        *,
        mean: str = "kme",
        shrinkage: float | None = None,
    ):
        check_estimator(estimator)
        if shrinkage is not None:
            check_positive(shrinkage=shrinkage)
            if estimator != "f-kmse":
                raise ValueError(f"shrinkage is for 'f-kmse' alone, but estimator is {estimator!r}")
        self.mean = KernelMean(points, kernel, bandwidth, mean)
        self.points, self.kernel = self.mean.points, self.mean.kernel
        centred = self._products_with(self)
        self.centred = (centred + centred.T) / 2  # rounding may leave it unsymmetric
        if estimator == "kme":
            n = len(self.points)
            self.weights, self.shrinkage = np.full(n, 1 / n), 0.0
        elif shrinkage is not None:
            self.weights, self.shrinkage = f_kmse_weights(self.centred**2, shrinkage), shrinkage
        else:
            shrink = s_kmse if estimator == "s-kmse" else f_kmse
            self.weights, self.shrinkage = shrink(self.centred**2)

    def inner(self, other: Any) -> float:
        """Hilbert-Schmidt inner product with the operator of another sample."""
        check_same_kernel(self, other)
        return float(self.weights @ self._products_with(other) ** 2 @ other.weights)

    def _products_with(self, other):
        """<c_i, c'_j> for the points of both operators."""
        return (
            self.kernel(self.points, other.points)
            - other.mean(self.points)[:, None]
            - self.mean(other.points)
            + self.mean.inner(other.mean)
        )


def f_kmse_weights(gram: Array, shrinkage: float) -> Array:
    """Weights (K + n lambda I)^-1 K 1 / n of the flexible estimator at one lambda, > 0."""
    n = len(gram)
    return np.linalg.solve(gram + n * shrinkage * np.eye(n), gram.mean(axis=1))
