"""Totals of mean lambda that are numbers: normal, exponential and gamma.

The gamma has the standard deviation dispersion lambda: a relative error that is the same for bags
of every size. If the variance were proportional to the mean, the relative error of large bags would
vanish, which is wrong for rainfall or costs in a region.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammainc, gammaln, xlogy
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import (
    LARGE_SHAPE,
    LabelDensity,
    Likelihood,
    Scale,
    Terms,
    shape_of,
    shape_with_errors,
)
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.labels import Labels
from bdr_stan.types import Array

_LEAST_GAMMA_DISPERSION = 1e-6  # dispersion below which SciPy's distribution loses its digits


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

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        noise_factor = np.asarray(label_data.get("noise_factor", 1.0))
        noise = np.broadcast_to(label_data["sigma"] * noise_factor, np.shape(y))

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

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        return stats.norm(mean, label_data.get("sigma", 1.0))


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

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        if label_data.get("tau", 0.0) > 0:
            return _lomax(y, shape_of(label_data["tau"]))

        def density(mean):
            return LabelDensity(
                -np.sum(np.log(mean) + y / mean),
                (y / mean - 1) / mean,
                mean**-2.0,
                (2 * y / mean - 1) / mean**2,
                -2 * mean**-3.0,
            )

        return density

    def label_on_log_scale(self, labels: Labels) -> tuple[Array, Array]:
        return np.log(labels.y), np.ones(len(labels.y))

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        return stats.expon(scale=mean)

    def cdf_and_density(self, x: Array, mean: Array, **label_data: Any) -> tuple[Array, Array]:
        return -np.expm1(-x / mean), np.exp(-x / mean) / mean


NORMAL, EXPONENTIAL = Normal(), Exponential()


def _lomax(y, shape):
    """Density if the rates 1 / lambda have gamma effects of mean 1 and this shape."""

    def density(mean):
        ratio = y / mean
        pulled = (1 + shape) * ratio / (shape + ratio)
        information = shape / ((shape + 2) * mean**2)
        return LabelDensity(
            -np.sum(np.log(mean) + (1 + shape) * np.log1p(ratio / shape)),
            (pulled - 1) / mean,
            information,
            (pulled - 1 + shape * pulled / (shape + ratio)) / mean**2,
            -2 * information / mean,
        )

    return density


def log_normaliser(shape: Array | float) -> Array:
    """k log k - k - log Gamma(k), which for large k have no digits in common with their sum."""
    return np.where(
        np.less(shape, LARGE_SHAPE),
        xlogy(shape, shape) - shape - gammaln(shape),
        0.5 * np.log(shape / (2 * np.pi)) - 1 / (12 * shape),
    )


def _expected(link):
    """Terms of the bound: the gamma's log density is the exponential's times the shape."""

    def terms(y, *moments, dispersion):
        of_exponential = EXPONENTIAL.expected_terms[link](y, *moments)
        return tuple(shape_of(dispersion) * term for term in of_exponential)

    return terms


def _shape_for_scipy(label_data):
    return np.maximum(label_data.get("dispersion", 0.0), _LEAST_GAMMA_DISPERSION) ** -2.0


class Gamma(Likelihood):
    """y_a ~ Gamma(shape dispersion^-2, mean lambda_a), of variance dispersion^2 lambda_a^2."""

    name = "gamma"
    links = ("square", "exp")
    takes_errors = True
    scales: ClassVar[Mapping[str, Scale]] = {
        "dispersion": Scale("of the labels: variance dispersion^2 lambda^2")
    }
    program_number = 4
    is_positive = True
    bag_effects_error = (
        "has a scatter in each bag that one label cannot separate from an effect: leave out "
        "bag_effects, or use likelihood='exponential'"
    )
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        link: _expected(link) for link in EXPONENTIAL.expected_terms
    }

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        shape = shape_with_errors(label_data)
        of_exponential, constant = EXPONENTIAL.label_density(y), log_normaliser(shape)

        def density(mean):
            _, *derivatives = of_exponential(mean)
            # If the shape is large, its products must not be computed before the sum.
            error = y / mean - 1
            value = np.sum(shape * (np.log1p(error) - error) + constant - np.log(y))
            return LabelDensity(value, *(shape * slope for slope in derivatives))

        return density

    def constant(self, y: Array, **scales: float) -> float:
        shape = shape_of(scales.get("dispersion", 0.0))
        return np.sum(log_normaliser(shape) + shape + (shape - 1) * np.log(y))

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        shape = _shape_for_scipy(label_data)
        return stats.gamma(shape, scale=mean / shape)

    def cdf_and_density(self, x: Array, mean: Array, **label_data: Any) -> tuple[Array, Array]:
        shape = _shape_for_scipy(label_data)
        scaled = shape * x / mean
        log_density = xlogy(shape, scaled) - scaled - gammaln(shape)
        return gammainc(shape, scaled), np.exp(log_density) / x


GAMMA = Gamma()
