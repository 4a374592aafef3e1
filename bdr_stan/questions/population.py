"""Weighted sums of labels over groups of bags (poststratification), with their dependence.

docs/explanation/model.md has the formulas of the sums, and of the prior that bags of another
population have in the coordinates of the fit, with their own moments.
"""

from typing import Any

import numpy as np
from scipy.sparse import csc_array

from bdr_stan.bags import BagsLike
from bdr_stan.bags.groups import groups_of_bags, sum_coefficients
from bdr_stan.embedding.coordinates import Coordinates, joined
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import between_bag_covariance, joint_basis, shrinkage_factors
from bdr_stan.models.latent import with_draws_of_new_levels
from bdr_stan.predictive.classes import of_category
from bdr_stan.predictive.mixture import bags_at_once
from bdr_stan.predictive.normal import Predictive
from bdr_stan.questions.protocol import Fit
from bdr_stan.types import Array, ArrayLike

_MIN_BAGS = 30  # for the moments of a prior; fewer are not shrunk
_LEAST_VARIANCE = 1e-6  # of the coordinates; their prior variances in the fit are near 1
_MIN_TO_COMPARE = 10  # bags, whose average embedding is compared with the training bags'
_CHANCE = 5  # standard errors of an average shift that is due to chance
_FLAT = 1e6  # prior variance, in units of the largest lambda, that shrinks nothing


class Population(Fit):
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
        names, sums = _sums(self, bags, by, weights, total, category)
        if minus is not None:
            if weights is not None and not isinstance(weights, str):
                raise ValueError(
                    "with minus= weights are a column of the metadata, which both have: name it"
                )
            others, subtracted = _sums(self, minus, by, weights, total, category)
            odd = set(names.tolist()) ^ set(others.tolist())
            if odd:
                raise ValueError(
                    f"group {min(odd, key=str)!r} is in only one of the two populations: leave it "
                    "out"
                )
            sums = difference(sums, subtracted)
        sums.ids = names
        sums.id_name = "group" if by is None else by if isinstance(by, str) else ", ".join(by)
        return sums


def _sums(model, bags, by, weights, total, category):
    """Names of the groups, and the distribution of their sums."""
    bags = model.like_training(bags)
    bags.check_order(weights=weights)
    names, group = groups_of_bags(bags, by)
    label_data, embedding = model.labels_of_new(bags), model.embedding_of(bags)
    counted = label_data.trials if label_data.exposure is None else label_data.exposure
    rates = counted is not None and not total
    weights = counted if rates and weights is None else weights
    coefficients = sum_coefficients(bags, group, len(names), weights, total)
    if rates:
        coefficients.data /= counted  # one bag per column
    draws = with_draws_of_new_levels(embedding, model.draws())
    coordinates, draws = own_population(model.coordinates_, embedding, draws)
    labels = model.predictive_of_draws(coordinates, embedding, label_data, draws)
    return names, weighted_sums(of_category(labels, category), coefficients)


def weighted_sums(predictive: Any, coefficients: csc_array) -> Predictive:
    """Distribution of sums of labels, one for each row of `coefficients`, shape (k, n)."""
    mean, variance = np.zeros((2, coefficients.shape[0], predictive.n_draws))
    for i in bags_at_once(len(predictive), predictive.n_draws):
        label_mean, label_variance = predictive.label_moments(i)
        mean += coefficients[:, i] @ label_mean.T
        variance += coefficients[:, i] ** 2 @ label_variance.T
    return _normal(mean.T, np.sqrt(variance.T), predictive.weights)


def difference(first: Predictive, second: Predictive) -> Predictive:
    """Distribution of the differences of sums under the same draws, independent given each."""
    every = np.arange(len(first))
    (mean_a, sd_a), (mean_b, sd_b) = first.components(every), second.components(every)
    return _normal(mean_a - mean_b, np.hypot(sd_a, sd_b), first.weights)


