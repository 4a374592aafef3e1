"""Classes of bags by logistic regression on their empirical mean embeddings."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.embedding.coordinates import principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models.likelihoods import logit_likelihood
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import class_priors, with_user_values
from bdr_stan.types import Array

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


def blr_logit_model(
    embedding: Embedding, y: Array, *, prior: Mapping[str, float] | None = None
) -> LatentGaussianModel:
    """The model of ``stan/blr_logit.stan`` with its data, labels y 0 or 1; see `bdr_model`."""
    coordinates = principal_axes(embedding)
    z, x = coordinates.transform(embedding.mean), embedding.x
    rows = compress(np.column_stack([z, x]), y, embedding.sizes, lossless=False)
    priors = with_user_values(class_priors(_LATENT_SD, np.sum(z**2, axis=1), x.shape[1]), prior)

    def likelihood() -> LogLikelihood:  # no scales but rho
        return logit_likelihood(rows)

    return LatentGaussianModel(
        program="blr_logit",
        priors=priors,
        data=blr_logit_data(rows, priors, n_covariates=x.shape[1]),
        constants=coordinates.constants(),
        scales=("rho",),
        prior_factor=coordinates.prior_factor,
        weight_basis=coordinates.basis,
        likelihood=likelihood,
    )
