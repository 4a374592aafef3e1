"""Bayesian linear regression on empirical mean embeddings (Law et al. 2018, section 3.1)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.coordinates import Coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.models.label_errors import size_noise_prior
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.priors import weight_priors, with_user_values
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.terms import split_columns, term_data, term_priors, term_scales
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array


def blr_data(
    rows: Rows,
    priors: Mapping[str, float],
    *,
    n_covariates: int = 0,
    terms: Terms = NO_TERMS,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/blr.stan``, from rows [z, x, v, 1, y], except for whitened coordinates."""
    values, v = split_columns(rows.rows, terms)
    T, columns = values.shape
    return {
        "D": columns - n_covariates - 2,
        "Q": n_covariates,
        "G": len(rows.n_bags),
        "T": T,
        "bag_size": rows.bag_size,
        "n_bags": rows.n_bags,
        "sign": rows.sign,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "rows": values,
        "known_variance": rows.known_variance,
        "gamma_scale": 1.0,  # unused without covariates
        "sigma_point_scale": 1.0,  # unused without size_noise
        **priors,
        **term_data(terms, v, priors),
        "size_noise": int("sigma_point_scale" in priors),
        "use_likelihood": int(use_likelihood),
    }


def blr_model(
    embedding: Embedding,
    y: Array,
    *,
    terms: Terms = NO_TERMS,
    prior: Mapping[str, float] | None = None,
    lossless: bool = True,
    label_noise: str = "constant",
    label_sd: Array | None = None,
) -> LatentGaussianModel:
    """The model of ``stan/blr.stan`` with its data; for arguments see `bdr_model`."""
    by_size = label_noise == "size"
    coordinates = principal_axes(embedding)
    z = embedding.deviations.along(coordinates.basis)
    sizes = embedding.sizes if by_size else np.ones(len(y))  # one group of equal noise
    known_variance = 0.0 if label_sd is None else label_sd**2
    rows = embedding.labelled(z.rows, y, sizes, known_variance, lossless=lossless)
    n_covariates = rows.rows.shape[1] - len(coordinates.lam) - 2 - sum(terms.n_effects)
    defaults = weight_priors(y, z.average(np.sum(z.rows**2, axis=1)), n_covariates)
    defaults |= term_priors(terms, float(np.std(y)))
    if by_size:
        defaults |= size_noise_prior(y, embedding.sizes)
    priors, size_scales = with_user_values(defaults, prior), ["sigma_point"] if by_size else []
    return LatentGaussianModel(
        program="blr",
        priors=priors,
        data=blr_data(rows, priors, n_covariates=n_covariates, terms=terms),
        constants=coordinates.constants(),
        scales=("sigma", *size_scales, "rho", *term_scales(terms)),
        terms=terms,
        prior_factor=coordinates.prior_factor,
        weight_basis=coordinates.basis,
        likelihood=partial(normal_likelihood, rows, coordinates.lam),
        level=float(np.mean(y)),
        scale_arrays={"sigma_point": size_scales},
    )


def exact_posterior(
    model: LatentGaussianModel, *, draws: int, seed: int | None = None
) -> tuple[Posterior, dict[str, tuple[Array, list[str]]]]:
    """Draws from the closed-form posterior at the scales of highest evidence; moments of theta."""
    scales, mode, _ = most_probable_scales(model, with_priors=False)
    d, D = len(model.prior_factor), len(mode.theta)
    noise = np.random.default_rng(seed).standard_normal((1, draws, D))
    theta = mode.theta + noise @ mode.whitening.T
    fixed = {name: np.full((1, draws), scale) for name, scale in scales.items()}
    drawn = {"w": theta[..., :d], "intercept": theta[..., -1], **fixed}
    if model.n_covariates:
        drawn["gamma"] = theta[..., d:-1]
    constants = {
        "theta": (mode.theta, ["theta_row"]),
        "theta_covariance": (mode.covariance, ["theta_row", "theta_column"]),
    }
    attrs = {"inference_method": "exact"}
    return Posterior(model.with_landmark_weights(drawn), {}, attrs), constants


def exact_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    *,
    theta: Array,
    covariance: Array,
    sigma: float,
    sigma_point: float = 0.0,
) -> Predictive:
    """Normal predictive distribution of labels under the closed-form posterior of theta."""
    z = coordinates.transform(embedding.mean)
    design = np.column_stack([z, embedding.x, np.ones(len(z))])
    mean = design @ theta
    noise = sigma**2 + sigma_point**2 / embedding.sizes
    sd = np.sqrt(noise + np.sum((design @ covariance) * design, axis=1))
    return Predictive(lambda i: (mean[None, i], sd[None, i]), len(z), 1)
