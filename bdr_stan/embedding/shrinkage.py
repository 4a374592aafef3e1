"""Shrinkage of mean embeddings: the joint basis and the Gaussian posterior of each bag.

With prior mu_i ~ N(m0, eta R) and empirical embedding mu_hat_i ~ N(mu_i, Sigma / N_i), the basis V
that diagonalises Sigma and R together shrinks each coordinate separately, at O(d) per bag.
"""

import numpy as np
from scipy.linalg import eigh

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.types import Array, ArrayLike

# Share of the average variance, added to a possibly singular covariance, e.g. of categories.
_RELATIVE_RIDGE = 1e-12
_LEAST_SHARE_BETWEEN = 0.01  # of the variance of the bags' estimated embeddings
# Reliability below which effects are more than 5% too small (benchmarks/contrast.py).
ATTENUATED = 0.5


def between_bag_covariance(embedding: Embedding, covariance: Array) -> Array:
    """Covariance B of the bags' true mean embeddings by moments, positive semidefinite, (d, d).

    E (mu_hat_i - m0)(mu_hat_i - m0)' = B + Sigma / N_i, with weights that favour large bags.
    Negative variances are set to 0 in coordinates with Sigma = I.
    """
    deviations, (sizes, n_bags) = embedding.deviations, embedding.weighted_sizes
    squares = np.sum(deviations.rows**2, axis=1)
    total, within = deviations.average(squares), float(np.trace(covariance))
    between = variance_between(total, within * float(np.average(1 / sizes, weights=n_bags)))
    weights = n_bags * _share_between(between, within, sizes)  # which shrink the trace
    total_weight = weights.sum()
    Sigma = covariance + _RELATIVE_RIDGE * within / len(covariance) * np.eye(len(covariance))
    moments = deviations.scatter(_share_between(between, within, deviations.size) / total_weight)
    moments -= Sigma * np.sum(weights / total_weight / sizes)
    values, vectors = eigh(moments, Sigma)  # vectors' Sigma vectors = I
    directions = Sigma @ vectors
    B = (directions * np.maximum(values, 0)) @ directions.T
    least = _LEAST_SHARE_BETWEEN * total
    if np.trace(B) < least:
        B = deviations.scatter(np.ones(len(squares))) / deviations.n_bags * least / total
    return B


def variance_between(total: float, within: float) -> float:
    """Variance of true means by moments: the total without errors, but at least 1% of it."""
    return max(total - within, _LEAST_SHARE_BETWEEN * total)


def _share_between(between, within, sizes):
    """Share of the variance of bags' means that is not sampling error, by their sizes."""
    return 1 / (1 + within / (between * sizes))


def joint_basis(covariance: Array, prior_gram: Array) -> tuple[Array, Array]:
    """Within-bag variances lambda and basis V that makes both covariances diagonal.

    Solves Sigma V = R V diag(lambda) with V' R V = I (Law et al. 2018, section 3.2, in generalised
    eigencoordinates). lambda, ascending and >= 0, shape (d,), are in units of prior variances; V
    has shape (d, d), and weights w in the basis are landmark weights V w.
    """
    try:
        lam, V = eigh(covariance, prior_gram)
    except np.linalg.LinAlgError:
        smallest = eigh(prior_gram, eigvals_only=True, subset_by_index=[0, 0])[0]
        raise ValueError(
            f"the prior kernel matrix of the landmarks is not positive definite (smallest "
            f"eigenvalue {smallest:.3g}): landmarks too close for this bandwidth; use fewer "
            "landmarks or a smaller bandwidth"
        ) from None
    return np.maximum(lam, 0.0), V  # rounding may make null directions of Sigma negative


def shrinkage_factors(sizes: ArrayLike, lam: Array, eta: ArrayLike) -> Array:
    """Factors eta / (eta + lam_k / N_i) that shrink coordinates towards m0, shape (n, d).

    `sizes` are effective sizes if points have weights, shape (n,), or (n, d) for coordinates of
    several samples; `eta` may also have the shape (d,). Near 1 for large bags, near 0 for
    coordinates with dominating within-bag variance, and 0 if a bag has no points.
    """
    sizes = np.asarray(sizes, float)
    sizes = sizes[:, None] if sizes.ndim == 1 else sizes
    ratio = np.full(np.broadcast_shapes(sizes.shape, lam.shape), np.inf)
    return eta / (eta + np.divide(lam, sizes, out=ratio, where=sizes > 0))


def reliability(embedding: Embedding, basis: Array, lam: Array, w: Array) -> float:
    """Share of the variance of z_i' w between bags that is not sampling error of the z_i.

    z = (mean - m0) basis, w the weights, shape (d,). A bag of N points has the share
    between / (between + within / N), which is also its weight in the average (Carroll et al. 2006,
    section 3.2).
    """
    deviations, within = embedding.deviations, float(lam @ w**2)
    sizes, n_bags = embedding.weighted_sizes
    squares = (deviations.rows @ (basis @ w)) ** 2
    total = deviations.average(squares)
    if total <= 0:
        return 0.0
    between = variance_between(total, within * float(np.average(1 / sizes, weights=n_bags)))
    weights = n_bags * _share_between(between, within, sizes)
    moment = np.sum(deviations.sign * _share_between(between, within, deviations.size) * squares)
    between = max(float(moment - within * np.sum(weights / sizes)) / weights.sum(), 1e-9 * total)
    shares = _share_between(between, within, sizes)
    return float(np.sum(n_bags * shares**2) / np.sum(n_bags * shares))


def attenuation(reliability: float) -> str:
    """What a low reliability means for effects, as the end of a sentence."""
    return (
        f"only {max(0, reliability):.0%} of the variance of the bags' average influence is not "
        "sampling error: bags of so few points do not identify the effects of their columns"
    )
