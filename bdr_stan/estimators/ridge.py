"""Ridge regression on mean embeddings, without a predictive distribution.

The weights are least squares with an L2 penalty, in closed form for a whole grid of penalties from
one singular value decomposition of the training embeddings (`bdr_stan.kernel_means.ridge_path`).
"""

from dataclasses import KW_ONLY
from functools import partial
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike, as_bags, check_outputs, output_names, values_of_bags
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.training import TrainingFeatures, training_features
from bdr_stan.estimators.base import BagRegressor
from bdr_stan.estimators.validation import (
    LANDMARKS,
    check_alpha,
    check_landmarks,
    check_positive,
    check_validation_chooses,
    checked_validation,
    labels_of_training,
)
from bdr_stan.kernel_means.ridge_path import RidgePath
from bdr_stan.kernels import Kernel, check_kernel_and_bandwidth, landmark_features
from bdr_stan.parameters import estimator
from bdr_stan.results.arviz_groups import estimate_groups
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike, Seed


@estimator
class RBFNetwork(BagRegressor):
    """Ridge regression on the mean embeddings of bags: point predictions, and quick.

    Treats each bag's mean embedding as exact, however few its points, and has no predictive
    distribution: use `BDR` for one.

    Parameters
    ----------
    n_landmarks : int, default 60
        At most: k-means finds fewer if the points have fewer different values.
    alpha : "loo", float or sequence of float, default "loo"
        Penalty on the squared weights, > 0; the intercept is free. From several the one with the
        lowest squared error on the validation bags of `fit`, else of leave-one-out
        cross-validation. "loo": 49 from 10^-12 to 1 times the largest squared singular value of the
        centred training embeddings.

    Attributes
    ----------
    alpha_ : float
        Penalty chosen.
    idata : InferenceData or DataTree
        posterior: intercept (units of y) and beta (landmark), a single draw that is the
        estimate; its attribute inference_method is "ridge".
    landmarks_ : array, shape (d, p)
    kernel_ : Kernel
        With its columns as indices and its bandwidths as numbers.
    bandwidth_ : float or array, shape (p,)
        Bandwidth of the kernel, if it has a single one.

    Notes
    -----
    Minimises sum_i (y_i - intercept - (mu_i - m0)' beta)^2 + alpha |beta|^2, m0 the average
    training embedding. Source: Law et al. (2018), section 5, the RBF network, which they fit by
    stochastic gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import RBFNetwork
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(100, 1)) for mean in y]
    >>> model = RBFNetwork(n_landmarks=10).fit(bags[:30], y[:30], seed=1)
    >>> bool(model.score(bags[30:], y[30:]) > 0.9)
    True
    """

    takes_parts = True
    takes_outputs = True

    n_landmarks: int = 60
    bandwidth: ArrayLike | str = "scaled"
    _: KW_ONLY
    kernel: str | Kernel = "rbf"
    alpha: str | ArrayLike = "loo"
    bandwidth_scale: float = 1.0
    landmarks: str | ArrayLike = "kmeans"
    random_state: int | None = None

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        validation: tuple[BagsLike, ArrayLike] | None = None,
        seed: int | None = None,
    ) -> Self:
        """Fit to bags and their labels.

        Parameters
        ----------
        """
        bags = as_bags(bags, in_parts=self.takes_parts)
        outputs = output_names(y)
        check_outputs(bags, y, outputs)
        y = values_of_bags(bags, y, "y")  # with their names
        self.check_parameters()
        if validation is not None:
            check_validation_chooses(self.alpha)
            check = partial(check_outputs, outputs=outputs)
            held_out, held_out_y = checked_validation(validation, bags, check)
        seed = self.checked_seed(seed)
        training = self.training_features(bags, seed=seed)
        if validation is not None:
            validation = self.embed(held_out, training), held_out_y
        return self.fit_features(training, y, validation=validation)

    def fit_features(
        self,
        training: TrainingFeatures,
        y: ArrayLike,
        *,
        validation: tuple[Embedding, ArrayLike] | None = None,
        seed: Seed = None,
    ) -> Self:
        """Fit to `training`, from `training_features`, and labels `y`; `seed` has no use.

        Parameters
        ----------
        validation : (Embedding, y), optional
            Embedded bags and labels: their squared error selects alpha.

        Returns
        -------
        self
        """
        outputs = output_names(y)
        y = labels_of_training(training, y, several=True)
        self._forget()
        y = np.asarray(y, float)
        path = RidgePath(training.embedding.mean, y)
        alphas = path.alphas(self.alpha)
        weights = path.weights(alphas)
        held_out = None
        if validation is not None:
            check_validation_chooses(self.alpha)
            predicted = path.level + np.tensordot(validation[0].mean - path.origin, weights, 1)
            held_out = predicted, np.asarray(validation[1], float)
        best = path.best(alphas, held_out)
        groups = estimate_groups(
            {"intercept": path.level, "beta": weights[:, best]},
            "ridge",
            {
                "landmarks": (training.landmarks, ["landmark", "feature"]),
                "m0": (path.origin, ["landmark"]),
                "alpha": (float(alphas[best]), []),
                "bag_size": (training.embedding.sizes, ["bag"]),
            },
            training.record.index,
            y,
            outputs,
        )
        settings = {"kernel": training.kernel, "outputs": outputs, **training.record.settings}
        return self._keep(Result(groups, settings))

    def training_features(self, bags: BagsLike, *, seed: int | None = None) -> TrainingFeatures:
        """Choose landmarks and bandwidth, and embed training bags in one pass over their points.

        Returns
        -------
        TrainingFeatures
            For `fit_features`; several models may share it.
        """
        return training_features(
            bags,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            bandwidth_scale=self.bandwidth_scale,
            n_landmarks=self.n_landmarks,
            landmarks=self.landmarks,
            seed=self.checked_seed(seed),
        )

    def embed(self, bags: BagsLike, training: TrainingFeatures | None = None) -> Embedding:
        """Mean embeddings of new bags, for training features or, by default, the fit."""
        if training is None:
            bags = self.like_training(bags)
        return embed(bags, self.feature_map_ if training is None else training.feature_map)

    def predict(self, bags: BagsLike) -> Array:
        return self.predict_features(self.embed(bags))

    def predict_features(self, embedding: Embedding) -> Array:
        """Predicted labels of bags, shape (n,), from their `embedding` by `embed`."""
        check_is_fitted(self, "result_")
        centred = embedding.mean - self.result_.constants["m0"]
        return self.result_.draws("intercept")[0] + centred @ self.result_.draws("beta")[0]

    def check_parameters(self) -> None:
        check_kernel_and_bandwidth(self.kernel, self.bandwidth)
        check_positive(bandwidth_scale=self.bandwidth_scale)
        check_landmarks(self.landmarks, self.n_landmarks, LANDMARKS)
        check_alpha(self.alpha)

    # ------------------------------------------------------------ parts of a fit

    def _set_fitted(self, result):
        constants = result.constants
        self.alpha_ = float(constants["alpha"])
        self.landmarks_, self.kernel_ = constants["landmarks"], result.settings["kernel"]
        if hasattr(self.kernel_, "bandwidth"):
            self.bandwidth_ = self.kernel_.lengths
        self.feature_map_ = landmark_features(self.kernel_, self.landmarks_)
