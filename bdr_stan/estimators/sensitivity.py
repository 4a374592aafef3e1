"""Bounds of labels under unknown selection of points."""

from functools import partial
from typing import Any

import numpy as np

from bdr_stan.bags import Bags, BagsLike, Samples
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.selection import SelectedPoints
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.estimators.points import evenly_spaced
from bdr_stan.estimators.validation import check_counts
from bdr_stan.predictive.distributions import check_level
from bdr_stan.predictive.selection_bias import SelectionBounds
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike


class Sensitivity(BagEstimator):
    """Bounds of labels under unknown selection of points."""

    def sensitivity(
        self: Any,
        bags: BagsLike,
        *,
        selection: ArrayLike = (1, 1.25, 1.5, 2),
        level: float = 0.95,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        n_draws: int = 1000,
    ) -> SelectionBounds:
        """Bounds of each bag's expected label if its points were seen with unequal probabilities.

        Some kinds of people answer surveys less often than others, and their answers are unknown.
        If the correct weights of the points differ from the given ones by at most a factor G, a
        label lies between two bounds, without further assumptions.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            With several samples, points of each may be selected.
        selection : array, shape (K,), default (1, 1.25, 1.5, 2)
            Factors G >= 1. With 2 some points had twice the probability that their weights imply,
            others half of it.

        Returns
        -------
        SelectionBounds
            With `lowest` and `highest`, bounds of the expected label, and `lower` and `upper`, the
            ends of their predictive intervals, each of shape (K, n); ``fails_at(a, b)``, the factor
            at which bag a is no longer certain to be above bag b; and `to_dataframe()`. In units of
            y, also for families: the expected label increases with the linear predictor, and its
            bounds are exact. For classes the probability of the second.

        Raises
        ------
        ValueError
            A factor below 1, or a level outside (0, 1).
        TypeError
            The labels are ordered categories, or the points are in partitions.

        Notes
        -----
        Under each draw the linear predictor is a mean over the bag's points of a function f, for
        `BDR` shrunk as the bag's embedding is. Its extremes over the weights solve a
        linear-fractional programme, by a threshold of f. The bounds describe selection within these
        bags; the parameters of the fit, effects of covariates, groups and smooths, and the
        effective sizes of the bags are as without it. At G = 1 they are the prediction under these
        draws. Sources: Aronow and Lee (2013); Miratrix, Wager and Zubizarreta (2018).
        """
        given = {"trials": trials, "exposure": exposure, "offset": offset}
        factors = _factors(selection)
        check_level(level)
        check_counts(n_draws=n_draws)
        bags = self.like_training(bags)
        if self.label_model.has_classes and self.label_model.distribution is not None:
            raise TypeError(
                "ordered categories have no expected label: sensitivity is for numbers and two "
                "classes"
            )
        for points in getattr(bags, "samples", {"": bags}).values():
            if not isinstance(points, Bags):
                raise TypeError(
                    "sensitivity needs the points of each bag in memory, but these lie in "
                    "partitions: pass bags.load()"
                )
        labels = self.labels_of_new(bags, **given)
        embedding = self.embedding_of(bags)
        self.warn_of_other_bags(embedding)
        draws = {name: evenly_spaced(drawn, n_draws) for name, drawn in self.draws().items()}
        parts = _parts(self, bags, embedding, draws)
        n_draws = len(draws["w"])

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
            """Of each factor the distributions of bags i at their least and largest predictors."""
            some = self.coordinates_, embedding.take(i), labels.take(i)
            return [
                tuple(
                    self.predictive_of_draws(*some, draws | {"shift": shift}) for shift in of_factor
                )
                for of_factor in np.swapaxes(shifts(i, factors), 0, 1)
            ]

        n = len(embedding.mean)
        return SelectionBounds(predictives, n, n_draws, factors, level, bags.ids, bags.id_name)


def _parts(model: Any, bags: Any, embedding: Embedding, draws: dict[str, Array]) -> list[Any]:
    """The points of each sample, and the number there of each of the bags, -1 if it has none."""
    eta = draws.get("eta", np.ones(len(draws["w"])))
    if not isinstance(bags, Samples):
        own = (embedding.sizes, model.feature_map_, model.coordinates_, draws["w"], eta)
        return [(np.arange(len(bags)), SelectedPoints(bags, *own))]
    found, of = [], model.coordinates_.sample
    for m, (name, features) in enumerate(model.feature_map_.items()):
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
