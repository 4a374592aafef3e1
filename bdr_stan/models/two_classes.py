"""Two classes of bags, by logistic regression on exact embeddings or probit on uncertain ones.

The probit model is from Law et al. 2018, appendix B.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.models.embedding_model import EmbeddingModel, size_groups
from bdr_stan.models.likelihoods import logit_likelihood, probit_likelihood
from bdr_stan.posterior.latent_gaussian import SAMPLER, SCALE, Variables
from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.posterior.priors import class_priors
from bdr_stan.types import Array

# Prior sd of the latent function over the training bags, in sds of probit's noise: half of the bags
# then have probabilities between 16% and 84%, a quarter below 4% or above 96%.
_PROBIT_SD = 1.5
# Of the log odds: about the same times 1.7, the ratio of the logistic to the normal scale.
_LOGIT_SD = 2.5


class LogitModel(EmbeddingModel):
    """The model of ``stan/blr_logit.stan`` with its data, labels y 0 or 1."""

    program = "blr_logit"
    latent_sd: ClassVar[float] = _LOGIT_SD

    @cached_property
    def rows(self) -> Rows:
        columns = np.column_stack([self.z, self.embedding.x])
        return compress(columns, self.y, self.embedding.sizes, lossless=False)

    def default_priors(self) -> dict[str, float]:
        prior_variance = self.coordinates.prior_variance(self.z)
        priors = class_priors(self.latent_sd, prior_variance, self.n_covariates)
        return {**priors, **self.embedding_priors}

    def variables(self) -> Variables:
        return {"rho": SCALE}

    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        return logit_likelihood(self.rows)

    def program_data(self) -> dict[str, Any]:
        return blr_logit_data(self.rows, self.priors, n_covariates=self.n_covariates)


class ProbitModel(LogitModel):
    """The model of ``stan/bdr_probit.stan`` with its data, labels y 0 or 1."""

    program = "bdr_probit"
    latent_sd = _PROBIT_SD
    rows = EmbeddingModel.rows  # in groups of equal size

    def variables(self) -> Variables:
        return {"rho": SCALE, "eta": SCALE, "unit": SAMPLER}

    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        return probit_likelihood(self.rows, self.coordinates.lam, eta=scales["eta"])

    def program_data(self) -> dict[str, Any]:
        return bdr_probit_data(self.rows, self.coordinates.lam, self.prior_factor, self.priors)

    def whitening(self, scales: Mapping[str, float], mode: Mode) -> dict[str, Any]:
        lam, eta = self.coordinates.lam, scales["eta"]
        s = shrinkage_factors(self.rows.bag_size, lam, eta)
        nu = np.repeat(eta * (1 - s) @ mode.theta[: len(lam)] ** 2, self.rows.n_bags)
        return follow_latent_scale(super().whitening(scales, mode), nu, scales["rho"])


def blr_logit_data(
    rows: Rows,
    priors: Mapping[str, float],
    *,
    n_covariates: int = 0,
) -> dict[str, Any]:
    """Data of ``stan/blr_logit.stan`` from a row [z, x, 1, y] per bag, except for whitening."""
    D = rows.rows.shape[1] - n_covariates - 2
    y = rows.rows[:, -1].astype(int)
    return {
        "N": len(y),
        "D": D,
        "Q": n_covariates,
        "z": rows.rows[:, :D],
        "x": rows.rows[:, D:-2],
        "y": y,
        "gamma_scale": 1.0,  # unused without covariates
        **priors,
        "use_likelihood": 1,
    }


def bdr_probit_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    priors: Mapping[str, float],
) -> dict[str, Any]:
    """Data of ``stan/bdr_probit.stan`` from `rows_by_size`, except for `follow_latent_scale`."""
    n_covariates = rows.rows.shape[1] - len(lam) - 2
    return {
        **blr_logit_data(rows, priors, n_covariates=n_covariates),
        **size_groups(rows),
        "lambda": lam,
        "prior_factor": prior_factor,
    }


def follow_latent_scale(whitened: Mapping[str, Any], nu: Array, rho: float) -> dict[str, Any]:
    """Whitened coordinates with a unit that grows with rho like the scale of the latent function.

    The unit is sqrt(1 + latent_spread rho^2), at the mode the geometric mean of sqrt(1 + nu_i), nu,
    shape (n,), the variance of the latent function given each bag's embedding.
    """
    total = np.exp(np.mean(np.log1p(nu)))
    unit = np.sqrt(total)
    return {
        **whitened,
        "latent_spread": (total - 1) / rho**2,
        "information": whitened["information"] * total,
        "linear_term": whitened["linear_term"] * unit,
        "intercept_centre": whitened["intercept_centre"] / unit,
        "intercept_unit": whitened["intercept_unit"] / unit,
        "gamma_centre": whitened["gamma_centre"] / unit,
        "gamma_unit": whitened["gamma_unit"] / unit,
    }
