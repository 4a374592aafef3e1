"""Counts in proportion to an exposure, log link; counts out of trials, and shares, logit link."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.special import betaln, digamma, expit, gammaln, log_expit, logit
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods import Likelihood, Scale
from bdr_stan.aggregate.likelihoods.base import shape_of
from bdr_stan.aggregate.likelihoods.counts import (
    BINOMIAL,
    NEGATIVE_BINOMIAL,
    POISSON,
    log_choose,
    log_rising,
)
from bdr_stan.families.base import Family, Terms
from bdr_stan.types import Array

# Smallest probability: 0 has no density, and squares of smaller numbers underflow.
_TINY = 1e-140
_LEAST_DISPERSION = 1e-4  # below which differences of gamma functions lose their digits

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _trigamma(x):
    """Second derivative of log Gamma at x > 0; many times quicker than SciPy's polygamma."""
    above = x + 6  # from here the asymptotic series is exact to rounding
    inverse = 1 / above
    square = inverse * inverse
    series = _BERNOULLI[-1]
    for coefficient in _BERNOULLI[-2::-1]:  # NumPy's polyval is slow because of its checks
        series = coefficient + series * square
    series = series * square * inverse + inverse + square / 2
    for k in range(6):
        shifted = x + k
        series = series + 1 / (shifted * shifted)
    return series


class PoissonCounts(Family):
    """y ~ Poisson(exp(h))."""

    name = "poisson"
    link = "log"
    of_totals: ClassVar[Likelihood] = POISSON
    needs = (
        "counts are 0, 1, 2, ...; for other labels > 0 use family='gamma' or 'lognormal', for "
        "rates give the counts and their exposure"
    )
    program_number = POISSON.program_number
    wider: ClassVar[str | None] = "negative_binomial"

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        mean = np.exp(h)
        return Terms(y * h - mean - gammaln(y + 1), y - mean, mean)


class NegativeBinomialCounts(PoissonCounts):
    """y ~ NegativeBinomial of mean exp(h) and variance mean + dispersion^2 mean^2."""

    name = "negative_binomial"
    of_totals = NEGATIVE_BINOMIAL
    program_number = NEGATIVE_BINOMIAL.program_number
    wider = None

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        shape = shape_of(parameters["dispersion"])
        log_odds = h - np.log(shape)  # of mean / (mean + shape)
        share = expit(log_odds)
        value = log_rising(y, shape) - gammaln(y + 1) + y * h + (y + shape) * log_expit(-log_odds)
        return Terms(value, y - (y + shape) * share, (y + shape) * share * expit(-log_odds))


class BinomialCounts(Family):
    """y ~ Binomial(trials, logit^-1(h))."""

    name = "binomial"
    link = "logit"
    of_totals: ClassVar[Likelihood | None] = BINOMIAL
    needs = "counts are 0, 1, 2, ... out of the trials: round counts, multiply shares by them"
    program_number = 5
    wider: ClassVar[str | None] = "beta_binomial"

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        p, q, trials = expit(h), expit(-h), parameters["trials"]
        # Not y h - trials log(1 + exp(h)): its terms cancel if h is large.
        value = log_choose(trials, y) + y * log_expit(h) + (trials - y) * log_expit(-h)
        return Terms(value, y * q - (trials - y) * p, trials * p * q)


class BetaBinomial(BinomialCounts):
    """y ~ BetaBinomial(trials, p f, (1 - p) f), p = logit^-1(h), f = dispersion^-2."""

    name = "beta_binomial"
    is_mixture = True
    of_totals = None
    scales: ClassVar[Mapping[str, Scale]] = {
        "dispersion": Scale("of the probabilities: variance lambda (1 - lambda) / (1 + d^-2)")
    }
    is_count = True
    has_trials = True
    program_number = 6
    wider = None

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        trials = np.asarray(parameters.get("trials", 1)).astype(np.int64)
        return stats.betabinom(trials, *_shapes(mean, parameters))

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        precision, p, q = _precision(parameters), *(np.maximum(expit(x), _TINY) for x in (h, -h))
        trials = parameters["trials"]
        a, b, rest = p * precision, q * precision, trials - y
        value = log_choose(trials, y) + betaln(y + a, rest + b) - betaln(a, b)
        slope_in_p = precision * (digamma(y + a) - digamma(a) - digamma(rest + b) + digamma(b))
        second_in_p = precision**2 * (
            _trigamma(y + a) - _trigamma(a) + _trigamma(rest + b) - _trigamma(b)
        )
        return _through_logit(value, slope_in_p, second_in_p, p, q)

    def without_mixing(
        self, h: Array, scales: dict[str, Array]
    ) -> tuple[Array, Any, dict[str, Array]]:
        precision = _precision(scales)[:, None]
        a, b = (np.maximum(precision * expit(x), _TINY) for x in (h, -h))
        # One generator per bag, so no prediction depends on the bags around it.
        means = [np.random.default_rng(0).beta(*shapes) for shapes in zip(a.T, b.T, strict=True)]
        return np.column_stack(means), BINOMIAL, {}


class Beta(Family):
    """y ~ Beta(p f, (1 - p) f), p = logit^-1(h), f = dispersion^-2."""

    name = "beta"
    link = "logit"
    scales: ClassVar[Mapping[str, Scale]] = {
        "dispersion": Scale("of the labels: variance lambda (1 - lambda) / (1 + d^-2)")
    }
    bounds = (0.0, 1.0)
    needs = (
        "the beta family needs shares above 0 and below 1: for counts out of trials, which may be "
        "none or all, use family='binomial' or 'beta_binomial'"
    )
    program_number = 7

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        return stats.beta(*_shapes(mean, parameters))

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        precision, p, q = _precision(parameters), *(np.maximum(expit(x), _TINY) for x in (h, -h))
        a, b = p * precision, q * precision
        value = (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)
        slope_in_p = precision * (logit(y) - digamma(a) + digamma(b))
        second_in_p = -(precision**2) * (_trigamma(a) + _trigamma(b))
        return _through_logit(value, slope_in_p, second_in_p, p, q)


FAMILIES = (PoissonCounts(), NegativeBinomialCounts(), BinomialCounts(), BetaBinomial(), Beta())


def _precision(parameters):
    return np.maximum(parameters["dispersion"], _LEAST_DISPERSION) ** -2.0


def _shapes(mean, parameters):
    """Shapes of a beta distribution, > 0 even if the mean is 0 or 1 to rounding."""
    precision = _precision(parameters)
    return np.maximum(mean * precision, _TINY), np.maximum((1 - mean) * precision, _TINY)


def _through_logit(value, slope_in_p, second_in_p, p, q):
    """Terms in h = logit(p) from derivatives in p."""
    spread = p * q
    return Terms(
        value, spread * slope_in_p, -spread * ((q - p) * slope_in_p + spread * second_in_p)
    )
