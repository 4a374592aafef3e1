"""Counts out of numbers of trials, whose probability is the average rate of a bag's points."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln, logit
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood
from bdr_stan.aggregate.likelihoods.summed_effects import beta_binomial
from bdr_stan.types import Array, ArrayLike

_LARGEST_SHAPE = 1e8  # above which digits are lost, and effects are nothing beside chance


class Binomial(Likelihood):
    """y_a ~ Binomial(trials_a, lambda_a), lambda_a the average of the points' probabilities."""

    name = "binomial"
    links = ("logit",)
    is_count = True
    has_trials = True

    def label_density(
        self, y: Array, *, trials: Array | None = None, tau: float = 0.0, **given: Any
    ) -> Callable[[Array], LabelDensity]:
        trials = np.asarray(trials)
        rest = trials - y
        if tau > 0:
            share = (y.sum() + 0.5) / (trials.sum() + 1)
            shape = 1 / (tau**2 * share * (1 - share))  # at this share tau is the sd of log odds
            return beta_binomial(y, trials, min(shape, _LARGEST_SHAPE))

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

    def distribution(self, mean: Array, *, trials: ArrayLike = 1, **given: Any) -> rv_frozen:
        return stats.binom(np.asarray(trials).astype(np.int64), mean)

    def program_data(self, y: Array, trials: Array | None = None) -> dict[str, Any]:
        return {"y": y.astype(int), "trials": np.asarray(trials).astype(int)}


BINOMIAL = Binomial()
