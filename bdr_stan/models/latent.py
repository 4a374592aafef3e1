"""The regression function at uncertain mean embeddings, and its predictions.

Given a draw of the parameters, bag i has the latent mean and variance

    xi_i = intercept + sum_k w_k s_ik z_ik + x_i' gamma
    nu_i = eta sum_k w_k^2 (1 - s_ik),          s_ik = eta / (eta + lambda_k / N_i)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.families import Family, Ordinal, Times
from bdr_stan.labels import Labels
from bdr_stan.predictive import (
    ClassPredictive,
    Contrast,
    OrdinalPredictive,
    OutcomePredictive,
    Predictive,
    TimesPredictive,
)
from bdr_stan.predictive.mixture import Mixture
from bdr_stan.types import Array, ArrayLike

_FEWEST_DRAWS = 100  # of the posterior, from which effects of new levels are drawn
_REPEATED_DRAWS = 1000  # where there are fewer
_CONTRAST = 2018  # in seeds of the numbers that both versions of a bag share
_LEAST_SHARE = 1e-18  # of the largest variance, for parts that have none in some bags


def latent_moments(
    coordinates: Coordinates, embedding: Embedding, draws: Mapping[str, Array], i: Array
) -> tuple[Array, Array]:
    """Mean xi and variance nu of the regression function at the bags i, both of shape (S, m).

    Draws of parameters have the shapes (S,), of w (S, d), of gamma (S, Q), of eta, without which
    embeddings are exact, (S, M) with M samples a bag. `shift`, (S, n), adds to the means.
    """
    w, sample, lam = draws["w"], coordinates.sample, coordinates.lam
    eta = draws.get("eta", np.ones(len(w)))
    etas = eta[:, None] if eta.ndim == 1 else eta[:, sample]
    z, sizes = coordinates.transform(embedding.mean[i]), embedding.sizes[i]
    mean, variance = np.empty((2, len(w), len(i)))
    kinds, kind = np.unique(sizes, axis=0 if sizes.ndim > 1 else None, return_inverse=True)
    for k, size in enumerate(kinds):
        columns = np.flatnonzero(kind == k)
        s = shrinkage_factors(etas * (size if sample is None else size[sample]), lam, 1.0)
        mean[:, columns] = draws["intercept"][:, None] + (w * s) @ z[columns].T
        variance[:, columns] = np.sum(etas * w**2 * (1 - s), axis=1, keepdims=True)
    if "gamma" in draws:
        mean += draws["gamma"] @ embedding.x[i].T
    if "shift" in draws:
        mean += draws["shift"][:, i]
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

    Given a draw N(xi_i, nu_i + sigma^2 + sigma_point^2 / N_i + v_i), v the `known_variance`, (n,).
    """
    latent = _latent(coordinates, embedding, draws)
    error_variance = np.broadcast_to(known_variance, len(embedding.mean))

    def components(i):
        mean, variance = latent(i)
        variance += sigma[:, None] ** 2 + error_variance[i]
        if sigma_point is not None:
            variance += sigma_point[:, None] ** 2 / embedding.sizes[i]
        return mean, np.sqrt(variance)

    return kind(components, len(embedding.mean), len(sigma))


def outcome_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    labels: Labels,
    family: Family,
    draws: Mapping[str, Array],
) -> OutcomePredictive | OrdinalPredictive:
    """Predictive distribution of labels of a family, predictors N(xi_i + o_i, nu_i).

    o_i is the bag's offset plus the logarithm of its exposure, 0 by default. `draws` has the
    parameters, in the shapes for `latent_moments`, and the family's scales, shape (S,).
    """
    scales = {name: draws[name] for name in family.likelihood.scales}
    others = {name: values for name, values in draws.items() if name not in scales}
    latent = _latent(coordinates, embedding, others, labels.offsets)
    shape = len(embedding.mean), len(draws["intercept"])
    if not isinstance(family, Ordinal):
        kind = TimesPredictive if isinstance(family, Times) else OutcomePredictive
        return kind(latent, *shape, family, scales, labels)

    def log_probabilities(i):
        return family.log_probabilities(*latent(i), **scales)

    return OrdinalPredictive(log_probabilities, *shape, labels.classes)


def class_predictive(
    coordinates: Coordinates,
    embedding: Embedding,
    classes: Any,
    log_cdf: Callable[[Array], Array],
    **draws: Array,
) -> ClassPredictive:
    """Predictive distribution of two classes: P(second) = F(xi_i / sqrt(1 + nu_i)) given a draw.

    `log_cdf` is log F: `scipy.special.log_ndtr` of the probit; `log_expit` of the logit model,
    which treats embeddings as exact, so nu is 0. `draws` are as for `label_predictive`.
    """
    latent = _latent(coordinates, embedding, draws)

    def log_probabilities(i):
        mean, variance = latent(i)
        h = mean / np.sqrt(1 + variance)
        return log_cdf(-h), log_cdf(h)

    return ClassPredictive(log_probabilities, len(embedding.mean), len(draws["w"]), classes)


