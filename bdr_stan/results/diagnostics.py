"""Posterior summaries and convergence diagnostics."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from bdr_stan.results.inference_data import Groups, InferenceData, arviz, arviz_is_1, as_groups
from bdr_stan.types import Array, ArrayLike, DataFrame


def _element_names(array):
    """Name of each element of a variable: ``sigma``, ``w[3]``, ``theta[county, 2]``."""
    axes = array.dims[2:]
    labels = [array[axis].values for axis in axes]
    return [
        array.name + (f"[{', '.join(str(v[i]) for v, i in zip(labels, index))}]" if axes else "")
        for index in np.ndindex(array.shape[2:])
    ]


def _convergence(array):
    """Bulk ESS, tail ESS and R-hat of each element, in the order of `_element_names`."""
    data = array.to_dataset(name="x")
    with np.errstate(invalid="ignore", divide="ignore"):
        measures = {
            "ess_bulk": arviz().ess(data, method="bulk"),
            # ArviZ 1.x would use the quantiles of an 89% interval.
            "ess_tail": arviz().ess(data, method="tail", prob=(0.05, 0.95)),
            "r_hat": arviz().rhat(_with_two_chains(array).to_dataset(name="x"), method="rank"),
        }
    # Undefined for constant elements: the ArviZ versions return different values.
    varies = np.ravel(array.values.min(axis=(0, 1)) < array.values.max(axis=(0, 1)))
    return {c: np.where(varies, np.ravel(v["x"].values), np.nan) for c, v in measures.items()}


def _with_two_chains(array):
    """A single chain as its two halves, which R-hat compares; more chains unchanged."""
    n_chains, n_draws = array.shape[:2]
    if n_chains > 1:
        return array
    from xarray import DataArray

    halves = array.values[:, : n_draws // 2 * 2].reshape(2, n_draws // 2, *array.shape[2:])
    return DataArray(halves, dims=array.dims)


def summary(idata: InferenceData | Groups, var_names: Iterable[str] | None = None) -> "DataFrame":
    """Mean, sd, 95% interval and after NUTS ESS and R-hat of each element of the parameters."""
    import pandas as pd

    parts = []
    posterior = as_groups(idata)["posterior"]
    is_mcmc = posterior.attrs.get("inference_method") == "nuts"
    for name in posterior.data_vars if var_names is None else var_names:
        if name not in posterior.data_vars:
            names = ", ".join(map(str, posterior.data_vars))
            raise ValueError(f"the posterior has no variable {name!r}; it has {names}")
        array = posterior[name]
        draws = array.values.reshape(array.shape[0] * array.shape[1], -1)
        columns = {"mean": draws.mean(axis=0)}
        if len(draws) > 1:
            columns["sd"] = draws.std(axis=0, ddof=1)
            columns["2.5%"], columns["97.5%"] = np.quantile(draws, [0.025, 0.975], axis=0)
        if is_mcmc:
            columns |= _convergence(array)
        parts.append(pd.DataFrame(columns, index=_element_names(array)))
    if not parts:
        raise ValueError("no posterior variable is left to summarise")
    return pd.concat(parts)


def diagnostics(idata: InferenceData | Groups) -> dict[str, Any]:
    """Convergence diagnostics of a fit, as a dict with the key method and

    * for "nuts": n_chains, n_draws (per chain), divergences (a count), max_r_hat, min_ess_bulk
      and min_ess_tail (NaN if no element varies), each with the element it belongs to in
      max_r_hat_of and so on (None if no element varies), min_e_bfmi (over chains),
      share_at_max_tree_depth, max_tree_depth, mean_n_steps;
    * for "laplace": n_draws and pareto_k, the Pareto k-hat of the importance ratios of the
      posterior to the approximation. It is NaN for fewer than 25 draws, and on more than 3,000 bags
      of a family.

    Source: Vehtari et al. (2021) for R-hat and ESS, Betancourt (2016) for E-BFMI, Yao et al.
    (2018) and Vehtari et al. (2024) for Pareto k-hat.
    """
    posterior = as_groups(idata)["posterior"]
    measured = {"method": posterior.attrs.get("inference_method")}
    if measured["method"] == "nuts":
        return measured | _nuts_diagnostics(idata)
    if measured["method"] == "laplace":
        return measured | {"n_draws": posterior.sizes["draw"], "pareto_k": _pareto_k(idata)}
    return measured


def _nuts_diagnostics(idata):
    groups = as_groups(idata)
    stats = groups["sample_stats"]
    max_tree_depth = int(groups["posterior"].attrs.get("max_tree_depth", 10))
    n_chains, n_draws = stats["diverging"].shape
    energy = stats["energy"].values
    jumps = (np.diff(energy, axis=1) ** 2).sum(axis=1)
    spread = ((energy - energy.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return {
        "n_chains": n_chains,
        "n_draws": n_draws,
        "divergences": int(stats["diverging"].sum()),
        **_worst(summary(idata)),
        "min_e_bfmi": float((jumps / spread).min()),
        "share_at_max_tree_depth": float((stats["tree_depth"] >= max_tree_depth).mean()),
        "max_tree_depth": max_tree_depth,
        "mean_n_steps": float(stats["n_steps"].mean()),
    }


def _worst(table):
    """The worst R-hat and ESS of a summary, and the element each belongs to."""
    worst = {}
    for name, column, place in [
        ("max_r_hat", "r_hat", "idxmax"),
        ("min_ess_bulk", "ess_bulk", "idxmin"),
        ("min_ess_tail", "ess_tail", "idxmin"),
    ]:
        values = table[column].dropna()
        element = getattr(values, place)() if len(values) else None
        worst[name] = float("nan") if element is None else float(values[element])
        worst[f"{name}_of"] = element
    return worst


def _pareto_k(idata):
    """Pareto k-hat of the draws; NaN without their densities."""
    groups = as_groups(idata)
    if "sample_stats" not in groups:
        return float("nan")
    stats = groups["sample_stats"]
    return pareto_smoothed((stats["lp"] - stats["log_q"]).values.ravel())[1]


def pareto_smoothed(log_ratios: ArrayLike) -> tuple[Array, float]:
    """Pareto-smoothed importance weights, shape (S,), sum 1, and the k-hat of their tail.

    `log_ratios`, shape (S,), are log densities of the target minus the proposal, up to a constant;
    NaN counts as density 0 of the target. The weights are reliable for k-hat below 0.7. k-hat is
    NaN for fewer than 25 draws and for constant ratios, which have no tail.

    Source: Vehtari, Simpson, Gelman, Yao, Gabry (2024), as in ArviZ.
    """
    log_ratios = np.where(np.isnan(log_ratios), -np.inf, log_ratios)
    if len(log_ratios) < 25 or np.ptp(log_ratios) == 0:
        weights = np.exp(log_ratios - log_ratios.max())
        return weights / weights.sum(), float("nan")
    if arviz_is_1():
        from arviz_stats.base import array_stats

        log_weights, k = array_stats.psislw(-log_ratios)  # expects log likelihoods
    else:
        log_weights, k = arviz().psislw(log_ratios)
    return np.exp(log_weights), float(k)
