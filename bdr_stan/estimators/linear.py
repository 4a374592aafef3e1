"""Estimators that are linear in the embedding: a label is the average of a function of points."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.embedding.compressed_embedding import Labels
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.parameters import estimator
from bdr_stan.estimators.points import as_points, evenly_spaced
from bdr_stan.estimators.prediction import ProbabilisticClassifier, ProbabilisticRegressor
from bdr_stan.estimators.validation import check_choice, check_counts, check_flags, check_seed
from bdr_stan.models.label_noise import LABEL_NOISE
from bdr_stan.models.latent import class_predictive, label_predictive
from bdr_stan.posterior.priors import CLASSES, REGRESSION
from bdr_stan.predictive import PointPredictive
from bdr_stan.predictive.influence import (
    AlongColumn,
    find_column,
    posterior_of_influence,
    without_gaps,
)
from bdr_stan.types import Array


@estimator
class LinearEstimator(EmbeddingEstimator):
    """Base of the estimators that are linear in the embedding.

    Parameters
    ----------
    covariates : list of str, optional
        Columns of `bags.metadata` with a linear effect beside the embedding: numbers, or text,
        categories and booleans with a weight for each level. New bags need these columns too.
    """

    _: KW_ONLY
    covariates: Sequence[str] | None = None

    def influence(self, points: Any, *, n_draws: int = 1000) -> PointPredictive:
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
        self,
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


@estimator
class LinearRegressor(ProbabilisticRegressor, LinearEstimator):
    """Base of the estimators whose labels are normal given the embedding.

    Parameters
    ----------
    label_noise : {"constant", "size"}, default "constant"
        "size" adds sigma_point^2 / N_i to the variance sigma^2 of the noise: for labels that are
        averages over the N_i points of their bags, so that small bags have noisier labels. Bags of
        several sizes identify the two scales.
    compress : bool, default True
        False passes one row per bag to the program: for likelihoods that are not normal.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), w (component), beta (landmark), for `BDR`
        eta; with label_noise "size" sigma_point (units of y); with covariates gamma (covariate):
        units of y per unit of a number as given, and the difference of a level from the average
        bag.
    """

    _: KW_ONLY
    label_noise: str = "constant"
    compress: bool = True

    prior_texts = REGRESSION
    takes_label_sd = True
    exact_embeddings: ClassVar[bool] = True  # whether bags of all sizes have equal variances

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.label_noise, "label_noise", LABEL_NOISE)
        check_flags(compress=self.compress)

    def _compressible(self, y: Array, label_sd: Array | None) -> Labels | None:
        if not self.compress:
            return None
        known_variance = None if label_sd is None else label_sd**2
        by_size = self.label_noise == "size" or not self.exact_embeddings
        return Labels(np.asarray(y, float), known_variance, by_size)

    def _predictive(self, embedding, draws, classes, *, label_sd=None):
        known_variance = 0.0 if label_sd is None else label_sd**2
        return label_predictive(
            self.coordinates_, embedding, known_variance=known_variance, **draws
        )


class LinearClassifier(ProbabilisticClassifier, LinearEstimator):
    """Base of the estimators of two classes.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels, sorted; the model is of the probability of the second.
    idata : InferenceData or DataTree
        posterior: intercept, rho, w (component), beta (landmark), with covariates gamma (covariate,
        as in `BDR`), in units of the latent function: log odds for `BLRClassifier`, standard
        deviations of the latent noise for `BDRClassifier`, with eta; observed labels as 0 and 1.
    """

    log_cdf: ClassVar[Callable[[Array], Array]]  # of the latent noise
    prior_texts = CLASSES
    predicts_from = ("intercept", "w", "eta")

    def _predictive(self, embedding, draws, classes):
        return class_predictive(self.coordinates_, embedding, classes, type(self).log_cdf, **draws)


def _function(model, n_draws):
    """Draws of the weights of the landmarks, and the embedding at which f is 0."""
    check_counts(n_draws=n_draws)
    check_is_fitted(model, "result_")
    return evenly_spaced(model.result_.draws("beta"), n_draws), model.coordinates_.m0
