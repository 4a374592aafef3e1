"""Classes of bags by logistic regression on their empirical mean embeddings."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.embedding.coordinates import principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models.likelihoods import logit_likelihood
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import class_priors, with_user_values
from bdr_stan.types import Array

# Prior sd of the log odds over the training bags: about that of `bdr_probit`, 1.5 sds of its noise,
# times 1.7, the ratio of the logistic to the normal scale.
_LATENT_SD = 2.5


def blr_logit_data(
    rows: Rows,
    whitened: Mapping[str, Any],
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/blr_logit.stan``, from one row [z, x, 1, y] per bag, y 0 or 1."""
    Q = len(whitened["gamma_centre"])
    D = rows.rows.shape[1] - Q - 2
    y = rows.rows[:, -1].astype(int)
    return {
        "N": len(y),
        "D": D,
        "Q": Q,
        "z": rows.rows[:, :D],
        "x": rows.rows[:, D:-2],
        "y": y,
        **whitened,
        "gamma_scale": 1.0,  # unused without covariates
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def blr_logit_model(
    embedding: Embedding, y: Array, *, prior: Mapping[str, float] | None = None
) -> Model:
    """The model of ``stan/blr_logit.stan`` with its data, labels y 0 or 1; see `bdr_model`."""
    coordinates = principal_axes(embedding.mean)
    z, x = coordinates.transform(embedding.mean), embedding.x
    rows = compress(np.column_stack([z, x]), y, embedding.sizes, lossless=False)
    defaults = class_priors(_LATENT_SD, np.sum(z**2, axis=1), x.shape[1])

    def likelihood() -> LogLikelihood:  # no scales but rho
        return logit_likelihood(rows)

    return Model(
        program="blr_logit",
        scales=("rho",),
        priors=with_user_values(defaults, prior),
        prior_factor=coordinates.prior_factor,
        weight_basis=coordinates.basis,
        likelihood=likelihood,
        stan_data=partial(blr_logit_data, rows),
        n_covariates=x.shape[1],
        constants=coordinates.constants(),
    )
