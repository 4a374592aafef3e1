"""A smooth function of the leading coordinates of mean embeddings, and how these integrate out.

The function g is a Gaussian process of squared exponential covariance on the box [-L, L]^q, as a
sum of B basis functions (Solin and Sarkka 2020; Riutort-Mayol et al. 2023)

    g(u) = sum_b c_b phi_b(u),   phi_b(u) = prod_k sin(omega_bk (u_k + L)) / sqrt(L)
    c_b ~ N(0, spectral_sd_b(ell)^2)        at variance 1, ell the length scale

Coordinates have a prior sd of 1, and beyond the box g is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.kernels.hilbert_features import lowest_frequencies
from bdr_stan.types import Array

HALF_WIDTH = 4.0  # L, in prior sds of a coordinate: nearly all bags lie inside
N_POINTS = 32  # per bag; with fewer the predictive density of a bag has visible modes
_SEED = 0  # of the points in two dimensions or more: the same for all fits


@dataclass(frozen=True)
class CurvedCoordinates(Coordinates):
    """Coordinates of which the leading q, those of smallest lambda, enter a curve as well."""

    frequencies: Array  # omega of the basis functions, shape (B, q)

    def constants(self) -> dict[str, tuple[Array, list[str]]]:
        return super().constants() | {"frequencies": (self.frequencies, ["function", "leading"])}

    @classmethod
    def from_constants(cls, constants: Mapping[str, Array]) -> Self:
        plain = Coordinates.from_constants(constants)
        return cls(**vars(plain), frequencies=constants["frequencies"])


def basis_frequencies(n_curved: int, n_functions: int) -> Array:
    """Frequencies of the smoothest basis functions, shape (n_functions, n_curved)."""
    if n_curved == 0:
        return np.zeros((0, 0))
    return lowest_frequencies(n_functions, np.ones(n_curved)) * np.pi / (2 * HALF_WIDTH)


def basis_functions(u: Array, frequencies: Array) -> Array:
    """Basis functions phi at points u, shape (..., q); result of shape (..., B)."""
    inside = np.clip(u, -HALF_WIDTH, HALF_WIDTH)  # at the edge all of them are 0
    angles = (inside[..., None, :] + HALF_WIDTH) * frequencies
    return np.prod(np.sin(angles) / np.sqrt(HALF_WIDTH), axis=-1)


def spectral_sd(frequencies: Array, ell: float) -> Array:
    """Prior sd of each basis function's weight at variance 1, shape (B,)."""
    q = frequencies.shape[1]
    return (np.sqrt(2 * np.pi) * ell) ** (q / 2) * np.exp(
        -(ell**2) * np.sum(frequencies**2, axis=1) / 4
    )


@cache
def normal_points(n_curved: int) -> Array:
    """Points that represent a standard normal, with mean 0 and variance 1, shape (M, n_curved).

    In one dimension the medians of M strata of equal probability; in more a scrambled Sobol
    sequence through the normal's quantiles.
    """
    if n_curved == 0:
        return np.zeros((1, 0))
    if n_curved == 1:
        uniform = (np.arange(N_POINTS)[:, None] + 0.5) / N_POINTS
    else:
        uniform = qmc.Sobol(n_curved, seed=_SEED).random(N_POINTS)
    points = ndtri(uniform)
    points -= points.mean(axis=0)
    return points / np.sqrt(np.mean(points**2, axis=0))


def leading_points(z: Array, sizes: Array, lam: Array, points: Array) -> Array:
    """Leading coordinates of each bag at the points of its posterior, shape (n, M, q)."""
    q = points.shape[1]
    s = shrinkage_factors(sizes, lam[:q], 1.0)
    return (s * z[:, :q])[:, None] + np.sqrt(1 - s)[:, None] * points
