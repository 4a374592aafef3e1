"""Rates at points from totals of bags and surveys of places, which share one function.

Source: Lucas, Nandi, Chestnutt et al. (2021), "Mapping malaria by sharing spatial information
between incidence and prevalence data sets", with a line as the link between the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from bdr_stan.aggregate.links import LOGIT
from bdr_stan.aggregate.surveys import SurveyRows
from bdr_stan.families import Family
from bdr_stan.models.aggregate import AggregateModel
from bdr_stan.posterior.latent_gaussian import PREDICTION, SAMPLER, Role, Variable, Variables
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.model import Draws, without_arrays
from bdr_stan.posterior.priors import held_at
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.types import Array, ArrayLike

LINE = ("survey_intercept", "survey_slope")
_UNLIKELY = 0.01  # p-value below which the places are called unlike the points of the bags


@dataclass
class JointModel(AggregateModel):
    """The model of ``stan/fast/aggregate_joint.stan``: totals, the surveys' lines as gamma."""

    surveys: SurveyRows
    survey_family: Family

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = "aggregate_joint"

    @property
    def survey_scales(self) -> dict[str, list[str]]:
        """Array of the program -> its entries, which a single survey has as they are."""
        names = [f"survey_{name}" for name in self.survey_family.likelihood.scales]
        return {name: self.surveys.entries(name) for name in names}

    @cached_property
    def overall(self) -> float:
        """Log of the totals' overall rate."""
        return float(np.log(np.sum(self.y) / np.sum(self.rows.total)))

    def default_priors(self) -> dict[str, float]:
        """Also of the surveys' lines and scales.

        At the totals' overall rate the log odds have as prior mean the pooled log odds of the
        survey's places, with sd 1.5. The slope has mean 1 and sd 1: it is 1 if few are positive, in
        proportion to the rate, and may have either sign, so surveys can disagree with the totals.
        """
        surveys, scales = self.surveys, self.survey_family.likelihood.scales
        positives, examined = (
            np.bincount(surveys.survey, counts) for counts in (surveys.positives, surveys.examined)
        )
        shares = (positives + 0.5) / (examined + 1)
        levels = [LOGIT.function_prior(float(share)) for share in shares]
        locations, spreads = (
            surveys.entries(f"survey_intercept_{kind}") for kind in ("location", "scale")
        )
        return {
            **super().default_priors(),
            **{name: float(level.level) for name, level in zip(locations, levels, strict=True)},
            **{name: level.level_sd for name, level in zip(spreads, levels, strict=True)},
            "survey_slope_location": 1.0,
            "survey_slope_scale": 1.0,
            **{f"survey_{name}_scale": scale.prior_scale for name, scale in scales.items()},
        }

    def variables(self) -> Variables:
        role = Role.ARRAY if self.surveys.names else Role.SPLIT
        scales = {name: Variable(role, entries) for name, entries in self.survey_scales.items()}
        line = dict.fromkeys(LINE, PREDICTION)
        return {**super().variables(), "gamma": SAMPLER, **scales, **line}

    def gamma_scales(self, scales: Mapping[str, float]) -> Array:
        """Prior standard deviations of the lines' intercepts and slopes, shape (2 G,)."""
        of_intercepts = _per_survey(self.priors, "survey_intercept_scale")
        of_slopes = np.full(len(of_intercepts), self.priors["survey_slope_scale"])
        return np.append(of_intercepts, of_slopes)

    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        """Likelihood of totals and surveys in theta = [w; gamma; intercept]."""
        of_family = {
            name.removeprefix("survey_"): np.array([scales.pop(entry) for entry in entries])
            for name, entries in self.survey_scales.items()
        }
        slope = np.full(len(self.surveys.n_places), self.priors["survey_slope_location"])
        line = np.array([_per_survey(self.priors, "survey_intercept_location"), slope])
        of_surveys = _survey_likelihood(
            self.surveys, self.survey_family, line, self.overall, **of_family
        )
        of_totals = super().likelihood(**scales)

        def log_likelihood(theta):
            f_entries = _f_entries(theta, self.surveys)
            value, slope, information, curvature = of_surveys(theta)
            totals = of_totals(theta[f_entries])
            slope[f_entries] += totals[1]
            information[np.ix_(f_entries, f_entries)] += totals[2]
            curvature[np.ix_(f_entries, f_entries)] += totals[3]
            return value + totals[0], slope, information, curvature

        return log_likelihood

    def program_data(self) -> dict[str, Any]:
        surveys, totals = self.surveys, super().program_data()
        n_surveys = len(surveys.n_places)
        dispersion_scale = self.priors.get("survey_dispersion_scale", 1.0)  # if there is none
        return {
            **{name: value for name, value in totals.items() if "[" not in name},
            "survey_intercept_location": _per_survey(totals, "survey_intercept_location"),
            "survey_intercept_scale": _per_survey(totals, "survey_intercept_scale"),
            "survey_dispersion_location": np.zeros(n_surveys),
            "survey_dispersion_scale": np.full(n_surveys, dispersion_scale),
            "G": n_surveys,
            "S": len(surveys.positives),
            "n_places": surveys.n_places,
            "V": len(surveys.rows.rows),
            "survey_rows": surveys.rows.rows,
            "survey_weight": surveys.rows.weights,
            "survey_start": surveys.rows.start + 1,  # Stan counts from 1
            "survey_length": surveys.rows.length,
            "positives": surveys.positives,
            "examined": surveys.examined.astype(int),
            "survey_family": self.survey_family.program_number,
            "overall": self.overall,
        }

    def prediction_constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        return {
            **super().prediction_constants(),
            "overall": (self.overall, []),
            "survey_positives": (self.surveys.positives, ["place"]),
            "survey_examined": (self.surveys.examined, ["place"]),
            "survey_number": (self.surveys.survey, ["place"]),
        }

    def fixed(self, scales: Mapping[str, float]) -> dict[str, Any]:
        data = super().fixed(scales)
        for name, entries in self.survey_scales.items():
            values = [scales[entry] for entry in entries]
            data |= held_at(f"{name}_location", f"{name}_scale", values)
        return data

    def read(self, draws: Draws, settings: SamplerSettings) -> Draws:
        if not self.surveys.names:
            draws = without_arrays(draws, {name: [name] for name in LINE})
        return super().read(draws, settings)


