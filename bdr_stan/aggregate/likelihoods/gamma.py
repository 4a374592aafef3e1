"""Positive totals, gamma of mean lambda and standard deviation dispersion lambda.

The dispersion is the relative error of a total, the same for bags of every size, as in gamma
regression and as that of the negative binomial where counts are large. The other choice, variance
proportional to the mean, would take the outcomes of points for independent: the relative error of
large bags would vanish, which that of rainfall or costs in a region does not. The likelihood
contains the exponential, at dispersion 1, and has no unit to choose.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammainc, gammaln, xlogy
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import (
    LabelDensity,
    Likelihood,
    Scale,
    Terms,
    shape_of,
    with_errors,
)
from bdr_stan.aggregate.likelihoods.exponential import EXPONENTIAL
from bdr_stan.types import Array

_STIRLING = 1e4  # shape above which Stirling's series is exact to rounding
_SMALLEST = 1e-6  # dispersion below which SciPy's distribution loses its digits


def log_normaliser(shape: Array | float) -> Array:
    """k log k - k - log Gamma(k), which for large k have no digits in common with their sum."""
    return np.where(
        np.less(shape, _STIRLING),
        xlogy(shape, shape) - shape - gammaln(shape),
        0.5 * np.log(shape / (2 * np.pi)) - 1 / (12 * shape),
    )


def _expected(link):
    """Terms of the bound: the gamma's log density is the exponential's times the shape."""

    def terms(y, *moments, dispersion):
        of_exponential = EXPONENTIAL.expected_terms[link](y, *moments)
        return tuple(shape_of(dispersion) * each for each in of_exponential)

    return terms


class Gamma(Likelihood):
    """y_a ~ Gamma(shape dispersion^-2, mean lambda_a), of variance dispersion^2 lambda_a^2."""

    name = "gamma"
    links = ("square", "exp")
    scales: ClassVar[Mapping[str, Scale]] = {
        "dispersion": Scale("of the labels: variance dispersion^2 lambda^2")
    }
    program_number = 4
    is_positive = True
    takes_errors = True
    bag_effects_error = (
        "has a scatter in each bag that one label cannot separate from an effect: leave out "
        "bag_effects, or use likelihood='exponential'"
    )
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        link: _expected(link) for link in EXPONENTIAL.expected_terms
    }

    def label_density(
        self,
        y: Array,
        *,
        dispersion: float = 0.0,
        error_variance: Array | float = 0.0,
        **given: Any,
    ) -> Callable[[Array], LabelDensity]:
        shape = shape_of(with_errors(dispersion, error_variance))
        of_exponential, constant = EXPONENTIAL.label_density(y), log_normaliser(shape)

        def density(mean):
            _, *derivatives = of_exponential(mean)
            # Where the shape is large, its products must not be taken before the sum.
            error = y / mean - 1
            value = np.sum(shape * (np.log1p(error) - error) + constant - np.log(y))
            return LabelDensity(value, *(shape * each for each in derivatives))

        return density

    def constant(self, y: Array, *, dispersion: float = 0.0, **scales: float) -> float:
        shape = shape_of(dispersion)
        return np.sum(log_normaliser(shape) + shape + (shape - 1) * np.log(y))

    def distribution(
        self, mean: Array, *, dispersion: Array | float = 0.0, **given: Any
    ) -> rv_frozen:
        shape = np.maximum(dispersion, _SMALLEST) ** -2.0
        return stats.gamma(shape, scale=mean / shape)

    def cdf_and_density(
        self, x: Array, mean: Array, *, dispersion: Array | float = 0.0, **given: Any
    ) -> tuple[Array, Array]:
        shape = np.maximum(dispersion, _SMALLEST) ** -2.0
        scaled = shape * x / mean
        log_density = xlogy(shape, scaled) - scaled - gammaln(shape)
        return gammainc(shape, scaled), np.exp(log_density) / x


GAMMA = Gamma()
