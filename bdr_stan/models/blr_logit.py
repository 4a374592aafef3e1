"""Classes of bags by logistic regression on their empirical mean embeddings."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.models.embedding_model import EmbeddingModel
from bdr_stan.models.likelihoods import logit_likelihood
from bdr_stan.posterior.latent_gaussian import SCALE, Variables
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import class_priors

# Prior sd of the log odds over the training bags: about as in `bdr_probit`, 1.5 sds of its noise,
# times 1.7, the ratio of the logistic to the normal scale.
_LATENT_SD = 2.5


def blr_logit_data(
    rows: Rows,
    priors: Mapping[str, float],
    *,
    n_covariates: int = 0,
    use_likelihood: bool = True,
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
        "use_likelihood": int(use_likelihood),
    }


class LogitModel(EmbeddingModel):
    """The model of ``stan/blr_logit.stan`` with its data, labels y 0 or 1."""

    program = "blr_logit"
    latent_sd: ClassVar[float] = _LATENT_SD

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
