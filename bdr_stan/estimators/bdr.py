"""Bayesian distribution regression and its mode, shrinkage."""

from collections.abc import Mapping, Sequence

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.prior import check_embedding_prior
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.base import BagRegressor, with_defaults
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.influence import contrast, influence, influence_along
from bdr_stan.estimators.prediction import predict_mean
from bdr_stan.estimators.validation import check_choice, check_flags, check_positive
from bdr_stan.kernels import Kernel
from bdr_stan.models.bdr import bdr_model
from bdr_stan.models.label_noise import LABEL_NOISE
from bdr_stan.models.latent import label_predictive
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import REGRESSION
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array, ArrayLike, PathName


class BDR(BagRegressor, EmbeddingEstimator):
    """Bayesian distribution regression: weights and mean embeddings both uncertain.

    A bag's label depends on its true mean embedding, of which its points are a sample. Small
    bags shrink towards the average embedding, and what they leave open widens their predictions.

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
        Within-bag covariance of the kernel features: mean over bags of more than one point,
        weighted by N_i - 1, or tau^2 I.
    embedding_prior : {"empirical", "kernel", "convolution"}, default "empirical"
        Prior covariance R of the embeddings, up to the scale eta. "empirical": their covariance
        between the training bags, estimated by moments, plus a hundredth of it in the shape of
        K. "kernel": K itself, the kernel matrix of the landmarks (r = k in the paper).
        "convolution" (the paper's shrinkageC): r(x, y) the integral of k(x, z) k(z, y) over z
        with weight exp(-|z - c|^2 / (2 l^2)), c the mean of the landmarks, l = `measure_scale`.
    measure_scale : float or "evidence", default "evidence"
        l for "convolution", in the units of the points; with bandwidth "scaled" in standard
        deviations of the columns. "evidence" profiles it: the l of highest evidence. It is no
        parameter of the Stan program because the joint basis, which makes a gradient cheap,
        depends on it.
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
    label_noise : {"constant", "size"}, default "constant"
        "size" adds sigma_point^2 / N_i to the variance sigma^2 of the noise: for labels that are
        averages over the N_i points of their bags, and so are noisier in small bags. Bags of
        several sizes tell the two scales apart.
    prior : dict, optional
        Numbers that replace the data-scaled defaults; `priors()` shows them after a fit.
    method : {"nuts", "optimize", "laplace", "pathfinder"}
        Default "nuts" for BDR, "optimize" for Shrinkage. All but NUTS hold rho at its marginal
        mode.
    stan_file : path, optional
        Your variant of ``bdr.stan`` (``bdr-stan eject bdr my_bdr.stan``).
    compress : bool, default True
        False gives the program one row for each bag: for likelihoods that are not normal.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), eta, w (component), beta (landmark); with
        label_noise "size" sigma_point (units of y); with covariates gamma (covariate): units of y
        per unit of a number as you gave it, and how far a level is from the average bag.
    landmarks_ : array, shape (d, p)
    kernel_ : Kernel
        With its columns as indices and its bandwidths as numbers.
    bandwidth_ : float or array, shape (p,)
        Of a kernel that has a single one.
    measure_scale_ : float
        With "convolution": the l that was used.

    Notes
    -----
    The model stands at the head of ``stan/bdr.stan``. Source: Law et al. (2018), sections 3.2
    and 3.3, in the joint basis of Sigma and R. The paper has R = K and fixes eta; here eta is
    inferred, and R estimated by default, which predicts better and is better calibrated. The prior
    of eta is then as wide as the standard error of that estimate, 0.1 to 2 on the log scale; with
    an R that is assumed its log sd is 2.

    Examples
    --------
    Bags of 2 and of 60 points, the label of each the mean of its distribution.

    >>> import numpy as np
    >>> from bdr_stan import BDR
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [2, 60] * 20)]
    >>> model = BDR(n_landmarks=6).fit(bags, y, chains=2, seed=1)
    >>> small, large = rng.normal(1.0, size=(2, 1)), rng.normal(1.0, size=(60, 1))
    >>> mean, sd = model.predict([small, large], return_std=True)
    >>> bool(sd[0] > sd[1])
    True
    >>> lower, upper = model.predictive([small, large]).interval(0.95)
    >>> bool(np.all((lower < 1.0) & (1.0 < upper)))
    True
    """

    prior_texts = REGRESSION
    takes_label_sd = True

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
        label_noise: str = "constant",
        prior: Mapping[str, float] | None = None,
        method: str = "nuts",
        stan_file: PathName | None = None,
        compress: bool = True,
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
        self.label_noise = label_noise
        self.prior = prior
        self.method = method
        self.stan_file = stan_file
        self.compress = compress
        self.random_state = random_state

    predict = predict_mean
    influence, influence_along, contrast = influence, influence_along, contrast

    def check_parameters(self) -> None:
        EmbeddingEstimator.check_parameters(self)
        check_choice(self.covariance, "covariance", ("average", "pooled", "identity"))
        check_positive(tau=self.tau)
        check_choice(self.label_noise, "label_noise", LABEL_NOISE)
        check_flags(compress=self.compress)
        check_embedding_prior(self.embedding_prior, self.measure_scale, self.jitter, self.kernel)

    def _model(
        self, training: TrainingFeatures, y: Array, *, label_sd: Array | None = None
    ) -> Model:
        return bdr_model(
            training,
            y,
            embedding_prior=self.embedding_prior,
            measure_scale=self.measure_scale,
            jitter=self.jitter,
            prior=self.prior,
            lossless=self.compress,
            label_noise=self.label_noise,
            label_sd=label_sd,
        )

    def _predictive(
        self,
        at: Coordinates,
        embedding: Embedding,
        draws: dict[str, Array],
        classes: Array | None,
        *,
        label_sd: Array | None = None,
    ) -> Predictive:
        return label_predictive(
            at,
            embedding,
            intercept=draws["intercept"],
            w=draws["w"],
            sigma=draws["sigma"],
            sigma_point=draws.get("sigma_point"),
            eta=draws["eta"],
            gamma=draws.get("gamma"),
            known_variance=0.0 if label_sd is None else label_sd**2,
        )


class Shrinkage(BagRegressor, EmbeddingEstimator):
    """Shrinkage estimator: the mode of the BDR model, in fractions of a second.

    Parameters and attributes are those of `BDR`, with method "optimize" by default: weights,
    intercept, sigma and eta at their joint mode, rho at its marginal mode. The embedding's
    uncertainty still widens the predictions of small bags; that of the weights is left out.

    Notes
    -----
    Source: Law et al. (2018), section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Shrinkage
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [2, 60] * 20)]
    >>> model = Shrinkage(n_landmarks=6).fit(bags, y, seed=1)
    >>> point = np.full((1, 1), 2.0)
    >>> mean, sd = model.predict([point, np.repeat(point, 60, axis=0)], return_std=True)
    >>> bool(mean[0] < mean[1]), bool(sd[0] > sd[1])  # one point says less than sixty
    (True, True)
    """

    prior_texts = REGRESSION
    takes_label_sd = True

    __init__ = with_defaults(BDR.__init__, method="optimize")
    predict, check_parameters = predict_mean, BDR.check_parameters
    influence, influence_along, contrast = influence, influence_along, contrast
    _model, _predictive = BDR._model, BDR._predictive
