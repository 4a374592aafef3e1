"""A posterior of the rate at points, and the same rates from the definition."""

from typing import NamedTuple

import numpy as np

from bdr_stan.aggregate.links import LINKS
from bdr_stan.kernels import RBF, NystromFeatures
from bdr_stan.predictive import PointPredictive
from builders.totals import RATES


class PointCase(NamedTuple):
    """Points, a feature map at seven landmarks and draws; the function changes sign."""

    points: np.ndarray
    features: NystromFeatures
    theta: np.ndarray

    def posterior(self, link="square", **options):
        return PointPredictive(
            lambda a, b: self.points[a:b],
            len(self.points),
            self.features,
            self.theta,
            LINKS[link],
            **options,
        )

    def rates(self, link="square"):
        """Rates at all points under all draws, shape (n, S), from the kernel itself."""
        landmarks = self.features.landmarks
        L = np.linalg.cholesky(RBF(1.5)(landmarks, landmarks) + 1e-6 * np.eye(len(landmarks)))
        psi = np.linalg.solve(L, RBF(1.5)(landmarks, self.points))
        return RATES[link](psi.T @ self.theta[:, :-1].T + self.theta[:, -1])


def point_case(rng, n=53, n_draws=40):
    points = rng.normal(size=(n, 3))
    features = NystromFeatures(RBF(1.5), points[:7].copy())
    return PointCase(points, features, rng.normal(0.3, 1, size=(n_draws, 8)))
