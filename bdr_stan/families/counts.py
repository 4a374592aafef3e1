"""Counts in proportion to an exposure: Poisson and negative binomial, log link."""

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, gammaln, log_expit

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.likelihoods.base import shape_of
from bdr_stan.aggregate.likelihoods.counts import NEGATIVE_BINOMIAL, POISSON, log_rising
from bdr_stan.families.base import Family, Terms
from bdr_stan.types import Array


class PoissonCounts(Family):
    """y ~ Poisson(exp(h))."""

    name = "poisson"
    link = "log"
    of_totals: ClassVar[Likelihood] = POISSON
    needs = (
        "counts are 0, 1, 2, ..; for other labels > 0 use family='gamma' or 'lognormal', for rates "
        "give the counts and their exposure"
    )
    program_number = POISSON.program_number
    wider: ClassVar[str | None] = "negative_binomial"

    def terms(self, y: Array, h: Array, trials: Array | None = None, **scales: Any) -> Terms:
        mean = np.exp(h)
        return Terms(y * h - mean - gammaln(y + 1), y - mean, mean)


class NegativeBinomialCounts(PoissonCounts):
    """y ~ NegativeBinomial of mean exp(h) and variance mean + dispersion^2 mean^2."""

    name = "negative_binomial"
    of_totals = NEGATIVE_BINOMIAL
    program_number = NEGATIVE_BINOMIAL.program_number
    wider = None

    def terms(self, y: Array, h: Array, trials: Array | None = None, **scales: Any) -> Terms:
        shape = shape_of(scales["dispersion"])
        log_odds = h - np.log(shape)  # of mean / (mean + shape)
        share = expit(log_odds)
        value = log_rising(y, shape) - gammaln(y + 1) + y * h + (y + shape) * log_expit(-log_odds)
        return Terms(value, y - (y + shape) * share, (y + shape) * share * expit(-log_odds))
