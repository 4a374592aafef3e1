"""The prior of mean embeddings of bags unlike the training bags, for example of subgroups.

The prior mu_i ~ N(m0, eta R) is for bags like the training bags. The women of each county are
unlike them: all their embeddings are shifted from m0 in one direction, and small bags would shrink
towards m0. Bags of another population have a prior with their own moments: in the fit's
coordinates, with within-bag covariance diag(lambda), z_i ~ N(m, B + diag(lambda) / N_i).
"""

import numpy as np

from bdr_stan.embedding.coordinates import Coordinates, joined
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import (
    between_bag_covariance,
    joint_basis,
    shrinkage_factors,
)
from bdr_stan.types import Array

_BAGS_FOR_PRIOR = 30  # for the moments of a prior; fewer are not shrunk
_LEAST_VARIANCE = 1e-6  # of the coordinates; their prior variances in the fit are near 1
_BAGS_TO_COMPARE = 10  # bags, whose average embedding is compared with the training bags'
_CHANCE_ERRORS = 5  # standard errors of an average shift that is due to chance
_FLAT = 1e6  # prior variance, in units of the largest lambda, that shrinks nothing


def own_population(
    coordinates: Coordinates, embedding: Embedding, draws: dict[str, Array]
) -> tuple[Coordinates, dict[str, Array]]:
    """Coordinates of the embedded bags' own prior, and the draws of intercept, w and eta there."""
    if not np.any(coordinates.lam):  # exact embeddings
        return coordinates, draws
    if coordinates.sample is None:
        return _own_prior(coordinates, embedding.sizes, embedding.mean, draws)
    parts, moved = [], []
    for m in range(draws["eta"].shape[1]):
        own, has = coordinates.sample == m, embedding.sizes[:, m] > 0
        part = coordinates.of_sample(m)
        of_part = {
            "intercept": draws["intercept"] * (m == 0),
            "w": draws["w"][:, own],
            "eta": draws["eta"][:, m],
        }
        found = part, of_part  # if few bags have the sample and may be unusual
        if has.sum() >= _BAGS_FOR_PRIOR or has.all():
            found = _own_prior(part, embedding.sizes[has, m], embedding.mean[has][:, own], of_part)
        parts.append(found[0])
        moved.append(found[1])
    return joined(parts), draws | {
        "intercept": np.sum([each["intercept"] for each in moved], axis=0),
        "w": np.hstack([each["w"] for each in moved]),
        "eta": np.column_stack([each["eta"] for each in moved]),
    }


def _own_prior(coordinates, sizes, mean, draws):
    """The same of bags that all have one sample."""
    lam, w = coordinates.lam, draws["w"]
    if len(sizes) < _BAGS_FOR_PRIOR:
        return coordinates, draws | {"eta": np.full(len(w), _FLAT * max(1.0, lam.max()))}
    z = coordinates.transform(mean)
    own = Embedding(sizes, z, None)
    B = between_bag_covariance(own, np.diag(lam)) + _LEAST_VARIANCE * np.eye(len(lam))
    own_lam, V = joint_basis(np.diag(lam), B)
    moved = Coordinates(mean.mean(axis=0), coordinates.basis @ V, own_lam, np.eye(len(lam)))
    return moved, draws | {
        "intercept": draws["intercept"] + w @ own.m0,
        "w": np.linalg.solve(V, w.T).T,
        "eta": np.ones(len(w)),
    }


def shift_by_shrinkage(
    coordinates: Coordinates, embedding: Embedding, draws: dict[str, Array]
) -> tuple[float, float]:
    """Average change of the linear predictor by shrinkage, and its standard deviation that BDR has.

    0 and 0 if the change is below the standard deviation or may be due to chance: embeddings of
    bags like the training bags differ from m0 in all directions, so their changes average out.
    """
    if len(embedding.sizes) < _BAGS_TO_COMPARE:
        return 0.0, 0.0
    w, eta = draws["w"].mean(axis=0), draws["eta"].mean(axis=0, keepdims=True)
    eta, sizes = coordinates.by_coordinate(eta)[0], coordinates.by_coordinate(embedding.sizes)
    z, kept = coordinates.transform(embedding.mean), shrinkage_factors(sizes, coordinates.lam, eta)
    known = np.broadcast_to(sizes > 0, z.shape)  # of the others the change is not by shrinkage
    z, left = np.where(known, z, 0), np.where(known, 1 - kept, 0)
    changes = (left * z) @ w
    # By chance z has the variance eta + lam / N = eta / kept.
    variance = np.divide(eta, kept, out=np.zeros_like(left), where=known)
    by_chance = np.sqrt(np.sum((w * left) ** 2 * variance) / len(z) ** 2)
    sd = np.sqrt(np.mean(eta * (1 - kept) @ w**2))
    shift = -float(np.mean(changes))
    return (shift, float(sd)) if abs(shift) > max(sd, _CHANCE_ERRORS * by_chance) else (0.0, 0.0)
