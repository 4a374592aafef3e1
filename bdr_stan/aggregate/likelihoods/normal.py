"""Totals of normal outcomes: mean lambda, standard deviation sigma sqrt(sum_j p_j^2)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood, Scale
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.types import Array


class Normal(Likelihood):
    """y_a ~ Normal(lambda_a, sigma sqrt(sum_j p_j^2)): sums of outcomes Normal(f_j, sigma).

    `bdr_stan.models.totals` is its model, which Stan samples as a linear regression.
    """

    name = "normal"
    links = ("identity",)
    takes_errors = True
    scales: ClassVar[Mapping[str, Scale]] = {
        "sigma": Scale("noise standard deviation of one point", "y / weight")
    }

    def label_density(self, y: Array, **given: Any) -> Callable[[Array], LabelDensity]:
        noise_factor = np.asarray(given.get("noise_factor", 1.0))
        noise = np.broadcast_to(given["sigma"] * noise_factor, np.shape(y))

        def density(mean):
            z = (y - mean) / noise
            value = -np.sum(0.5 * z**2 + np.log(noise) + 0.5 * np.log(2 * np.pi))
            precision = noise**-2.0
            return LabelDensity(value, z / noise, precision, precision, np.zeros(len(y)))

        return density

    def default_priors(self, rows: AggregateRows, y: Array) -> dict[str, float]:
        """sigma_scale for noise that explains differences of `y` from a common rate."""
        level = float(np.sum(y) / np.sum(rows.total))
        noise = (y - level * rows.total) / rows.noise_factor
        return {"sigma_scale": float(np.sqrt(np.mean(noise**2)))}

    def distribution(self, mean: Array, **given: Any) -> rv_frozen:
        return stats.norm(mean, given.get("sigma", 1.0))


NORMAL = Normal()
