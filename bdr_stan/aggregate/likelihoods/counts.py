"""Counts: Poisson, negative binomial, and binomial out of numbers of trials.

Of counts out of trials the average rate of a bag's points is the probability.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import digamma, gammaln, logit, polygamma
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.bag_effects import dispersion_inside, gamma_effects
from bdr_stan.aggregate.likelihoods.base import (
    LARGE_SHAPE,
    LabelDensity,
    Likelihood,
    Scale,
    Terms,
    shape_of,
    shape_with_errors,
)
from bdr_stan.labels import Labels
from bdr_stan.types import Array, Seed

# SciPy's distribution loses its digits below this dispersion, and is the Poisson's to 1e-5 there.
_LEAST_COUNT_DISPERSION = 1e-5
_LARGEST_SHAPE = 1e8  # above which digits are lost, and effects are negligible relative to chance


def _poisson_square(y, M, V):
    """Terms of y log lambda - lambda, expanded to second order about the mean M of lambda."""
    ratio = V / M**2
    return y * (np.log(M) - ratio / 2) - M, y * (1 + ratio) / M - 1, -y / (2 * M**2)


def _poisson_exp(y, low, total, harmonic):
    return y * np.log(low) - total, y / low, -np.ones_like(total), np.zeros_like(total)


class Poisson(Likelihood):
    """y_a ~ Poisson(lambda_a)."""

    name = "poisson"
    links = ("square", "exp")
    program_number = 1
    is_count = True
    gamma_effects = "negative binomial"
    expected_terms: ClassVar[Mapping[str, Terms]] = {"square": _poisson_square, "exp": _poisson_exp}

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        if label_data.get("tau", 0.0) > 0:
            return negative_binomial(y, shape_of(label_data["tau"]))

        def density(mean):
            value = np.sum(y * np.log(mean) - mean - gammaln(y + 1))
            return LabelDensity(value, y / mean - 1, 1 / mean, y / mean**2, -(mean**-2.0))

        return density

    def label_on_log_scale(self, labels: Labels) -> tuple[Array, Array]:
        return np.log(labels.y + 0.5), labels.y + 0.5

    def constant(self, y: Array, **scales: float) -> float:
        return -gammaln(y + 1).sum()

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        return stats.poisson(mean)


def log_choose(n: Any, k: Array) -> Array:
    """Logarithm of the binomial coefficient: ways to choose k out of n."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def log_rising(y: Array, shape: Array | float) -> Array:
    """log Gamma(y + shape) - log Gamma(shape) - y log(shape), also exact for large shapes.

    If the shape is large, the difference of the two logarithms loses all digits: then the first
    terms of Stirling's series are subtracted one by one.
    """
    total = y + shape
    return np.where(
        np.less(shape, LARGE_SHAPE),
        gammaln(total) - gammaln(shape) - y * np.log(shape),
        (total - 0.5) * np.log1p(y / shape) - y + (1 / total - 1 / shape) / 12,
    )


def negative_binomial(y: Array, shape: Array | float) -> Callable[[Array], LabelDensity]:
    """Poisson counts with gamma effects on means, of mean 1 and this shape, integrated out."""
    constant = log_rising(y, shape) - gammaln(y + 1)

    def density(mean):
        total = shape + mean
        value = constant + y * np.log(mean) - (y + shape) * np.log1p(mean / shape)
        return LabelDensity(
            value.sum(),
            y / mean - (y + shape) / total,
            shape / (mean * total),
            y / mean**2 - (y + shape) / total**2,
            total**-2.0 - mean**-2.0,
        )

    return density


def _negative_binomial_square(y, M, V, *, dispersion):
    shape = shape_of(dispersion)
    value, by_M, by_V = _poisson_square(y, M, V)
    total, weight = shape + M, y + shape
    ratio = V / total**2
    value += M - weight * (np.log1p(M / shape) - ratio / 2)
    return value, by_M + 1 - weight * (1 + ratio) / total, by_V + weight / (2 * total**2)


def _negative_binomial_exp(y, low, total, harmonic, *, dispersion):
    shape = shape_of(dispersion)
    value = y * np.log(low) - (y + shape) * np.log1p(total / shape)
    return value, y / low, -(y + shape) / (shape + total), np.zeros_like(total)


