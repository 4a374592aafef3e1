"""The prior of mean embeddings, N(m0, eta R): the choices of R, and a default prior of eta."""

from typing import Any

import numpy as np

from bdr_stan.embedding.shrinkage import between_bag_covariance
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import RBF, Kernel, check_bandwidth, rbf_convolution
from bdr_stan.types import Array, ArrayLike, is_number

# Share of K in the empirical prior covariance: keeps it positive definite where bags are few.
_KERNEL_SHARE = 0.01
# Limits of the prior sd of log(eta).
_NARROWEST, _WIDEST = 0.1, 2.0


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
    mean: Array,
    sizes: ArrayLike,
    covariance: Array,
    prior_gram: Array,
    *,
    embedding_prior: str = "empirical",
) -> dict[str, float]:
    """Default prior of eta, the variance of embeddings between bags.

    Moment estimate: E |mu_hat_i - m0|^2 = eta tr(R) + tr(Sigma) / N_i.

    Parameters
    ----------
    mean : array, shape (n, d)
        Empirical mean embeddings minus m0, their average over the bags.
    sizes : array, shape (n,)
        Points per bag.
    covariance, prior_gram : arrays, shape (d, d)
        `Sigma` and `R`.
    embedding_prior : {"empirical", "kernel", "convolution"}, default "empirical"
        What R is. Only "empirical" is an estimate of the covariance between bags. The shapes of
        the others are assumed: their trace says little of the directions that matter to the
        label, and eta makes up for the difference.

    Returns
    -------
    dict
        eta_median, the estimate, and eta_log_sd: `scale_log_sd` for "empirical", else 2.
    """
    total = np.mean(np.sum(mean**2, axis=1))
    within = np.trace(covariance) * np.mean(1.0 / np.asarray(sizes, float))
    between = _between(total, within)
    estimated = embedding_prior == "empirical"
    return {
        "eta_median": float(between / np.trace(prior_gram)),
        "eta_log_sd": scale_log_sd(mean, sizes, covariance) if estimated else _WIDEST,
    }


def scale_log_sd(mean: Array, sizes: ArrayLike, covariance: Array) -> float:
    """Standard error of the logarithm of the moment estimate of the scale between bags.

    Three errors of the estimate T = mean of |mu_hat_i - m0|^2 - tr(Sigma) / N_i:

    - of the trace: the jackknife over bags, sd(a_i) / sqrt(n) with
      a_i = |mu_hat_i - m0|^2 n / (n - 1) - tr(Sigma) / N_i;
    - of one direction, the one that matters to the label: the variance of n normal embeddings
      along it has a relative error of sqrt(2 / (n - 1)). The larger one of these two counts;
    - of within-bag covariances Sigma_i that depend on the sizes: the covariance of tr(Sigma_i)
      with 1 / N_i, at full correlation and a coefficient of variation of tr(Sigma_i) of 1. It is 0
      where all bags have one size, and is added in quadrature.

    Parameters
    ----------
    mean : array, shape (n, d)
        Empirical mean embeddings minus m0, their average over the bags.
    sizes : array, shape (n,)
        Points per bag.
    covariance : array, shape (d, d)
        Within-bag covariance `Sigma`.

    Returns
    -------
    float, from 0.1 to 2
    """
    n, inverse_sizes = len(mean), 1.0 / np.asarray(sizes, float)
    if n < 2:
        return _WIDEST
    squares, scatter = np.sum(mean**2, axis=1), np.trace(covariance)
    total = np.mean(squares)
    trace = np.std(squares * n / (n - 1) - scatter * inverse_sizes, ddof=1) / np.sqrt(n)
    one_direction = np.sqrt(2 / (n - 1)) * total
    by_size = scatter * np.std(inverse_sizes)
    error = np.hypot(max(trace, one_direction), by_size)
    between = _between(total, scatter * np.mean(inverse_sizes))
    return float(np.clip(error / between, _NARROWEST, _WIDEST))


def _between(total, within):
    """Mean squared distance of the true embeddings from their average, by moments; > 0."""
    return max(total - within, 0.01 * total)
