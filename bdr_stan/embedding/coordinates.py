"""Coordinates of mean embeddings in which a model computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.types import Array


@dataclass(frozen=True)
class Coordinates:
    """Basis in which a model computes, from landmark coordinates.

    m0 : array, shape (d,), embedding taken as origin
    basis : array, shape (d, d), columns V: z = (mu - m0) V, landmark weights beta = V w
    lam : array, shape (d,), within-bag variance of each coordinate
    prior_factor : array, shape (d, d), P of the prior w ~ N(0, rho^2 (P'P)^-1)
    """

    m0: Array
    basis: Array
    lam: Array
    prior_factor: Array

    def of(self, mean: Array) -> Array:
        """Coordinates z of mean embeddings, both shape (n, d)."""
        return (mean - self.m0) @ self.basis

    def prior_variance(self, z: Array) -> Array:
        """Prior variance of the regression function at embeddings z, shape (n,), at rho = 1."""
        in_prior = solve_triangular(self.prior_factor, z.T, trans="T")
        return np.sum(in_prior**2, axis=0)

    def constants(self) -> dict[str, tuple[Array, list[str]]]:
        """The arrays under the names and dimensions by which a fit keeps them."""
        return {
            "m0": (self.m0, ["landmark"]),
            "basis": (self.basis, ["landmark", "component"]),
            "lambda": (self.lam, ["component"]),
            "prior_factor": (self.prior_factor, ["component_row", "component"]),
        }

    @classmethod
    def of_constants(cls, constants: Mapping[str, Array]) -> Self:
        """Coordinates from the arrays that a fit keeps."""
        return cls(*(constants[name] for name in ("m0", "basis", "lambda", "prior_factor")))


def principal_axes(mean: Array) -> Coordinates:
    """Coordinates of exact embeddings, shape (n, d), in which their design is diagonal."""
    m0 = mean.mean(axis=0)
    d = len(m0)
    rotation = np.linalg.svd(np.linalg.qr(mean - m0, mode="r"))[2].T
    return Coordinates(m0, rotation, np.zeros(d), np.eye(d))


def joint_coordinates(
    mean: Array, covariance: Array, prior_gram: Array, gram: Array
) -> Coordinates:
    """Coordinates in which within-bag and prior covariance of the embeddings are diagonal.

    Parameters
    ----------
    mean : array, shape (n, d)
        Mean embeddings of the training bags.
    covariance : array, shape (d, d)
        Within-bag covariance `Sigma`.
    prior_gram : array, shape (d, d)
        Prior covariance `R` of the embeddings.
    gram : array, shape (d, d)
        Kernel matrix `K` of the landmarks: weights alpha = V w ~ N(0, rho^2 K^-1), that is
        w ~ N(0, rho^2 (V'KV)^-1), of unit precision where R is K.

    Returns
    -------
    Coordinates
    """
    lam, V = joint_basis(covariance, prior_gram)
    factor = np.eye(len(lam)) if prior_gram is gram else cholesky(V.T @ gram @ V)
    return Coordinates(mean.mean(axis=0), V, lam, factor)