class NegativeBinomial(Likelihood):
    """y_a ~ NegativeBinomial(mean lambda_a, shape dispersion^-2): Poisson with gamma effects."""

    name = "negative binomial"
    links = ("square", "exp")
    takes_errors = True
    scales: ClassVar[Mapping[str, Scale]] = {
        "dispersion": Scale("of the labels: variance lambda + dispersion^2 lambda^2")
    }
    program_number = 2
    is_count = True
    has_effects = True
    bag_effects_error = (
        "has effects of bags already: leave out bag_effects, or for normal effects use "
        "likelihood='poisson'"
    )
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        "square": _negative_binomial_square,
        "exp": _negative_binomial_exp,
    }

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        return negative_binomial(y, shape_with_errors(label_data))

    def draw_effects(self, y: Array, means: Array, seed: Seed, **label_data: Array) -> Array:
        return gamma_effects(y, means, label_data["dispersion"], seed, label_data["error_variance"])

    def scales_of_parts(self, share: Array, itself: Array, **scales: Array) -> dict[str, Array]:
        return {"dispersion": dispersion_inside(scales["dispersion"], share, itself)}

    def constant(self, y: Array, **scales: float) -> float:
        return np.sum(log_rising(y, shape_of(scales.get("dispersion", 0.0))) - gammaln(y + 1))

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        square = np.maximum(label_data.get("dispersion", 0.0), _LEAST_COUNT_DISPERSION) ** 2
        return stats.nbinom(1 / square, 1 / (1 + square * mean))


class Binomial(Likelihood):
    """y_a ~ Binomial(trials_a, lambda_a), lambda_a the average of the points' probabilities."""

    name = "binomial"
    links = ("logit",)
    is_count = True
    has_trials = True

    def label_density(self, y: Array, **label_data: Any) -> Callable[[Array], LabelDensity]:
        trials, tau = np.asarray(label_data["trials"]), label_data.get("tau", 0.0)
        rest = trials - y
        if tau > 0:
            share = (y.sum() + 0.5) / (trials.sum() + 1)
            shape = 1 / (tau**2 * share * (1 - share))  # at this share tau is the sd of log odds
            return _beta_binomial(y, rest, min(shape, _LARGEST_SHAPE))

        def density(mean):
            spread = mean * (1 - mean)
            value = log_choose(trials, y) + (y * np.log(mean) + rest * np.log1p(-mean))
            return LabelDensity(
                value.sum(),
                y / mean - rest / (1 - mean),
                trials / spread,
                y / mean**2 + rest / (1 - mean) ** 2,
                -trials * (1 - 2 * mean) / spread**2,
            )

        return density

    def label_on_log_scale(self, labels: Labels) -> tuple[Array, Array]:
        trials = np.asarray(labels.trials)
        share = (labels.y + 0.5) / (trials + 1)
        return logit(share), trials * share * (1 - share)

    def distribution(self, mean: Array, **label_data: Any) -> rv_frozen:
        return stats.binom(np.asarray(label_data.get("trials", 1)).astype(np.int64), mean)

    def program_data(self, labels: Labels) -> dict[str, Any]:
        return {"y": labels.y.astype(int), "trials": np.asarray(labels.trials).astype(int)}


def _beta_binomial(y, rest, shape):
    """Density of y and the `rest` of the trials, probabilities beta(shape p, shape (1 - p)).

    The information, which has no closed form, is one over the variance of the share y / trials.
    """
    trials = y + rest
    constant = log_choose(trials, y) - log_rising(trials, shape)

    def density(mean):
        a, b = shape * mean, shape * (1 - mean)
        value = constant + log_rising(y, a) + log_rising(rest, b)
        value += y * np.log(mean) + rest * np.log1p(-mean)
        score = digamma(y + a) - digamma(a) - digamma(rest + b) + digamma(b)
        bend = polygamma(1, y + a) - polygamma(1, a) + polygamma(1, rest + b) - polygamma(1, b)
        spread = mean * (1 - mean)
        information = trials * (shape + 1) / ((shape + trials) * spread)
        return LabelDensity(
            value.sum(),
            shape * score,
            information,
            -(shape**2) * bend,
            -information * (1 - 2 * mean) / spread,
        )

    return density


POISSON, NEGATIVE_BINOMIAL, BINOMIAL = Poisson(), NegativeBinomial(), Binomial()
