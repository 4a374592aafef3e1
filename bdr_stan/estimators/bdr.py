"""Regression on exact embeddings, Bayesian distribution regression and its mode, shrinkage."""

from dataclasses import KW_ONLY
from typing import Any

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.prior import check_embedding_prior, check_prior_mean
from bdr_stan.embedding.shrinkage import ATTENUATED, attenuation, reliability
from bdr_stan.estimators.linear import LinearEstimator, LinearRegressor
from bdr_stan.kernels import Kernel
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel, exact_posterior, exact_predictive
from bdr_stan.parameters import estimator
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import Predictive
from bdr_stan.questions.embedding_posterior import EmbeddingPosterior
from bdr_stan.questions.population import shift_by_shrinkage
from bdr_stan.types import ArrayLike
from bdr_stan.user_warnings import warn


@estimator
class BLR(LinearRegressor):
    """Bayesian linear regression on the empirical mean embeddings of bags.

    Treats each bag's mean embedding as exact: predictions include only the uncertainty of the
    weights, the same for small and large bags. Use `BDR` if bag sizes differ.

    Parameters
    ----------
    method : {"nuts", "exact", "optimize", "laplace"}, default "nuts"
        "exact" is the closed-form posterior at the scales of highest evidence; "optimize" and
        "laplace" fix rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``blr.stan`` (``bdr-stan eject blr my_blr.stan``).

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

    methods = ("nuts", "exact", "optimize", "laplace")
    closed_form = ("exact",)

    def check_parameters(self) -> None:
        super().check_parameters()
        is_linear = self.label_model.is_linear
        if self.method == "exact" and (not is_linear or self.groups or self.smooths):
            option = "groups or smooths" if is_linear else f"family={self.family!r}"
            raise ValueError(
                f"method='exact' is for normal labels, not for {option}: use 'nuts', 'optimize' or "
                "'laplace'"
            )

    def predictive_features(self, embedding: Embedding, labels: Labels | None = None) -> Predictive:
        constants = self.result_.constants
        if "theta" not in constants:
            return super().predictive_features(embedding, labels)
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

    def _sample(
        self, model: LatentGaussianModel, settings: SamplerSettings
    ) -> tuple[Posterior, dict[str, Any]]:
        if self.method == "exact":
            return exact_posterior(model, draws=settings.draws, seed=settings.seed)
        return super()._sample(model, settings)


@estimator
class UncertainEmbeddings(EmbeddingPosterior, LinearEstimator):
    """Base of estimators with uncertain mean embeddings, more uncertain in small bags.

    Parameters
    ----------
    kernel : str or Kernel, default "auto"
        A name of `bdr_stan.kernels.KERNELS`, such as "rbf" or "matern32", a kernel, or a name with
        "linear + " before it, which adds linear and quadratic effects of each column; columns with
        long tails then enter by their values and by their normal scores. "auto" is "linear + rbf"
        for points of at most 60 columns, and "rbf" for more, or if `bandwidth`, `landmarks` or
        `embedding_prior` is set. The effects' features count among `n_landmarks`; the kernel has at
        least a third. The variance of the linear effects is 3, 30, 300 or 3000 times the variance
        of the kernel, whichever has the highest evidence.
    embedding_prior : {"empirical", "kernel"} or Kernel, default "empirical"
        Prior covariance R of the embeddings, up to the scale eta. "empirical": their covariance
        between the training bags, estimated by moments, plus a hundredth of it in the shape of
        K. "kernel": K itself, the kernel matrix of the landmarks (r = k in the paper).
        A kernel is r itself, its columns and bandwidths numbers, e.g. ``fit.kernel_.scaled(2)``.
    prior_mean : {"average", "zero"}, array, shape (m, p), or table, default "average"
        Embedding m0 towards which small bags shrink: the average of the training bags, 0, or the
        embedding of these points. The intercept and `influence` count from m0.

    Attributes
    ----------
    linear_variance_ : float
        With "linear + " before the kernel's name: the variance of the linear effects.
    """

    kernel: str | Kernel = "auto"
    _: KW_ONLY
    embedding_prior: str | Kernel = "empirical"
    prior_mean: str | ArrayLike = "average"

    has_covariance = True

    def warn_of_other_bags(self, embedding: Embedding) -> None:
        shift, sd = shift_by_shrinkage(self.coordinates_, embedding, self.draws())
        if shift:
            warn(
                "the bags lie to one side of the training bags, towards which their embeddings are "
                f"shrunk: their linear predictors change by {shift:.2g} on average, where their "
                f"standard deviation is {sd:.2g}; for subgroups, or out-of-distribution bags, use "
                "population(bags, by=...)"
            )

    def _findings(self, model, posterior, training, labels):
        findings = super()._findings(model, posterior, training, labels)
        features = training.samples.get("")  # of bags with one sample
        if features is None or self.stan_file is not None:
            return findings
        coordinates, w = self._coordinates_of(model), self._for_predictions(posterior)[1]["w"]
        axes = coordinates.basis, coordinates.lam
        return findings | {"reliability": reliability(features.embedding, *axes, w.mean(axis=0))}

    def _model_by(self, model, training, *arguments, **options):
        """The same of uncertain embeddings."""
        of_prior = {"embedding_prior": self.embedding_prior, "prior_mean": self.prior_mean}
        return model.of_training(training, *arguments, **options, **of_prior)

    def report(self) -> str:
        """Diagnostics, kernel, labels that the model does not describe, attenuation; a str."""
        share = self.result_.settings.get("reliability", 1.0)
        attenuated = f"\nEffects are attenuated: {attenuation(share)}"
        return super().report() + (attenuated if share < ATTENUATED else "")

    def _is_tailored(self):
        return super()._is_tailored() or self.embedding_prior != "empirical"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_embedding_prior(self.embedding_prior)
        check_prior_mean(self.prior_mean)


@estimator
class BDR(UncertainEmbeddings, LinearRegressor):
    """Bayesian distribution regression: weights and mean embeddings both uncertain.

    A bag's label depends on its true mean embedding, which its points estimate. Small bags shrink
    towards the average embedding, and their sampling uncertainty widens their predictions.

    Parameters
    ----------
    stan_file : path, optional
        Your variant of ``bdr.stan`` (``bdr-stan eject bdr my_bdr.stan``), of ``bdr_glm.stan`` for a
        `family` other than "normal" and "lognormal".

    Notes
    -----
    The header of ``stan/bdr.stan`` states the model, and ``stan/fast/bdr_glm.stan`` the other
    families. Source: Law et al. (2018), sections 3.2 and 3.3, in the joint basis of Sigma and R.
    The paper has R = K and fixes eta; here eta is inferred, and R estimated by default, which
    predicts better and is better calibrated. The prior of eta is then as wide as the standard error
    of that estimate, 0.1 to 2 on the log scale; with an assumed R its log sd is 2.

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
    """

    normal_model = BDRModel


@estimator
class Shrinkage(BDR):
    """Shrinkage estimator: the mode of the BDR model, in fractions of a second.

    Parameters and attributes as for `BDR`, with method "optimize" by default: weights, intercept,
    sigma and eta at their joint mode, rho at its marginal mode. Predictions include the uncertainty
    of the embedding, but not of the weights.

    Parameters
    ----------
    method : {"optimize", "nuts", "laplace"}, default "optimize"
        All but NUTS fix rho, and the scales of a `family`, at their marginal modes.

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
    >>> bool(mean[0] < mean[1]), bool(sd[0] > sd[1])  # one point identifies less than sixty
    (True, True)
    """

    _: KW_ONLY
    method: str = "optimize"
