"""Base of the systems that predict a rate at each point, without a posterior."""

import numpy as np

from bdr_stan.bags import Bags, BagsLike
from bdr_stan.questions.points import one_bag
from bdr_stan.types import Array, ArrayLike
from experiments.papers.on_bags import RegressorOnBags

CHUNK_POINTS = 1 << 14


class RateModel(RegressorOnBags):
    """Base of estimators of rate(x) at each point x; the total of a bag is sum_j p_j rate(x_j)."""

    def predict(self, bags: BagsLike) -> Array:
        """Mean total of each bag; array, shape (n,), units of y."""
        bags = self.like_training(bags)
        return bags.sums(bags.point_weights * self.rates_of_bags(bags))

    def predict_points(self, points: ArrayLike) -> Array:
        """Rate at points, (m, p), or a memory map of them; shape (m,), units of y / weight."""
        return self.rates_of_bags(self.like_training(one_bag(points), need_weights=False))

    def rates_of_bags(self, bags: Bags) -> Array:
        """Rate at every point of bags, read chunk by chunk, shape (N_points,)."""
        rates = np.empty(len(bags.points))
        for chunk in bags.chunks(CHUNK_POINTS):
            points = bags.read_checked(chunk.start, chunk.stop)
            rates[chunk.start : chunk.stop] = self.rates_at(points)
            bags.release()
        return rates

    def rates_at(self, points: Array) -> Array:
        """Rate at each point, shape (m,)."""
        raise NotImplementedError
