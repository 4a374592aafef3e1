"""Columns of points with coefficients per bag, integrated out of normal totals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels import Linear
from bdr_stan.types import Array, Seed

INTERCEPT = "intercept"


@dataclass(frozen=True)
class EffectColumns:
    """g(x) = [1, columns of x, standardised]; a bag's rates differ by g(x)' c_a."""

    names: list[str]  # K, the first for the constant
    index: Array  # of the columns in points, int, shape (K,); -1 for the constant
    centre: Array  # shape (K,)
    scale: Array

    def __call__(self, points: Array) -> Array:
        """g at points, shape (n, K)."""
        columns = (points[:, self.index] - self.centre) / self.scale
        columns[:, 0] = 1.0
        return columns

    def sums(self, mean_points: Array, total: Array) -> Array:
        """sum_j p_j g_j of bags with these mean points and total weights, shape (n, K)."""
        return total[:, None] * self(mean_points)


def effect_columns(bags: Bags, wanted: bool | Sequence[Any]) -> EffectColumns:
    """The constant and the wanted columns; ValueError for one that is missing or constant."""
    names = bags.features or [f"x{k}" for k in range(bags.n_features)]
    index = [] if wanted is True else _indices(bags, list(wanted))  # type: ignore[arg-type]
    centre, scale = np.zeros(len(index) + 1), np.ones(len(index) + 1)
    if index:
        values = bags.points[:, index]
        centre[1:], scale[1:] = values.mean(axis=0), values.std(axis=0)
        for k, column in enumerate(index, 1):
            if not scale[k] > 1e-9 * abs(centre[k]):
                raise ValueError(
                    f"bag_effects: column {names[column]!r} is the same at all points, so its "
                    "coefficients cannot differ: leave it out"
                )
    return EffectColumns(
        [INTERCEPT, *(names[k] for k in index)], np.array([-1, *index]), centre, scale
    )


def _indices(bags, columns):
    """Indices of columns by name; of a category all values but the first, which others imply."""
    indices = []
    for column in columns:
        try:
            of_column = list(Linear(columns=[column]).on(bags.features, bags.n_features).columns)
        except ValueError as error:
            raise ValueError(str(error).replace("Polynomial", "bag_effects")) from None
        indices += of_column[len(of_column) > 1 :]
    if len(set(indices)) < len(indices):
        raise ValueError(f"bag_effects name a column twice: {columns}")
    return indices


def covariances(draws: Mapping[str, Array]) -> Array:
    """Sigma of the effects under each draw, shape (S, K, K)."""
    sd = draws["effect_sd"]
    return sd[:, :, None] * draws["effect_correlation"] * sd[:, None, :]


def effect_variance(columns: Array, covariance: Array) -> Array:
    """G_a' Sigma G_a of bags with sums G, shape (n, K), under each draw, shape (S, n)."""
    return np.einsum("nk,skl,nl->sn", columns, covariance, columns, optimize=True)


def effects_given_totals(
    residual: Array, columns: Array, noise: Array, covariance: Array, seed: Seed
) -> Array:
    """Effects of the bags drawn given their labels, shape (S, n, K); for a single draw their means.

    `residual` are labels minus their means, `noise` their variances given the effects, (S, n).
    """
    (S, n), K = residual.shape, columns.shape[1]
    rng = np.random.default_rng(seed)
    effects = np.zeros((S, n, K))
    for s in range(S):
        shared = columns @ covariance[s]  # covariance of the effects and the label
        nu = np.sum(columns * shared, axis=1) + noise[s]
        # Matheron's rule: a draw from the prior, moved by the label minus its own label.
        if S > 1:
            effects[s] = rng.multivariate_normal(np.zeros(K), covariance[s], n, method="eigh")
        label = np.sum(columns * effects[s], axis=1)
        if S > 1:
            label += np.sqrt(noise[s]) * rng.standard_normal(n)
        effects[s] += shared * ((residual[s] - label) / nu)[:, None]
    return effects


def subsets_given_totals(
    mean: Array,
    residual: Array,
    subset: Array,
    bag: Array,
    subset_noise: Array,
    bag_noise: Array,
    covariance: Array,
) -> tuple[Array, Array]:
    """Mean and sd of the totals of subsets given their bags' totals, shapes (S, m).

    `mean` of the subsets without effects and `residual` of the bags, shapes (S, m); `subset` and
    `bag` sums of the effects' columns, shapes (m, K); the noise variances of their totals, (S, m).
    A subset's total is the total of its points' outcomes, so all parts of a bag add up to the bag's
    total.
    """
    shared = np.einsum("mk,skl,ml->sm", subset, covariance, bag, optimize=True) + subset_noise
    of_subset = effect_variance(subset, covariance) + subset_noise
    of_bag = effect_variance(bag, covariance) + bag_noise
    variance = np.maximum(of_subset - shared**2 / of_bag, 0.0)
    return mean + shared / of_bag * residual, np.sqrt(variance)
