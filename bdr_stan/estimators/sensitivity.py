"""Bounds of labels under unknown selection of points; see `LinearEstimator.sensitivity`."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.bags import Bags, BagsLike, Samples
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.samples import embed_samples
from bdr_stan.embedding.selection import SelectedPoints
from bdr_stan.estimators.points import evenly_spaced
from bdr_stan.estimators.validation import check_counts
from bdr_stan.predictive.distributions import check_level
from bdr_stan.predictive.selection_bias import SelectionBounds
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike


def selection_bounds(
    model: Any,
    bags: BagsLike,
    selection: ArrayLike,
    level: float,
    n_draws: int,
    **given: ArrayLike | str | None,
) -> SelectionBounds:
    """Bounds of the expected labels of bags whose weights are right up to each factor.

    `given` are trials, exposure and offset.
    """
    factors = _factors(selection)
    check_level(level)
    check_counts(n_draws=n_draws)
    bags = model._like_training(bags)
    if getattr(model, "_is_ordinal", False):
        raise TypeError(
            "ordered categories have no expected label: sensitivity is for numbers and two classes"
        )
    for points in getattr(bags, "samples", {"": bags}).values():
        if not isinstance(points, Bags):
            raise TypeError(
                "sensitivity needs the points of each bag in memory, but these lie in partitions: "
                "pass bags.load()"
            )
    if isinstance(bags, Samples):
        bags.check_order(**given)
    known = model.known_of_bags(bags, **given)
    embedded = embed_samples if isinstance(bags, Samples) else embed
    embedding = replace(embedded(bags, model._feature_map), **known)
    model._warn_of_other_bags(embedding)
    draws = {name: evenly_spaced(drawn, n_draws) for name, drawn in model._draws().items()}
    parts = _parts(model, bags, embedding, draws)
    classes, n_draws = getattr(model, "classes_", None), len(draws["w"])

    def shifts(i, factors):
        """How far the predictors of bags i move, (2, K, S, m): the sum over their samples."""
        found = np.zeros((2, len(factors), n_draws, len(i)))
        for rows, part in parts:
            has = np.flatnonzero(rows[i] >= 0)
            own = map_in_threads(partial(part.shifts, factors=factors), rows[i[has]])
            for column, shift in zip(has, own, strict=True):
                found[..., column] += shift
        return found

    def predictives(i, factors):
        """Of each factor the distributions of bags i where predictors are least, and largest."""
        some = embedding.take(i)
        return [
            tuple(model._predictive(some, draws | {"shift": each}, classes) for each in of_factor)
            for of_factor in np.swapaxes(shifts(i, factors), 0, 1)
        ]

    n = len(embedding.mean)
    return SelectionBounds(predictives, n, n_draws, factors, level, bags.ids, bags.id_name)


def _parts(model: Any, bags: Any, embedding: Embedding, draws: dict[str, Array]) -> list[Any]:
    """The points of each sample, and the number there of each of the bags, -1 where it has none."""
    eta = draws.get("eta", np.ones(len(draws["w"])))
    if not isinstance(bags, Samples):
        own = (embedding.sizes, model._feature_map, model.coordinates_, draws["w"], eta)
        return [(np.arange(len(bags)), SelectedPoints(bags, *own))]
    found, of = [], model.coordinates_.sample
    for m, (name, features) in enumerate(model._feature_map.items()):
        has, rows = bags.has(name), np.full(len(bags), -1)
        if not has.any():
            continue
        rows[has] = bags.rows(name)
        sizes = np.empty(len(bags.samples[name]))
        sizes[rows[has]] = embedding.sizes[has, m]
        coordinates, w = model.coordinates_.of_sample(m), draws["w"][:, of == m]
        of_sample = eta if eta.ndim == 1 else eta[:, m]
        points = SelectedPoints(bags.samples[name], sizes, features, coordinates, w, of_sample)
        found.append((rows, points))
    return found


def _factors(selection):
    try:
        factors = np.unique(np.asarray(selection, float))
    except (TypeError, ValueError):
        factors = np.array([np.nan])
    if np.ndim(selection) > 1 or not len(factors) or not np.all((factors >= 1) & (factors < 1e6)):
        raise ValueError(
            "selection must be factors from 1 by which weights may be wrong, such as "
            f"[1, 1.5, 2], found {selection!r}"
        )
    return factors
