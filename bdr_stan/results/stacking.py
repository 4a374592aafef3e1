"""Weights of several models for one prediction."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bdr_stan.results.inference_data import InferenceData, arviz, arviz_is_1, build, dataset
from bdr_stan.types import Array

if TYPE_CHECKING:
    import pandas as pd

# Draws that agree: nearly, as ArviZ refuses tails without spread.
_NEARLY_0 = np.linspace(-1e-9, 1e-9, 100)


def stack(
    idatas: dict[str, InferenceData], held_out: Mapping[str, Array] | None = None
) -> "pd.DataFrame":
    """Weights that stack the predictive distributions of several fits to the same labels.

    Parameters
    ----------
    idatas : dict, name -> arviz.InferenceData or xarray.DataTree, each with log_likelihood
    held_out : dict, name -> array, shape (n,), optional
        In place of a log_likelihood: log densities of labels that were held out.

    Returns
    -------
    pandas.DataFrame, one row a fit in the given order: elpd (expected log predictive density of
    new labels by leave-one-out), se (its standard error), p (effective number of parameters),
    max_pareto_k (above 0.7 the elpd is not to be trusted, NaN of what was held out) and weight,
    of sum 1.

    Source: Yao et al. (2018), "Using stacking to average Bayesian predictive distributions";
    Vehtari et al. (2017) for leave-one-out by Pareto-smoothed importance sampling.
    """
    import pandas as pd

    az, is_1 = arviz(), arviz_is_1()
    held_out = held_out or {}
    idatas = {n: _of_one_density(held_out[n]) if n in held_out else i for n, i in idatas.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of high Pareto k, which the table shows
        found = {name: az.loo(idata, pointwise=True) for name, idata in idatas.items()}
        options = {"round_to": "none"} if is_1 else {}
        compared = az.compare(dict(found), method="stacking", **options)
    rows = {
        name: {
            "elpd": float(loo.elpd if is_1 else loo.elpd_loo),
            "se": float(loo.se),
            "p": float(loo.p if is_1 else loo.p_loo),
            "max_pareto_k": np.nan if name in held_out else float(np.max(loo.pareto_k)),
            "weight": float(compared.loc[name, "weight"]),
        }
        for name, loo in found.items()
    }
    table = pd.DataFrame(rows).T
    table["weight"] *= table["weight"] > 1e-6  # the optimiser ends near zero, not at it
    table["weight"] /= table["weight"].sum()
    return table


def _of_one_density(log_density):
    """An object whose leave-one-out density is the one given, as all of its draws agree."""
    groups = {
        "log_likelihood": dataset({"y": log_density + _NEARLY_0[None, :, None]}, {"y": ["bag"]}),
        "posterior": dataset({"held_out": _NEARLY_0[None]}, {}),
    }
    return build(groups)
