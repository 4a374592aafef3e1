"""The prior N(m0, eta R) of mean embeddings: the choices of R, and a default prior of eta."""

from dataclasses import replace
from typing import Any

import numpy as np

from bdr_stan.embedding.mean_embedding import Embedding, moments_of_inverse
from bdr_stan.embedding.shrinkage import between_bag_covariance, variance_between
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import Kernel
from bdr_stan.types import Array, numbers_or_nan

JITTER = 1e-4  # on the diagonals of the kernel matrix and of the within-bag covariance
# Share of K in the empirical prior covariance: positive definite if bags are few, yet too small to
# change directions that the bags determine.
KERNEL_SHARE = 0.01
# Limits of the prior sd of log(eta): never more certain than 10%, and never wider than a factor of
# exp(2) = 7 either way, which carries little information already.
_LOG_SD_LIMITS = 0.1, 2.0


def landmark_matrices(
    training: TrainingFeatures, *, embedding_prior: str | Kernel = "empirical"
) -> tuple[Array, Array, Array]:
    """Kernel matrix K, prior covariance R and within-bag covariance Sigma, shapes (d, d).

    R depends on `embedding_prior`, see ``docs/explanation/model.md``: for "kernel" it is K itself;
    for a kernel r it is r(u, u). `JITTER` is added to the diagonals of K and Sigma, and relative to
    its mean diagonal to R of a kernel r.
    """
    u, embedding = training.landmarks, training.embedding
    feature_map: Any = training.feature_map
    within: Any = embedding.covariance
    ridge = JITTER * np.eye(len(u))
    K = feature_map.gram() + ridge
    covariance = within + ridge
    if embedding_prior == "kernel":
        return K, K, covariance
    if isinstance(embedding_prior, Kernel):
        R = prior_kernel(embedding_prior, feature_map.landmarks)(u, u)
        return K, R + ridge * np.trace(R) / len(R), covariance
    R = between_bag_covariance(embedding, covariance)
    return K, R + KERNEL_SHARE * np.trace(R) / np.trace(K) * K, covariance


def prior_kernel(kernel: Kernel, landmarks: Array) -> Kernel:
    """A kernel as the embeddings' prior, on the columns of landmarks of k, shape (d, p)."""
    if np.isnan(landmarks).any():
        raise ValueError("embedding_prior is a kernel, so kernel= must not be a sum: use 'rbf'")
    return kernel.on(None, landmarks.shape[1])


def check_embedding_prior(embedding_prior: str | Kernel) -> None:
    """Raise ValueError unless `landmark_matrices` has such a prior."""
    if isinstance(embedding_prior, Kernel) or str(embedding_prior) in ("empirical", "kernel"):
        return
    raise ValueError(
        f"embedding_prior must be 'empirical', 'kernel' or a kernel, found {embedding_prior!r}"
    )


def with_prior_mean(training: TrainingFeatures, prior_mean: Any) -> TrainingFeatures:
    """The features with m0 the average of the bags, 0, or the embedding of points, shape (m, p)."""
    if isinstance(prior_mean, str):
        m0 = np.zeros(training.feature_map.n_columns) if prior_mean == "zero" else None
    else:
        if hasattr(prior_mean, "columns"):
            prior_mean = prior_mean.reindex(columns=training.record.features)
        check_prior_mean(prior_mean, training.record.n_features)
        m0 = training.feature_map(np.asarray(prior_mean, float)).mean(axis=0)
    return replace(training, embedding=replace(training.embedding, prior_mean=m0))


def check_prior_mean(prior_mean: Any, p: int | str = "p") -> None:
    """Raise ValueError unless it is "average", "zero" or points, of p columns if p is a number."""
    if isinstance(prior_mean, str) and prior_mean in ("average", "zero"):
        return
    points = numbers_or_nan(prior_mean)
    has_columns = points.ndim == 2 and points.size > 0 and p in ("p", points.shape[1])
    if not has_columns or not np.isfinite(points).all():
        what = repr(prior_mean) if points.ndim < 2 else f"shape {points.shape}"
        raise ValueError(
            f"prior_mean must be 'average', 'zero' or finite numbers, shape (m, {p}), found {what}"
        )


def eta_prior(
    embedding: Embedding,
    covariance: Array,
    prior_gram: Array,
    *,
    embedding_prior: str | Kernel = "empirical",
) -> dict[str, float]:
    """Default lognormal prior of eta: eta_median, by moments, and eta_log_sd.

    The estimate solves E |mu_hat_i - m0|^2 = eta tr(R) + tr(Sigma) / N_i. Only the "empirical" R
    estimates the covariance between bags, so only there the standard error `scale_log_sd` applies.
    """
    sizes, n_bags = embedding.weighted_sizes
    within = np.trace(covariance) * np.average(1.0 / sizes, weights=n_bags)
    between = variance_between(_mean_square(embedding), within)
    estimated = embedding_prior == "empirical"
    return {
        "eta_median": float(between / np.trace(prior_gram)),
        "eta_log_sd": scale_log_sd(embedding, covariance) if estimated else _LOG_SD_LIMITS[1],
    }


def scale_log_sd(embedding: Embedding, covariance: Array) -> float:
    """Standard error of the log of the moment estimate of the scale between bags, 0.1 to 2.

    It has errors of the trace, of one direction and of covariances that depend on the sizes, see
    ``docs/explanation/model.md``.
    """
    n, (sizes, n_bags) = embedding.deviations.n_bags, embedding.weighted_sizes
    if n < 2:
        return _LOG_SD_LIMITS[1]
    total, scatter = _mean_square(embedding), np.trace(covariance)
    mean_inverse, inverse_variance = moments_of_inverse(sizes, n_bags)
    trace = embedding.error_of_trace(scatter)
    one_direction = np.sqrt(2 / (n - 1)) * total
    by_size = scatter * np.sqrt(inverse_variance)  # |cov| <= sd(tr Sigma_i) sd(1 / N_i)
    error = np.hypot(max(trace, one_direction), by_size)
    between = variance_between(total, scatter * mean_inverse)
    return float(np.clip(error / between, *_LOG_SD_LIMITS))


def _mean_square(embedding):
    """Average of |mu_hat_i - m0|^2 over the bags."""
    deviations = embedding.deviations
    return deviations.average(np.sum(deviations.rows**2, axis=1))
