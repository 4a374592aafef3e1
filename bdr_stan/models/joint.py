"""Rates at points from totals of bags and surveys of places, which share one function.

Source: Lucas, Nandi, Chestnutt et al. (2021), "Mapping malaria by sharing spatial information
between incidence and prevalence data sets", with a line as the link between the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.links import EXP, LOGIT
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.aggregate.surveys import SurveyRows
from bdr_stan.families import FAMILIES, Family
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.types import Array

SURVEY_FAMILIES = ("beta_binomial", "binomial")
# Prior sd, in shares of it, of a dispersion that methods but NUTS hold at its marginal mode: that
# of the joint density may be 0, where numbers of the beta-binomial lose their digits.
_FIXED_SHARE = 1e-3


@dataclass(frozen=True, kw_only=True)
class _JointModel(LatentGaussianModel):
    """The model of totals, whose theta has the line of the surveys as gamma."""

    def gamma_scales(self, scales: Mapping[str, float]) -> Array:
        """Prior standard deviations of the line's intercept and slope, shape (2,)."""
        return np.array([self.priors[f"survey_{name}_scale"] for name in ("intercept", "slope")])


def joint_data(
    totals: Mapping[str, Any], surveys: SurveyRows, family: Family, overall: float
) -> dict[str, Any]:
    """Data of ``stan/aggregate_joint.stan``, from those of the totals alone, but for whitening."""
    return {
        "survey_dispersion_location": 0.0,
        "survey_dispersion_scale": 1.0,  # where there is none
        **totals,
        "S": len(surveys.positives),
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
    survey_family: str,
    *,
    prior: Mapping[str, float] | None = None,
    bag_effects: bool = False,
    weight_basis: Array | None = None,
) -> LatentGaussianModel:
    """The model of ``stan/aggregate_joint.stan``, with its data; see `aggregate_model`."""
    family = FAMILIES[survey_family]
    scales = [f"survey_{name}" for name in family.likelihood.scales]
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
    line = [totals.priors[f"survey_{name}_location"] for name in ("intercept", "slope")]
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
            },
            "scales": (*totals.scales, *scales),
            "scale_arrays": {**totals.scale_arrays, "survey_scale": scales},
            "likelihood": partial(
                _joint_likelihood, totals.likelihood, surveys, family, np.array(line), overall
            ),
            "fixed": partial(_fixed, scales),
            "predicting": ("survey_intercept", "survey_slope"),
            "sampler_only": (*totals.sampler_only, "gamma"),
        }
    )


def _fixed(names, scales):
    """Data that hold the surveys' dispersion, where there is one, at its marginal mode."""
    found = {f"{name}_location": scales[name] for name in names}
    return found | {f"{name}_scale": _FIXED_SHARE * scales[name] for name in names}


def survey_priors(surveys: SurveyRows, family: Family) -> dict[str, float]:
    """Default priors of the surveys' line and scales.

    At the totals' overall rate the log odds are those of all surveys in one, give or take 1.5. The
    slope is 1 give or take 1: it is 1 where few are positive, in proportion to the rate, and may
    have either sign, so that surveys can disagree with the totals.
    """
    share = (surveys.positives.sum() + 0.5) / (surveys.examined.sum() + 1)
    level = LOGIT.function_prior(float(share))
    scales = family.likelihood.scales.items()
    return {
        "survey_intercept_location": float(level.level),
        "survey_intercept_scale": level.level_sd,
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
    own = {name: scales.pop(f"survey_{name}") for name in family.likelihood.scales}
    of_totals = totals(**scales)
    of_surveys = _survey_likelihood(surveys, family, line, overall, **own)

    def log_likelihood(theta):
        f_entries = _f_entries(theta)
        value, slope, information, curvature = of_surveys(theta)
        found = of_totals(theta[f_entries])
        slope[f_entries] += found[1]
        information[np.ix_(f_entries, f_entries)] += found[2]
        curvature[np.ix_(f_entries, f_entries)] += found[3]
        return value + found[0], slope, information, curvature

    return log_likelihood


def _f_entries(theta):
    """Entries of theta = [w; gamma; intercept] that f depends on."""
    return np.r_[: len(theta) - 3, len(theta) - 1]


def _survey_likelihood(surveys, family, line, overall, **scales):
    """Likelihood of surveys in theta; the curvature is exact where places have one point."""
    rows, bag, shares = surveys.rows, surveys.rows.bag, surveys.shares

    def log_likelihood(theta):
        d = len(theta) - 3
        intercept, slope = line + theta[d : d + 2]
        f_entries = _f_entries(theta)
        f = rows.rows @ theta[f_entries] - overall
        positive, negative = expit(intercept + slope * f), expit(-intercept - slope * f)
        mean = np.add.reduceat(shares * positive, rows.start)
        rest = np.add.reduceat(shares * negative, rows.start)
        terms = family.terms(
            surveys.positives, np.log(mean) - np.log(rest), surveys.examined, **scales
        )
        # Slopes of the places' log odds in theta.
        of_points = np.insert(slope * rows.rows, [d, d], np.column_stack([np.ones(len(f)), f]), 1)
        of_odds = shares * positive * negative / (mean * rest)[bag]
        by_theta = rows.combined(of_odds, of_points)
        information = (by_theta.T * np.maximum(terms.curvature, 0)) @ by_theta
        # The slope times f: without its mixed derivative Newton's steps would be many.
        mixed = rows.rows.T @ (of_odds * terms.slope[bag])
        curvature = (by_theta.T * terms.curvature) @ by_theta
        curvature[d + 1, f_entries] -= mixed
        curvature[f_entries, d + 1] -= mixed
        return terms.value.sum(), by_theta.T @ terms.slope, information, curvature

    return log_likelihood


def survey_theta(theta: Array, intercept: Array, slope: Array, overall: float) -> Array:
    """[weights; intercept] of the log odds of surveys, from those of f, all draws, (S, d + 1)."""
    of_odds = slope[:, None] * theta
    of_odds[:, -1] += intercept - slope * overall
    return of_odds
