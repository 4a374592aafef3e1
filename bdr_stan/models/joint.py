"""Rates at points from totals of bags and surveys of places, which share one function.

Source: Lucas, Nandi, Chestnutt et al. (2021), "Mapping malaria by sharing spatial information
between incidence and prevalence data sets", with a line as the link between the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.links import EXP, LOGIT
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.aggregate.surveys import SurveyRows
from bdr_stan.families import Family
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import held_at
from bdr_stan.types import Array

LINE = ("survey_intercept", "survey_slope")
_UNLIKELY = 0.01  # p-value below which the places are called unlike the points of the bags


@dataclass(frozen=True, kw_only=True)
class _JointModel(LatentGaussianModel):
    """The model of totals, with the lines of the surveys as gamma in theta."""

    survey_names: tuple[str, ...]

    def gamma_scales(self, scales: Mapping[str, float]) -> Array:
        """Prior standard deviations of the lines' intercepts and slopes, shape (2 G,)."""
        of_intercepts = _per_survey(self.priors, "survey_intercept_scale")
        of_slopes = np.full(len(of_intercepts), self.priors["survey_slope_scale"])
        return np.append(of_intercepts, of_slopes)


def joint_data(
    totals: Mapping[str, Any], surveys: SurveyRows, family: Family, overall: float
) -> dict[str, Any]:
    """Data of ``stan/fast/aggregate_joint.stan``, from the data of totals, except for whitening."""
    of_all = {name: value for name, value in totals.items() if "[" not in name}
    dispersion_scale = totals.get("survey_dispersion_scale", 1.0)  # if there is none
    n_surveys = len(surveys.n_places)
    return {
        **of_all,
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
        "survey_family": family.program_number,
        "overall": overall,
    }


def joint_model(
    rows: AggregateRows,
    y: Array,
    likelihood: Likelihood,
    surveys: SurveyRows,
    family: Family,
    *,
    prior: Mapping[str, float] | None = None,
    bag_effects: bool = False,
    weight_basis: Array | None = None,
) -> LatentGaussianModel:
    """The model of ``stan/fast/aggregate_joint.stan``, with its data; see `aggregate_model`."""
    # Array of the program -> its entries, which a single survey without a name has as they are.
    arrays = {
        f"survey_{name}": surveys.entries(f"survey_{name}") for name in family.likelihood.scales
    }
    scales = [name for names in arrays.values() for name in names]
    lines = {name: [name] for name in LINE}
    totals = aggregate_model(
        rows,
        y,
        likelihood,
        EXP,
        prior=prior,
        bag_effects=bag_effects,
        weight_basis=weight_basis,
        other_priors=survey_priors(surveys, family),
    )
    overall = float(np.log(np.sum(y) / np.sum(rows.total)))
    slope = np.full(len(surveys.n_places), totals.priors["survey_slope_location"])
    line = np.array([_per_survey(totals.priors, "survey_intercept_location"), slope])
    given: dict[str, Any] = {each.name: getattr(totals, each.name) for each in fields(totals)}
    return _JointModel(
        **given
        | {
            "program": "aggregate_joint",
            "data": joint_data(totals.data, surveys, family, overall),
            "constants": {
                **totals.constants,
                "overall": (overall, []),
                "survey_positives": (surveys.positives, ["place"]),
                "survey_examined": (surveys.examined, ["place"]),
                "survey_number": (surveys.survey, ["place"]),
            },
            "scales": (*totals.scales, *scales),
            "scale_arrays": {**totals.scale_arrays, **({} if surveys.names else arrays | lines)},
            "kept_arrays": arrays if surveys.names else {},
            "likelihood": partial(
                _joint_likelihood, totals.likelihood, surveys, family, line, overall
            ),
            "fixed": partial(_fixed, totals.fixed, arrays),
            "predicting": LINE,
            "sampler_only": (*totals.sampler_only, "gamma"),
            "survey_names": surveys.names,
        }
    )


def _fixed(of_totals, arrays, scales):
    """Data that fix the scales of totals and surveys, if there are any, at marginal modes."""
    found = of_totals(scales)
    for name, entries in arrays.items():
        values = [scales[entry] for entry in entries]
        found |= held_at(f"{name}_location", f"{name}_scale", values)
    return found


def _per_survey(priors: Mapping[str, float], name: str) -> Array:
    """A number of the priors for each survey, shape (G,)."""
    return np.array([value for key, value in priors.items() if key.split("[")[0] == name])


def survey_priors(surveys: SurveyRows, family: Family) -> dict[str, float]:
    """Default priors of the surveys' lines and scales.

    At the totals' overall rate the log odds have as prior mean the pooled log odds of the survey's
    places, with sd 1.5. The slope has mean 1 and sd 1: it is 1 if few are positive, in proportion
    to the rate, and may have either sign, so surveys can disagree with the totals.
    """
    positives, examined = (
        np.bincount(surveys.survey, counts) for counts in (surveys.positives, surveys.examined)
    )
    levels = [LOGIT.function_prior(float(share)) for share in (positives + 0.5) / (examined + 1)]
    scales = family.likelihood.scales.items()
    locations, spreads = (
        surveys.entries(f"survey_intercept_{kind}") for kind in ("location", "scale")
    )
    return {
        **{name: float(level.level) for name, level in zip(locations, levels, strict=True)},
        **{name: level.level_sd for name, level in zip(spreads, levels, strict=True)},
        "survey_slope_location": 1.0,
        "survey_slope_scale": 1.0,
        **{f"survey_{name}_scale": scale.prior_scale for name, scale in scales},
    }


def _joint_likelihood(
    totals: Callable[..., LogLikelihood],
    surveys: SurveyRows,
    family: Family,
    line: Array,
    overall: float,
    **scales: float,
) -> LogLikelihood:
    """Likelihood of totals and surveys in theta = [w; gamma; intercept], gamma from the `line`."""
    own = {
        name: np.array([scales.pop(entry) for entry in surveys.entries(f"survey_{name}")])
        for name in family.likelihood.scales
    }
    of_totals = totals(**scales)
    of_surveys = _survey_likelihood(surveys, family, line, overall, **own)

    def log_likelihood(theta):
        f_entries = _f_entries(theta, surveys)
        value, slope, information, curvature = of_surveys(theta)
        found = of_totals(theta[f_entries])
        slope[f_entries] += found[1]
        information[np.ix_(f_entries, f_entries)] += found[2]
        curvature[np.ix_(f_entries, f_entries)] += found[3]
        return value + found[0], slope, information, curvature

    return log_likelihood


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
            surveys.positives, np.log(mean) - np.log(rest), surveys.examined, **of_places
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
        away = abs(np.mean(self.percentiles) - 0.5) * np.sqrt(12 * len(self.percentiles))
        return float(2 * ndtr(-away))

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
