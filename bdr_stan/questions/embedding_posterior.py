"""Posterior of bags' true mean embeddings at any points, given only the bags' points."""

from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.prior import JITTER, KERNEL_SHARE, prior_kernel
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.kernels import Kernel
from bdr_stan.questions.points import as_points
from bdr_stan.questions.protocol import Fit
from bdr_stan.results.inference_data import dataset
from bdr_stan.types import Array, Dataset


class EmbeddingPosterior(Fit):
    """Posterior of true mean embeddings."""

    def embedding_posterior(
        self: Any, bags: BagsLike, points: Any, *, sample: str | None = None
    ) -> "Dataset":
        """Posterior of the true mean embeddings of bags, mu_i(x) = E k(x, X), at points x.

        X is a point of the distribution behind bag i; labels of these bags are not used. Source:
        Law et al. (2018), section 3.2: formula in ``docs/explanation/model.md``, coverage in
        ``docs/validation/embedding_posterior.md``.

        Returns
        -------
        xarray.Dataset, in units of the kernel `kernel_`
            mean and sd (bag, point), covariance (bag, point, other_point), over draws of eta.
        """
        model = self.fit_of_sample(sample)
        points = model.like_training(as_points(model, points), need_weights=False)
        bags = model.like_training(bags)
        embedding, coordinates = embed(bags, model.feature_map_), model.coordinates_
        P, C, D = _prior_at(points.read_checked(0, len(points.points)), model)
        eta = model.draws()["eta"][:, None]
        moments = []
        for z, size in zip(coordinates.transform(embedding.mean), embedding.sizes, strict=True):
            factors = shrinkage_factors([size], coordinates.lam, eta)
            values = factors * z @ C.T
            left = np.mean(eta * (1 - factors), axis=0)
            spread = np.cov(values.T, bias=True).reshape(D.shape)
            moments.append((values.mean(axis=0), eta.mean() * D + (C * left) @ C.T + spread))
        mean, covariance = map(np.array, zip(*moments, strict=True))
        sd = np.sqrt(np.maximum(np.einsum("iaa -> ia", covariance), 0))
        arrays = {"mean": mean + P @ coordinates.m0, "sd": sd, "covariance": covariance}
        axes = {name: ["bag", "point", "other_point"][: a.ndim] for name, a in arrays.items()}
        return dataset(arrays, axes, {"bag": bags.index}, sample=False)


def _prior_at(points: Array, model: Any) -> tuple[Array, Array, Array]:
    """The prior at m points: matrices P and C, shape (m, d), and D, shape (m, m).

    m0(x) = P m0(u), P = k(x, u) K^-1; C = r(x, u) V, V the joint basis; D = r(x, y) - C C', not
    determined at the landmarks. For an empirical R, known only there, r(x, y) = P R P' + c (k(x, y)
    - P k(u, y)), c the share of K in R; c = 1 if R is K.
    """
    features, K = model.feature_map_(points), model.feature_map_.gram()
    K += JITTER * np.eye(len(K))
    P, V = np.linalg.solve(K, features.T).T, model.coordinates_.basis
    if isinstance(model.embedding_prior, Kernel):
        r = prior_kernel(model.embedding_prior, model.landmarks_)
        C = r(points, model.landmarks_) @ V
        return P, C, r(points, points) - C @ C.T
    root = np.linalg.inv(V)  # R = root' root
    is_kernel = model.embedding_prior == "kernel"
    c = 1 if is_kernel else np.sum(root**2) / np.trace(K) * KERNEL_SHARE / (1 + KERNEL_SHARE)
    return P, P @ root.T, c * (model.kernel_(points, points) - P @ features.T)
