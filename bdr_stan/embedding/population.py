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
        of_sample, has = coordinates.sample == m, embedding.sizes[:, m] > 0
        part = coordinates.of_sample(m)
        of_part = {
            "intercept": draws["intercept"] * (m == 0),
            "w": draws["w"][:, of_sample],
            "eta": draws["eta"][:, m],
        }
        if has.sum() >= _BAGS_FOR_PRIOR or has.all():  # else the few may be unusual
            sizes, mean = embedding.sizes[has, m], embedding.mean[has][:, of_sample]
            part, of_part = _own_prior(part, sizes, mean, of_part)
        parts.append(part)
        moved.append(of_part)
    return joined(parts), draws | {
        "intercept": np.sum([of_part["intercept"] for of_part in moved], axis=0),
        "w": np.hstack([of_part["w"] for of_part in moved]),
        "eta": np.column_stack([of_part["eta"] for of_part in moved]),
    }


def _own_prior(coordinates, sizes, mean, draws):
    """The same of bags that all have one sample."""
    lam, w = coordinates.lam, draws["w"]
    if len(sizes) < _BAGS_FOR_PRIOR:
        return coordinates, draws | {"eta": np.full(len(w), _FLAT * max(1.0, lam.max()))}
    z = coordinates.transform(mean)
    embedding = Embedding(sizes, z, None)
    B = between_bag_covariance(embedding, np.diag(lam)) + _LEAST_VARIANCE * np.eye(len(lam))
    within, V = joint_basis(np.diag(lam), B)
    moved = Coordinates(mean.mean(axis=0), coordinates.basis @ V, within, np.eye(len(lam)))
    return moved, draws | {
        "intercept": draws["intercept"] + w @ embedding.m0,
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
    z, s = coordinates.transform(embedding.mean), shrinkage_factors(sizes, coordinates.lam, eta)
    has_points = np.broadcast_to(sizes > 0, z.shape)  # others do not change by shrinkage
    z, removed = np.where(has_points, z, 0), np.where(has_points, 1 - s, 0)
    changes = (removed * z) @ w
    # By chance z has the variance eta + lam / N = eta / s.
    variance = np.divide(eta, s, out=np.zeros_like(removed), where=has_points)
    by_chance = np.sqrt(np.sum((w * removed) ** 2 * variance) / len(z) ** 2)
    sd = np.sqrt(np.mean(eta * (1 - s) @ w**2))
    shift = -float(np.mean(changes))
    return (shift, float(sd)) if abs(shift) > max(sd, _CHANCE_ERRORS * by_chance) else (0.0, 0.0)
