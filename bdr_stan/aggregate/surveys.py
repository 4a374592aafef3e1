"""Surveys of places for joint fits with totals of bags: checks, rows, percentiles of the places.

A survey place is a bag of one or a few points, with examined people of whom some are positive.
Several surveys have names; all their places are stacked, survey after survey.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from bdr_stan.aggregate.labels import check_counts
from bdr_stan.aggregate.outside_basis import horizons
from bdr_stan.aggregate.rows import AggregateRows, point_rows
from bdr_stan.aggregate.training import AggregateFeatures
from bdr_stan.bags import Bags, BagsLike, as_bags, values_of_bags
from bdr_stan.bags.checks import as_vector, check_each, checked_numbers
from bdr_stan.bags.missing_codes import CODES_OF_BAGS, ends_of, warn_of_codes
from bdr_stan.kernels import FeatureMap, Kernel, Product, fields_of
from bdr_stan.types import Array

_LEAST_PLACES = 2  # of a survey, for its slope
_MARGIN_OF_RANGE = 0.05  # of a column's range in the bags: allowed distance of places beyond it


@dataclass(frozen=True)
class Surveys:
    """Places as bags of points, with the number of people examined and of those positive."""

    places: Any  # Bags, m of them, of all surveys; None with their rows
    positives: Array  # shape (m,)
    examined: Array  # shape (m,)
    survey: Array  # number of each place's survey, int, shape (m,), in ascending order
    names: tuple[str, ...] = ()  # of the surveys; none of a single survey without a name


@dataclass(frozen=True)
class SurveyRows(Surveys):
    """The same with the features of the places' points instead of the places."""

    rows: AggregateRows = field(kw_only=True)  # of m places

    @property
    def n_places(self) -> Array:
        """Number of places of each survey, shape (G,)."""
        return np.bincount(self.survey)

    def entries(self, name: str) -> list[str]:
        """Names of a parameter of each survey: "survey_slope[schools]"."""
        return [f"{name}[{survey}]" for survey in self.names] or [name]

    @property
    def shares(self) -> Array:
        """Share of each point in its place, shape (V,)."""
        return self.rows.row_weights / self.rows.total[self.rows.bag]


@dataclass(frozen=True, kw_only=True)
class JointFeatures(AggregateFeatures):
    """What a joint fit needs of the training bags and of the surveys."""

    surveys: SurveyRows
    periods: tuple[Array, Array]  # numbers of the months of the n bags and m places, if any


def checked_surveys(
    bags: Bags,
    surveys: BagsLike | Mapping[str, BagsLike],
    positives: Any,
    examined: Any,
    kernel: str | Kernel,
) -> Surveys:
    """Surveys in the bags' range and the kernel's horizon; else TypeError or ValueError."""
    if not isinstance(surveys, Mapping):
        for name, values in {"positives": positives, "examined": examined}.items():
            if isinstance(values, Mapping):
                raise TypeError(
                    f"{name} is a dict of several surveys, but surveys is a "
                    f"{type(surveys).__name__}: pass a dict of bags by the same names"
                )
        return _checked_survey(bags, surveys, positives, examined, kernel)
    names = _checked_names(surveys)
    positives = _by_survey(names, positives, "positives")
    examined = _by_survey(names, examined, "examined")
    by_name = [
        _checked_survey(bags, surveys[name], positives[name], examined[name], kernel, name)
        for name in names
    ]
    return Surveys(
        Bags.concatenate([survey.places for survey in by_name]),
        np.concatenate([survey.positives for survey in by_name]),
        np.concatenate([survey.examined for survey in by_name]),
        np.repeat(np.arange(len(names)), [len(survey.survey) for survey in by_name]),
        names,
    )


def _checked_names(surveys):
    """Names of several surveys."""
    if not surveys:
        raise ValueError("surveys is an empty dict: pass at least one survey")
    for name in surveys:
        if not isinstance(name, str) or not name:
            raise TypeError(f"surveys are named by text, such as 'schools', found {name!r}")
    return tuple(surveys)


def _by_survey(names, values, what):
    """Values of each survey by its name; one column name is for all."""
    if isinstance(values, str):
        return dict.fromkeys(names, values)
    listed = ", ".join(map(repr, names))
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{what} of several surveys must be a dict by their names, {listed}, or the name of a "
            f"column of their metadata, found a {type(values).__name__}"
        )
    for name in (*names, *values):
        if name not in values or name not in names:
            lacking = what if name not in values else "surveys"
            raise ValueError(
                f"{lacking} has no {name!r}: surveys, positives and examined need the same names, "
                f"here {listed}"
            )
    return values


