"""Covariance operators of samples in the RKHS, shrunk as kernel means are, and kernel PCA on them.

The covariance operator is a kernel mean as well: the average of c_j (x) c_j, c_j = k(x_j, .) - mu,
whose inner products <c_i, c_j>^2 are the squares of the centred kernel matrix. The estimators of
kernel means thus shrink it (S-COSE and F-COSE of Muandet et al. 2014, section 3.3).
"""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bdr_stan.kernel_means.kernel_mean import HilbertMean, KernelMean, f_kmse, s_kmse


class CovarianceOperator(HilbertMean):
    """Covariance operator of a sample, sum_j beta_j c_j (x) c_j, c_j = k(x_j, .) - mu.

    Parameters
    ----------
    points : array, shape (n, p)
    kernel : str or Kernel, default "rbf"
    bandwidth : float, array of shape (p,), or "median", default "median"
        Of a kernel given by name, in the units of the points.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        "kme": the empirical operator, beta = 1/n. "s-kmse" is S-COSE, "f-kmse" F-COSE.
    mean : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of mu, around which the points are centred.

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

    def __init__(self, points, kernel="rbf", bandwidth="median", estimator="kme", *, mean="kme"):
        self.mean = KernelMean(points, kernel, bandwidth, mean)
        self.points, self.kernel = self.mean.points, self.mean.kernel
        centred = self._products_with(self)
        self.centred = (centred + centred.T) / 2  # rounding may leave it unsymmetric
        if estimator == "kme":
            n = len(self.points)
            self.weights, self.shrinkage = np.full(n, 1 / n), 0.0
        else:
            shrink = {"s-kmse": s_kmse, "f-kmse": f_kmse}
            if estimator not in shrink:
                raise ValueError(
                    f"estimator must be one of 'kme', 's-kmse', 'f-kmse', found {estimator!r}"
                )
            self.weights, self.shrinkage = shrink[estimator](self.centred**2)

    def inner(self, other):
        """Hilbert-Schmidt inner product with the operator of another sample."""
        self._check_same_kernel(other)
        return float(self.weights @ self._products_with(other) ** 2 @ other.weights)

    def _products_with(self, other):
        """<c_i, c'_j> for the points of both operators."""
        return (
            self.kernel(self.points, other.points)
            - other.mean(self.points)[:, None]
            - self.mean(other.points)
            + self.mean.inner(other.mean)
        )


class KernelPCA(TransformerMixin, BaseEstimator):
    """Kernel principal components of a shrunk covariance operator around a shrunk mean.

    Parameters
    ----------
    n_components : int, default 2
    kernel : str or Kernel, default "rbf"
    bandwidth : float, array of shape (p,), or "median", default "median"
        Of a kernel given by name, in the units of the points.
    mean : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of the mean by which points are centred.
    covariance : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of the covariance operator. "s-kmse" shrinks the variances and leaves the
        components as they are.

    Attributes
    ----------
    operator_ : CovarianceOperator
    explained_variance_ : array, shape (n_components,)
        Largest eigenvalues of the operator.

    Notes
    -----
    Costs n^3 in time and n^2 in memory. Source: Muandet et al. (2014), section 4.2.
    """

    def __init__(
        self, n_components=2, kernel="rbf", bandwidth="median", *, mean="kme", covariance="kme"
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.mean = mean
        self.covariance = covariance

    def fit(self, points, y=None):
        """Find the components of points, shape (n, p); `y` is not used.

        Raises
        ------
        ValueError : unusable points or parameters, or more components than the points span.
        """
        operator = CovarianceOperator(
            points, self.kernel, self.bandwidth, self.covariance, mean=self.mean
        )
        values, vectors = np.linalg.eigh(operator.centred)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not 1 <= self.n_components <= kept.sum():
            raise ValueError(
                f"n_components must be from 1 to {kept.sum()}, the dimensions that the points "
                f"span around their mean, found {self.n_components}"
            )
        # Coordinates of c_j in an orthonormal basis of their span, where the operator is a matrix.
        coordinates = vectors[:, kept] * np.sqrt(values[kept])
        variances, axes = np.linalg.eigh(coordinates.T * operator.weights @ coordinates)
        largest = np.argsort(variances)[::-1][: self.n_components]
        self.explained_variance_ = variances[largest]
        self._axes = vectors[:, kept] / np.sqrt(values[kept]) @ axes[:, largest]
        self.operator_ = operator
        return self

    def transform(self, points):
        """Coordinates of points, shape (m, p), on the components; shape (m, n_components)."""
        check_is_fitted(self)
        mean = self.operator_.mean
        products = self.operator_.kernel(np.asarray(points, np.float64), mean.points)
        centred = products - mean(points)[:, None] - mean(mean.points) + mean.norm**2
        return centred @ self._axes

    def reconstruction_error(self, points):
        """Squared RKHS distance of each point from the mean plus its components; shape (m,)."""
        scores = self.transform(points)
        mean = self.operator_.mean
        points = np.asarray(points, np.float64)
        squared = self.operator_.kernel.diagonal(points) - 2 * mean(points) + mean.norm**2
        return squared - np.sum(scores**2, axis=1)
