"""Positive totals, exponential of mean lambda."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood, Terms, shape_of
from bdr_stan.aggregate.likelihoods.summed_effects import lomax
from bdr_stan.types import Array


def _expected_square(y, M, V):
    ratio = V / M**2
    value = -np.log(M) + ratio / 2 - y / M * (1 + ratio)
    return value, (-1 - ratio + y / M * (1 + 3 * ratio)) / M, (0.5 - y / M) / M**2


def _expected_exp(y, low, total, harmonic):
    return -np.log(total) - y / harmonic, np.zeros_like(low), -1 / total, y / harmonic**2


class Exponential(Likelihood):
    """y_a ~ Exponential of mean lambda_a."""

    name = "exponential"
    links = ("square", "exp")
    program_number = 3
    is_positive = True
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        "square": _expected_square,
        "exp": _expected_exp,
    }

    def label_density(
        self, y: Array, *, tau: float = 0.0, **given: Any
    ) -> Callable[[Array], LabelDensity]:
        if tau > 0:
            return lomax(y, shape_of(tau))

        def density(mean):
            return LabelDensity(
                -np.sum(np.log(mean) + y / mean),
                (y / mean - 1) / mean,
                mean**-2.0,
                (2 * y / mean - 1) / mean**2,
                -2 * mean**-3.0,
            )

        return density

    def label_on_log_scale(self, y: Array, trials: Array | None = None) -> tuple[Array, Array]:
        return np.log(y), np.ones(len(y))

    def distribution(self, mean: Array, **given: Any) -> rv_frozen:
        return stats.expon(scale=mean)

    def cdf_and_density(self, x: Array, mean: Array, **given: Any) -> tuple[Array, Array]:
        return -np.expm1(-x / mean), np.exp(-x / mean) / mean


EXPONENTIAL = Exponential()
