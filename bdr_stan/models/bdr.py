"""Regression on mean embeddings with normal labels, as published by Law et al. 2018.

Embeddings are exact in Bayesian linear regression (section 3.1), uncertain in Bayesian distribution
regression and its mode, shrinkage (sections 3.2 and 3.3).
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Deviations, Embedding
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.models.embedding_model import EmbeddingModel
from bdr_stan.models.label_errors import size_noise_prior
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.laplace import normal_posterior
from bdr_stan.posterior.latent_gaussian import (
    SAMPLER,
    SCALE,
    LatentGaussianModel,
    Role,
    Variable,
    Variables,
    most_probable_scales,
)
from bdr_stan.posterior.mode import LogLikelihood, Mode
from bdr_stan.posterior.priors import weight_priors
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.terms import rows_with_terms_last, split_columns, term_data, term_priors
from bdr_stan.posterior.whitening import with_mode_shift
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array

# With fewer bags sigma and eta are so uncertain that the mode does not depend on them linearly, and
# coordinates that assume so lead to divergent transitions.
_MIN_BAGS_FOR_MODE_SHIFT = 500


@dataclass
class BLRModel(EmbeddingModel):
    """The model of ``stan/blr.stan`` with its data."""

    _: KW_ONLY
    lossless: bool = True  # compresses the rows of the bags
    label_noise: str = "constant"  # "size" adds sigma_point^2 / N_i to the noise

    program = "blr"
    has_terms = True
    uncertain: ClassVar[bool] = False  # whether embeddings are

    def __post_init__(self) -> None:
        super().__post_init__()
        self.level = self.labels.mean

    @cached_property
    def deviations(self) -> Deviations:
        """Those of the embeddings, in the coordinates."""
        return self.embedding.deviations.in_coordinates(self.coordinates.basis)

    @cached_property
    def rows(self) -> Rows:
        by_size = self.uncertain or self.label_noise == "size"  # else one group of equal noise
        return self.embedding.labelled(
            self.deviations.rows,
            self.y,
            self.embedding.sizes if by_size else np.ones(self.labels.n),
            self.labels.error_variance,
            lossless=self.lossless,
        )

    @property
    def size_scales(self) -> list[str]:
        """Names of the scales of noise that depends on the size of a bag."""
        return ["sigma_point"] if self.label_noise == "size" else []

    def default_priors(self) -> dict[str, float]:
        labels, sizes = self.labels, self.embedding.weighted_sizes
        prior_variance = self.coordinates.prior_variance(self.deviations.rows)
        average = self.deviations.average(prior_variance)
        return {
            **weight_priors(labels.mean, labels.sd, average, self.n_covariates),
            **(size_noise_prior(labels.sd, *sizes) if self.size_scales else {}),
            **self.embedding_priors,
            **term_priors(self.terms, labels.sd),
        }

    def variables(self) -> Variables:
        return {
            "sigma": SCALE,
            "sigma_point": Variable(Role.SPLIT, self.size_scales),
            "rho": SCALE,
        }

    def likelihood(self, *, level: float = 0.0, **scales: Any) -> LogLikelihood:
        return normal_likelihood(self.rows, self.coordinates.lam, level=level, **scales)

    def program_data(self) -> dict[str, Any]:
        return blr_data(self.rows, self.priors, n_covariates=self.n_covariates, terms=self.terms)


class BDRModel(BLRModel):
    """The model of ``stan/bdr.stan`` with its data: `BLRModel` with uncertain embeddings."""

    program = "bdr"
    uncertain = True

    def variables(self) -> Variables:
        return {**super().variables(), "eta": SCALE, "scale_change": SAMPLER}

    def program_data(self) -> dict[str, Any]:
        return bdr_data(
            self.rows, self.coordinates.lam, self.prior_factor, self.priors, terms=self.terms
        )

    @property
    def follows_scales(self) -> bool:
        """Whether the coordinates follow the mode as the labels' scales change."""
        return self.labels.n >= _MIN_BAGS_FOR_MODE_SHIFT

    def whitening(self, scales: Mapping[str, float], mode: Mode) -> dict[str, Any]:
        whitened = super().whitening(scales, mode)
        if not self.follows_scales:
            return whitened
        return with_mode_shift(
            whitened,
            self.likelihood,
            self.prior_factor,
            mode,
            scales,
            ("sigma", "eta", *self.size_scales),
            sum(self.terms.n_effects),
        )


def blr_data(
    rows: Rows,
    priors: Mapping[str, float],
    *,
    n_covariates: int = 0,
    terms: Terms = NO_TERMS,
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
        "use_likelihood": 1,
    }


def bdr_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    priors: Mapping[str, float],
    *,
    terms: Terms = NO_TERMS,
) -> dict[str, Any]:
    """Data of ``stan/bdr.stan`` from rows [z, x, v, 1, y], except for whitened coordinates."""
    data = blr_data(
        replace(rows, rows=rows_with_terms_last(rows, terms)),
        priors,
        n_covariates=rows.rows.shape[1] - len(lam) - 2 - sum(terms.n_effects),
        terms=terms,
    )
    n_followed = 2 + data["size_noise"]
    return {
        **data,
        "lambda": lam,
        "prior_factor": prior_factor,
        "scale_at_mode": np.ones(n_followed),  # these two unless `with_mode_shift` replaces them
        "mode_shift": np.zeros((data["D"] + data["Q"] + 1, n_followed)),
    }


def exact_posterior(
    model: LatentGaussianModel, *, draws: int, seed: int | None = None
) -> tuple[Posterior, dict[str, tuple[Array, list[str]]]]:
    """Draws from the closed-form posterior at the scales of highest evidence; moments of theta."""
    scales, mode, _ = most_probable_scales(model, with_priors=False)
    constants = {
        "theta": (mode.theta, ["theta_row"]),
        "theta_covariance": (mode.covariance, ["theta_row", "theta_column"]),
    }
    attrs = {"inference_method": "exact"}
    posterior = normal_posterior(
        model, scales, mode.theta, mode.whitening, attrs, draws=draws, seed=seed
    )
    return posterior, constants


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