def _normal(mean: Array, sd: Array, weights: Array | None) -> Predictive:
    """Predictive of normals under each draw, shapes (S, k)."""
    n_draws, n_groups = mean.shape
    return Predictive(lambda k: (mean[:, k], sd[:, k]), n_groups, n_draws, weights)


def own_population(
    coordinates: Coordinates, embedding: Embedding, draws: dict[str, Array]
) -> tuple[Coordinates, dict[str, Array]]:
    """Coordinates of the embedded bags' own prior, and the draws of intercept, w and eta there."""
    if not np.any(coordinates.lam):  # exact embeddings
        return coordinates, draws
    if coordinates.sample is None:
        return _own_prior(coordinates, embedding.sizes, embedding.mean, draws)
    parts, moved = [], []
    for m in range(draws["eta"].shape[1]):
        columns, has = coordinates.sample == m, embedding.sizes[:, m] > 0
        part = coordinates.of_sample(m)
        of_part = {
            "intercept": draws["intercept"] * (m == 0),
            "w": draws["w"][:, columns],
            "eta": draws["eta"][:, m],
        }
        prior = part, of_part  # if few bags have the sample and may be unusual
        if has.sum() >= _MIN_BAGS or has.all():
            prior = _own_prior(
                part, embedding.sizes[has, m], embedding.mean[has][:, columns], of_part
            )
        parts.append(prior[0])
        moved.append(prior[1])
    return joined(parts), draws | {
        "intercept": np.sum([part_draws["intercept"] for part_draws in moved], axis=0),
        "w": np.hstack([part_draws["w"] for part_draws in moved]),
        "eta": np.column_stack([part_draws["eta"] for part_draws in moved]),
    }


def _own_prior(coordinates, sizes, mean, draws):
    """The same of bags that all have one sample."""
    lam, w = coordinates.lam, draws["w"]
    if len(sizes) < _MIN_BAGS:
        return coordinates, draws | {"eta": np.full(len(w), _FLAT * max(1.0, lam.max()))}
    z = coordinates.transform(mean)
    moved_embedding = Embedding(sizes, z, None)
    B = between_bag_covariance(moved_embedding, np.diag(lam)) + _LEAST_VARIANCE * np.eye(len(lam))
    own_lam, V = joint_basis(np.diag(lam), B)
    moved = Coordinates(mean.mean(axis=0), coordinates.basis @ V, own_lam, np.eye(len(lam)))
    return moved, draws | {
        "intercept": draws["intercept"] + w @ moved_embedding.m0,
        "w": np.linalg.solve(V, w.T).T,
        "eta": np.ones(len(w)),
    }


def shift_by_shrinkage(
    coordinates: Coordinates, embedding: Embedding, draws: dict[str, Array]
) -> tuple[float, float]:
    """Average change of the linear predictor by shrinkage, and its sd; 0 and 0 if it may be chance.

    Embeddings of bags like the training bags differ from m0 in all directions: changes average out.
    """
    if len(embedding.sizes) < _MIN_TO_COMPARE:
        return 0.0, 0.0
    w, eta = draws["w"].mean(axis=0), draws["eta"].mean(axis=0, keepdims=True)
    eta, sizes = coordinates.by_coordinate(eta)[0], coordinates.by_coordinate(embedding.sizes)
    factors, z = (
        shrinkage_factors(sizes, coordinates.lam, eta),
        coordinates.transform(embedding.mean),
    )
    has_points = np.broadcast_to(sizes > 0, z.shape)  # of the others the change is not by shrinkage
    z, left = np.where(has_points, z, 0), np.where(has_points, 1 - factors, 0)
    changes = (left * z) @ w
    # By chance z has the variance eta + lam / N = eta / kept.
    variance = np.divide(eta, factors, out=np.zeros_like(left), where=has_points)
    by_chance = np.sqrt(np.sum((w * left) ** 2 * variance) / len(z) ** 2)
    sd = np.sqrt(np.mean(eta * (1 - factors) @ w**2))
    shift = -float(np.mean(changes))
    return (shift, float(sd)) if abs(shift) > max(sd, _CHANCE * by_chance) else (0.0, 0.0)
