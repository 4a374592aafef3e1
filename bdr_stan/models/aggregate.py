"""Rates at points from totals of bags, by a Gaussian process with Nystrom features.

Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018), "Variational learning on
aggregate outputs with Gaussian processes", with the posterior in addition to its approximation.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from bdr_stan.aggregate.densities import aggregate_likelihood
from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.links import Link
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.aggregate.variational import gaussian_posterior, variational_posterior
from bdr_stan.models.totals import exact_fit, totals_model
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.priors import held_at, with_user_values
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.types import Array

# Bags are cut to about this number of slices, for threads to share.
_SLICES = 16
_FIRST_TAU = 0.1  # where chains start


def aggregate_data(
    rows: AggregateRows,
    y: Array,
    likelihood: Likelihood,
    priors: Mapping[str, float],
    *,
    trials: Array | None = None,
    has_effects: bool = False,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/fast/aggregate_*.stan`` (square: `rows` are factors), except for whitening."""
    of_scales = [f"{name}_scale" for name in likelihood.scales]
    data = {
        "A": len(y),
        "D": rows.rows.shape[1] - 1,
        **likelihood.program_data(y, trials),
        "error_variance": np.broadcast_to(rows.known_variance, len(y)),
        "has_effects": int(has_effects),
        "scale_location": np.zeros(len(of_scales)),
        "scale_prior": [priors[name] for name in of_scales],
        "tau_scale": 1.0,  # if there are no effects
        **{name: value for name, value in priors.items() if name not in of_scales},
        "use_likelihood": int(use_likelihood),
        **_effect_data(y, likelihood, trials, has_effects, use_likelihood),
    }
    if rows.weights is None:
        data["residual_variance"] = (
            np.zeros(len(y)) if rows.residual_variance is None else rows.residual_variance
        )
    if rows.packs:
        packed = rows.packed
        empty = np.empty((0, rows.rows.shape[1]))
        return {**data, "P": packed.shape[1], "packed": packed, "T": 0, "rows": empty,
                "start": [], "length": []}  # fmt: skip
    data |= {
        "T": len(rows.rows),
        "rows": rows.rows,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
    }
    if rows.weights is None:
        return {**data, "P": 0, "packed": np.empty((0, 0))}
    return {**data, "weight": rows.weights, "grainsize": max(1, len(y) // _SLICES)}


def _effect_data(y, likelihood, trials, has_effects, use_likelihood):
    """Information of labels on their bags' effects, for the sampler's coordinates."""
    if not has_effects:
        return {"effect_information": [], "effect_target": []}
    target, information = likelihood.label_on_log_scale(y, trials)
    return {"effect_information": information * use_likelihood, "effect_target": target}


def aggregate_model(
    rows: AggregateRows,
    y: Array,
    likelihood: Likelihood,
    link: Link,
    *,
    trials: Array | None = None,
    prior: Mapping[str, float] | None = None,
    bag_effects: bool = False,
    weight_basis: Array | None = None,
    other_priors: Mapping[str, float] = MappingProxyType({}),
) -> LatentGaussianModel:
    """The model of the link's program, ``stan/fast/aggregate_*.stan``, with its data.

    `rows` are from `link.rows`; with the link "identity" it is a linear regression, `totals_model`.
    `bag_effects` adds a normal effect of each bag to the log rate, or the log odds. `weight_basis`,
    shape (d, d), has the weights of the kernel at the landmarks per weight of a feature.
    `other_priors` are defaults of a program with further parameters.
    """
    if link.is_linear:
        return totals_model(rows, y, prior=prior, weight_basis=weight_basis)
    defaults = rate_priors(rows, y, link, trials) | likelihood.default_priors(rows, y)
    defaults |= other_priors
    scales: tuple[str, ...] = ("rho", *likelihood.scales)
    if bag_effects:
        defaults["tau_scale"] = 1.0
        scales = (*scales, "tau")
    priors = with_user_values(defaults, prior)
    return LatentGaussianModel(
        program=link.program,
        priors=priors,
        data=aggregate_data(rows, y, likelihood, priors, trials=trials, has_effects=bag_effects),
        constants={"total_weight": (rows.total, ["bag"])},
        scales=scales,
        prior_factor=np.eye(rows.rows.shape[1] - 1),
        weight_basis=weight_basis,
        likelihood=partial(
            aggregate_likelihood,
            *(rows, y, likelihood, link),
            trials=trials,
            exact_curvature=rows.weights is None,
        ),
        rho_in_likelihood=link.uses_residual_variance,
        fixed=partial(_fixed, likelihood),
        scale_arrays={"scale": [*likelihood.scales], "tau": ["tau"] if bag_effects else []},
        initial={
            "tau": [_FIRST_TAU] if bag_effects else [],
            "t_effect": np.zeros(len(y) if bag_effects else 0),
        },
        sampler_only=("t", "precision", "t_effect"),
    )


def _fixed(likelihood, scales):
    """Data that fix the likelihood's scales, if it has any, at their marginal modes."""
    values = [scales[name] for name in likelihood.scales]
    return held_at("scale_location", "scale_prior", values)


def rate_priors(
    rows: AggregateRows, y: Array, link: Link, trials: Array | None = None
) -> dict[str, float]:
    """Default priors of level and weights of a model of rates.

    With r the overall rate (for the binomial the share) of all bags, "square": f has the level
    sqrt(r), with a prior sd of a third of it, which also separates f from -f, and a standard
    deviation around half of it; "exp" and "logit": the level log r or logit r, with a prior sd of
    1.5, and a standard deviation around 1. These are over all points together, with their weights.
    """
    overall = float(np.sum(y) / np.sum(rows.total if trials is None else trials))
    function = link.function_prior(overall)
    squares = rows.row_weights[:, None] * rows.rows[:, :-1] ** 2
    squared_norm = np.sum(squares) / np.sum(rows.total)
    return {
        "intercept_location": float(function.level),
        "intercept_scale": float(function.level_sd),
        "rho_median": float(function.sd / np.sqrt(squared_norm)),
        "rho_log_sd": 1.0,
    }


def variational_fit(
    model: LatentGaussianModel,
    rows: AggregateRows,
    y: Array,
    likelihood: Likelihood,
    link: Link,
    *,
    draws: int,
    seed: int | None = None,
) -> Posterior:
    """VBAgg: independent draws from the variational posterior; exact with the link "identity"."""
    if link.is_linear:
        return exact_fit(model, draws=draws, seed=seed)
    scales, mode, _ = most_probable_scales(model)
    rho = scales.pop("rho")
    found = variational_posterior(
        rows, y, likelihood, link, priors=model.priors, rho=rho, mode=mode, scales=scales
    )
    return gaussian_posterior(model, found, scales, draws=draws, seed=seed)
