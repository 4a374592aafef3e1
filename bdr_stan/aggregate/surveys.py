"""Surveys of places for joint fits with totals of bags: checks, rows, percentiles of the places.

A survey place is a bag of one or a few points, of whose examined people some are positive.
"""

from dataclasses import dataclass

import numpy as np

from bdr_stan.aggregate.labels import check_counts, check_each, checked_numbers
from bdr_stan.aggregate.rows import AggregateRows, point_rows
from bdr_stan.aggregate.training import AggregateFeatures
from bdr_stan.bags import Bags, BagsLike, as_bags, values_of_bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array, ArrayLike

_MARGIN = 0.05  # of a column's range in the bags: how far beyond it places may lie


@dataclass(frozen=True)
class Surveys:
    """Places as bags of points, with the number of people examined and of those positive."""

    places: Bags  # m of them
    positives: Array  # shape (m,)
    examined: Array  # shape (m,)


@dataclass(frozen=True)
class SurveyRows:
    """The same with the features of the places' points."""

    rows: AggregateRows  # of m places
    positives: Array  # shape (m,)
    examined: Array  # shape (m,)

    @property
    def shares(self) -> Array:
        """Share of each point in its place, shape (V,)."""
        return self.rows.row_weights / self.rows.total[self.rows.bag]


@dataclass(frozen=True, kw_only=True)
class JointFeatures(AggregateFeatures):
    """What a joint fit needs of the training bags and of the surveys."""

    surveys: SurveyRows


def checked_surveys(
    bags: Bags, places: BagsLike, positives: ArrayLike | str, examined: ArrayLike | str
) -> Surveys:
    """Surveys that suit these bags; TypeError or ValueError names the first that does not."""
    places = as_bags(places).like(bags.columns)
    places.check_like(
        bags.n_features, bags.features, bags.columns, whose="the surveys", known="the bags have"
    )
    _check_inside(bags, places)
    positives = _one_per_place(places, positives, "positives")
    examined = checked_examined(places, examined)
    check_counts(places, positives, "number of positives", "numbers of people are whole, from 0")
    check_each(
        places,
        positives,
        positives <= examined,
        "number of positives",
        "it exceeds the number examined; exchange the two where they were confused",
    )
    return Surveys(places, positives, examined)


def checked_examined(places: Bags, examined: ArrayLike | str) -> Array:
    """Numbers of people examined at places, shape (m,): whole, from 1; else an error."""
    found = _one_per_place(places, examined, "examined")
    rule = "numbers of people are whole, and at least one is examined"
    check_counts(places, found, "number examined", rule)
    check_each(places, found, found >= 1, "number examined", rule)
    return found


def _one_per_place(places, values, name):
    """Numbers of people at the places, shape (m,)."""
    found = checked_numbers(values_of_bags(places, values, name), name)
    if found.shape != (len(places),):
        raise ValueError(
            f"{name} has shape {found.shape}, but there are {len(places)} survey places: pass one "
            "number per place"
        )
    return found


def _check_inside(bags, places):
    """Raise ValueError for a place beyond the range of a column of the bags' points."""
    low, high = bags.points.min(axis=0), bags.points.max(axis=0)
    margin = _MARGIN * (high - low)
    outside = (places.points < low - margin) | (places.points > high + margin)
    if not np.any(outside):
        return
    row, column = np.argwhere(outside)[0]
    place = int(np.searchsorted(places.offsets, row, side="right")) - 1
    name = column if bags.features is None else repr(bags.features[column])
    n = len(np.unique(np.repeat(np.arange(len(places)), places.sizes)[outside.any(axis=1)]))
    raise ValueError(
        f"surveys: {places.name(place)} lies outside all bags ({n} in all), as column {name} is "
        f"{places.points[row, column]:.4g} there and {low[column]:.4g} to {high[column]:.4g} in "
        "the bags: use the same units and coordinates, or leave these places out"
    )


def survey_rows(surveys: Surveys, features: FeatureMap) -> SurveyRows:
    """The surveys with the features of all points of the places."""
    return SurveyRows(point_rows(surveys.places, features), surveys.positives, surveys.examined)


def percentiles_of_places(rows: AggregateRows, surveys: SurveyRows, theta: Array) -> Array:
    """Share of the bags' weight at lower f than each place has, shape (m,).

    f is that of theta = [w; f0]. Places drawn as the weights are have percentiles that are uniform
    on (0, 1).
    """
    f, of_places = rows.rows @ theta, surveys.rows.rows @ theta
    places = np.add.reduceat(surveys.shares * of_places, surveys.rows.start)
    order = np.argsort(f)
    below = np.append(0.0, np.cumsum(rows.row_weights[order]))
    ends = (np.searchsorted(f[order], places, side=side) for side in ("left", "right"))
    return sum(below[end] for end in ends) / 2 / below[-1]
