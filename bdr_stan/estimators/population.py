"""Means and totals of labels over groups of bags."""

from copy import copy
from typing import Any

from bdr_stan.bags import BagsLike, Samples
from bdr_stan.bags.groups import groups_of_bags, sum_coefficients
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.population import own_population
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.models.latent import with_draws_of_new_levels
from bdr_stan.predictive import Predictive
from bdr_stan.predictive.classes import of_category
from bdr_stan.predictive.population import difference, weighted_sums
from bdr_stan.types import ArrayLike


class Population(BagEstimator):
    """Means and totals of labels over groups of bags."""

    def population(
        self: Any,
        bags: BagsLike,
        by: str | list[str] | None = None,
        *,
        weights: ArrayLike | str | None = None,
        total: bool = False,
        minus: BagsLike | None = None,
        category: Any = None,
    ) -> Predictive:
        """Poststratification: weighted mean, or total, of the labels of many bags.

        For example of a region's counties, with weights from a census. Under each posterior draw
        the bags share the parameters, so their errors do not average out as independent ones would.
        The bags may be unlike the training bags: with 30 or more, the prior of their embeddings is
        estimated from them; fewer are not shrunk, or as in the fit if some lack the sample.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            May be a subgroup of their points, from `Bags.where`.
        by : str or list of str, optional
            Columns of the bags' metadata: one population per value, or combination of values; with
            `bags.id_name` one per bag. Default one population of all bags.
        weights : array, shape (n,), Series, or str, optional
            Weight of each bag, >= 0, such as its inhabitants, or the column of the metadata with
            the weights; default equal weights.
        total : bool, default False
            The weighted sum instead of the weighted mean. With trials or an exposure, from the
            columns that the fit named, means are of the rates, counts per trial or per unit of
            exposure, with trials or exposures as default weights; sums are of the counts.
        minus : Bags, optional
            Another subgroup: its population is subtracted, under the same draws.

        Returns
        -------
        Predictive
            One distribution per group, in units of y (of two classes: the share of bags of the
            second), with `mean`, `sd`, `interval(level)`, `sample(size)` and `to_dataframe()`.

        Raises
        ------
        ValueError
            A column or category that does not exist, a bag without group, a negative weight, or a
            group without weight.
        TypeError
            Labels are ordered categories, and `category` is missing.

        Notes
        -----
        Given a draw the labels of bags are independent and their sum is treated as normal: exact
        for normal labels, a central limit approximation for others. Labels of the fit are predicted
        as if they were unknown. Labels of subgroups rest on the assumption that a label depends on
        the distribution of a subgroup as on the distribution of all points of its bag: it fails if
        neighbours change how people vote.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from bdr_stan import BLR, Bags
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=40)
        >>> bags = Bags.from_list(
        ...     [rng.normal(mean, size=(100, 1)) for mean in y],
        ...     metadata=pd.DataFrame({"region": np.repeat(["north", "south"], 20)}),
        ... )
        >>> model = BLR(5, method="exact").fit(bags, y, seed=1)
        >>> regions = model.population(bags, by="region").to_dataframe()
        >>> regions.index.tolist(), regions.columns.tolist()
        (['north', 'south'], ['mean', 'sd', 'lower', 'upper'])
        """
        names, found = _sums(self, bags, by, weights, total, category)
        if minus is not None:
            if weights is not None and not isinstance(weights, str):
                raise ValueError(
                    "with minus= weights are a column of the metadata, which both have: name it"
                )
            others, subtracted = _sums(self, minus, by, weights, total, category)
            odd = set(names.tolist()) ^ set(others.tolist())
            if odd:
                raise ValueError(
                    f"group {min(odd, key=str)!r} is in one of the two populations alone: leave it "
                    "out"
                )
            found = difference(found, subtracted)
        found.ids = names
        found.id_name = "group" if by is None else by if isinstance(by, str) else ", ".join(by)
        return found


def _sums(model, bags, by, weights, total, category):
    """Names of the groups, and the distribution of their sums."""
    bags = model.like_training(bags)
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
    """Predictive distribution of bags with their own prior of the embeddings."""
    other = copy(model)
    draws = with_draws_of_new_levels(embedding, model.draws())
    other.coordinates_, draws = own_population(model.coordinates_, embedding, draws)
    return other.predictive_of_draws(embedding, draws, getattr(model, "classes_", None))
