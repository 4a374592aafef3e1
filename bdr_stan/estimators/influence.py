"""What a linear function of the embedding says of points and of changed bags.

Functions that the classes of estimators carry as methods.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.estimators.points import as_points, evenly_spaced
from bdr_stan.estimators.validation import check_counts, check_seed
from bdr_stan.predictive import Contrast, PointPredictive
from bdr_stan.predictive.influence import (
    AlongColumn,
    find_column,
    posterior_of_influence,
    without_gaps,
)
from bdr_stan.types import Array


def contrast(self: Any, bags_a: BagsLike, bags_b: BagsLike) -> Contrast:
    """Posterior of the difference of each bag's expected label between two versions of it.

    Parameters
    ----------
    bags_a, bags_b : Bags, or lists of n arrays, shapes (n_points, p)
        Two versions of the same n bags: label of `bags_a` less that of `bags_b`; of classes
        the probability of the second.

    Returns
    -------
    Contrast
        With `mean`, `sd`, `quantile(q)`, `interval(level)` and `draws`.

    Raises
    ------
    ValueError
        The versions have different numbers of bags.
    """
    versions = self._two_versions(bags_a, bags_b)
    first, second = (self._by_draws(self.embed(bags)) for bags in versions)
    return Contrast.between(first, second)


def influence(self: Any, points: Any, *, n_draws: int = 1000) -> PointPredictive:
    """Posterior of f at points: a label is the intercept plus the average of f over its bag.

    f(x) = (phi(x) - m0)' beta, m0 the average embedding of the training bags, over which f
    averages 0. Covariates add to the label beside it.

    Parameters
    ----------
    points : array, shape (n, p), Bags, or DataFrame with the columns of the fit
        A memory map is read chunk by chunk.
    n_draws : int, default 1000
        Draws of the posterior that are used, evenly spaced.

    Returns
    -------
    PointPredictive
        With `mean`, `sd`, `quantile(q)`, `interval(level)`, each of shape (n,), in units of y,
        of classes on the scale of the latent function; computed in chunks when asked for.
    """
    bags = self._like_training(as_points(self, points), need_weights=False)
    return posterior_of_influence(
        bags.read_checked, len(bags.points), self._feature_map, *_function(self, n_draws)
    )


def influence_along(
    self: Any,
    column: str | int,
    bags: BagsLike | None = None,
    *,
    n_points: int = 500,
    n_draws: int = 1000,
    seed: int = 0,
) -> tuple[Array, PointPredictive]:
    """Posterior of the influence of one column: its partial dependence.

    Each value is set in a sample of the points, which keep their other columns, and f averaged
    over these.

    Parameters
    ----------
    column : str or int
        Of the table that the bags were made of, of the points by name, or by number.
    bags : Bags, or list of arrays, optional
        Whose points are sampled; default the landmarks stand for them.
    n_points : int, default 500
        Points of the sample.
    n_draws : int, default 1000
        Draws of the posterior that are used, evenly spaced.
    seed : int, default 0
        Of the sample.

    Returns
    -------
    values : array, shape (m,)
        Those of the column in the sample, or where they are more than 12, 60 from the 1st to
        the 99th percentile; of a category its levels.
    influence : PointPredictive, of m values
        As that of `influence`.

    Raises
    ------
    ValueError
        There is no such column.
    """
    check_counts(n_points=n_points)
    check_seed(seed, "seed")
    of_landmarks = _function(self, n_draws)
    names, p = getattr(self, "feature_names_in_", None), self.n_features_in_
    where = find_column(column, p, names, self.columns_)
    if bags is None:
        sample = without_gaps(self.landmarks_)
    else:
        like = self._like_training(bags, need_weights=False)
        sample = like.sample_points(n_points, np.random.default_rng(seed))
    values = where.values(sample)
    along = AlongColumn(self._feature_map, where, sample)
    found = posterior_of_influence(
        lambda start, stop: values[start:stop, None], len(values), along, *of_landmarks
    )
    return (values if where.levels is None else np.array(where.levels)), found


def _function(model, n_draws):
    """Draws of the weights of the landmarks, and the embedding at which f is 0."""
    check_counts(n_draws=n_draws)
    check_is_fitted(model, "result_")
    return evenly_spaced(model.result_.draws("beta"), n_draws), model.coordinates_.m0
