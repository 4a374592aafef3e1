"""Shrinkage of mean embeddings: the joint basis and the Gaussian posterior of each bag.

Prior mu_i ~ N(m0, eta R), empirical embedding mu_hat_i ~ N(mu_i, Sigma / N_i), all at the
landmarks. In the basis V that diagonalises Sigma and R together every bag shrinks
coordinate by coordinate, at O(d) a bag.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from bdr_stan.types import Array, ArrayLike


def between_bag_covariance(mean: Array, sizes: ArrayLike, m0: Array, covariance: Array) -> Array:
    """Covariance of the bags' true mean embeddings, by moments.

    E (mu_hat_i - m0)(mu_hat_i - m0)' = B + Sigma / N_i, averaged with weights that favour large
    bags, whose embeddings say more about B.

    Parameters
    ----------
    mean : array, shape (n, d)
        Empirical mean embeddings.
    sizes : array, shape (n,)
        Points per bag.
    m0 : array, shape (d,)
        Mean of the embeddings.
    covariance : array, shape (d, d)
        Within-bag covariance `Sigma`.

    Returns
    -------
    array, shape (d, d), positive semidefinite
        Negative eigenvalues of the estimate are set to zero. If they leave less than a hundredth
        of the embeddings' total variance, the matrix is scaled up to that.
    """
    deviation, sizes = mean - m0, np.asarray(sizes, float)
    total, within = np.mean(np.sum(deviation**2, axis=1)), np.trace(covariance)
    least = 0.01 * total
    between = max(total - within * np.mean(1 / sizes), least)
    weight = 1 / (1 + within / (between * sizes))
    weight /= weight.sum()
    values, vectors = eigh((deviation.T * weight) @ deviation - covariance * np.sum(weight / sizes))
    B = (vectors * np.maximum(values, 0)) @ vectors.T
    if np.trace(B) < least:
        B = (deviation.T @ deviation) * least / np.sum(deviation**2)
    return B


def joint_basis(covariance: Array, prior_gram: Array) -> tuple[Array, Array]:
    """Basis in which the within-bag covariance and the prior covariance are both diagonal.

    Solves Sigma V = R V diag(lambda) with V' R V = I.

    Parameters
    ----------
    covariance : array, shape (d, d)
        Within-bag covariance `Sigma` of the kernel features.
    prior_gram : array, shape (d, d)
        Prior covariance `R` of a mean embedding at the landmarks, positive definite.

    Returns
    -------
    lam : array, shape (d,), ascending, >= 0
        Within-bag variance of each coordinate, in units of its prior variance.
    V : array, shape (d, d)
        Columns are the basis; weights `w` in it stand for landmark weights ``V @ w``.

    Raises
    ------
    ValueError
        If `prior_gram` is not positive definite.

    Notes
    -----
    Law et al. (2018), section 3.2, equations for the posterior of the embedding, written in
    generalised eigencoordinates.
    """
    try:
        lam, V = eigh(covariance, prior_gram)
    except np.linalg.LinAlgError:
        smallest = eigh(prior_gram, eigvals_only=True, subset_by_index=[0, 0])[0]
        raise ValueError(
            f"the prior kernel matrix of the landmarks is not positive definite (smallest "
            f"eigenvalue {smallest:.3g}): landmarks too close for this bandwidth; use fewer "
            f"landmarks, a smaller bandwidth or a larger jitter"
        ) from None
    return np.maximum(lam, 0.0), V


def shrinkage_factors(sizes: ArrayLike, lam: Array, eta: ArrayLike) -> Array:
    """Factor by which each coordinate of each bag's embedding shrinks towards m0.

    Parameters
    ----------
    sizes : array, shape (n,)
        Points per bag (effective sizes where points are weighted).
    lam : array, shape (d,)
        From `joint_basis`.
    eta : float, > 0
        Scale of the prior covariance ``eta * R``.

    Returns
    -------
    array, shape (n, d), values in (0, 1]
        eta / (eta + lam_k / N_i): near 1 for large bags, near 0 for noisy coordinates.
    """
    return eta / (eta + lam / np.asarray(sizes, float)[:, None])


def posterior_moments(
    mean: ArrayLike,
    sizes: ArrayLike,
    m0: Array,
    covariance: Array,
    prior_gram: ArrayLike,
    eta: float,
) -> tuple[Array, Array]:
    """Posterior mean and covariance of every bag's embedding, in landmark coordinates.

    Parameters
    ----------
    mean : array, shape (n, d)
        Empirical mean embeddings.
    sizes : array, shape (n,)
        Points per bag.
    m0 : array, shape (d,)
        Prior mean embedding.
    covariance, prior_gram : arrays, shape (d, d)
        `Sigma` and `R`.
    eta : float, > 0
        Prior scale.

    Returns
    -------
    M : array, shape (n, d)
        m0 + eta R (eta R + Sigma / N_i)^-1 (mu_hat_i - m0)
    C : array, shape (n, d, d)
        eta R - eta R (eta R + Sigma / N_i)^-1 eta R

    Notes
    -----
    Law et al. (2018), section 3.2. Dense, O(d^3) per distinct size: for inspection. The models
    compute with `joint_basis` and `shrinkage_factors`.
    """
    mean, sizes = np.asarray(mean, float), np.asarray(sizes, float)
    n, d = mean.shape
    M, C = np.empty((n, d)), np.empty((n, d, d))
    R = eta * np.asarray(prior_gram, float)
    for size in np.unique(sizes):
        members = sizes == size
        gain = cho_solve(cho_factor(R + covariance / size), R).T
        M[members] = m0 + (mean[members] - m0) @ gain.T
        posterior = R - gain @ R
        C[members] = (posterior + posterior.T) / 2
    return M, C
