"""Bayesian linear regression on empirical mean embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.base import BagRegressor
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.influence import contrast, influence, influence_along
from bdr_stan.estimators.prediction import predict_mean
from bdr_stan.estimators.validation import check_choice, check_flags
from bdr_stan.kernels import Kernel
from bdr_stan.models.blr import blr_model, exact_posterior, exact_predictive
from bdr_stan.models.label_noise import LABEL_NOISE
from bdr_stan.models.latent import label_predictive
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import REGRESSION
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array, ArrayLike, PathName


class BLR(BagRegressor, EmbeddingEstimator):
    """Bayesian linear regression on the empirical mean embeddings of bags.

    Takes each bag's mean embedding as exact: its uncertainty is that of the weights alone, the
    same for small bags and large. Use `BDR` where bag sizes differ.

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
    label_noise : {"constant", "size"}, default "constant"
        "size" adds sigma_point^2 / N_i to the variance sigma^2 of the noise: for labels that are
        averages over the N_i points of their bags, and so are noisier in small bags. Bags of
        several sizes tell the two scales apart.
    prior : dict, optional
        Numbers that replace the data-scaled defaults; `priors()` shows them after a fit.
    method : {"nuts", "exact", "optimize", "laplace", "pathfinder"}, default "nuts"
        "exact" is the closed-form posterior at the scales of highest evidence;
        "optimize", "laplace" and "pathfinder" hold rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``blr.stan`` (``bdr-stan eject blr my_blr.stan``).
    compress : bool, default True
        False gives the program one row for each bag: for likelihoods that are not normal.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), w (component), beta (landmark); with
        label_noise "size" sigma_point (units of y); with covariates gamma (covariate): units of y
        per unit of a number as you gave it, and how far a level is from the average bag.
    landmarks_ : array, shape (d, p)
    kernel_ : Kernel
        With its columns as indices and its bandwidths as numbers.
    bandwidth_ : float or array, shape (p,)
        Of a kernel that has a single one.

    Notes
    -----
    beta ~ N(0, rho^2 I) on the landmark weights, y_i ~ N(intercept + (mu_i - m0)' beta, sigma^2),
    m0 the average training embedding; covariates add x_i' gamma. Source: Law et al. (2018), section
    3.1; an intercept is added.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(100, 1)) for mean in y]
    >>> model = BLR(n_landmarks=6, method="exact").fit(bags[:30], y[:30], seed=1)
    >>> mean, sd = model.predict(bags[30:], return_std=True)
    >>> bool(np.corrcoef(mean, y[30:])[0, 1] > 0.9)
    True
    """

    methods = ("nuts", "exact", "optimize", "laplace", "pathfinder")
    closed_form = ("exact",)
    prior_texts = REGRESSION
    takes_label_sd = True

    def __init__(
        self,
        n_landmarks: int = 60,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        *,
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
        super().check_parameters()
        check_choice(self.label_noise, "label_noise", LABEL_NOISE)
        check_flags(compress=self.compress)

    def predictive_features(self, embedding: Embedding) -> Predictive:
        """Posterior predictive distribution of embedded bags, from `embed`."""
        constants = self.result_.constants
        if "theta" not in constants:
            return super().predictive_features(embedding)
        return exact_predictive(
            self.coordinates_,
            embedding,
            theta=constants["theta"],
            covariance=constants["theta_covariance"],
            **{
                name: float(self.result_.draws(name)[0])
                for name in ("sigma", "sigma_point")
                if self.result_.has_draws(name)
            },
        )

    def _by_draws(self, embedding: Embedding) -> Predictive:
        return super().predictive_features(embedding)

    def _model(
        self, training: TrainingFeatures, y: Array, *, label_sd: Array | None = None
    ) -> Model:
        return blr_model(
            training.embedding,
            y,
            prior=self.prior,
            lossless=self.compress,
            label_noise=self.label_noise,
            label_sd=label_sd,
        )

    def _sample(self, model: Model, **options: Any) -> tuple[Posterior, dict[str, Any]]:
        if self.method == "exact":
            return exact_posterior(model, draws=options["draws"], seed=options["seed"])
        return super()._sample(model, **options)

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
            gamma=draws.get("gamma"),
            known_variance=0.0 if label_sd is None else label_sd**2,
        )
