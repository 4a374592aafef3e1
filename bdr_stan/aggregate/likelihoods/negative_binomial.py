"""Counts of mean lambda whose variance is lambda + dispersion^2 lambda^2."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.bag_effects import dispersion_inside, gamma_effects
from bdr_stan.aggregate.likelihoods import poisson
from bdr_stan.aggregate.likelihoods.base import (
    LabelDensity,
    Likelihood,
    Scale,
    Terms,
    shape_of,
    with_errors,
)
from bdr_stan.aggregate.likelihoods.summed_effects import log_rising, negative_binomial
from bdr_stan.types import Array, Seed

# SciPy's distribution loses its digits below this dispersion, and is the Poisson's to 1e-5 there.
_SMALLEST = 1e-5


def _expected_square(y, M, V, *, dispersion):
    shape = shape_of(dispersion)
    value, by_M, by_V = poisson.expected_square(y, M, V)
    total, weight = shape + M, y + shape
    ratio = V / total**2
    value += M - weight * (np.log1p(M / shape) - ratio / 2)
    return value, by_M + 1 - weight * (1 + ratio) / total, by_V + weight / (2 * total**2)


def _expected_exp(y, low, total, harmonic, *, dispersion):
    shape = shape_of(dispersion)
    value = y * np.log(low) - (y + shape) * np.log1p(total / shape)
    return value, y / low, -(y + shape) / (shape + total), np.zeros_like(total)


class NegativeBinomial(Likelihood):
    """y_a ~ NegativeBinomial(mean lambda_a, shape dispersion^-2): Poisson with gamma effects."""

    name = "negative binomial"
    links = ("square", "exp")
    scales: ClassVar[Mapping[str, Scale]] = {
        "dispersion": Scale("of the labels: variance lambda + dispersion^2 lambda^2")
    }
    program_number = 2
    is_count = True
    has_effects = True
    takes_errors = True
    bag_effects_error = (
        "has effects of bags already: leave out bag_effects, or for normal effects use "
        "likelihood='poisson'"
    )
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        "square": _expected_square,
        "exp": _expected_exp,
    }

    def label_density(
        self,
        y: Array,
        *,
        dispersion: float = 0.0,
        error_variance: Array | float = 0.0,
        **given: Any,
    ) -> Callable[[Array], LabelDensity]:
        return negative_binomial(y, shape_of(with_errors(dispersion, error_variance)))

    def draw_effects(self, y: Array, means: Array, seed: Seed, **given: Array) -> Array:
        return gamma_effects(y, means, given["dispersion"], seed, given["error_variance"])

    def scales_of_parts(self, share: Array, itself: Array, **scales: Array) -> dict[str, Array]:
        return {"dispersion": dispersion_inside(scales["dispersion"], share, itself)}

    def constant(self, y: Array, *, dispersion: float = 0.0, **scales: float) -> float:
        return np.sum(log_rising(y, shape_of(dispersion)) - gammaln(y + 1))

    def distribution(
        self, mean: Array, *, dispersion: Array | float = 0.0, **given: Any
    ) -> rv_frozen:
        square = np.maximum(dispersion, _SMALLEST) ** 2
        return stats.nbinom(1 / square, 1 / (1 + square * mean))


NEGATIVE_BINOMIAL = NegativeBinomial()
