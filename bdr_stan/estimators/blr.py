"""Bayesian linear regression on empirical mean embeddings."""

from typing import Any

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.estimators.linear import LinearRegressor
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import exact_posterior, exact_predictive
from bdr_stan.parameters import estimator
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import Predictive


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
