"""Kernel means of bags as values: exact, or projected on the span of the kernel at landmarks.

Both provide inner products with others of their kind, which is all that ridge regression needs.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.set_kernels import bag_inner_products, bag_squared_norms
from bdr_stan.kernels import Kernel, LandmarkFeatures
from bdr_stan.types import Array


@dataclass(frozen=True)
class BagMeans:
    """Kernel means of bags: the mean of k(x_ij, .) over the points of bag i, by their weights."""

    bags: Bags
    kernel: Kernel  # with numbers as parameters

    def products(self, others: Self | None = None) -> Array:
        """Inner products with other means, or with each other; shape (n, m) or (n, n)."""
        shares = self.bags.point_shares
        if others is None:
            return bag_inner_products(self.bags, shares, self.kernel)
        right = others.bags, others.bags.point_shares
        return bag_inner_products(self.bags, shares, self.kernel, *right)

    def squared_norms(self) -> Array:
        """Squared RKHS norms, shape (n,)."""
        return bag_squared_norms(self.bags, self.bags.point_shares, self.kernel)


@dataclass(frozen=True)
class ProjectedMeans:
    """Kernel means projected on the span of the kernel at landmarks (Nystrom)."""

    coordinates: Array  # (n, r), in an orthonormal basis of the span

    @classmethod
    def at_landmarks(cls, bags: Bags, kernel: Kernel, landmarks: Array) -> Self:
        """Projections of the bags' kernel means, in one pass over the points.

        With mu_i the mean embedding of bag i at the landmarks and K = V diag(s) V' the kernel
        between these, the coordinates are mu_i' V diag(s)^-1/2, without directions whose
        eigenvalues are rounding errors.
        """
        eigenvalues, vectors = np.linalg.eigh(kernel(landmarks, landmarks))
        kept = eigenvalues > eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
        root = vectors[:, kept] / np.sqrt(eigenvalues[kept])
        return cls(embed(bags, LandmarkFeatures(kernel, landmarks)).mean @ root)

    def products(self, others: Self | None = None) -> Array:
        """Inner products with other projections, or with each other; shape (n, m) or (n, n)."""
        others = self if others is None else others
        return self.coordinates @ others.coordinates.T

    def squared_norms(self) -> Array:
        """Squared RKHS norms, shape (n,)."""
        return np.sum(self.coordinates**2, axis=1)
