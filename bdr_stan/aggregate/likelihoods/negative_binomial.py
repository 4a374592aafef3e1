"""Counts of mean lambda whose variance is lambda + dispersion^2 lambda^2."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods import poisson
from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood, Terms
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.types import Array


def _expected_square(y, M, V, *, dispersion):
    shape = _shape(dispersion)
    value, by_M, by_V = poisson.expected_square(y, M, V)
    total, weight = shape + M, y + shape
    ratio = V / total**2
    value += M - weight * (np.log(total) - ratio / 2)
    return value, by_M + 1 - weight * (1 + ratio) / total, by_V + weight / (2 * total**2)


def _expected_exp(y, low, total, harmonic, *, dispersion):
    shape = _shape(dispersion)
    value = y * np.log(low) - (y + shape) * np.log(shape + total)
    return value, y / low, -(y + shape) / (shape + total), np.zeros_like(total)


def _shape(dispersion):
    if not dispersion > 0:
        raise ValueError(f"dispersion must be > 0, found {dispersion}")
    return dispersion**-2.0


class NegativeBinomial(Likelihood):
    """y_a ~ NegativeBinomial(mean lambda_a, shape dispersion^-2): Poisson with gamma effects."""

    name = "negative binomial"
    links = ("square", "exp")
    scales = ("dispersion",)
    is_count = True
    expected_terms: ClassVar[Mapping[str, Terms]] = {
        "square": _expected_square,
        "exp": _expected_exp,
    }

    def label_density(
        self, y: Array, *, dispersion: float = 0.0, **given: Any
    ) -> Callable[[Array], LabelDensity]:
        shape = _shape(dispersion)

        def density(mean):
            total = shape + mean
            value = gammaln(y + shape) - gammaln(shape) - gammaln(y + 1)
            value += shape * np.log(shape / total) + y * np.log(mean / total)
            return LabelDensity(
                value.sum(),
                y / mean - (y + shape) / total,
                shape / (mean * total),
                y / mean**2 - (y + shape) / total**2,
                total**-2.0 - mean**-2.0,
            )

        return density

    def default_priors(self, rows: AggregateRows, y: Array) -> dict[str, float]:
        return {"dispersion_scale": 1.0}

    def constant(self, y: Array, *, dispersion: float = 0.0, **scales: float) -> float:
        shape = _shape(dispersion)
        constant = -gammaln(y + 1).sum()
        constant += np.sum(gammaln(y + shape) - gammaln(shape) + shape * np.log(shape))
        return constant

    def distribution(
        self, mean: Array, *, dispersion: Array | float = 0.0, **given: Any
    ) -> rv_frozen:
        return stats.nbinom(1 / dispersion**2, 1 / (1 + dispersion**2 * mean))


NEGATIVE_BINOMIAL = NegativeBinomial()
