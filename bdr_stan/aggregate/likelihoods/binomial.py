"""Counts out of numbers of trials, with the average rate of a bag's points as probability."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import digamma, gammaln, logit, polygamma
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood
from bdr_stan.aggregate.likelihoods.counts import log_rising
from bdr_stan.types import Array

_LARGEST_SHAPE = 1e8  # above which digits are lost, and effects are negligible relative to chance


class Binomial(Likelihood):
    """y_a ~ Binomial(trials_a, lambda_a), lambda_a the average of the points' probabilities."""

    name = "binomial"
    links = ("logit",)
    is_count = True
    has_trials = True

    def label_density(self, y: Array, **given: Any) -> Callable[[Array], LabelDensity]:
        trials, tau = np.asarray(given["trials"]), given.get("tau", 0.0)
        rest = trials - y
        if tau > 0:
            share = (y.sum() + 0.5) / (trials.sum() + 1)
            shape = 1 / (tau**2 * share * (1 - share))  # at this share tau is the sd of log odds
            return _beta_binomial(y, trials, min(shape, _LARGEST_SHAPE))

        def density(mean):
            spread = mean * (1 - mean)
            value = gammaln(trials + 1) - gammaln(y + 1) - gammaln(rest + 1)
            value += y * np.log(mean) + rest * np.log1p(-mean)
            return LabelDensity(
                value.sum(),
                y / mean - rest / (1 - mean),
                trials / spread,
                y / mean**2 + rest / (1 - mean) ** 2,
                -trials * (1 - 2 * mean) / spread**2,
            )

        return density

    def label_on_log_scale(self, y: Array, trials: Array | None = None) -> tuple[Array, Array]:
        share = (y + 0.5) / (np.asarray(trials) + 1)
        return logit(share), np.asarray(trials) * share * (1 - share)

    def distribution(self, mean: Array, **given: Any) -> rv_frozen:
        return stats.binom(np.asarray(given.get("trials", 1)).astype(np.int64), mean)

    def program_data(self, y: Array, trials: Array | None = None) -> dict[str, Any]:
        return {"y": y.astype(int), "trials": np.asarray(trials).astype(int)}


def _beta_binomial(y, trials, shape):
    """Density if probabilities are beta(shape lambda, shape (1 - lambda)).

    The information, which has no closed form, is one over the variance of the share y / trials.
    """
    rest = trials - y
    constant = gammaln(trials + 1) - gammaln(y + 1) - gammaln(rest + 1) - log_rising(trials, shape)

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


BINOMIAL = Binomial()
