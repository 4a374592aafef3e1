"""Curves along which embeddings move as the label changes, in coordinates made for them.

    z_k | y  ~  N(c_k' B(y), tau_k^2 + lambda_k / N)        independent over k

Given tau and the scales of its coefficients a curve c_k is integrated out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.optimize import minimize

from bdr_stan.embedding.label_functions import LabelFunctions
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.types import Array

_CURVE_ERROR = 1e-12
_MIN_UNEXPLAINED_SHARE = 1e-3  # of the spread of embeddings, by the label: it explains no more
_MIN_RESIDUAL_SHARE = 0.1  # of tau^2, that is not of uncertain labels
_MAX_LOG_DISTANCE = 15.0  # from the centre of the priors that a mode may be, on the log scale


@dataclass(frozen=True)
class CurveSums:
    """Sums over the bags of each size, or at fewer nodes: all that the curves' likelihood needs."""

    size: Array  # points per bag, ascending, shape (G,)
    n_bags: Array  # shape (G,)
    gram: Array  # sums of B B', shape (G, J, J)
    cross: Array  # sums of B z', shape (G, J, K)
    squares: Array  # sums of z^2, shape (G, K)

    @classmethod
    def from_rows(cls, B: Array, z: Array, sizes: Array) -> Self:
        """Sums of functions B of the labels, (n, J), and coordinates z, (n, K), by size."""
        size, group = np.unique(sizes, return_inverse=True)
        n_bags, order = np.bincount(group), np.argsort(group, kind="stable")
        cuts = np.cumsum(n_bags)[:-1]
        parts = list(zip(np.split(B[order], cuts), np.split(z[order], cuts), strict=True))
        return cls(
            size,
            n_bags.astype(float),
            np.array([b.T @ b for b, _ in parts]),
            np.array([b.T @ x for b, x in parts]),
            np.array([np.sum(x**2, axis=0) for _, x in parts]),
        ).at_nodes()

    def at_nodes(self) -> Self:
        """Sums with the same likelihood to ten digits, at fewer sizes if there are many.

        A node's sums are the sums of the sizes, weighted by its polynomial there: some are < 0.
        """
        low, high = np.log(self.size[[0, -1]])
        if high - low == 0:
            return self
        distance = 2 * np.pi / (high - low)
        rate = np.log(distance + np.hypot(distance, 1))  # of convergence, by each node
        n_nodes = int(np.ceil(-np.log(_CURVE_ERROR) / rate))
        if n_nodes >= len(self.size):
            return self
        nodes = np.cos(np.pi * np.arange(n_nodes)[::-1] / (n_nodes - 1))
        places = (2 * np.log(self.size) - low - high) / (high - low)
        at_nodes, at_sizes = (chebvander(x, n_nodes - 1) for x in (nodes, places))
        weights = np.linalg.solve(at_nodes.T, at_sizes.T)
        size = np.exp((low + high + nodes * (high - low)) / 2)
        size[[0, -1]] = self.size[[0, -1]]
        parts = self.n_bags, self.gram, self.cross, self.squares
        return type(self)(size, *(np.tensordot(weights, part, 1) for part in parts))


@dataclass(frozen=True)
class Curves:
    """Posterior of the curves given tau and the scales of their coefficients."""

    mean: Array  # shape (K, J)
    covariance: Array  # shape (K, J, J)
    log_evidence: Array  # of each coordinate, the curve integrated out, shape (K,)
    by_log_tau: Array  # slope of the log evidence, shape (K,)
    by_log_scale: Array  # shape (K, J)


def curves_given(sums: CurveSums, lam: Array, tau: Array, scales: Array) -> Curves:
    """Posterior and evidence given tau, (K,), and `scales`, prior sds of coefficients, (K, J)."""
    variance = tau**2 + lam / sums.size[:, None]
    precision = np.einsum("gk,gij->kij", 1 / variance, sums.gram)
    diagonal = np.arange(scales.shape[1])
    precision[:, diagonal, diagonal] += scales**-2.0
    linear_term = np.einsum("gk,gjk->kj", 1 / variance, sums.cross)
    covariance = np.linalg.inv(precision)
    mean = np.einsum("kij,kj->ki", covariance, linear_term)
    n_bags = sums.n_bags[:, None]
    log_evidence = -0.5 * (
        np.sum(n_bags * np.log(2 * np.pi * variance) + sums.squares / variance, axis=0)
        + 2 * np.log(scales).sum(axis=1)
        + np.linalg.slogdet(precision)[1]
        - np.sum(linear_term * mean, axis=1)
    )
    second = covariance + mean[:, :, None] * mean[:, None, :]
    expected_squares = (
        sums.squares
        - 2 * np.einsum("kj,gjk->gk", mean, sums.cross)
        + np.einsum("kij,gij->gk", second, sums.gram)
    )
    by_variance = -0.5 * (n_bags - expected_squares / variance) / variance
    by_log_tau = 2 * tau**2 * by_variance.sum(axis=0)
    by_log_scale = np.einsum("kjj->kj", second) / scales**2 - 1
    return Curves(mean, covariance, log_evidence, by_log_tau, by_log_scale)


