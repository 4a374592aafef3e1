"""Draws of CmdStan and its statistics of each draw, for every inference method."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bdr_stan.types import Array

# Stan's name -> ArviZ's. Laplace's method names the model's log density and its own differently.
_SAMPLE_STATS = {
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
_LAPLACE_STATS = {"log_p__": "lp", "log_q__": "log_q"}
_STAT_DTYPES = {"diverging": bool, "tree_depth": int, "n_steps": int}


def inference_method(fit: Any) -> str:
    """Inference method of a CmdStanPy fit; TypeError for other objects."""
    import cmdstanpy

    if isinstance(fit, cmdstanpy.CmdStanMCMC):
        return "fixed_param" if fit.divergences is None else "nuts"
    if isinstance(fit, cmdstanpy.CmdStanMLE):
        return "optimize"
    if isinstance(fit, cmdstanpy.CmdStanLaplace):
        return "laplace"
    raise TypeError(f"expected a CmdStanPy fit (MCMC, MLE or Laplace), found {type(fit)}")


def _table(fit: Any) -> Array:
    """All draws after warmup, shape (chain, draw, column)."""
    method = inference_method(fit)
    if method in ("nuts", "fixed_param"):
        return np.swapaxes(fit.draws(inc_warmup=False), 0, 1)
    if method == "optimize":
        return fit.optimized_params_np[None, None]
    return fit.draws()[None]


def stan_draws(fit: Any, names: Iterable[str] | None = None) -> dict[str, Array]:
    """Draws of Stan variables after warmup, name -> array, shape (chain, draw, *variable)."""
    table = _table(fit)
    variables = fit.metadata.stan_vars
    names = list(variables) if names is None else list(names)
    for name in names:
        if name not in variables:
            raise ValueError(
                f"the Stan program has no variable {name!r}; it has {', '.join(variables)}"
            )
    # A copy: otherwise one small variable would keep the whole table in memory.
    return {name: np.array(variables[name].extract_reshape(table), order="C") for name in names}


def sample_stats(fit: Any) -> dict[str, Array]:
    """Statistics of each draw under ArviZ's names, name -> array, shape (chain, draw)."""
    table = _table(fit)
    columns = {n: v.extract_reshape(table) for n, v in fit.metadata.method_vars.items()}
    return renamed_stats(columns, inference_method(fit))


def renamed_stats(columns: Mapping[str, Array], method: str) -> dict[str, Array]:
    """Those columns of a sampler's output that ArviZ has names for, by these names."""
    stats = _LAPLACE_STATS if method == "laplace" else _SAMPLE_STATS
    return {
        stats[name]: np.array(values, dtype=_STAT_DTYPES.get(stats[name]))
        for name, values in columns.items()
        if name in stats
    }


def fit_attrs(fit: Any) -> dict[str, str | int]:
    """Attributes of the posterior group: inference_method, and max_tree_depth for NUTS."""
    method = inference_method(fit)
    if method != "nuts":
        return {"inference_method": method}
    max_tree_depth = int(fit.metadata.cmdstan_config.get("max_depth", 10))
    return {"inference_method": method, "max_tree_depth": max_tree_depth}
