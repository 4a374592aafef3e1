"""Kernel ridge regression on kernel means that are projected on the kernel at landmarks."""

import numpy as np

from bdr_stan import MERR, Bags, Linear
from bdr_stan.embedding.landmarks import choose_landmarks, landmark_units
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import LandmarkFeatures, resolve_kernel
from bdr_stan.types import Array


class ProjectedMERR:
    """`MERR` in one pass over the points: a bag is one point, its coordinates in the span.

    `outer` as for `MERR`; the kernel is "rbf" with bandwidth "scaled", the landmarks are of
    k-means. `fit(bags, y, seed=)` returns the object, `predict(bags)` labels, shape (n,).
    """

    def __init__(self, outer: str = "rbf", n_landmarks: int = 60):
        self.outer, self.n_landmarks = outer, n_landmarks

    def fit(self, bags: Bags, y: Array, *, seed: int) -> "ProjectedMERR":
        kernel = resolve_kernel("rbf", "scaled", bags, seed=seed)
        units = landmark_units(kernel, bags, seed)
        self.place(kernel, choose_landmarks(bags, self.n_landmarks, scale=units, seed=seed))
        self.model = MERR(Linear(), outer=self.outer).fit(self.projected(bags), y, seed=seed)
        return self

    def predict(self, bags: Bags) -> Array:
        return self.model.predict(self.projected(bags))

    def place(self, kernel, landmarks):
        """The orthonormal basis of the span of the kernel at landmarks, shape (d, p).

        With mu_i the mean embedding of bag i at the landmarks and K = V diag(s) V' the kernel
        between them, the coordinates are mu_i' V diag(s)^-1/2, without directions with eigenvalues
        at rounding error.
        """
        self.features = LandmarkFeatures(kernel, landmarks)
        eigenvalues, vectors = np.linalg.eigh(self.features.gram())
        positive = eigenvalues > eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
        self.root = vectors[:, positive] / np.sqrt(eigenvalues[positive])

    def projected(self, bags: Bags) -> list[Array]:
        """A point for each bag, shape (1, r)."""
        return list((embed(bags, self.features).mean @ self.root)[:, None])
