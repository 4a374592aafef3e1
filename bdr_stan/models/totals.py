"""Totals of normal outcomes at points: a linear regression on weighted sums of features.

The outcome at point j is N(f_j, sigma^2), f_j = f0 + psi_j' w, so bag a's label has the mean sum_j
p_j f_j and the standard deviation sigma sqrt(sum_j p_j^2). If rates also differ by bag, by g_j' c_a
with c_a ~ N(0, Sigma) and G_a = sum_j p_j g_j, G_a' Sigma G_a adds to its variance. The known
variance of a label's error adds to it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.aggregate.likelihoods.numbers import NORMAL
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.aggregate.variational import VariationalPosterior, gaussian_posterior
from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.models.blr import blr_data
from bdr_stan.models.label_errors import spread_of_true_labels
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import with_user_values
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array, ArrayLike


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


def totals_with_effects(
    rows: AggregateRows,
    y: Array,
    effect_columns: Array,
    names: Sequence[str],
    *,
    prior: Mapping[str, float] | None = None,
    weight_basis: Array | None = None,
) -> LatentGaussianModel:
    """The model of ``stan/fast/aggregate_identity.stan``: rates differ by bag in some columns.

    `effect_columns`, shape (n, K), are the sums G_a, `names` the columns' names. The most probable
    scales are for independent effects.
    """
    defaults = total_priors(rows, y)
    spread = defaults["intercept_scale"] / 2.5
    priors = with_user_values(
        {**defaults, "effect_sd_scale": spread, "effect_correlation_shape": 2.0}, prior
    )
    scales = [f"effect_sd[{name}]" for name in names]
    d = rows.rows.shape[1] - 1
    return LatentGaussianModel(
        program="aggregate_identity",
        priors=priors,
        data=totals_with_effects_data(rows, y, effect_columns, priors),
        constants={"total_weight": (rows.total, ["bag"])},
        scales=("sigma", "rho", *scales),
        prior_factor=np.eye(d),
        weight_basis=weight_basis,
        likelihood=partial(_likelihood_with_effects, rows, y, effect_columns, scales),
        level=_level(rows, y),
        kept_arrays={"effect_sd": scales},
        predicting=("effect_correlation",),
        sampler_only=("t", "precision", "effect_factor"),
    )


def totals_with_effects_data(
    rows: AggregateRows,
    y: Array,
    effect_columns: Array,
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/fast/aggregate_identity.stan``, except for whitening."""
    n, K = effect_columns.shape
    return {
        "A": n,
        "D": rows.rows.shape[1] - 1,
        "K": K,
        "rows": np.column_stack([rows.rows, y]),
        "effect_columns": effect_columns,
        "squared_weights": rows.noise_factor**2,
        "known_variance": np.broadcast_to(rows.known_variance, n),
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def _likelihood_with_effects(
    rows: AggregateRows,
    y: Array,
    effect_columns: Array,
    effect_sds: Sequence[str],
    *,
    level: float = 0.0,
    **scales: float,
) -> LogLikelihood:
    X, nu = rows.rows, _variance(rows, effect_columns, effect_sds, scales)
    constant = -0.5 * np.sum(np.log(2 * np.pi * nu))
    information = (X / nu[:, None]).T @ X
    labels = y - level * X[:, -1]

    def likelihood(theta):
        e = labels - X @ theta
        return constant - 0.5 * np.sum(e**2 / nu), X.T @ (e / nu), information, information

    return likelihood


def _variance(rows, effect_columns, effect_sds, scales):
    """Variances of the labels given the weights, shape (n,), with independent effects."""
    sds = np.array([scales[name] for name in effect_sds])
    noise = (scales["sigma"] * rows.noise_factor) ** 2
    return noise + rows.known_variance + effect_columns**2 @ sds**2


def compressed_totals(rows: AggregateRows, y: Array) -> Rows:
    """Weighted sums and labels, both in units of the label's noise: groups of equal noise."""
    z = rows.rows / rows.noise_factor[:, None]
    return compress(
        z[:, :-1],
        y / rows.noise_factor,
        np.ones(len(y)),
        ones=z[:, -1],
        known_variance=rows.known_variance / rows.noise_factor**2,
    )


def noise_of_labels(
    rows: AggregateRows,
    y: Array,
    effect_columns: Array,
    names: Sequence[str],
    prior: Mapping[str, float] | None = None,
) -> Array:
    """Standard deviation of each label per noise of one point, shape (n,), whatever its causes.

    Those of `totals_with_effects` of the arguments with its most probable scales: a kernel is
    learned as if effects and errors of labels were noise.
    """
    model = totals_with_effects(rows, y, effect_columns, names, prior=prior)
    scales = most_probable_scales(model)[0]
    variance = _variance(rows, effect_columns, model.kept_arrays["effect_sd"], scales)
    return np.sqrt(variance) / scales["sigma"]


def total_priors(rows: AggregateRows, y: Array) -> dict[str, float]:
    """Default priors of a model of totals of normal outcomes; `rows` has one row per bag.

    With s the standard deviation of the bags' averages y / sum p: intercept_location = sum y / sum
    p, intercept_scale = 2.5 s; rho_median such that these averages have the prior standard
    deviation s; sigma_scale such that noise would fully explain s. For labels with known errors s
    is for the true averages. ValueError if all averages are the same, or errors explain all their
    differences.
    """
    averages = y / rows.total
    level = _level(rows, y)
    spread = float(np.std(averages))
    if spread <= 1e-12 * abs(level):
        raise ValueError(
            f"every label is {level:.6g} times its bag's total weight: there is nothing to explain"
        )
    if np.any(rows.known_variance):
        spread = np.sqrt(spread_of_true_labels(averages, rows.known_variance / rows.total**2))
    norms = np.sum((rows.rows[:, :-1] / rows.total[:, None]) ** 2, axis=1)
    return {
        "intercept_location": level,
        "intercept_scale": 2.5 * spread,
        **NORMAL.default_priors(rows, y),
        "rho_median": float(spread) / float(np.sqrt(np.mean(norms))),
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


def totals_predictive(
    means: Array, noise_factor: Array, further_variance: ArrayLike = 0.0, *, sigma: Array
) -> Predictive:
    """Totals of means (S, n) and noise sd sigma, (S,), times `noise_factor`, (n,).

    `further_variance`, (S, n) or less, is the variance from unknown effects and errors of labels.
    """
    S, n = means.shape

    further = np.broadcast_to(further_variance, means.shape)

    def components(i):
        return means[:, i], np.hypot(sigma[:, None] * noise_factor[i], np.sqrt(further[:, i]))

    return Predictive(components, n, S)
