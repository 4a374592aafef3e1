"""Coordinates of mean embeddings for the computations of a model, which saved fits keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import block_diag, cholesky, eigh, solve_triangular

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.types import Array, ArrayLike


class SavedArrays:
    """Base of dataclasses with fields that saved fits keep, except for None."""

    saved: ClassVar[Mapping[str, tuple[str, ...]]]  # field -> its name there, then its dimensions

    def constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        """Values by their names in saved fits, with their dimensions."""
        values = {name: (getattr(self, f), list(axes)) for f, (name, *axes) in self.saved.items()}
        return {name: pair for name, pair in values.items() if pair[0] is not None}

    @classmethod
    def from_constants(cls, constants: Mapping[str, Array], **others: Any) -> Any:
        """The object from the arrays that a fit keeps, and its other fields."""
        values = {
            field: constants[name] if axes else np.asarray(constants[name]).item()
            for field, (name, *axes) in cls.saved.items()
            if name in constants
        }
        return cls(**values, **others)


@dataclass(frozen=True)
class Coordinates(SavedArrays):
    """Basis for the computations of a model."""

    saved: ClassVar = {
        "m0": ("m0", "landmark"),
        "basis": ("basis", "landmark", "component"),
        "lam": ("lambda", "component"),
        "prior_factor": ("prior_factor", "component_row", "component"),
        "sample": ("sample_of", "component"),
    }

    m0: Array  # shape (d,), the embedding at the origin
    basis: Array  # shape (d, d), columns V: z = (mu - m0) V, landmark weights beta = V w
    lam: Array  # shape (d,), within-bag variance of each coordinate
    prior_factor: Array  # shape (d, d), P of the prior w ~ N(0, rho^2 (P'P)^-1)
    # Number of each coordinate's sample, int, if bags have several samples.
    sample: Array | None = field(default=None, kw_only=True)

    def transform(self, mean: Array) -> Array:
        """Coordinates z of mean embeddings, both shape (n, d)."""
        return (mean - self.m0) @ self.basis

    def prior_variance(self, z: Array) -> Array:
        """Prior variance of the regression function at z with rho = 1, shape (n,)."""
        # z'(P'P)^-1 z = |P'^-1 z|^2
        return np.sum(solve_triangular(self.prior_factor, z.T, trans="T") ** 2, axis=0)

    def is_of_sample(self, m: int) -> Array:
        """Whether each coordinate belongs to the sample of this number; all to the only one."""
        return np.full(len(self.lam), True) if self.sample is None else self.sample == m

    def of_sample(self, m: int) -> Self:
        """Only the coordinates of the sample of this number."""
        k = np.flatnonzero(self.is_of_sample(m))
        block = np.ix_(k, k)
        return type(self)(self.m0[k], self.basis[block], self.lam[k], self.prior_factor[block])

    def by_coordinate(self, values: Array) -> Array:
        """Values of bags or draws, shape (m,), or (m, M) of M samples, as (m, 1) or (m, d)."""
        return values[:, None] if self.sample is None else values[:, self.sample]


def joined(parts: Sequence[Coordinates]) -> Coordinates:
    """Coordinates of several samples side by side."""
    return Coordinates(
        np.concatenate([part.m0 for part in parts]),
        block_diag(*(part.basis for part in parts)),
        np.concatenate([part.lam for part in parts]),
        block_diag(*(part.prior_factor for part in parts)),
        sample=np.repeat(np.arange(len(parts)), [len(part.lam) for part in parts]),
    )


def principal_axes(embedding: Embedding) -> Coordinates:
    """Principal axes of exact embeddings; no within-bag variance."""
    deviations, m0 = embedding.deviations, embedding.m0
    d = len(m0)
    if np.any(deviations.sign < 0):
        rotation = eigh(deviations.scatter(np.ones(len(deviations.sign))))[1][:, ::-1]
    else:
        # Right singular vectors of the rows from their (d, d) triangular factor, which is small.
        rotation = np.linalg.svd(np.linalg.qr(deviations.rows, mode="r"))[2].T
    return Coordinates(m0, rotation, np.zeros(d), np.eye(d))


def joint_coordinates(m0: Array, covariance: Array, prior_gram: Array, gram: Array) -> Coordinates:
    """Coordinates with diagonal within-bag and prior covariance, see `joint_basis`.

    Landmark weights beta = V w ~ N(0, rho^2 K^-1), K = `gram`, mean that w ~ N(0, rho^2 (V'KV)^-1).
    """
    lam, V = joint_basis(covariance, prior_gram)
    # V'RV is the identity by construction: if R is K no factor is computed, without rounding.
    factor = np.eye(len(lam)) if prior_gram is gram else cholesky(V.T @ gram @ V)
    return Coordinates(m0, V, lam, factor)
