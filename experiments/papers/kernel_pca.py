"""Kernel principal components of a sample, around a shrunk mean and of a shrunk operator."""

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
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
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.mean = mean
        self.covariance = covariance

    def fit(self, points: ArrayLike, y: None = None) -> Self:
        """Find the components of points, shape (n, p); `y` is not used.

        Raises
        ------
        ValueError : unusable points or parameters, or more components than the points span.
        """
        operator = CovarianceOperator(
            points, self.kernel, self.bandwidth, self.covariance, mean=self.mean
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