def _per_survey(priors: Mapping[str, float], name: str) -> Array:
    """A number of the priors for each survey, shape (G,)."""
    return np.array([value for key, value in priors.items() if key.split("[")[0] == name])


def _f_entries(theta, surveys):
    """Entries of theta = [w; gamma; intercept] that f depends on."""
    return np.r_[: surveys.rows.rows.shape[1] - 1, len(theta) - 1]


def _survey_likelihood(surveys, family, line, overall, **scales):
    """Likelihood of surveys in theta; the curvature is exact if places have one point.

    `line`, (2, G), are prior means of intercepts and slopes, `scales` have the shape (G,).
    """
    rows, bag, shares = surveys.rows, surveys.rows.bag, surveys.shares
    survey, n_surveys, d = surveys.survey[bag], line.shape[1], rows.rows.shape[1] - 1
    is_of = (survey[:, None] == np.arange(n_surveys)).astype(float)  # each point of each survey
    of_places = {name: values[surveys.survey] for name, values in scales.items()}
    slopes = np.arange(d + n_surveys, d + 2 * n_surveys)  # entries of theta

    def log_likelihood(theta):
        f_entries = _f_entries(theta, surveys)
        intercept, slope = (line + theta[d:-1].reshape(2, n_surveys))[:, survey]
        f = rows.rows @ theta[f_entries] - overall
        positive, negative = expit(intercept + slope * f), expit(-intercept - slope * f)
        mean = np.add.reduceat(shares * positive, rows.start)
        rest = np.add.reduceat(shares * negative, rows.start)
        terms = family.terms(
            surveys.positives, np.log(mean) - np.log(rest), trials=surveys.examined, **of_places
        )
        # Slopes of the places' log odds in theta.
        of_f = slope[:, None] * rows.rows
        of_points = np.column_stack([of_f[:, :d], is_of, is_of * f[:, None], of_f[:, d]])
        of_odds = shares * positive * negative / (mean * rest)[bag]
        by_theta = rows.combined(of_odds, of_points)
        information = (by_theta.T * np.maximum(terms.curvature, 0)) @ by_theta
        # The slopes times f: without their mixed derivatives Newton's steps would be many.
        mixed = (is_of * (of_odds * terms.slope[bag])[:, None]).T @ rows.rows
        curvature = (by_theta.T * terms.curvature) @ by_theta
        curvature[np.ix_(slopes, f_entries)] -= mixed
        curvature[np.ix_(f_entries, slopes)] -= mixed.T
        return terms.value.sum(), by_theta.T @ terms.slope, information, curvature

    return log_likelihood


def survey_theta(theta: Array, intercept: Array, slope: Array, overall: float) -> Array:
    """[weights; intercept] of the log odds of surveys, from f's, all draws, (S, d + 1)."""
    of_odds = slope[:, None] * theta
    of_odds[:, -1] += intercept - slope * overall
    return of_odds


@dataclass(frozen=True)
class SurveyAgreement:
    """Posterior of the surveys' slope in the log rate, and the places' percentiles of it."""

    slope: Array  # draws, shape (S,)
    percentiles: Array  # of m places among the points of the bags, see `percentiles_of_places`

    @property
    def interval(self) -> tuple[float, float]:
        """Central 95% interval of the slope."""
        low, high = np.quantile(self.slope, [0.025, 0.975])
        return float(low), float(high)

    @property
    def disagrees(self) -> bool:
        """Whether the slope may be 0 or negative."""
        return self.interval[0] <= 0

    @property
    def p_value(self) -> float:
        """Probability that the percentiles of representative places average as far from 0.5."""
        deviation = abs(np.mean(self.percentiles) - 0.5) * np.sqrt(12 * len(self.percentiles))
        return float(2 * ndtr(-deviation))

    @property
    def slope_text(self) -> str:
        """A sentence on the slope."""
        low, high = self.interval
        text = f"slope of the surveys' log odds in the log rate {np.mean(self.slope):.2g}"
        if len(self.slope) > 1:
            text += f" (95% interval {low:.2g} to {high:.2g})"
        if not self.disagrees:
            return f"{text}: surveys and totals agree."
        return (
            f"{text}: surveys and totals disagree, as the interval includes 0 or negative slopes; "
            "check the surveys, and compare the map with that of AggregateRegressor."
        )

    @property
    def places_text(self) -> str:
        """A sentence on how familiar the places are among the points of the bags."""
        average = np.mean(self.percentiles)
        text = f"survey places are on average at percentile {100 * average:.0f} of the log rate"
        if self.p_value > _UNLIKELY:
            return f"{text}, as places drawn like the bags' points would be."
        where = "high" if average > 0.5 else "low"
        return (
            f"{text}, unlike the bags' points (p = {self.p_value:.1g}): they were surveyed where "
            f"rates are {where}, so their share of positives is not that of the whole area."
        )