def _checked_survey(bags, places, positives, examined, kernel, name=None):
    """One survey that suits these bags."""
    bracket = "" if name is None else f"[{name!r}]"
    try:
        places = as_bags(places).like(bags.columns)
    except TypeError as error:
        raise TypeError(f"surveys{bracket}: {error}") from None
    places.check_like(
        bags.n_features,
        bags.features,
        bags.columns,
        whose=f"the surveys{bracket}",
        source="the bags have",
    )
    if len(places) < _LEAST_PLACES:
        raise ValueError(
            f"surveys{bracket} has {len(places)} place, from which no slope follows: a survey "
            f"needs at least {_LEAST_PLACES}"
        )
    _check_inside(bags, places, kernel, f"surveys{bracket}")
    positives = _one_per_place(places, positives, f"positives{bracket}")
    examined = _one_per_place(places, examined, f"examined{bracket}")
    what, rule = (
        f"number examined{bracket}",
        "numbers of people are whole, and at least one is examined",
    )
    check_counts(places, examined, what, rule)
    check_each(places, examined, examined >= 1, what, rule)
    what = f"number of positives{bracket}"
    check_counts(places, positives, what, "numbers of people are whole, from 0")
    check_each(
        places,
        positives,
        positives <= examined,
        what,
        "it exceeds the number examined; exchange the two where they were confused",
    )
    return Surveys(places, positives, examined, np.zeros(len(places), int))


def _one_per_place(places, values, name):
    """Numbers of people at the places, shape (m,)."""
    numbers = checked_numbers(values_of_bags(places, values, name), name, places.ids, "place")
    numbers = as_vector(numbers, len(places), name, "survey place")
    warn_of_codes({name: ends_of(numbers)}, "places", CODES_OF_BAGS)
    return numbers


def _check_inside(bags, places, kernel, whose):
    """Raise ValueError for a place beyond the range of a column of the bags' points."""
    low, high = bags.points.min(axis=0), bags.points.max(axis=0)
    margin = _MARGIN_OF_RANGE * (high - low)
    high = high + horizons(kernel, bags)
    outside = (places.points < low - margin) | (places.points > high + margin)
    if not np.any(outside):
        return
    row, column = np.argwhere(outside)[0]
    place = int(np.searchsorted(places.offsets, row, side="right")) - 1
    name = column if bags.features is None else repr(bags.features[column])
    n = len(np.unique(np.repeat(np.arange(len(places)), places.sizes)[outside.any(axis=1)]))
    raise ValueError(
        f"{whose}: {places.name(place)} lies outside all bags ({n} in total), as column {name} "
        f"is {places.points[row, column]:.4g} there and {low[column]:.4g} to {high[column]:.4g} in "
        "the bags: use the same units and coordinates, or leave these places out"
    )


def survey_rows(surveys: Surveys, features: FeatureMap) -> SurveyRows:
    """The surveys with the features of all points of the places."""
    rows = point_rows(surveys.places, features)
    return SurveyRows(**{**vars(surveys), "places": None}, rows=rows)


def periods(kernel: Kernel, bags: Bags, places: Bags) -> tuple[Array, Array]:
    """Numbers of the periods of bags, (n,), and of places, (m,), for a field in space and time.

    The time is the column of a factor of a product of kernels that is constant within each bag. A
    place has the nearest period of the bags. Without time all have the same period.
    """
    first = bags.points[bags.offsets[:-1]]
    columns = set()
    for summand in fields_of(kernel):
        for part in summand.parts.values() if isinstance(summand, Product) else ():
            seen = list(part.columns_seen(bags.n_features))
            if np.array_equal(bags.points[:, seen], np.repeat(first[:, seen], bags.sizes, axis=0)):
                columns |= set(seen)
    if not columns:
        return np.zeros(len(bags), int), np.zeros(len(places), int)
    time = sorted(columns)
    times, of_bags = np.unique(first[:, time], axis=0, return_inverse=True)
    of_places = cdist(places.points[places.offsets[:-1]][:, time], times).argmin(axis=1)
    return of_bags.ravel(), of_places


def percentiles_of_places(training: JointFeatures, theta: Array) -> Array:
    """Share of the bags' weight at lower f, of the period of each place, shape (m,).

    f has theta = [w; f0]. Places drawn by weight have percentiles that are uniform on (0, 1).
    """
    rows, surveys = training.rows, training.surveys
    of_bags, of_places = training.periods
    f, period = rows.rows @ theta, of_bags[rows.bag]
    places = np.add.reduceat(surveys.shares * (surveys.rows.rows @ theta), surveys.rows.start)
    percentiles = np.empty(len(places))
    for k in np.unique(of_places):
        order = np.flatnonzero(period == k)
        order = order[np.argsort(f[order])]
        below = np.append(0.0, np.cumsum(rows.row_weights[order]))
        in_period = of_places == k
        ends = (np.searchsorted(f[order], places[in_period], side) for side in ("left", "right"))
        percentiles[in_period] = sum(below[end] for end in ends) / 2 / below[-1]
    return percentiles
