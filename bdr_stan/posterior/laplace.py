"""Posteriors of weights and scales without Stan: normal ones, and by Laplace's method."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, Role, most_probable_scales
from bdr_stan.posterior.mode import blas_threads
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.posterior.terms import split_effects, without_effects
from bdr_stan.posterior.whitening import whitened_coordinates
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array

_MOST_LOG_STEP = 0.1  # of differences of the mode, as the scales change


def normal_posterior(
    model: LatentGaussianModel,
    scales: Mapping[str, float],
    mean: Array,
    factor: Array,
    attrs: dict[str, Any],
    *,
    draws: int,
    seed: int | None = None,
) -> Posterior:
    """Independent draws of theta ~ N(mean, factor factor'), one chain, with fixed scales."""
    noise = np.random.default_rng(seed).standard_normal((draws, len(mean)))
    fixed = {name: np.full(draws, value) for name, value in scales.items()}
    return _posterior(model, mean + noise @ factor.T, fixed, attrs)


def _posterior(model, theta, scales, attrs):
    """One chain of draws of theta, (S, D), and of the scales, arrays of them included, (S, ...)."""
    d = len(model.prior_factor)
    base, effects = split_effects(theta[0], sum(model.terms.n_effects))
    draws = {"w": theta[:, :d], "intercept": theta[:, -1], **scales}
    draws |= {"gamma": theta[:, base[d:-1]], "term_effect": theta[:, effects]}
    chain = {name: values[None] for name, values in draws.items() if values.size}
    return Posterior(model.with_landmark_weights(chain), {}, attrs)


def laplace_posterior(
    model: LatentGaussianModel, *, draws: int, seed: int | None = None
) -> Posterior:
    """Draws of the scales, normal on the log scale, and of the weights, normal given the scales.

    The likelihood is replaced by its quadratic approximation at the mode, with weights that follow
    rho; their mode is linear in the logarithms of the other scales.
    """
    scales, mode, covariance_of_logs = most_probable_scales(model)
    covariance = covariance_of_logs()
    rng = np.random.default_rng(seed)
    log_change = rng.multivariate_normal(np.zeros(len(scales)), covariance, draws)
    scale_draws = {name: s * np.exp(log_change[:, k]) for k, (name, s) in enumerate(scales.items())}
    theta = _given_rho(model, scales, mode, scale_draws, rng)
    others = [k for k, name in enumerate(scales) if name not in model.rho_names]
    theta += log_change[:, others] @ _slopes(model, scales, mode, covariance, others)
    for array, entries in model.arrays(Role.ARRAY).items():
        if entries:
            scale_draws[array] = np.column_stack([scale_draws.pop(name) for name in entries])
    attrs = {"inference_method": "laplace", "log_evidence": mode.log_evidence}
    return _posterior(model, theta, scale_draws, attrs)


def _slopes(model, scales, mode, covariance, which):
    """Changes of the mode of theta with the logarithms of the scales `which`, shape (K, D)."""
    names, steps = list(scales), np.minimum(np.sqrt(np.diag(covariance)), _MOST_LOG_STEP)
    level = np.append(np.zeros(len(mode.theta) - 1), model.level)
    slopes = []
    with limited_blas(blas_threads(len(model.prior_factor))), np.errstate(all="ignore"):
        for k in which:
            up, down = (
                model.mode_at(
                    {**scales, names[k]: scales[names[k]] * np.exp(sign * steps[k])},
                    start=mode.theta - level,
                ).theta
                + level
                for sign in (1, -1)
            )
            slopes.append((up - down) / (2 * steps[k]))
    return np.reshape(slopes, (len(which), len(mode.theta)))


def _given_rho(model, scales, mode, scale_draws, rng):
    """Draws of theta, shape (S, D), given draws of rho and the most probable other scales."""
    of_rest, _ = without_effects(mode, model.terms, scales)
    whitened = whitened_coordinates(of_rest, model.prior_factor, model.rho_of(scales), model.blocks)
    d, rho = len(model.prior_factor), np.array([scale_draws[name] for name in model.rho_names])
    n_draws, D = rho.shape[1], len(of_rest.theta)
    t = rng.standard_normal((n_draws, D))
    q = whitened["information"] + np.repeat(rho, model.blocks or d, axis=0).T ** -2.0
    alone = whitened["linear_term"] / q + t[:, :d] / np.sqrt(q)
    along = alone
    for _ in model.blocks[1:]:
        along = alone + along @ whitened["block_cross"].T / q
    w = along @ whitened["axes"].T
    gamma = (
        whitened["gamma_centre"]
        + w @ whitened["gamma_slope"].T
        + t[:, d:-1] @ whitened["gamma_unit"].T
    )
    rest = np.hstack([w, gamma])
    intercept = whitened["intercept_centre"] + rest @ whitened["intercept_slope"]
    intercept += whitened["intercept_unit"] * t[:, -1]
    rest = np.column_stack([rest, intercept])
    base, effects = split_effects(mode.theta, len(mode.theta) - D)
    theta = np.empty((n_draws, len(mode.theta)))
    theta[:, base] = rest
    if len(effects):
        H = mode.precision
        factor = cho_factor(H[np.ix_(effects, effects)], lower=True)
        shift = cho_solve(factor, H[np.ix_(effects, base)] @ (rest - mode.theta[base]).T)
        noise = np.linalg.solve(np.tril(factor[0]).T, rng.standard_normal((len(effects), n_draws)))
        theta[:, effects] = mode.theta[effects] - (shift - noise).T
    return theta
