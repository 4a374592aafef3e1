"""Means and totals of labels over groups of bags; see `PosteriorEstimator.population`."""

from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.bags.groups import groups_of_bags, sum_coefficients
from bdr_stan.predictive import Blend, Predictive
from bdr_stan.predictive.population import difference, weighted_sums
from bdr_stan.types import ArrayLike


def population(
    model: Any,
    bags: BagsLike,
    by: str | list[str] | None,
    weights: ArrayLike | str | None,
    total: bool,
    minus: BagsLike | None,
) -> Predictive | Blend:
    """Distribution of the weighted mean, or total, of the labels of the bags of each group."""
    if len(getattr(model, "classes_", ())) > 2:
        raise ValueError("population takes numbers or two classes, but the labels have more")
    names, found = _sums(model, bags, by, weights, total)
    if minus is not None:
        if weights is not None and not isinstance(weights, str):
            raise ValueError(
                "with minus= weights are a column of the metadata, which both have: name it"
            )
        others, subtracted = _sums(model, minus, by, weights, total)
        if not np.array_equal(names, others):
            odd = sorted(set(names.tolist()) ^ set(others.tolist()), key=str)[0]
            raise ValueError(f"group {odd!r} is only in one of the two populations: leave it out")
        found = difference(found, subtracted)
    found.ids = names
    found.id_name = "group" if by is None else by if isinstance(by, str) else ", ".join(by)
    return found


def _sums(model, bags, by, weights, total):
    """Names of the groups, and the distribution of their sums."""
    bags = model._like_training(bags)
    names, group = groups_of_bags(bags, by)
    coefficients = sum_coefficients(bags, group, len(names), weights, total)
    return names, weighted_sums(model.predictive(bags), coefficients)
