"""The prior of mean embeddings, N(m0, eta R): the choices of R, and a default prior of eta."""

from typing import Any

import numpy as np

from bdr_stan.embedding.shrinkage import between_bag_covariance
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import RBF, Kernel, check_bandwidth, rbf_convolution
from bdr_stan.types import Array, ArrayLike, is_number

# Share of K in the empirical prior covariance: keeps it positive definite where bags are few.
_KERNEL_SHARE = 0.01


def landmark_matrices(
    training: TrainingFeatures,
    *,
    embedding_prior: str = "empirical",
    measure_scale: float | None = None,
    jitter: float = 1e-4,
) -> tuple[Array, Array, Array]:
    """Kernel matrix K, prior covariance R and within-bag covariance Sigma at the landmarks.

    Parameters
    ----------
    training : TrainingFeatures
        With the within-bag covariance.
    embedding_prior : {"empirical", "kernel", "convolution"}, default "empirical"
        R is the covariance between the training bags, by moments, plus a hundredth of it in the
        shape of K; K itself; or the convolution of the kernel with itself.
    measure_scale : float, > 0
        l of the convolution's measure exp(-|z - c|^2 / (2 l^2)), c the mean of the landmarks, in
        the units of the points, or in those of the kernel where it has some.
    jitter : float, >= 0, default 1e-4
        Added to the diagonals of K and Sigma, and relative to its mean diagonal to that of the
        convolution.

    Returns
    -------
    K, R, Sigma : arrays, shape (d, d)
        R is K, the same object, for "kernel".

    Source: Law et al. (2018), section 3.2; for the convolution Flaxman et al. (2016).
    """
    u, embedding = training.landmarks, training.embedding
    kernel: Any = training.kernel
    feature_map: Any = training.feature_map
    within: Any = embedding.covariance
    ridge = jitter * np.eye(len(u))
    K = feature_map.gram() + ridge
    covariance = within + ridge
    if embedding_prior == "kernel":
        return K, K, covariance
    if embedding_prior == "convolution":
        seen = kernel.in_units(u)
        centred = seen - seen.mean(axis=0)
        R = kernel.variance**2 * rbf_convolution(centred, centred, kernel.bandwidth, measure_scale)
        return K, R + ridge * np.trace(R) / len(R), covariance
    m0 = embedding.mean.mean(axis=0)
    R = between_bag_covariance(embedding.mean, embedding.sizes, m0, within)
    return K, R + _KERNEL_SHARE * np.trace(R) / np.trace(K) * K, covariance


def check_embedding_prior(
    embedding_prior: str, measure_scale: float | str, jitter: float, kernel: str | Kernel
) -> None:
    """Raise ValueError where these choices are of no use; see `landmark_matrices`."""
    if embedding_prior not in ("empirical", "kernel", "convolution"):
        raise ValueError(
            "embedding_prior must be 'empirical', 'kernel' or 'convolution', "
            f"found {embedding_prior!r}"
        )
    if embedding_prior == "convolution":
        if not (kernel == "rbf" or isinstance(kernel, RBF)):
            raise ValueError(
                f"embedding_prior='convolution' is known for kernel='rbf' only, found {kernel!r}"
            )
        is_name = isinstance(measure_scale, str)
        if np.ndim(measure_scale) or (is_name and measure_scale != "evidence"):
            raise ValueError(
                f"measure_scale must be 'evidence' or a positive number, found {measure_scale!r}"
            )
        if not is_name:
            check_bandwidth(measure_scale, "measure_scale")
    if not is_number(jitter) or not 0 <= jitter < np.inf:
        raise ValueError(f"jitter must be a number >= 0, found {jitter!r}")


def eta_prior(
    mean: Array, sizes: ArrayLike, covariance: Array, prior_gram: Array
) -> dict[str, float]:
    """Default prior of eta, the variance of embeddings between bags.

    Moment estimate: E |mu_hat_i - m0|^2 = eta tr(R) + tr(Sigma) / N_i.

    Parameters
    ----------
    mean : array, shape (n, d)
        Empirical mean embeddings minus m0.
    sizes : array, shape (n,)
        Points per bag.
    covariance, prior_gram : arrays, shape (d, d)
        `Sigma` and `R`.

    Returns
    -------
    dict
        eta_median, the estimate, and eta_log_sd = 2.
    """
    total = np.mean(np.sum(mean**2, axis=1))
    within = np.trace(covariance) * np.mean(1.0 / np.asarray(sizes, float))
    between = max(total - within, 0.01 * total)
    return {"eta_median": float(between / np.trace(prior_gram)), "eta_log_sd": 2.0}
