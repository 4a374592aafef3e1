"""Times to events with log link, perhaps censored or left-truncated: Weibull and lognormal."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from scipy.special import erfcx, gammainc, gammaln, log_ndtr, ndtr
from scipy.stats.distributions import rv_frozen

from bdr_stan.aggregate.likelihoods import Scale
from bdr_stan.families.base import Family, Terms
from bdr_stan.labels import Labels
from bdr_stan.types import Array

_LEAST_SPREAD = 0.1  # of log times, where the search for their spread begins
_SPREADS = (0.1, 10.0)  # its bounds, relative to there
_AS_GOOD_AS_INFINITE = 40.0  # sigmas above a time, where its log tail is 0 to rounding
_LEAST_SCORE = -40.0  # below which the normal hazard is 0


class Times(Family):
    """log y = h + sigma e: base of the families, which differ in the distribution of e.

    With event 0 a time is a lower bound: its density is its tail. With an entry the density is
    conditional on y > entry. Both have the shape of y.
    """

    link = "log"
    takes: ClassVar[tuple[str, ...]] = ("event", "entry", "offset")  # type: ignore[misc]
    scales: ClassVar[Mapping[str, Scale]] = {"sigma": Scale("scale of log times")}
    bounds = (0.0, np.inf)

    @property
    def needs(self) -> str:  # type: ignore[override]
        """Its labels."""
        return f"the {self.name} family needs times > 0: leave these bags out"

    def log_tail(self, y: Array, h: Array, sigma: Array) -> Array:
        """Log probability of a time above y >= 0; all arguments broadcast."""
        raise NotImplementedError

    def restricted_mean(self, horizon: float, h: Array, sigma: Array) -> Array:
        """Expected time until the event or the horizon, whichever is first."""
        raise NotImplementedError

    def level_and_spread(self, labels: Labels, offsets: Array) -> tuple[float, float]:
        """Of log times without a model of bags, by maximum likelihood: censored ones are longer."""
        logs = np.log(labels.y) - offsets
        start = np.array([logs.mean(), np.log(max(logs.std(), _LEAST_SPREAD))])

        def loss(at):
            parameters = {"sigma": np.exp(at[1]), **labels.parameters}
            return -self.terms(labels.y, offsets + at[0], **parameters).value.mean()

        bounds = [(None, None), start[1] + np.log(_SPREADS)]
        found = minimize(loss, start, method="Nelder-Mead", bounds=bounds).x
        return float(found[0]), float(np.exp(found[1]))

    def default_priors(self, y: Array, spread: float) -> dict[str, float]:
        return {"sigma_scale": spread}


class WeibullTimes(Times):
    """e = log E with E standard exponential: P(Y > y) = exp(-(y / exp(h))^(1 / sigma))."""

    name = "weibull"
    program_number = 11

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        return stats.weibull_min(1 / parameters["sigma"], scale=mean)

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        sigma, event = parameters["sigma"], parameters.get("event", 1.0)
        z, rest = (np.log(y) - h) / sigma, _since_entry(y, **parameters)
        hazard = np.exp(z) * rest  # cumulative
        value = event * (z - np.log(sigma) - np.log(y)) - hazard
        return Terms(value, (hazard - event) / sigma, hazard / sigma**2)

    def best_predictor(self, y: Array, **parameters: Any) -> Array:
        best = np.log(y) + parameters["sigma"] * np.log(_since_entry(y, **parameters))
        censored = np.equal(parameters.get("event", 1.0), 0)
        return best + censored * _AS_GOOD_AS_INFINITE * parameters["sigma"]

    def log_tail(self, y: Array, h: Array, sigma: Array) -> Array:
        return -np.exp((np.log(y) - h) / sigma)

    def restricted_mean(self, horizon: float, h: Array, sigma: Array) -> Array:
        tail = self.log_tail(horizon, h, sigma)
        before = np.exp(h + gammaln(1 + sigma) + np.log(gammainc(1 + sigma, -tail)))
        return before + horizon * np.exp(tail)


class LognormalTimes(Times):
    """e standard normal."""

    name = "lognormal"
    takes: ClassVar[tuple[str, ...]] = ("event", "entry")
    program_number = 12

    def distribution(self, mean: Array, **parameters: Any) -> rv_frozen:
        return stats.lognorm(parameters["sigma"], scale=mean)

    def terms(self, y: Array, h: Array, **parameters: Any) -> Terms:
        sigma, event = parameters["sigma"], np.equal(parameters.get("event", 1.0), 1)
        z = (np.log(y) - h) / sigma
        density = -(z**2) / 2 - np.log(sigma) - np.log(y) - np.log(2 * np.pi) / 2
        tail, hazard, slope = _normal_tail(z)
        value = np.where(event, density, tail)
        first, second = np.where(event, z, hazard), np.where(event, 1.0, slope)
        if "entry" in parameters:
            with np.errstate(divide="ignore"):
                before = _normal_tail((np.log(parameters["entry"]) - h) / sigma)
            value, first, second = (
                x - b for x, b in zip((value, first, second), before, strict=True)
            )
        return Terms(value, first / sigma, second / sigma**2)

    def best_predictor(self, y: Array, **parameters: Any) -> Array:
        # With an entry it has no closed form.
        best = np.where(np.greater(parameters.get("entry", 0.0), 0), np.nan, np.log(y))
        return np.where(np.equal(parameters.get("event", 1.0), 0), np.inf, best)

    def log_tail(self, y: Array, h: Array, sigma: Array) -> Array:
        return log_ndtr((h - np.log(y)) / sigma)

    def restricted_mean(self, horizon: float, h: Array, sigma: Array) -> Array:
        z = (np.log(horizon) - h) / sigma
        return np.exp(h + sigma**2 / 2 + log_ndtr(z - sigma)) + horizon * ndtr(-z)


TIMES: dict[str, Times] = {family.name: family for family in (WeibullTimes(), LognormalTimes())}


def _since_entry(y, sigma, entry=0.0, **others):
    """Share of the cumulative Weibull hazard of y that comes after the entry."""
    with np.errstate(divide="ignore"):
        return -np.expm1((np.log(entry) - np.log(y)) / sigma)


def _normal_tail(z):
    """Log probability of a standard normal number above z, the hazard at z, and its slope."""
    finite = np.maximum(z, _LEAST_SCORE)
    hazard = np.sqrt(2 / np.pi) / erfcx(finite / np.sqrt(2))
    return log_ndtr(-z), hazard, hazard * np.maximum(hazard - finite, 0)
