"""Kernel principal components of a sample, around a shrunk mean and of a shrunk operator."""

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from bdr_stan.kernels import Kernel
from bdr_stan.types import Array, ArrayLike, is_integer
from experiments.papers.covariance_operators import CovarianceOperator


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel principal components of a shrunk covariance operator around a shrunk mean.

    Parameters
    ----------
    n_components : int, default 2
    kernel : str or Kernel, default "rbf"
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median", default "scaled"
        Of a kernel given by name, in the units of the points; see `Stationary`.
    mean : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of the mean by which points are centred.
    covariance : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of the covariance operator. "s-kmse" shrinks the variances and leaves the
        components as they are.
    shrinkage : float, > 0, optional
        lambda of the operator with "f-kmse", as from `ten_fold_shrinkage`; by default chosen by its
        leave-one-out score.

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
        self,
        n_components: int = 2,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        *,
        mean: str = "kme",
        covariance: str = "kme",
        shrinkage: float | None = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.mean = mean
        self.covariance = covariance
        self.shrinkage = shrinkage

    def fit(self, points: ArrayLike, y: None = None) -> Self:
        """Find the components of points, shape (n, p); `y` is not used.

        Raises
        ------
        ValueError : unusable points or parameters, or more components than the points span.
        """
        operator = CovarianceOperator(
            points,
            self.kernel,
            self.bandwidth,
            self.covariance,
            mean=self.mean,
            shrinkage=self.shrinkage,
        )
        values, vectors = np.linalg.eigh(operator.centred[0])
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not is_integer(self.n_components) or not 1 <= self.n_components <= kept.sum():
            raise ValueError(
                f"n_components must be from 1 to {kept.sum()}, the dimensions that the points "
                f"span around their mean, found {self.n_components!r}"
            )
        # Coordinates of c_j in an orthonormal basis of their span, where the operator is a matrix.
        coordinates = vectors[:, kept] * np.sqrt(values[kept])
        variances, axes = np.linalg.eigh(coordinates.T * operator.weights @ coordinates)
        largest = np.argsort(variances)[::-1][: self.n_components]
        self.explained_variance_ = variances[largest]
        self._axes = vectors[:, kept] / np.sqrt(values[kept]) @ axes[:, largest]
        self.operator_ = operator
        return self

    @property
    def _n_features_out(self):
        """Number of components, by which `get_feature_names_out` and `set_output` name them."""
        return len(self.explained_variance_)

    def transform(self, points: ArrayLike) -> Array:
        """Coordinates of points, shape (m, p), on the components; shape (m, n_components)."""
        check_is_fitted(self)
        mean = self.operator_.mean
        products = self.operator_.kernel(np.asarray(points, np.float64), mean.points)
        centred = products - mean(points)[:, None] - mean(mean.points) + mean.norm**2
        return centred @ self._axes

    def reconstruction_error(self, points: ArrayLike) -> Array:
        """Squared RKHS distance of each point from the mean plus its components; shape (m,)."""
        scores = self.transform(points)
        mean = self.operator_.mean
        points = np.asarray(points, np.float64)
        squared = self.operator_.kernel.diagonal(points) - 2 * mean(points) + mean.norm**2
        return squared - np.sum(scores**2, axis=1)


def ten_fold_shrinkage(points: Array, kernel: Kernel, n_components: int, *, seed: int) -> float:
    """Lambda of F-COSE of least reconstruction error in ten-fold cross-validation.

    Parameters
    ----------
    points : array, shape (n, p)
    kernel : Kernel, with its bandwidth as a number
    n_components : int
    seed : int, of the folds

    Returns
    -------
    float
        n lambda is 0, for plain kernel PCA, or 0.001, 0.01, 0.1, 1 or 10 times the largest
        eigenvalue of the kernel matrix of the operator.
    """
    centred = CovarianceOperator(points, kernel).centred[0]
    largest = np.linalg.eigvalsh(centred**2)[-1] / len(points)
    candidates = [0.0, *(largest * 10.0**power for power in range(-3, 2))]
    errors = np.zeros(len(candidates))
    for kept, held_out in KFold(10, shuffle=True, random_state=seed).split(points):
        for k, shrinkage in enumerate(candidates):
            pca = f_cose_pca(n_components, kernel, shrinkage).fit(points[kept])
            errors[k] += pca.reconstruction_error(points[held_out]).sum()
    return candidates[np.argmin(errors)]


def f_cose_pca(n_components: int, kernel: Kernel, shrinkage: float) -> KernelPCA:
    """Kernel PCA, not fitted, of F-COSE at a given lambda: plain where this is 0."""
    if shrinkage == 0:
        return KernelPCA(n_components, kernel)
    return KernelPCA(n_components, kernel, covariance="f-kmse", shrinkage=shrinkage)
