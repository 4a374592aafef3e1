"""Stacking weights of several models."""

import warnings
from collections.abc import Mapping

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from bdr_stan.results.inference_data import InferenceData, arviz, arviz_is_1
from bdr_stan.types import Array, DataFrame

# Weight of the prior in labels, each predicted equally well by all models.
_PRIOR_LABELS = 1.0


def stack(
    idatas: dict[str, InferenceData], held_out: Mapping[str, Array] | None = None
) -> "DataFrame":
    """Stacking weights of fits to the same labels, one row per fit.

    `held_out` maps names to log densities of held-out labels, shape (n,), which then replace
    leave-one-out. Columns are elpd, se, p, max_pareto_k (NaN for held-out densities) and weight.

    Source: Yao et al. (2018), "Using stacking to average Bayesian predictive distributions";
    Vehtari et al. (2017) for leave-one-out by Pareto-smoothed importance sampling.
    """
    import pandas as pd

    held_out = held_out or {}
    rows, log_densities = {}, []
    for name, idata in idatas.items():
        if name in held_out:
            log_density = held_out[name]
            se = np.sqrt(len(log_density)) * np.std(log_density)
            row = {"elpd": np.sum(log_density), "se": se, "p": 0.0, "max_pareto_k": np.nan}
        else:
            row, log_density = _by_leave_one_out(idata)
        rows[name] = row
        log_densities.append(log_density)
    weights = stacking_weights(np.column_stack(log_densities))
    return pd.DataFrame.from_dict(rows, orient="index").assign(weight=weights)


def _by_leave_one_out(idata):
    """Columns of the table for a fit, and its log density of each label, shape (n,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # high Pareto k, which the table contains
        loo = arviz().loo(idata, pointwise=True)
    names = ("elpd", "p", "elpd_i") if arviz_is_1() else ("elpd_loo", "p_loo", "loo_i")
    elpd, p, each = (getattr(loo, name) for name in names)
    k = float(np.max(loo.pareto_k))
    return {"elpd": float(elpd), "se": float(loo.se), "p": float(p), "max_pareto_k": k}, each


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
