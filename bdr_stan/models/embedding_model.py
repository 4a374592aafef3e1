"""What regressions on mean embeddings share, and the variance of linear effects by evidence."""

from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cholesky

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.coordinates import joint_coordinates, principal_axes
from bdr_stan.embedding.prior import JITTER, eta_prior, landmark_matrices, with_prior_mean
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import Kernel, landmark_features
from bdr_stan.kernels.names import LINEAR_VARIANCE, with_linear_variance
from bdr_stan.labels import Labels
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.mode import Mode
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.types import Array, ArrayLike

# Variances of linear effects that are tried. A factor of 10 changes predictions little.
_VARIANCES = LINEAR_VARIANCE * 10.0 ** np.arange(4)


@dataclass
class EmbeddingModel(LatentGaussianModel):
    """A regression on mean embeddings, uncertain or exact, in coordinates for its computations."""

    embedding: Any  # an `Embedding`, or a `CompressedEmbedding` of normal labels
    labels: Labels  # in the form of the model
    _: KW_ONLY
    coordinates: Any = None  # `Coordinates`, by default principal axes
    # Default priors that embeddings alone determine, as of eta; none of exact embeddings.
    embedding_priors: Mapping[str, float] = field(default_factory=dict)

    most_bags: ClassVar[float] = np.inf  # that choose constants of the prior

    def __post_init__(self) -> None:
        if self.coordinates is None:
            self.coordinates = principal_axes(self.embedding)
        self.prior_factor = self.coordinates.prior_factor
        self.weight_basis = self.coordinates.basis
        super().__post_init__()

    @classmethod
    def of_training(
        cls,
        training: TrainingFeatures,
        labels: Labels,
        *arguments: Any,
        embedding_prior: str | Kernel = "empirical",
        prior_mean: str | ArrayLike = "average",
        **options: Any,
    ) -> Self:
        """The model in the joint basis of uncertain embeddings, with the prior of best evidence.

        `arguments` and `options` are further fields. For `embedding_prior` see `landmark_matrices`,
        for `prior_mean` `with_prior_mean`.
        """
        training = with_prior_mean(training, prior_mean)
        K, R, Sigma = landmark_matrices(training, embedding_prior=embedding_prior)
        model_of: Any = partial(
            cls,
            coordinates=joint_coordinates(training.embedding.m0, Sigma, R, K),
            embedding_priors=eta_prior(
                training.embedding, Sigma, R, embedding_prior=embedding_prior
            ),
            terms=training.terms,
            **options,
        )
        judged = model = model_of(training.embedding, labels, *arguments)
        n = labels.n
        if n > 2 * cls.most_bags:
            some = np.random.default_rng(0).choice(n, int(cls.most_bags), replace=False)
            judged = model_of(training.embedding.take(some), labels.take(some), *arguments)
        return model._with_best_linear_variance(judged, training)

    @property
    def y(self) -> Array:
        """Labels in the form of the model, shape (n,)."""
        return self.labels.y

    @cached_property
    def z(self) -> Array:
        """Coordinates of the bags, shape (n, d)."""
        return self.coordinates.transform(self.embedding.mean)

    @cached_property
    def rows(self) -> Rows:
        """Rows [z, x, v, 1, y] of the bags, by default in groups of equal size."""
        columns = np.column_stack([self.z, self.embedding.x])
        return rows_by_size(columns, self.y, self.embedding.sizes)

    @property
    def n_covariates(self) -> int:
        n_effects = sum(self.terms.n_effects)
        return self.rows.rows.shape[1] - len(self.coordinates.lam) - 2 - n_effects

    def prediction_constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        return self.coordinates.constants()

    def _changed(self, **fields: Any) -> Self:
        """The model of the same bags with other fields; what the bags determine is kept."""
        model = copy(self)
        vars(model).update(fields)
        model.__post_init__()
        return model

    def _with_best_linear_variance(self, judged: Self, training: TrainingFeatures) -> Self:
        """The model with the chosen variance of linear effects, if it is free, as a constant.

        `judged`, of all or some of many bags, chooses; of some, the search for the scales of all
        begins at its scales.
        """
        if not training.free_linear_variance and judged is self:
            return self
        V, start, trials = self.coordinates.basis, None, []
        for variance in _VARIANCES if training.free_linear_variance else [None]:
            if variance is not None:
                factor = cholesky(V.T @ precision_for(training, variance) @ V)
                judged = judged._changed(
                    coordinates=replace(self.coordinates, prior_factor=factor),
                    chosen={"linear_variance": (variance, [])},
                )
            scales, mode, _ = most_probable_scales(judged, start=start)
            start = scales if self.terms.names else None  # with many scales the search is slow
            trials.append((penalised_evidence(judged, scales, mode), judged, scales, mode.theta))
        _, best, start_scales, start_weights = max(trials, key=itemgetter(0))
        return self._changed(
            coordinates=best.coordinates,
            chosen=best.chosen,
            start_scales=start_scales,
            start_weights=start_weights,
        )


def penalised_evidence(
    model: LatentGaussianModel, scales: Mapping[str, float], mode: Mode
) -> float:
    """Log evidence of scales plus their log prior density, without its constant."""
    return mode.log_evidence + log_prior_of_scales(model.priors)(**scales)


def precision_for(training: TrainingFeatures, linear_variance: float) -> Array:
    """Prior precision of the landmark weights for this variance of the linear effects, (d, d).

    The features stay as they are: in functions sum_j alpha_j k(x, l_j) of a kernel k with the
    variance v of linear effects, the effects have the variance u a priori if the precision of alpha
    is the kernel matrix for the variance v^2 / u.
    """
    kernel = with_linear_variance(training.kernel, LINEAR_VARIANCE**2 / linear_variance)
    gram = landmark_features(kernel, training.landmarks).gram()
    return gram + JITTER * np.eye(len(gram))


def rows_by_size(z: Array, y: Array, sizes: Array) -> Rows:
    """Rows [z_i, 1, y_i] of all bags, uncompressed, in groups of equal size; z may include x."""
    order = order_by_size(sizes)
    rows = np.column_stack([z, np.ones(len(y)), y])[order]
    bag_size, start, n_bags = np.unique(
        np.asarray(sizes, float)[order],
        axis=0 if np.ndim(sizes) > 1 else None,
        return_index=True,
        return_counts=True,
    )
    return Rows(rows, n_bags, n_bags, bag_size, np.zeros(len(start)), np.ones(len(start)))


def order_by_size(sizes: Array) -> Array:
    """Bags in the order of their size, bags of one size in their own, shape (n,).

    Sizes of several samples have the shape (n, M).
    """
    return np.lexsort(np.reshape(sizes, (len(sizes), -1)).T[::-1])


def size_groups(rows: Rows) -> dict[str, Any]:
    """Data on the groups of bags of one size."""
    return {
        "G": len(rows.length),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
    }
