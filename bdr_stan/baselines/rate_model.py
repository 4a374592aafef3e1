"""Base of the baselines that predict a rate at each point, without a posterior."""

from typing import Self

import numpy as np

from bdr_stan.bags import Bags, BagsLike
from bdr_stan.estimators.base import BagRegressor
from bdr_stan.estimators.points import one_bag
from bdr_stan.results.inference_data import dataset
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike

CHUNK_POINTS = 1 << 14


class RateModel(BagRegressor):
    """Base of estimators of rate(x) at each point x; the total of a bag is sum_j p_j rate(x_j)."""

    def predict(self, bags: BagsLike) -> Array:
        """Mean total of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n,), units of y
        """
        bags = self._like_training(bags)
        return bags.sums(bags.point_weights * self._rates_in_chunks(bags))

    def predict_points(self, points: ArrayLike) -> Array:
        """Rate at each point.

        Parameters
        ----------
        points : array, shape (m, p); a memory map is read in chunks

        Returns
        -------
        array, shape (m,), units of y for a weight of 1
        """
        return self._rates_in_chunks(self._like_training(one_bag(points), need_weights=False))

    def _rates_in_chunks(self, bags: Bags) -> Array:
        """Rate at every point of bags, read chunk by chunk, shape (N_points,)."""
        rates = np.empty(len(bags.points))
        for chunk in bags.chunks(CHUNK_POINTS):
            points = bags.read_checked(chunk.start, chunk.stop)
            rates[chunk.start : chunk.stop] = self._rates(points)
            bags.release()
        return rates

    def _rates(self, points: Array) -> Array:
        """Rate at each point, shape (m,)."""
        raise NotImplementedError

    def _keep_constants(self, constants: dict[str, ArrayLike], bags: Bags, **settings: str) -> Self:
        """Keep the numbers and arrays of a fit, each of which becomes an attribute."""
        dims = {n: [f"{n}_dim_{k}" for k in range(np.ndim(v))] for n, v in constants.items()}
        groups = {"constant_data": dataset(constants, dims, sample=False)}
        return self._keep(Result(groups, settings), bags)

    def _set_fitted(self, result: Result) -> None:
        for name, value in result.constants.items():
            setattr(self, f"{name}_", value)
