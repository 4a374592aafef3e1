"""Stacking weights of several models."""

import warnings
from collections.abc import Mapping

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from bdr_stan.results.inference_data import InferenceData, arviz, arviz_is_1, build, dataset
from bdr_stan.types import Array, DataFrame

# Weight of the prior in labels, each predicted equally well by all models.
_PRIOR_LABELS = 1.0
# ArviZ raises on constant draws: spread them by less than any difference in log density matters.
_JITTER = np.linspace(-1e-9, 1e-9, 100)


def stack(
    idatas: dict[str, InferenceData], held_out: Mapping[str, Array] | None = None
) -> "DataFrame":
    """Stacking weights of fits to the same labels, one row per fit.

    `idatas` have log_likelihood; `held_out` maps names to log densities of held-out labels, shape
    (n,), that replace it. Columns: elpd (expected log predictive density by leave-one-out), se, p
    (effective number of parameters), max_pareto_k (elpd is unreliable above 0.7; NaN for held-out
    densities) and weight, see `stacking_weights`.

    Source: Yao et al. (2018), "Using stacking to average Bayesian predictive distributions";
    Vehtari et al. (2017) for leave-one-out by Pareto-smoothed importance sampling.
    """
    import pandas as pd

    az, is_1 = arviz(), arviz_is_1()
    held_out = held_out or {}
    idatas = {n: _idata_of_density(held_out[n]) if n in held_out else i for n, i in idatas.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # high Pareto k, which the table contains
        estimates = {name: az.loo(idata, pointwise=True) for name, idata in idatas.items()}
    pointwise = [loo.elpd_i if is_1 else loo.loo_i for loo in estimates.values()]
    weights = stacking_weights(np.column_stack(pointwise))
    rows = {
        name: {
            "elpd": float(loo.elpd if is_1 else loo.elpd_loo),
            "se": float(loo.se),
            "p": float(loo.p if is_1 else loo.p_loo),
            "max_pareto_k": np.nan if name in held_out else float(np.max(loo.pareto_k)),
            "weight": weight,
        }
        for (name, loo), weight in zip(estimates.items(), weights, strict=True)
    }
    return pd.DataFrame(rows).T


def stacking_weights(log_density: Array) -> Array:
    """Weights, shape (K,), of the mixture with the highest log density, under a weak prior.

    `log_density`, shape (n, K), is of n labels that the K models were not fitted to. The prior is a
    Dirichlet distribution with its mode at equal weights, which dominates if labels are few.
    """
    n, K = log_density.shape
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    prior = _PRIOR_LABELS / K

    def loss(x):
        weights = softmax(x)
        mixed = density @ weights
        responsibility = density.T @ (1 / mixed) * weights  # labels attributed to each model
        value = np.log(mixed).sum() + prior * np.log(weights).sum()
        return -value, -(responsibility + prior - (n + _PRIOR_LABELS) * weights)

    return softmax(minimize(loss, np.zeros(K), jac=True, method="L-BFGS-B", tol=1e-12).x)


def _idata_of_density(log_density):
    """An ArviZ object whose leave-one-out density is the given one: constant draws."""
    groups = {
        "log_likelihood": dataset({"y": log_density + _JITTER[None, :, None]}, {"y": ["bag"]}),
        "posterior": dataset({"held_out": _JITTER[None]}, {}),
    }
    return build(groups)
