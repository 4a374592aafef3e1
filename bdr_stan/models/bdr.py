"""Bayesian distribution regression, and its mode, shrinkage (Law et al. 2018, section 3)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.blr import blr_data
from bdr_stan.models.label_errors import size_noise_prior
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.models.prior_choice import model_of_best_prior
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel
from bdr_stan.posterior.priors import weight_priors, with_user_values
from bdr_stan.posterior.terms import rows_with_terms_last, term_priors, term_scales
from bdr_stan.posterior.whitening import with_mode_shift
from bdr_stan.types import Array

# With fewer bags sigma and eta are so uncertain that the mode does not depend on them linearly, and
# coordinates that assume so lead to divergent transitions.
_MIN_BAGS_FOR_MODE_SHIFT = 500


def bdr_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    priors: Mapping[str, float],
    *,
    terms: Terms = NO_TERMS,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/bdr.stan`` from rows [z, x, v, 1, y], except for whitened coordinates."""
    data = blr_data(
        replace(rows, rows=rows_with_terms_last(rows, terms)),
        priors,
        n_covariates=rows.rows.shape[1] - len(lam) - 2 - sum(terms.n_effects),
        terms=terms,
        use_likelihood=use_likelihood,
    )
    n_followed = 2 + data["size_noise"]
    return {
        **data,
        "lambda": lam,
        "prior_factor": prior_factor,
        "scale_at_mode": np.ones(n_followed),  # these two unless `with_mode_shift` replaces them
        "mode_shift": np.zeros((data["D"] + data["Q"] + 1, n_followed)),
    }


def bdr_model(
    training: TrainingFeatures,
    y: Array,
    *,
    prior: Mapping[str, float] | None = None,
    lossless: bool = True,
    label_noise: str = "constant",
    label_sd: Array | None = None,
    **choices: Any,
) -> LatentGaussianModel:
    """The model of ``stan/bdr.stan`` with its data.

    `choices` are arguments of `model_of_best_prior`. `lossless` compresses the rows of the bags.
    `label_noise` "size" adds sigma_point^2 / N_i to the noise; `label_sd`, shape (n,), are known
    standard errors.
    """
    by_size, terms = label_noise == "size", training.terms
    known_variance = 0.0 if label_sd is None else label_sd**2

    def model_in(coordinates, prior_of_eta):
        embedding, sizes = training.embedding, training.embedding.sizes
        z = embedding.deviations.along(coordinates.basis)
        rows = embedding.labelled(z.rows, y, sizes, known_variance, lossless=lossless)
        n_covariates = rows.rows.shape[1] - len(coordinates.lam) - 2 - sum(terms.n_effects)
        likelihood = partial(normal_likelihood, rows, coordinates.lam)
        size_scales = ["sigma_point"] if by_size else []
        followed = ("sigma", "eta", *size_scales)
        scale_priors = {**(size_noise_prior(y, sizes) if by_size else {}), **prior_of_eta}

        def model_of(coordinates):
            factor = coordinates.prior_factor

            def rescaled(whitened, scales, mode):
                return with_mode_shift(
                    whitened, likelihood, factor, mode, scales, followed, sum(terms.n_effects)
                )

            prior_variance = z.average(coordinates.prior_variance(z.rows))
            defaults = {
                **weight_priors(y, prior_variance, n_covariates),
                **scale_priors,
                **term_priors(terms, float(np.std(y))),
            }
            priors = with_user_values(defaults, prior)
            return LatentGaussianModel(
                program="bdr",
                priors=priors,
                data=bdr_data(rows, coordinates.lam, factor, priors, terms=terms),
                constants=coordinates.constants(),
                scales=("sigma", *size_scales, "rho", "eta", *term_scales(terms)),
                terms=terms,
                prior_factor=factor,
                weight_basis=coordinates.basis,
                likelihood=likelihood,
                level=float(np.mean(y)),
                rescaled=rescaled if len(y) >= _MIN_BAGS_FOR_MODE_SHIFT else None,
                scale_arrays={"sigma_point": size_scales},
                sampler_only=("t", "precision", "scale_change"),
            )

        return model_of

    return model_of_best_prior(model_in, training, **choices)
