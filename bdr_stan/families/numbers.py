"""Positive numbers, gamma with log link, and numbers with heavy tails, Student's t."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods import Scale
from bdr_stan.aggregate.likelihoods.base import shape_of
from bdr_stan.aggregate.likelihoods.numbers import GAMMA, log_normaliser
from bdr_stan.families.base import Family, Terms
from bdr_stan.labels import Labels
from bdr_stan.types import Array


class GammaNumbers(Family):
    """y ~ Gamma of mean exp(h) and standard deviation dispersion exp(h)."""

    name = "gamma"
    link = "log"
    of_totals = GAMMA
    program_number = GAMMA.program_number
    bounds = (0.0, np.inf)
    needs = "the gamma family needs labels > 0: leave these bags out, or use family='normal'"

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        shape = shape_of(parameters["dispersion"])
        log_ratio = np.log(y) - h
        ratio = np.exp(log_ratio)
        # If the shape is large, its products must not be computed before the sum.
        value = shape * (log_ratio - (ratio - 1)) + log_normaliser(shape) - np.log(y)
        return Terms(value, shape * (ratio - 1), shape * ratio)


class NormalNumbers(Family):
    """y ~ N(h, sigma^2), of bags with several samples."""

    name = "normal"
    link = "identity"
    scales: ClassVar[Mapping[str, Scale]] = {"sigma": Scale("noise standard deviation", "y")}
    program_number = 10

    def default_priors(self, y: Array, spread: float) -> dict[str, float]:
        return {"sigma_scale": spread}


class StudentT(Family):
    """(y - h) / sigma ~ t with 2 + df_above_2 degrees of freedom, so y has a variance."""

    name = "student_t"
    link = "identity"
    scales: ClassVar[Mapping[str, Scale]] = {
        "sigma": Scale("scale of the t distribution", "y"),
        "df_above_2": Scale("degrees of freedom less 2", prior_scale=30.0),
    }
    program_number = 8

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        return stats.t(2 + parameters["df_above_2"], loc=mean, scale=parameters["sigma"])

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        df, sigma = 2 + parameters["df_above_2"], parameters["sigma"]
        error = (y - h) / sigma
        value = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi) - np.log(sigma)
        value = value - (df + 1) / 2 * np.log1p(error**2 / df)
        share = (df + 1) / (df + error**2)
        return Terms(
            value, share * error / sigma, share * (df - error**2) / (df + error**2) / sigma**2
        )

    def level_and_spread(self, labels: Labels, offsets: Array) -> tuple[float, float]:
        predictors = labels.y - offsets
        low, level, high = np.quantile(predictors, [0.16, 0.5, 0.84])  # outliers do not count
        return float(level), float((high - low) / 2 or np.std(predictors))

    def default_priors(self, y: Array, spread: float) -> dict[str, float]:
        return {**super().default_priors(y, spread), "sigma_scale": spread}


FAMILIES = (GammaNumbers(), StudentT())