def contributions(
    coordinates: Coordinates,
    embedding: Embedding,
    terms: Mapping[str, slice],
    draws: Mapping[str, Array],
    samples: Iterable[str] = ("",),
) -> dict[str, Mixture]:
    """What each part of the linear predictor adds: the embedding, and `terms`, slices of x.

    The embedding's part is "embedding", or of each of several `samples` its name. `draws` are as
    for `latent_moments`, including term_sd if there are groups, the last of the terms.
    """
    n, S = len(embedding.mean), len(draws["w"])
    of_embedding = {name: values for name, values in draws.items() if name in ("w", "eta")}
    of_embedding["intercept"] = np.zeros(S)
    points = replace(embedding, covariates=None, new_levels=None)
    most = np.max(draws.get("eta", 1.0)) * np.max(draws["w"] ** 2 @ (coordinates.lam > 0))
    parts: dict[str, Mixture] = {}
    for m, name in enumerate(samples):
        weights = draws["w"] * coordinates.is_of_sample(m)
        latent = _latent(coordinates, points, {**of_embedding, "w": weights})
        parts[name or "embedding"] = _part(latent, most, n, S)
    new = _new_levels(embedding, draws)
    groups = dict(zip(list(terms)[len(terms) - len(new) :], new, strict=True))
    for name, block in terms.items():
        added = groups.get(name)

        def moments(i, block=block, added=added):
            mean = draws["gamma"][:, block] @ embedding.x[i, block].T
            effect, variance = (0.0, 0.0) if added is None else added(i)
            return mean + effect, np.broadcast_to(variance, mean.shape)

        most = 0.0 if added is None or S >= _FEWEST_DRAWS else np.max(draws["term_sd"] ** 2)
        parts[name] = _part(moments, most, n, S)
    return parts


def _part(moments, most, n, n_draws):
    """Distribution of a part of the predictor of these moments; `most` bounds its variances."""
    if not most:
        return Contrast(lambda i: moments(i)[0], n, n_draws)

    def components(i):
        mean, variance = moments(i)
        return mean, np.sqrt(np.maximum(variance, _LEAST_SHARE * most))

    return Predictive(components, n, n_draws)


def _latent(coordinates, embedding, draws, offsets=None):
    """`latent_moments` of embedded bags plus their `offsets`, (n,), as a function of i.

    Under a contrast, both versions have the same drawn predictors, except for the movement.
    """
    new, movement = _new_levels(embedding, draws), embedding.movement

    def of_bags(i):
        mean, variance = latent_moments(coordinates, embedding, draws, i)
        if offsets is not None:
            mean += offsets[i]
        for added in new:
            effect, left = added(i)
            mean += effect
            variance += left
        if movement is None:
            return mean, variance
        scores, movement_scores = _normal_scores(i, len(mean))
        mean += np.sqrt(variance) * scores
        mean += (
            draws["w"] @ (movement.mean[i] @ coordinates.basis).T + movement.sd[i] * movement_scores
        )
        return mean, np.zeros_like(variance)

    return of_bags


def _normal_scores(i, n_draws):
    """Standard normal numbers of mean 0 and sd 1, in two random orders a bag; shape (2, S, m)."""
    scores = ndtri((np.arange(n_draws) + 0.5) / n_draws)
    scores /= scores.std() or 1.0
    orders = [np.random.default_rng([_CONTRAST, k]).permuted([scores] * 2, axis=1) for k in i]
    return np.moveaxis(np.reshape(orders, (len(i), 2, n_draws)), 0, -1)


def with_draws_of_new_levels(embedding: Embedding, draws: Mapping[str, Array]) -> dict[str, Array]:
    """The draws, repeated if there are too few to draw effects that bags of a new level share."""
    few = embedding.new_levels is not None and len(draws["w"]) < _FEWEST_DRAWS
    times = _REPEATED_DRAWS // len(draws["w"]) if few else 1
    return {name: np.repeat(values, times, axis=0) for name, values in draws.items()}


def _new_levels(embedding, draws):
    """Of each column of groups a function of bags: effects of new levels, and variances, (S, m).

    Effects of levels that no training bag has are drawn from their prior, for a level the same in
    all calls, so bags of a level, and both versions of a contrast, share them. If draws are too few
    for this, for example after optimisation, they are 0, with the prior's variance.
    """
    if embedding.new_levels is None:
        return []
    columns = embedding.new_levels.T
    sds = draws["term_sd"].T[-len(columns) :]
    return [partial(_effects, k, *pair) for k, pair in enumerate(zip(columns, sds, strict=True))]


def _effects(column, numbers, sd, i):
    """Effects at bags i of the levels of a column, new if numbers > 0, and their variances."""
    numbers, (effect, variance) = numbers[i], np.zeros((2, len(sd), len(i)))
    if len(sd) < _FEWEST_DRAWS:
        return effect, variance + sd[:, None] ** 2 * (numbers > 0)
    for number in np.unique(numbers[numbers > 0]):
        noise = np.random.default_rng([column, number]).standard_normal(len(sd))
        effect[:, numbers == number] = (sd * noise)[:, None]
    return effect, variance
