"""Classes of bags, weights and mean embeddings both uncertain (Law et al. 2018, appendix B)."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.models.blr_logit import LogitModel, blr_logit_data
from bdr_stan.models.likelihoods import probit_likelihood
from bdr_stan.posterior.latent_gaussian import SAMPLER, SCALE, Variables
from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.types import Array

# Prior sd of the latent function over the training bags, in sds of its noise: half of the bags then
# have probabilities between 16% and 84%, a quarter below 4% or above 96%.
_LATENT_SD = 1.5


def bdr_probit_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/bdr_probit.stan`` from `rows_by_size`, except for `follow_latent_scale`."""
    n_covariates = rows.rows.shape[1] - len(lam) - 2
    return {
        **blr_logit_data(rows, priors, n_covariates=n_covariates, use_likelihood=use_likelihood),
        **size_groups(rows),
        "lambda": lam,
        "prior_factor": prior_factor,
    }


def size_groups(rows: Rows) -> dict[str, Any]:
    """Data on the groups of bags of one size."""
    return {
        "G": len(rows.length),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
    }


def rows_by_size(z: Array, y: Array, sizes: Array) -> Rows:
    """Rows [z_i, 1, y_i] of all bags, uncompressed, in groups of equal size; z may include x."""
    order = order_by_size(sizes)
    rows = np.column_stack([z, np.ones(len(y)), y])[order]
    bag_size, start, n_bags = np.unique(
        np.asarray(sizes, float)[order],
        axis=0 if np.ndim(sizes) > 1 else None,
        return_index=True,
        return_counts=True,
    )
    return Rows(rows, n_bags, n_bags, bag_size, np.zeros(len(start)), np.ones(len(start)))


def order_by_size(sizes: Array) -> Array:
    """Bags in the order of their size, bags of one size in their own, shape (n,).

    Sizes of several samples have the shape (n, M).
    """
    return np.lexsort(np.reshape(sizes, (len(sizes), -1)).T[::-1])


def follow_latent_scale(whitened: Mapping[str, Any], nu: Array, rho: float) -> dict[str, Any]:
    """Whitened coordinates with a unit that grows with rho like the scale of the latent function.

    The labels identify the latent function in units of sqrt(1 + nu_i), and nu_i grows with rho^2.
    If embeddings are uncertain, labels thus carry little information on weights and rho together;
    with a fixed unit of t, chains would cross that long tail in ever smaller steps.

    `nu`, shape (n,), is the variance of the latent function given each bag's embedding, at the
    mode. The result is `whitened` for a unit of 1, and latent_spread: the unit is
    sqrt(1 + latent_spread rho^2), at the mode the geometric mean of sqrt(1 + nu_i).
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


class ProbitModel(LogitModel):
    """The model of ``stan/bdr_probit.stan`` with its data, labels y 0 or 1."""

    program = "bdr_probit"
    latent_sd = _LATENT_SD

    @cached_property
    def rows(self) -> Rows:
        columns = np.column_stack([self.z, self.embedding.x])
        return rows_by_size(columns, self.y, self.embedding.sizes)

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
