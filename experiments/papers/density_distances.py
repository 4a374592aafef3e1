"""Distances between kernel density estimates of bags, and smoothing of labels in such a distance.

    p_i(z) = sum_j w_ij normal(z | x_ij, h^2 I),  weights of a bag with sum 1

The integral of p_i p_k is a set kernel, so the L2 distance is exact; the L1 distance is an average
over samples of the average density (importance sampling).
"""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax

from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.set_kernels import squared_distances
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.types import Array


def overlap_kernel(bandwidth: float, units: Array | None = None) -> RBF:
    """Integral of normal(z | x, h^2 D) normal(z | y, h^2 D) over z, up to a factor, as a kernel.

    D is diagonal, the squares of `units`, shape (p,), by default I.
    """
    return RBF(np.sqrt(2) * bandwidth, units=units)


def l2_distances(products: Array, squared_norms: Array, other_squared_norms: Array) -> Array:
    """Root of the integrated squared difference of densities, up to the factor of `overlap_kernel`.

    From set kernels of `overlap_kernel` between bags, (n, m), and with themselves, (n,) and (m,).
    """
    return np.sqrt(squared_distances(products, squared_norms, other_squared_norms))


def densities_at(bags: Bags, samples: Array, bandwidth: float, units: Array | None = None) -> Array:
    """Densities of bags at samples, shape (n, n_samples), up to the normal density's factor."""
    return embed(bags, LandmarkFeatures(RBF(bandwidth, units=units), samples)).mean


def l1_distances(densities: Array, others: Array) -> Array:
    """Integrated absolute difference of densities, (n, m), by importance sampling.

    The densities, (n, n_samples) and (m, n_samples), at samples of a density q, are relative to q.
    """
    return cdist(densities, others, "cityblock") / densities.shape[1]


def smoothed_labels(distances: Array, y: Array, bandwidth: float) -> Array:
    """Average of labels y, (n,), weighted by exp(-distance^2 / (2 bandwidth^2)); shape (m,).

    Distances, (m, n), are infinite where a bag is to be left out. A bag that is far from all others
    gets the label of the nearest.
    """
    return softmax(-((distances / bandwidth) ** 2) / 2, axis=1) @ y
