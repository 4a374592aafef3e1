"""The leave-one-out score of F-KMSE as Theorem 4 of Muandet et al. (2014) has it.

Without point i the estimate is a combination of k(x_j, .) of all points, not of the others alone as
in `bdr_stan.kernel_means.shrinkage`: point i leaves the average but not the operator that shrinks.
This biases the estimate towards it, the more the stronger the shrinkage: from some 10 points on
lambda is too large. With the Gaussian kernel on the mixtures of the paper the estimate is then
worse than equal weights, where that by the other score is better (`experiments/kmse_loss.py`).
"""

import numpy as np

from bdr_stan.types import Array, ArrayLike


def theorem_4_scores(values: Array, vectors: Array, shrinkage: ArrayLike) -> Array:
    """Scores at lambda > 0, a number or (l,), of a kernel matrix K: ``f_kmse(K, scores=)``.

    With the eigenvalues and eigenvectors of K, and P = K (K + n lambda I)^-1, the residual of the
    estimate without point i is r = (I - P / n)^-1 (P 1 / n - e_i), e_i the unit vector.
    """
    n = len(values)
    d, ones = values[:, None], vectors.sum(axis=0)[:, None]
    kept = d / (d + n * np.atleast_1d(shrinkage))
    # Sum over i of r' K r with r = (I - P / n)^-1 (P 1 / n - e_i), in the eigenbasis.
    spread = 1 - kept * (2 - kept) * ones**2 / n
    scores = np.sum(d / (1 - kept / n) ** 2 * spread, axis=0) / n
    return np.reshape(scores, np.shape(shrinkage))
