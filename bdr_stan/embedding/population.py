"""The prior of mean embeddings of bags that are not like those of the fit, such as of subgroups.

The prior mu_i ~ N(m0, eta R) is that of bags like the training bags. The women of each county are
not: all their embeddings lie to one side of m0, towards which small bags would be shrunk. Bags of
a population of their own have a prior with moments of their own: in the coordinates of the fit,
where the within-bag covariance is diag(lambda), z_i ~ N(m, B + diag(lambda) / N_i).
"""

import numpy as np

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import between_bag_covariance, joint_basis
from bdr_stan.types import Array

_MIN_BAGS = 30  # for the moments of a prior; fewer are not shrunk
_LEAST_VARIANCE = 1e-6  # of the coordinates, whose prior variances in the fit are near 1
_MIN_TO_COMPARE = 10  # bags, whose average embedding is compared with the training bags'
_CHANCE = 5  # standard errors of an average shift that is due to chance
_FLAT = 1e6  # prior variance, in units of the largest lambda, that shrinks nothing


def own_population(
    coordinates: Coordinates, embedding: Embedding, draws: dict[str, Array]
) -> tuple[Coordinates, dict[str, Array]]:
    """Coordinates of the embedded bags' own prior, and the draws of intercept, w and eta there."""
    lam, w = coordinates.lam, draws["w"]
    if not np.any(lam):  # exact embeddings
        return coordinates, draws
    if len(embedding.sizes) < _MIN_BAGS:
        return coordinates, draws | {"eta": np.full(len(w), _FLAT * max(1.0, lam.max()))}
    z = coordinates.transform(embedding.mean)
    own = Embedding(embedding.sizes, z, None)
    B = between_bag_covariance(own, np.diag(lam)) + _LEAST_VARIANCE * np.eye(len(lam))
    own_lam, V = joint_basis(np.diag(lam), B)
    moved = Coordinates(embedding.m0, coordinates.basis @ V, own_lam, np.eye(len(lam)))
    return moved, draws | {
        "intercept": draws["intercept"] + w @ own.m0,
        "w": np.linalg.solve(V, w.T).T,
        "eta": np.ones(len(w)),
    }


def shift_by_shrinkage(
    coordinates: Coordinates, embedding: Embedding, draws: dict[str, Array]
) -> tuple[float, float]:
    """Average change of the linear predictor by shrinkage, and its standard deviation that BDR has.

    0 and 0 where the change is below the standard deviation or may be due to chance: embeddings of
    bags like those of the fit lie on all sides of m0, so that such changes average out.
    """
    if len(embedding.sizes) < _MIN_TO_COMPARE:
        return 0.0, 0.0
    w, eta = draws["w"].mean(axis=0), float(np.mean(draws["eta"]))
    z, lam = coordinates.transform(embedding.mean), coordinates.lam / embedding.sizes[:, None]
    kept = eta / (eta + lam)
    changes = ((1 - kept) * z) @ w
    by_chance = np.sqrt(np.sum((w * (1 - kept)) ** 2 * (eta + lam)) / len(z) ** 2)
    sd = np.sqrt(np.mean(eta * (1 - kept) @ w**2))
    shift = -float(np.mean(changes))
    return (shift, float(sd)) if abs(shift) > max(sd, _CHANCE * by_chance) else (0.0, 0.0)
