"""Exact kernel means of mixtures of Gaussians.

For the linear, polynomial and Gaussian kernels the integrals over Gaussians have closed forms:
the distance of an estimate from the true kernel mean is then known without error.
"""

from typing import Any

import numpy as np

from bdr_stan.kernel_means.kernel_mean import check_same_kernel
from bdr_stan.kernels import RBF, Kernel, Polynomial
from bdr_stan.types import Array, ArrayLike
from data_gen.mixtures import GaussianMixture
from experiments.papers.hilbert_mean import HilbertMean


class MixtureMean(HilbertMean):
    """Exact kernel mean of a mixture of Gaussians, E k(x, .) over x of the mixture.

    Parameters
    ----------
    mixture : GaussianMixture
    kernel : RBF, or Polynomial of degree 1, 2 or 3
        On all columns of the points, its bandwidth a number or one for each column.

    Raises
    ------
    ValueError : another kernel, for which there is no closed form here.

    Notes
    -----
    With x ~ N(m, S) and y ~ N(n, T) independent, a = m'n + c, q = m'Tm + n'Sn + trace(ST), and B
    the diagonal matrix of squared bandwidths

        E x'y + c     = a
        E (x'y + c)^2 = a^2 + q
        E (x'y + c)^3 = a^3 + 3 a q + 6 m'TSn
        E rbf(x, y)   = |B|^(1/2) |B + S + T|^(-1/2) exp(-(m - n)' (B + S + T)^-1 (m - n) / 2)

    A point is a Gaussian whose covariance is 0.
    """

    def __init__(self, mixture: GaussianMixture, kernel: Kernel):
        self.mixture, self.kernel = mixture, with_closed_form(kernel)
        self._covariances = mixture.covariance_matrices

    def __call__(self, x: ArrayLike) -> Array:
        """Value of the mean at points, shape (n, p); array, shape (n,)."""
        x = np.asarray(x, np.float64)
        zero = np.zeros((x.shape[1],) * 2)
        parts = zip(self.mixture.means, self._covariances, strict=True)
        values = [_expected_kernel(self.kernel, x, zero, m, S) for m, S in parts]
        return self.mixture.weights @ values

    def inner(self, other: Any) -> float:
        """Inner product in the RKHS with the mean of a sample or of a distribution."""
        if not isinstance(other, MixtureMean):
            return other.inner(self)
        check_same_kernel(self, other)
        total = 0.0
        for w, m, S in zip(
            self.mixture.weights, self.mixture.means, self._covariances, strict=True
        ):
            parts = zip(other.mixture.means, other._covariances, strict=True)
            values = [_expected_kernel(self.kernel, m[None], S, n, T)[0] for n, T in parts]
            total += w * (other.mixture.weights @ values)
        return float(total)


def with_closed_form(kernel: Kernel) -> RBF | Polynomial:
    """The kernel, where means of Gaussians have a closed form in it; else ValueError."""
    if isinstance(kernel, (RBF, Polynomial)) and kernel.columns is None:
        if isinstance(kernel, Polynomial) and kernel.degree <= 3:
            return kernel
        if isinstance(kernel, RBF) and not isinstance(kernel.bandwidth, str):
            return kernel
    raise ValueError(
        "exact kernel means of Gaussians need RBF with a number for its bandwidth or "
        f"Polynomial of degree 1 to 3, on all columns, found {kernel}"
    )


def _expected_kernel(kernel, x, S, n, T):
    """E k(u, v) for u ~ N(x_i, S), v ~ N(n, T); x of shape (k, p), result of shape (k,)."""
    if isinstance(kernel, RBF):
        squared = np.broadcast_to(np.square(kernel.lengths), len(n))
        spread = np.eye(len(n)) + (S + T) / np.sqrt(np.outer(squared, squared))
        factor = np.linalg.cholesky(spread)
        white = np.linalg.solve(factor, ((x - n) / np.sqrt(squared)).T)
        height = kernel.variance / np.prod(factor.diagonal())
        return height * np.exp(-0.5 * np.sum(white**2, axis=0))
    a = x @ n + kernel.constant
    if kernel.degree == 1:
        return kernel.variance * a
    q = np.einsum("ij,jk,ik->i", x, T, x) + n @ S @ n + np.sum(S * T)
    if kernel.degree == 2:
        return kernel.variance * (a**2 + q)
    return kernel.variance * (a**3 + 3 * a * q + 6 * x @ (T @ (S @ n)))
