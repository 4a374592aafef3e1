"""The regression function at mean embeddings that are uncertain, and what it predicts.

Given a draw of the parameters, bag i has the latent mean and variance (Law et al. 2018, sections
3.2 and 3.3, in the joint basis)

    xi_i = intercept + sum_k w_k s_ik z_ik + x_i' gamma
    nu_i = eta sum_k w_k^2 (1 - s_ik),          s_ik = eta / (eta + lambda_k / N_i)

with x_i its covariates, if any.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.families import Family, Ordinal
from bdr_stan.predictive import (
    ClassPredictive,
    OrdinalPredictive,
    OutcomePredictive,
    Predictive,
)
from bdr_stan.types import Array, ArrayLike


def latent_moments(
    i: Array,
    *,
    z: Array,
    sizes: Array,
    lam: Array,
    intercept: Array,
    w: Array,
    eta: Array | None = None,
    x: Array | None = None,
    gamma: Array | None = None,
) -> tuple[Array, Array]:
    """Mean xi and variance nu of the regression function at the bags i, both of shape (S, m).

    z, (n, d), are coordinates of all bags' embeddings, `lam`, (d,), their within-bag variances,
    zeros where embeddings are exact, which then need no `eta`; x, (n, Q), covariates. Draws of
    parameters have the shapes (S,), of w (S, d), of gamma (S, Q).
    """
    eta = np.ones(len(w)) if eta is None else eta
    mean, variance = np.empty((2, len(w), len(i)))
    for size in np.unique(sizes[i]):
        columns = np.flatnonzero(sizes[i] == size)
        s = shrinkage_factors(size * eta, lam, 1.0)  # eta / (eta + lam / size)
        mean[:, columns] = intercept[:, None] + (w * s) @ z[i[columns]].T
        variance[:, columns] = eta[:, None] * np.sum(w**2 * (1 - s), axis=1, keepdims=True)
    if gamma is not None and x is not None:
        mean += gamma @ x[i].T
    return mean, variance


def label_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    *,
    sigma: Array,
    sigma_point: Array | None = None,
    known_variance: ArrayLike = 0.0,
    kind: type[Predictive] = Predictive,
    **draws: Array,
) -> Predictive:
    """Predictive distribution of labels with normal noise, or, of another `kind`, of functions.

    Given a draw N(xi_i, nu_i + sigma^2 + sigma_point^2 / N_i + v_i); `known_variance` is v, a
    number or of shape (n,), 0 for labels without these errors. `draws` of intercept, w, eta and
    gamma are as `latent_moments` takes them.
    """
    latent = _latent(coordinates, embedding, draws)
    known = np.broadcast_to(known_variance, len(embedding.mean))

    def components(i):
        mean, variance = latent(i)
        variance += sigma[:, None] ** 2 + known[i]
        if sigma_point is not None:
            variance += sigma_point[:, None] ** 2 / embedding.sizes[i]
        return mean, np.sqrt(variance)

    return kind(components, len(embedding.mean), len(sigma))


def outcome_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    family: Family,
    draws: Mapping[str, Array],
) -> OutcomePredictive:
    """Predictive distribution of labels of a family, predictors N(xi_i + log exposure_i, nu_i).

    `draws` has those of the parameters, of the shapes that `latent_moments` takes, and of the
    family's scales, shape (S,).
    """
    scales = {name: draws[name] for name in family.likelihood.scales}
    latent = _latent(coordinates, embedding, {k: v for k, v in draws.items() if k not in scales})

    def components(i):
        mean, variance = latent(i)
        if embedding.exposure is not None:
            mean += np.log(embedding.exposure[i])
        return mean, variance

    return OutcomePredictive(
        components,
        len(embedding.mean),
        len(draws["intercept"]),
        family,
        scales,
        embedding.trials,
    )


def ordinal_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    family: Ordinal,
    classes: Any,
    draws: Mapping[str, Array],
) -> OrdinalPredictive:
    """Predictive distribution of ordered categories, predictors N(xi_i, nu_i).

    `draws` are as for `outcome_predictive`.
    """
    gaps = {name: draws[name] for name in family.likelihood.scales}
    latent = _latent(coordinates, embedding, {k: v for k, v in draws.items() if k not in gaps})

    def log_probabilities(i):
        return family.log_probabilities(*latent(i), **gaps)

    return OrdinalPredictive(
        log_probabilities, len(embedding.mean), len(draws["intercept"]), classes
    )


def class_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    classes: Any,
    log_cdf: Callable[[Array], Array],
    **draws: Array,
) -> ClassPredictive:
    """Predictive distribution of two classes: P(second) = F(xi_i / sqrt(1 + nu_i)) given a draw.

    `log_cdf` is log F: `scipy.special.log_ndtr` of the probit; `log_expit` of the logit model,
    which takes embeddings as exact, so that nu is 0. `draws` are as for `label_predictive`.
    """
    latent = _latent(coordinates, embedding, draws)

    def log_probabilities(i):
        mean, variance = latent(i)
        h = mean / np.sqrt(1 + variance)
        return log_cdf(-h), log_cdf(h)

    return ClassPredictive(log_probabilities, len(embedding.mean), len(draws["w"]), classes)


def _latent(coordinates, embedding, draws):
    """`latent_moments` of embedded bags under these draws, as a function of i."""
    return partial(
        latent_moments,
        z=coordinates.transform(embedding.mean),
        sizes=embedding.sizes,
        lam=coordinates.lam,
        x=embedding.x,
        **draws,
    )
