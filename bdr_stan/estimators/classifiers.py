"""Classifiers of bags: logistic regression on mean embeddings, and probit BDR."""

from collections.abc import Mapping, Sequence

from scipy.special import log_expit, log_ndtr

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.prior import check_embedding_prior
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.base import BagClassifier, with_defaults
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.influence import contrast, influence, influence_along
from bdr_stan.estimators.prediction import predict_class, predict_proba
from bdr_stan.estimators.validation import check_choice, check_positive
from bdr_stan.kernels import Kernel
from bdr_stan.models.bdr_probit import bdr_probit_model
from bdr_stan.models.blr_logit import blr_logit_model
from bdr_stan.models.latent import class_predictive
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import CLASSES
from bdr_stan.predictive import ClassPredictive
from bdr_stan.types import Array, ArrayLike, PathName


class BLRClassifier(BagClassifier, EmbeddingEstimator):
    """Bayesian logistic regression on the empirical mean embeddings of bags of two classes.

    Takes each bag's mean embedding as exact, however few its points. Use `BDRClassifier` where
    bag sizes differ.

    Parameters
    ----------
    n_landmarks : int, default 60
    kernel : str or Kernel, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, such as "matern32" or "cauchy", or a kernel:
        ``RBF(columns=["age"]) + Matern32(columns=["income"])``.
    bandwidth : float, array, shape (p,), "scaled", "ard" or "median", default "scaled"
        Of a kernel given by name, in the units of the points. "median" is
        sqrt(median squared distance / 2) on columns as they are; "scaled" and "ard" the same on
        columns divided by their standard deviations.
    bandwidth_scale : float, default 1
        Factor on all bandwidths.
    landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    covariates : list of str, optional
        Columns of `bags.metadata` that enter linearly beside the embedding: numbers, or text,
        categories and booleans with a weight for each level. New bags need these columns, too.
    prior : dict, optional
        Numbers that replace the defaults; `priors()` shows them after a fit.
    method : {"nuts", "optimize", "laplace", "pathfinder"}, default "nuts"
        All but NUTS hold rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``blr_logit.stan`` (``bdr-stan eject blr_logit my_blr_logit.stan``).
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels, sorted; the model is of the probability of the second.
    idata : InferenceData or DataTree
        posterior: intercept, rho, w (component), beta (landmark), with covariates gamma
        (covariate, as in `BDR`), on the scale of log odds;
        observed labels as 0 and 1.
    landmarks_ : array, shape (d, p)
    kernel_ : Kernel
        With its columns as indices and its bandwidths as numbers.
    bandwidth_ : float or array, shape (p,)
        Of a kernel that has a single one.

    Notes
    -----
    The model stands at the head of ``stan/blr_logit.stan``.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(1.0 if label == "well" else -1.0, size=(30, 1)) for label in y]
    >>> model = BLRClassifier(n_landmarks=6, method="optimize").fit(bags, y, seed=1)
    >>> new = [np.full((30, 1), -1.0), np.full((30, 1), 1.0)]
    >>> model.predict(new)
    array(['sick', 'well'], dtype='<U4')
    >>> bool(model.predict_proba(new)[1, 1] > 0.9)
    True
    """

    prior_texts = CLASSES

    def __init__(
        self,
        n_landmarks: int = 60,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        *,
        bandwidth_scale: float = 1.0,
        landmarks: str | ArrayLike = "kmeans",
        covariates: Sequence[str] | None = None,
        prior: Mapping[str, float] | None = None,
        method: str = "nuts",
        stan_file: PathName | None = None,
        random_state: int | None = None,
    ):
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.landmarks = landmarks
        self.covariates = covariates
        self.prior = prior
        self.method = method
        self.stan_file = stan_file
        self.random_state = random_state

    predict, predict_proba = predict_class, predict_proba
    influence, influence_along, contrast = influence, influence_along, contrast

    def _model(self, training: TrainingFeatures, y: Array) -> Model:
        return blr_logit_model(training.embedding, y, prior=self.prior)

    def _predictive(
        self, at: Coordinates, embedding: Embedding, draws: dict[str, Array], classes: Array | None
    ) -> ClassPredictive:
        return class_predictive(
            at,
            embedding,
            classes,
            log_expit,
            intercept=draws["intercept"],
            w=draws["w"],
            gamma=draws.get("gamma"),
        )


