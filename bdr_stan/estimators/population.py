"""Means and totals of labels over groups of bags; see `LinearEstimator.population`."""

from copy import copy
from typing import Any

from bdr_stan.bags import BagsLike, Samples
from bdr_stan.bags.groups import groups_of_bags, sum_coefficients
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.population import own_population
from bdr_stan.models.latent import with_draws_of_new_levels
from bdr_stan.predictive import Predictive
from bdr_stan.predictive.classes import of_category
from bdr_stan.predictive.population import difference, weighted_sums
from bdr_stan.types import ArrayLike


def population(
    model: Any,
    bags: BagsLike,
    by: str | list[str] | None,
    weights: ArrayLike | str | None,
    total: bool,
    minus: BagsLike | None,
    category: Any,
) -> Predictive:
    """Distribution of the weighted mean, or total, of the labels of the bags of each group."""
    names, found = _sums(model, bags, by, weights, total, category)
    if minus is not None:
        if weights is not None and not isinstance(weights, str):
            raise ValueError(
                "with minus= weights are a column of the metadata, which both have: name it"
            )
        others, subtracted = _sums(model, minus, by, weights, total, category)
        odd = set(names.tolist()) ^ set(others.tolist())
        if odd:
            raise ValueError(
                f"group {min(odd, key=str)!r} is in one of the two populations alone: leave it out"
            )
        found = difference(found, subtracted)
    found.ids = names
    found.id_name = "group" if by is None else by if isinstance(by, str) else ", ".join(by)
    return found


def _sums(model, bags, by, weights, total, category):
    """Names of the groups, and the distribution of their sums."""
    bags = model._like_training(bags)
    if isinstance(bags, Samples):
        bags.check_order(weights=weights)
    names, group = groups_of_bags(bags, by)
    embedding = model.embed(bags)
    counted = embedding.trials if embedding.exposure is None else embedding.exposure
    rates = counted is not None and not total
    weights = counted if rates and weights is None else weights
    coefficients = sum_coefficients(bags, group, len(names), weights, total)
    if rates:
        coefficients.data /= counted  # one bag per column
    labels = of_category(_predictive(model, embedding), category)
    return names, weighted_sums(labels, coefficients)


def _predictive(model: Any, embedding: Embedding) -> Any:
    """Predictive distribution of bags whose embeddings have a prior of their own."""
    other = copy(model)
    draws = with_draws_of_new_levels(embedding, model._draws())
    other.coordinates_, draws = own_population(model.coordinates_, embedding, draws)
    return other._predictive(embedding, draws, getattr(model, "classes_", None))