def coefficient_scales(
    functions: LabelFunctions, amplitude: Array, curvature: float, level_scale: float
) -> Array:
    """Prior standard deviations of the curves' coefficients, shape (K, J)."""
    bent = np.arange(len(functions.smooth)) > functions.n_straight
    scales = amplitude[:, None] * functions.smooth * np.where(bent, curvature, 1.0)
    scales[:, 0] = level_scale
    return scales


def most_probable_curves(
    sums: CurveSums, lam: Array, functions: LabelFunctions, priors: Mapping[str, float]
) -> tuple[dict[str, Array], Curves]:
    """Most probable tau, amplitude, (K,), and curvature, curves integrated out; curves there."""
    K = len(lam)
    has_curvature = functions.n_straight + 1 < len(functions.smooth)
    bent = slice(functions.n_straight + 1, None)

    def unpacked(x):
        curvature = np.exp(x[-1]) if has_curvature else 1.0
        return np.exp(x[:K]), np.exp(x[K : 2 * K]), curvature

    def objective(x):
        tau, amplitude, curvature = unpacked(x)
        scales = coefficient_scales(functions, amplitude, curvature, priors["level_scale"])
        curves = curves_given(sums, lam, tau, scales)
        ratio = (tau / priors["tau_scale"]) ** 2
        z = np.log(amplitude / priors["amplitude_median"]) / priors["amplitude_log_sd"]
        value = curves.log_evidence.sum() + np.sum(2 * np.log(tau) - 0.5 * ratio - 0.5 * z**2)
        by_amplitude = curves.by_log_scale[:, 1:].sum(axis=1) - z / priors["amplitude_log_sd"]
        slope = [curves.by_log_tau + 2 - ratio, by_amplitude]
        if has_curvature:
            distance = np.log(curvature / priors["curvature_median"]) / priors["curvature_log_sd"]
            value -= 0.5 * distance**2
            slope.append(
                [curves.by_log_scale[:, bent].sum() - distance / priors["curvature_log_sd"]]
            )
        return -value, -np.concatenate(slope)

    start = np.log([priors["tau_scale"]] * K + [priors["amplitude_median"]] * K)
    if has_curvature:
        start = np.append(start, np.log(priors["curvature_median"]))
    optimum = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(x - _MAX_LOG_DISTANCE, x + _MAX_LOG_DISTANCE) for x in start],  # else overflow
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    tau, amplitude, curvature = unpacked(optimum.x)
    scales = coefficient_scales(functions, amplitude, curvature, priors["level_scale"])
    modes = {
        "tau": tau,
        "amplitude": amplitude,
        **({"curvature": curvature} if has_curvature else {}),
    }
    return modes, curves_given(sums, lam, tau, scales)


def rows_without_blur(
    z: Array, sizes: Array, lam: Array, B: Array, blur: Array, tau: Array, curve: Array
) -> tuple[Array, Array]:
    """Functions and coordinates of bags with uncertain labels, as rows of the usual variance.

    About c_k' B, with B, (n, J), averages over plausible labels and V = `blur`, (n, J, J), their
    covariance, z_k has the variance tau_k^2 + lambda_k / N + c_k' V c_k; B and z are scaled down to
    that without V. `tau` and `curve` are from a regression on B without scales. The most affected
    coordinate determines the scale of B, which all share.
    """
    extra = np.einsum("kj,nji,ki->nk", curve, blur, curve, optimize=True)
    residual = np.maximum(tau**2 - extra.mean(axis=0), _MIN_RESIDUAL_SHARE * tau**2)
    residual = residual + lam / sizes[:, None]
    row_scale = np.sqrt(residual / (residual + extra))
    scale = row_scale.min(axis=1, keepdims=True)
    path = B @ curve.T
    return scale * B, scale * path + row_scale * (z - path)


def residual_coordinates(
    training: TrainingFeatures, B: Array, *, kernel_share: float = 0.0
) -> tuple[Array, Array, Array]:
    """Origin, basis and within-bag variances of coordinates for embeddings given the label.

    The basis diagonalises the within-bag covariance together with the between-bag residual
    covariance of a least-squares fit of the embeddings on the functions B, at least a thousandth of
    their spread, with a share of it in the shape of the kernel matrix.
    """
    embedding = training.embedding
    m0 = embedding.mean.mean(axis=0)
    least = _MIN_UNEXPLAINED_SHARE * np.sum((embedding.mean - m0) ** 2) / len(B)
    # Small bags have less weight, as in `between_bag_covariance`, learned in two rounds.
    weight = np.ones(len(B))
    for _ in range(2):
        root = np.sqrt(weight)[:, None]
        curve = np.linalg.lstsq(B * root, (embedding.mean - m0) * root, rcond=None)[0]
        left = replace(embedding, mean=embedding.mean - B @ curve)
        K, R, Sigma = landmark_matrices(replace(training, embedding=left))
        R = R + max(0.0, least - np.trace(R)) / np.trace(K) * K
        weight = 1 / (np.trace(R) + np.trace(Sigma) / embedding.sizes)
    lam, basis = joint_basis(Sigma, R + kernel_share * np.trace(R) / np.trace(K) * K)
    return m0, basis, lam
