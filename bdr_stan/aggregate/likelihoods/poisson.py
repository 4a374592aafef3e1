"""Counts of mean lambda whose variance is lambda."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood, Terms, shape_of
from bdr_stan.aggregate.likelihoods.summed_effects import negative_binomial
from bdr_stan.types import Array


def expected_square(y: Array, M: Array, V: Array) -> tuple[Array, ...]:
    """Terms of y log lambda - lambda, expanded to second order about the mean M of lambda."""
    ratio = V / M**2
    return y * (np.log(M) - ratio / 2) - M, y * (1 + ratio) / M - 1, -y / (2 * M**2)


def _expected_exp(y, low, total, harmonic):
    return y * np.log(low) - total, y / low, -np.ones_like(total), np.zeros_like(total)


class Poisson(Likelihood):
    """y_a ~ Poisson(lambda_a)."""

    name = "poisson"
    links = ("square", "exp")
    program_number = 1
    is_count = True
    gamma_effects = "negative binomial"
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        "square": expected_square,
        "exp": _expected_exp,
    }

    def label_density(
        self, y: Array, *, tau: float = 0.0, **given: Any
    ) -> Callable[[Array], LabelDensity]:
        if tau > 0:
            return negative_binomial(y, shape_of(tau))

        def density(mean):
            value = np.sum(y * np.log(mean) - mean - gammaln(y + 1))
            return LabelDensity(value, y / mean - 1, 1 / mean, y / mean**2, -(mean**-2.0))

        return density

    def label_on_log_scale(self, y: Array, trials: Array | None = None) -> tuple[Array, Array]:
        return np.log(y + 0.5), y + 0.5

    def constant(self, y: Array, **scales: float) -> float:
        return -gammaln(y + 1).sum()

    def distribution(self, mean: Array, **given: Any) -> rv_frozen:
        return stats.poisson(mean)


POISSON = Poisson()
