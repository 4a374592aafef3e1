"""Totals of normal outcomes at points: a linear regression on weighted sums of features.

The outcome at point j is N(f_j, sigma^2), f_j = f0 + psi_j' w, so that bag a's label has the mean
sum_j p_j f_j and the standard deviation sigma sqrt(sum_j p_j^2).
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from bdr_stan.aggregate.likelihoods.normal import NORMAL
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.aggregate.variational import VariationalPosterior, gaussian_posterior
from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.models.blr import blr_data
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.priors import with_user_values
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array


def totals_model(
    rows: AggregateRows,
    y: Array,
    *,
    prior: Mapping[str, float] | None = None,
    weight_basis: Array | None = None,
) -> LatentGaussianModel:
    """The model of ``stan/blr.stan`` with the data of normal totals.

    `rows` has one row per bag, from `weighted_sums`; `weight_basis`, shape (d, d), the weights of
    the kernel at the landmarks per weight of a feature.
    """
    priors = with_user_values(total_priors(rows, y), prior)
    compressed = compressed_totals(rows, y)
    d = rows.rows.shape[1] - 1
    return LatentGaussianModel(
        program="blr",
        priors=priors,
        data=blr_data(compressed, priors),
        constants={"total_weight": (rows.total, ["bag"])},
        scales=("sigma", "rho"),
        prior_factor=np.eye(d),
        weight_basis=weight_basis,
        likelihood=partial(normal_likelihood, compressed, np.zeros(d)),
        level=_level(rows, y),
        scale_arrays={"sigma_point": []},
    )


def compressed_totals(rows: AggregateRows, y: Array) -> Rows:
    """Weighted sums and labels, both in units of the label's noise: one group of equal noise."""
    z = rows.rows / rows.noise_factor[:, None]
    return compress(z[:, :-1], y / rows.noise_factor, np.ones(len(y)), ones=z[:, -1])


def total_priors(rows: AggregateRows, y: Array) -> dict[str, float]:
    """Default priors of a model of totals of normal outcomes; `rows` has one row per bag.

    With s the standard deviation of the bags' averages y / sum p: intercept_location = sum y / sum
    p, intercept_scale = 2.5 s; rho_median such that these averages have the prior standard
    deviation s; sigma_scale such that noise alone would explain s. ValueError where all averages
    are the same.
    """
    averages = y / rows.total
    level = _level(rows, y)
    spread = float(np.std(averages))
    if spread <= 1e-12 * abs(level):
        raise ValueError(
            f"every label is {level:.6g} times its bag's total weight: there is nothing to explain"
        )
    norms = np.sum((rows.rows[:, :-1] / rows.total[:, None]) ** 2, axis=1)
    return {
        "intercept_location": level,
        "intercept_scale": 2.5 * spread,
        **NORMAL.default_priors(rows, y),
        "rho_median": spread / float(np.sqrt(np.mean(norms))),
        "rho_log_sd": 1.5,
    }


def _level(rows, y):
    """Average label of a point of weight 1."""
    return float(np.sum(y) / np.sum(rows.total))


def exact_fit(model: LatentGaussianModel, *, draws: int, seed: int | None = None) -> Posterior:
    """Draws from the closed-form posterior at the most probable scales; bound is the evidence."""
    scales, mode, _ = most_probable_scales(model)
    rho = scales.pop("rho")
    found = VariationalPosterior(mode.theta, mode.whitening, rho, mode.log_evidence)
    return gaussian_posterior(model, found, scales, draws=draws, seed=seed)


def totals_predictive(means: Array, noise_factor: Array, *, sigma: Array) -> Predictive:
    """Totals of means (S, n) and noise sd sigma, (S,), times `noise_factor`, (n,)."""
    S, n = means.shape
    sd = sigma[:, None]
    return Predictive(lambda i: (means[:, i], sd * noise_factor[i]), n, S)