class BDRClassifier(BagClassifier, EmbeddingEstimator):
    """Bayesian distribution regression of two classes: weights and embeddings both uncertain.

    A bag's class depends on its true mean embedding, of which its points are a sample. What the
    points of a small bag leave open of it draws the bag's probabilities towards the middle.

    Parameters
    ----------
    n_landmarks : int, default 60
    kernel : str or Kernel, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, such as "matern32" or "cauchy", or a kernel:
        ``RBF(columns=["age"]) + Matern32(columns=["income"])``.
    bandwidth : float, array, shape (p,), "scaled", "ard" or "median", default "scaled"
        Of a kernel given by name, in the units of the points. "median" is
        sqrt(median squared distance / 2) on columns as they are; "scaled" and "ard" the same on
        columns divided by their standard deviations.
    covariance : {"average", "pooled", "identity"}, default "average"
        Within-bag covariance of the kernel features, as in `BDR`.
    embedding_prior : {"empirical", "kernel", "convolution"}, default "empirical"
        Prior covariance of the embeddings, as in `BDR`.
    measure_scale : float or "evidence", default "evidence"
        For embedding_prior "convolution", as in `BDR`.
    tau : float, default 1
        Standard deviation for covariance "identity".
    jitter : float, default 1e-4
        Added to the diagonals of the kernel matrix and of the within-bag covariance.
    bandwidth_scale : float, default 1
        Factor on all bandwidths.
    landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    covariates : list of str, optional
        Columns of `bags.metadata` that enter linearly beside the embedding: numbers, or text,
        categories and booleans with a weight for each level. New bags need these columns, too.
    prior : dict, optional
        Numbers that replace the defaults; `priors()` shows them after a fit.
    method : {"nuts", "optimize", "laplace", "pathfinder"}
        Default "nuts" for BDRClassifier, "optimize" for ShrinkageClassifier. All but NUTS hold
        rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``bdr_probit.stan`` (``bdr-stan eject bdr_probit my_bdr_probit.stan``).
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels, sorted; the model is of the probability of the second.
    idata : InferenceData or DataTree
        posterior: intercept, rho, w (component), beta (landmark), with covariates gamma
        (covariate, as in `BDR`), in sds of the latent noise, and eta;
        observed labels as 0 and 1.
    landmarks_ : array, shape (d, p)
    kernel_ : Kernel
        With its columns as indices and its bandwidths as numbers.
    bandwidth_ : float or array, shape (p,)
        Of a kernel that has a single one.

    Notes
    -----
    The model stands at the head of ``stan/bdr_probit.stan``. Source: Law et al. (2018), appendix
    B, in the joint basis of Sigma and R; the paper fixes eta.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BDRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(1.0 if label == "well" else -1.0, size=(30, 1)) for label in y]
    >>> model = BDRClassifier(n_landmarks=6)
    >>> model = model.fit(bags, y, chains=2, seed=1)
    >>> one_point, thirty = model.predict_proba([np.full((1, 1), 1.0), np.full((30, 1), 1.0)])
    >>> bool(0.5 < one_point[1] < thirty[1])
    True
    """

    prior_texts = CLASSES

    def __init__(
        self,
        n_landmarks: int = 60,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        covariance: str = "average",
        *,
        embedding_prior: str = "empirical",
        measure_scale: float | str = "evidence",
        tau: float = 1.0,
        jitter: float = 1e-4,
        bandwidth_scale: float = 1.0,
        landmarks: str | ArrayLike = "kmeans",
        covariates: Sequence[str] | None = None,
        prior: Mapping[str, float] | None = None,
        method: str = "nuts",
        stan_file: PathName | None = None,
        random_state: int | None = None,
    ):
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.covariance = covariance
        self.embedding_prior = embedding_prior
        self.measure_scale = measure_scale
        self.tau = tau
        self.jitter = jitter
        self.bandwidth_scale = bandwidth_scale
        self.landmarks = landmarks
        self.covariates = covariates
        self.prior = prior
        self.method = method
        self.stan_file = stan_file
        self.random_state = random_state

    predict, predict_proba = predict_class, predict_proba
    influence, influence_along, contrast = influence, influence_along, contrast

    def check_parameters(self) -> None:
        EmbeddingEstimator.check_parameters(self)
        check_choice(self.covariance, "covariance", ("average", "pooled", "identity"))
        check_positive(tau=self.tau)
        check_embedding_prior(self.embedding_prior, self.measure_scale, self.jitter, self.kernel)

    def _model(self, training: TrainingFeatures, y: Array) -> Model:
        return bdr_probit_model(
            training,
            y,
            embedding_prior=self.embedding_prior,
            measure_scale=self.measure_scale,
            jitter=self.jitter,
            prior=self.prior,
        )

    def _predictive(
        self, at: Coordinates, embedding: Embedding, draws: dict[str, Array], classes: Array | None
    ) -> ClassPredictive:
        return class_predictive(
            at,
            embedding,
            classes,
            log_ndtr,
            intercept=draws["intercept"],
            w=draws["w"],
            eta=draws["eta"],
            gamma=draws.get("gamma"),
        )


class ShrinkageClassifier(BagClassifier, EmbeddingEstimator):
    """Shrinkage estimator of two classes: the mode of the model of `BDRClassifier`.

    Parameters and attributes are those of `BDRClassifier`, with method "optimize" by default:
    weights, intercept and eta at their joint mode, rho at its marginal mode. The embedding's
    uncertainty still counts; that of the weights is left out.

    Notes
    -----
    Source: Law et al. (2018), section 3.2 and appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import ShrinkageClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(1.0 if label == "well" else -1.0, size=(30, 1)) for label in y]
    >>> model = ShrinkageClassifier(n_landmarks=6).fit(bags, y, seed=1)
    >>> new = [np.full((30, 1), -1.0), np.full((30, 1), 1.0)]
    >>> model.predict(new)
    array(['sick', 'well'], dtype='<U4')
    >>> model.predict_proba(new).shape
    (2, 2)
    """

    prior_texts = CLASSES

    __init__ = with_defaults(BDRClassifier.__init__, method="optimize")
    predict, predict_proba = predict_class, predict_proba
    influence, influence_along, contrast = influence, influence_along, contrast
    check_parameters = BDRClassifier.check_parameters
    _model, _predictive = BDRClassifier._model, BDRClassifier._predictive
