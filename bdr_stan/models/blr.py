"""Bayesian linear regression on empirical mean embeddings (Law et al. 2018, section 3.1)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import CompressedRows, compress
from bdr_stan.embedding.coordinates import Coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import weight_priors, with_user_values
from bdr_stan.posterior.sampling import Posterior, most_probable_scales, with_landmark_weights
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array


def blr_data(
    rows: CompressedRows,
    whitened: Mapping[str, Any],
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/blr.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One group of rows [z, x, 1, y], x the covariates.
    whitened : dict
        From `whitened_coordinates`.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    Q = len(whitened["gamma_centre"])
    T, columns = rows.rows.shape
    return {
        "N": int(rows.n_bags.sum()),
        "D": columns - Q - 2,
        "Q": Q,
        "T": T,
        "rows": rows.rows,
        **whitened,
        "gamma_scale": 1.0,  # where there are no covariates
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def blr_model(
    embedding: Embedding,
    y: Array,
    *,
    prior: Mapping[str, float] | None = None,
    lossless: bool = True,
) -> Model:
    """The model of ``stan/blr.stan`` with its data.

    Parameters
    ----------
    embedding : Embedding, of the n training bags
    y : array, shape (n,)
    prior : dict, optional
        Numbers that replace the data-scaled defaults.
    lossless : bool, default True
        Whether the rows of the bags are compressed.
    """
    at = principal_axes(embedding.mean)
    z, x = at.of(embedding.mean), embedding.x
    rows = compress(np.column_stack([z, x]), y, np.ones(len(y)), lossless=lossless)
    defaults = weight_priors(y, np.sum(z**2, axis=1), x.shape[1])
    return Model(
        program="blr",
        scales=("sigma", "rho"),
        priors=with_user_values(defaults, prior),
        prior_factor=at.prior_factor,
        weight_basis=at.basis,
        likelihood=partial(normal_likelihood, rows, at.lam),
        stan_data=partial(blr_data, rows),
        n_covariates=x.shape[1],
        constants=at.constants(),
        level=float(np.mean(y)),
    )


def exact_posterior(
    model: Model, *, draws: int, seed: int | None = None
) -> tuple[Posterior, dict[str, tuple[Array, list[str]]]]:
    """The closed-form posterior at the sigma and rho of highest evidence.

    Parameters
    ----------
    model : Model, from `blr_model`
    draws : int
        Independent draws, one chain.
    seed : int, optional

    Returns
    -------
    posterior : Posterior
    constants : dict
        Mean and covariance of theta = [w; gamma; intercept], for `exact_predictive`.
    """
    scales, mode, _ = most_probable_scales(model, with_priors=False)
    d, D = len(model.prior_factor), len(mode.theta)
    noise = np.random.default_rng(seed).standard_normal((1, draws, D))
    theta = mode.theta + noise @ mode.whitening.T
    held = {name: np.full((1, draws), scales[name]) for name in ("sigma", "rho")}
    drawn = {"w": theta[..., :d], "intercept": theta[..., -1], **held}
    if model.n_covariates:
        drawn["gamma"] = theta[..., d:-1]
    constants = {
        "theta": (mode.theta, ["theta_row"]),
        "theta_covariance": (mode.covariance, ["theta_row", "theta_column"]),
    }
    attrs = {"inference_method": "exact"}
    return Posterior(with_landmark_weights(model, drawn), {}, attrs), constants


def exact_predictive(
    at: Coordinates, embedding: Embedding, *, theta: Array, covariance: Array, sigma: float
) -> Predictive:
    """Normal predictive distribution of labels under the closed-form posterior of theta."""
    z = at.of(embedding.mean)
    design = np.column_stack([z, embedding.x, np.ones(len(z))])
    mean = design @ theta
    sd = np.sqrt(sigma**2 + np.sum((design @ covariance) * design, axis=1))
    return Predictive(lambda i: (mean[None, i], sd[None, i]), len(z), 1)
