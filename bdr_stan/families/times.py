"""Times to events with log link, perhaps censored or left-truncated: Weibull and lognormal."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from scipy.special import erfcx, log_ndtr
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods import Scale
from bdr_stan.families.base import Family, Terms
from bdr_stan.labels import OF_TIMES, Labels
from bdr_stan.types import Array

_LEAST_SPREAD = 0.1  # of log times, where the search for their spread begins
_AS_GOOD_AS_INFINITE = 40.0  # sigmas above a censored time, where its tail is 1 to rounding
_LEAST_SCORE = -40.0  # below which the normal hazard is 0


class Times(Family):
    """log y = h + sigma e: base of the families, which differ in the distribution of e.

    With event 0 a time is a lower bound: its density is its tail. With an entry the density is
    conditional on y > entry. Both have the shape of y.
    """

    link = "log"
    takes: ClassVar[tuple[str, ...]] = (*OF_TIMES, "offset")  # type: ignore[misc]
    scales: ClassVar[Mapping[str, Scale]] = {"sigma": Scale("scale of log times")}
    bounds = (0.0, np.inf)
    needs = "times to events are > 0: leave these bags out"

    def log_tail(self, y: Array, h: Array, sigma: Array) -> Array:
        """Log probability of a time above y >= 0; all arguments broadcast."""
        raise NotImplementedError

    def level_and_spread(self, labels: Labels, offsets: Array) -> tuple[float, float]:
        """Level and spread of log times, events and censored, by maximum likelihood."""
        logs = np.log(labels.y) - offsets
        start = np.array([logs.mean(), np.log(max(logs.std(), _LEAST_SPREAD))])

        def loss(at):
            parameters = {"sigma": np.exp(at[1]), **labels.parameters}
            return -self.terms(labels.y, offsets + at[0], **parameters).value.mean()

        bounds = [(None, None), (start[1] - 2, start[1] + 2)]
        level, log_spread = minimize(loss, start, method="Nelder-Mead", bounds=bounds).x
        return float(level), float(np.exp(log_spread))

    def default_priors(self, y: Array, spread: float) -> dict[str, float]:
        return {"sigma_scale": spread}


class WeibullTimes(Times):
    """e = log E with E standard exponential: P(Y > y) = exp(-(y / exp(h))^(1 / sigma))."""

    name = "weibull"
    program_number = 11

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        return stats.weibull_min(1 / parameters["sigma"], scale=mean)

    def log_tail(self, y: Array, h: Array, sigma: Array) -> Array:
        return -np.exp((np.log(y) - h) / sigma)

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        sigma, event = parameters["sigma"], parameters.get("event", 1.0)
        z = (np.log(y) - h) / sigma
        hazard = np.exp(z) * _since_entry(y, **parameters)  # cumulative
        value = event * (z - np.log(sigma) - np.log(y)) - hazard
        return Terms(value, (hazard - event) / sigma, hazard / sigma**2)

    def best_predictor(self, y: Array, **parameters: Any) -> Array:
        censored = np.equal(parameters.get("event", 1.0), 0)
        above = np.log(_since_entry(y, **parameters)) + censored * _AS_GOOD_AS_INFINITE
        return np.log(y) + parameters.get("sigma", 1.0) * above


class LognormalTimes(Times):
    """e standard normal."""

    name = "lognormal"
    takes: ClassVar[tuple[str, ...]] = OF_TIMES
    program_number = 12

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        return stats.lognorm(parameters["sigma"], scale=mean)

    def log_tail(self, y: Array, h: Array, sigma: Array) -> Array:
        return log_ndtr((h - np.log(y)) / sigma)

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        sigma, event = parameters["sigma"], np.equal(parameters.get("event", 1.0), 1)
        z = (np.log(y) - h) / sigma
        density = -(z**2) / 2 - np.log(sigma) - np.log(y) - np.log(2 * np.pi) / 2
        terms = [np.where(event, *two) for two in zip((density, z, 1.0), _normal_tail(z))]
        if "entry" in parameters:
            with np.errstate(divide="ignore"):
                before = _normal_tail((np.log(parameters["entry"]) - h) / sigma)
            terms = [value - lost for value, lost in zip(terms, before, strict=True)]
        return Terms(terms[0], terms[1] / sigma, terms[2] / sigma**2)

    def best_predictor(self, y: Array, **parameters: Any) -> Array:
        # With an entry it has no closed form.
        best = np.where(np.greater(parameters.get("entry", 0.0), 0), np.nan, np.log(y))
        return np.where(np.equal(parameters.get("event", 1.0), 0), np.inf, best)


TIMES: dict[str, Times] = {family.name: family for family in (WeibullTimes(), LognormalTimes())}


def _since_entry(y, sigma=1.0, entry=0.0, **others):
    """Share of the cumulative Weibull hazard of y that comes after the entry."""
    with np.errstate(divide="ignore"):
        return -np.expm1((np.log(entry) - np.log(y)) / sigma)


def _normal_tail(z):
    """Log probability of a standard normal number above z, the hazard at z, and its slope."""
    finite = np.maximum(z, _LEAST_SCORE)
    hazard = np.sqrt(2 / np.pi) / erfcx(finite / np.sqrt(2))
    return log_ndtr(-z), hazard, hazard * np.maximum(hazard - finite, 0)
