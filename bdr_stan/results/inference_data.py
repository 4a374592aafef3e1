"""Draws to one ArviZ object with named dimensions, and that object to a file and back.

The one place that knows ArviZ 0.x (``InferenceData``) from 1.x (``xarray.DataTree``).
"""

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CONFIG_ATTRIBUTE = "bdr_stan_config"

# Stan's name -> ArviZ's. Approximations name the model's log density and their own differently.
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
_PATHFINDER_STATS = {"lp__": "lp", "lp_approx__": "log_q"}
_VARIATIONAL_STATS = {"log_p__": "lp", "log_g__": "log_q"}  # its lp__ is always 0
_STATS_OF = {
    "nuts": _SAMPLE_STATS,
    "fixed_param": _SAMPLE_STATS,
    "optimize": _SAMPLE_STATS,
    "laplace": _LAPLACE_STATS,
    "pathfinder": _PATHFINDER_STATS,
    "variational": _VARIATIONAL_STATS,
}
_DTYPE_OF = {"diverging": bool, "tree_depth": int, "n_steps": int}


# ---------------------------------------------------------------- from a CmdStanPy fit


def inference_method(fit):
    """Name of the method behind a CmdStanPy fit.

    Parameters
    ----------
    fit : CmdStanMCMC, CmdStanMLE, CmdStanLaplace, CmdStanPathfinder or CmdStanVB

    Returns
    -------
    str, "nuts", "fixed_param", "optimize", "laplace", "pathfinder" or "variational"

    Raises
    ------
    TypeError : `fit` is none of these.
    """
    import cmdstanpy

    if isinstance(fit, cmdstanpy.CmdStanMCMC):
        return "fixed_param" if fit.divergences is None else "nuts"
    for kind, method in [
        (cmdstanpy.CmdStanMLE, "optimize"),
        (cmdstanpy.CmdStanLaplace, "laplace"),
        (cmdstanpy.CmdStanPathfinder, "pathfinder"),
        (cmdstanpy.CmdStanVB, "variational"),
    ]:
        if isinstance(fit, kind):
            return method
    raise TypeError(
        f"expected a CmdStanPy fit (MCMC, MLE, Laplace, Pathfinder or VB), found {type(fit)}"
    )


def _table(fit):
    """Everything a fit wrote after warmup, shape (chain, draw, column)."""
    method = inference_method(fit)
    if method in ("nuts", "fixed_param"):
        return np.swapaxes(fit.draws(inc_warmup=False), 0, 1)
    if method == "optimize":
        return fit.optimized_params_np[None, None]
    if method == "variational":
        return fit.variational_sample[None]
    return fit.draws()[None]


def stan_draws(fit, names=None):
    """Draws of named Stan variables, read into memory; warmup is left out.

    Parameters
    ----------
    fit : CmdStanPy fit, see `inference_method`
    names : list of str, Stan variables; None for all

    Returns
    -------
    dict, name -> array, shape (chain, draw, *shape of the variable). All methods but
    MCMC give one chain, optimisation one draw.

    Raises
    ------
    ValueError : the program has no variable of that name.
    """
    table = _table(fit)
    variables = fit.metadata.stan_vars
    names = list(variables) if names is None else list(names)
    for name in names:
        if name not in variables:
            raise ValueError(
                f"the Stan program has no variable {name!r}; it has {', '.join(variables)}"
            )
    # A copy, so that one small variable does not keep the whole table in memory.
    return {name: np.array(variables[name].extract_reshape(table), order="C") for name in names}


def sample_stats(fit):
    """What the method reports of each draw, under ArviZ's names; warmup is left out.

    Parameters
    ----------
    fit : CmdStanPy fit, see `inference_method`

    Returns
    -------
    dict, name -> array, shape (chain, draw). NUTS: lp, acceptance_rate, step_size,
    tree_depth, n_steps, diverging (bool), energy. Optimisation: lp. Laplace, Pathfinder,
    variational: lp, the model's log density, and log_q, the approximation's.
    """
    stats = _STATS_OF[inference_method(fit)]
    table = _table(fit)
    return {
        stats[name]: np.array(variable.extract_reshape(table), dtype=_DTYPE_OF.get(stats[name]))
        for name, variable in fit.metadata.method_vars.items()
        if name in stats
    }


def fit_attrs(fit):
    """Attributes of a posterior group that `summary` and `diagnostics` read.

    Parameters
    ----------
    fit : CmdStanPy fit, see `inference_method`

    Returns
    -------
    dict, `inference_method` (str) and for NUTS `max_tree_depth` (int)
    """
    attrs = {"inference_method": inference_method(fit)}
    if attrs["inference_method"] == "nuts":
        attrs["max_tree_depth"] = int(fit.metadata.cmdstan_config.get("max_depth", 10))
    return attrs


# ---------------------------------------------------------------- groups


def dataset(variables, dims, coords=None, *, attrs=None, sample=True):
    """Arrays with named dimensions: one group.

    Parameters
    ----------
    variables : dict, name -> array, shape (chain, draw, ...) if `sample`, else (...)
    dims : dict, name -> list of dimension names, without chain and draw; scalars may be absent
    coords : dict, dimension -> labels; dimensions that no variable has are left out
    attrs : dict, str -> str or number
    sample : bool, whether the arrays start with the axes chain and draw

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    ValueError : an array has another number of axes than it has names.
    """
    import xarray as xr

    leading = ["chain", "draw"] if sample else []
    arrays, sizes = {}, {}
    for name, values in variables.items():
        values = np.asarray(values)
        axes = [*leading, *dims.get(name, [])]
        if values.ndim != len(axes):
            raise ValueError(
                f"variable {name!r} has shape {values.shape}, expected axes ({', '.join(axes)})"
            )
        arrays[name] = (axes, values)
        sizes.update(zip(axes, values.shape))
    labels = {axis: np.arange(sizes[axis]) for axis in leading if axis in sizes}
    labels |= {axis: _labels(v) for axis, v in (coords or {}).items() if axis in sizes}
    return xr.Dataset(arrays, coords=labels, attrs=attrs)


def _labels(values):
    """Labels as an array that NetCDF can keep: text, numbers or dates, not mixed objects."""
    labels = np.asarray(values)
    if labels.ndim != 1 or labels.dtype.kind in "OT":
        return np.array([str(label) for label in values])
    return labels


def groups_from_fit(fit, names, dims, coords=None):
    """The groups posterior and sample_stats of a CmdStanPy fit.

    Parameters
    ----------
    fit : CmdStanPy fit, see `inference_method`
    names : list of str, Stan variables to keep
    dims, coords : see `dataset`

    Returns
    -------
    dict, "posterior" and "sample_stats" -> xarray.Dataset, to be completed and given to `build`
    """
    attrs = fit_attrs(fit)
    return {
        "posterior": dataset(stan_draws(fit, names), dims, coords, attrs=attrs),
        "sample_stats": dataset(sample_stats(fit), {}, attrs=attrs),
    }


def _arviz():
    """ArviZ, imported late (it takes seconds) and without its notice about version 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def build(groups):
    """Groups to the object of the installed ArviZ.

    Parameters
    ----------
    groups : dict, group name -> xarray.Dataset

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
    """
    arviz = _arviz()
    if arviz.__version__.startswith("0."):
        return arviz.InferenceData(**groups)
    from xarray import DataTree

    return DataTree.from_dict(groups)


def groups_of(idata):
    """The groups of an ArviZ object of either version.

    Parameters
    ----------
    idata : arviz.InferenceData, xarray.DataTree, or the groups themselves

    Returns
    -------
    dict, group name -> xarray.Dataset
    """
    if isinstance(idata, dict):
        return idata
    if hasattr(idata, "children"):
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name] for name in idata.groups()}


# ---------------------------------------------------------------- file


def save(idata, path, config):
    """Write an ArviZ object and a configuration to one NetCDF file.

    The file appears under its name when it is complete; one that was there is replaced.
    Either ArviZ version reads it, with `load` or with `arviz.from_netcdf`.

    Parameters
    ----------
    idata : arviz.InferenceData, xarray.DataTree, or groups, name -> xarray.Dataset
    path : str or Path
    config : dict, what JSON can hold (NumPy numbers and arrays become numbers and lists)

    Raises
    ------
    FileNotFoundError : the folder does not exist.
    TypeError : `config` holds what JSON cannot.
    """
    import xarray as xr

    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"cannot save to {path}: it is a folder, give a file name")
    text = json.dumps(config, default=_plain)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        xr.Dataset(attrs={CONFIG_ATTRIBUTE: text}).to_netcdf(partial, mode="w", engine="h5netcdf")
        for name, group in groups_of(idata).items():
            encoding = {
                variable: {"zlib": True, "complevel": 1}
                for variable, array in group.variables.items()
                if array.dtype.kind in "biuf" and array.ndim and array.size
            }
            group.to_netcdf(partial, mode="a", group=name, engine="h5netcdf", encoding=encoding)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _plain(value):
    """NumPy numbers and arrays as JSON's numbers and lists."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"the configuration holds a {type(value).__name__}, which JSON cannot: {value}")


def load(path):
    """Read a file of `save`, wholly into memory.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    idata : arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
    config : dict

    Raises
    ------
    FileNotFoundError : there is no such file.
    ValueError : the file was not written by `save`.
    """
    groups, config = load_groups(path)
    return build(groups), config


def load_groups(path):
    """As `load`, but the groups, name -> xarray.Dataset, instead of one object."""
    import h5netcdf
    import xarray as xr

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with h5netcdf.File(path, "r") as file:
            text = file.attrs.get(CONFIG_ATTRIBUTE)
            names = list(file.groups)
    except OSError as error:
        raise ValueError(f"{path} is no fit saved by bdr_stan: not a NetCDF file") from error
    if text is None:
        raise ValueError(
            f"{path} is no fit saved by bdr_stan: it has no attribute {CONFIG_ATTRIBUTE!r}"
        )
    groups = {name: xr.load_dataset(path, group=name, engine="h5netcdf") for name in names}
    return groups, json.loads(text)


# ---------------------------------------------------------------- summary and diagnostics


def _variables(idata, var_names, skip):
    """Posterior variables asked for, name -> DataArray."""
    posterior = groups_of(idata)["posterior"]
    names = list(posterior.data_vars) if var_names is None else list(var_names)
    for name in names:
        if name not in posterior.data_vars:
            raise ValueError(
                f"the posterior has no variable {name!r}; it has {', '.join(posterior.data_vars)}"
            )
    return {name: posterior[name] for name in names if name not in skip}


def _element_names(array):
    """A name for each element of a draw: ``sigma``, ``w[3]``, ``theta[county, 2]``."""
    axes = array.dims[2:]
    labels = [array[axis].values for axis in axes]
    return [
        array.name + (f"[{', '.join(str(v[i]) for v, i in zip(labels, index))}]" if axes else "")
        for index in np.ndindex(array.shape[2:])
    ]


def _convergence(array):
    """Bulk ESS, tail ESS and R-hat of each element, in the order of `_element_names`."""
    arviz = _arviz()
    data = array.to_dataset(name="x")
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {
            "ess_bulk": arviz.ess(data, method="bulk"),
            "ess_tail": arviz.ess(data, method="tail"),
            "r_hat": arviz.rhat(data, method="rank"),
        }
    # What never varies has none of the three; the ArviZ versions differ in what they say of it.
    varies = np.ravel(array.values.min(axis=(0, 1)) < array.values.max(axis=(0, 1)))
    return {c: np.where(varies, np.ravel(v["x"].values), np.nan) for c, v in found.items()}


def summary(idata, var_names=None, *, skip=()):
    """Posterior mean, sd and central 95% interval of each parameter.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    var_names : list of str, posterior variables; None for all
    skip : collection of str, variables to leave out

    Returns
    -------
    pandas.DataFrame, one row per element; columns mean, sd, 2.5%, 97.5% (quantiles) and, for
    MCMC alone, ess_bulk, ess_tail, r_hat. A single draw (optimisation) has no sd and no
    interval: they are NaN.

    Raises
    ------
    ValueError : the posterior has no variable of that name.
    """
    import pandas as pd

    parts = []
    for array in _variables(idata, var_names, skip).values():
        draws = array.values.reshape(array.shape[0] * array.shape[1], -1)
        columns = {"mean": draws.mean(axis=0)}
        if len(draws) > 1:
            columns["sd"] = draws.std(axis=0, ddof=1)
            columns["2.5%"], columns["97.5%"] = np.quantile(draws, [0.025, 0.975], axis=0)
        else:
            columns |= dict.fromkeys(["sd", "2.5%", "97.5%"], np.nan)
        if _is_mcmc(idata):
            columns |= _convergence(array)
        parts.append(pd.DataFrame(columns, index=_element_names(array)))
    if not parts:
        raise ValueError("no posterior variable is left to summarise")
    return pd.concat(parts)


def _is_mcmc(idata):
    return groups_of(idata)["posterior"].attrs.get("inference_method") == "nuts"


def diagnostics(idata, *, max_tree_depth=None, skip=()):
    """How well the draws of a fit stand for the posterior.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    max_tree_depth : int, the limit NUTS ran with; None for the posterior's attribute, else 10
    skip : collection of str, variables to leave out

    Returns
    -------
    dict, method (the posterior's attribute `inference_method`) and

    * for "nuts": n_chains, n_draws (per chain), divergences (a count), max_r_hat and
      max_r_hat_of, min_ess_bulk and min_ess_bulk_of, min_ess_tail and min_ess_tail_of (the value
      and the element it belongs to; NaN and None where nothing varies), min_e_bfmi (over
      chains), share_at_max_tree_depth, max_tree_depth, mean_n_steps;
    * for "laplace" and "pathfinder": n_draws and pareto_k, the Pareto k-hat of the importance
      ratios of the posterior to the approximation. NaN where there are fewer than 25 draws, or
      where Stan resampled Pathfinder's, which hides it.

    Source: Vehtari et al. (2021) for R-hat and ESS, Betancourt (2016) for E-BFMI, Yao et al.
    (2018) and Vehtari et al. (2024) for Pareto k-hat.
    """
    posterior = groups_of(idata)["posterior"]
    found = {"method": posterior.attrs.get("inference_method")}
    if found["method"] == "nuts":
        return found | _of_nuts(idata, max_tree_depth, skip)
    if found["method"] in ("laplace", "pathfinder"):
        return found | {"n_draws": posterior.sizes["draw"], "pareto_k": _pareto_k(idata)}
    return found


def _of_nuts(idata, max_tree_depth, skip):
    groups = groups_of(idata)
    stats = groups["sample_stats"]
    if max_tree_depth is None:
        max_tree_depth = int(groups["posterior"].attrs.get("max_tree_depth", 10))
    n_chains, n_draws = stats["diverging"].shape
    energy = stats["energy"].values
    jumps = (np.diff(energy, axis=1) ** 2).sum(axis=1)
    spread = ((energy - energy.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return {
        "n_chains": n_chains,
        "n_draws": n_draws,
        "divergences": int(stats["diverging"].sum()),
        **_worst(summary(idata, skip=skip)),
        "min_e_bfmi": float((jumps / spread).min()),
        "share_at_max_tree_depth": float((stats["tree_depth"] >= max_tree_depth).mean()),
        "max_tree_depth": max_tree_depth,
        "mean_n_steps": float(stats["n_steps"].mean()),
    }


def _pareto_k(idata):
    """Of Laplace's draws from their log densities; of Pathfinder's as it was before resampling."""
    groups = groups_of(idata)
    if groups["posterior"].attrs["inference_method"] == "pathfinder":
        return float(groups["posterior"].attrs.get("pareto_k", np.nan))
    stats = groups["sample_stats"]
    return pareto_smoothed((stats["lp"] - stats["log_q"]).values.ravel())[1]


def pareto_smoothed(log_ratios):
    """Pareto-smoothed importance weights, and the k-hat that says whether to trust them.

    Parameters
    ----------
    log_ratios : array, shape (S,)
        Log density of the target minus that of the approximation, on one scale, up to a
        constant. What is not a number counts as a draw the target does not allow.

    Returns
    -------
    weights : array, shape (S,), sum 1
    k : float
        Shape of the ratios' tail. Below 0.7 the weighted draws can be trusted; NaN where fewer
        than 25 draws, or ratios that are all the same, have no tail to look at.

    Source: Vehtari, Simpson, Gelman, Yao, Gabry (2024), by ArviZ.
    """
    log_ratios = np.where(np.isnan(log_ratios), -np.inf, log_ratios)
    if len(log_ratios) < 25 or np.ptp(log_ratios) == 0:
        weights = np.exp(log_ratios - log_ratios.max())
        return weights / weights.sum(), float("nan")
    arviz = _arviz()
    if arviz.__version__.startswith("0."):
        log_weights, k = arviz.psislw(log_ratios)
    else:
        from arviz_stats.base import array_stats

        log_weights, k = array_stats.psislw(-log_ratios)  # takes log likelihoods left out
    return np.exp(log_weights), float(k)


def _worst(table):
    """The worst R-hat and ESS of a summary, and whose they are."""
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


# ---------------------------------------------------------------- what it means, what to do


@dataclass(frozen=True)
class _Check:
    """One measured quantity: its value and the good values as text, and what to do if it is bad."""

    quantity: str
    measured: str
    good: str
    bad: bool
    trouble: str
    advice: str


# Every advice is tried in tests/test_sampling_advice.py. A narrower prior of sigma makes it worse.
_NARROW = "narrow the priors of the scales (in prior: rho_log_sd and others that end so)"
_WITHOUT_CHECKS = {
    "optimize": "The posterior mode, a single point: it says nothing of uncertainty in the "
    "parameters, and nothing measures its distance from the posterior.",
    "exact": "Independent draws from the exact posterior of the weights at the scales of highest "
    "evidence: nothing to converge; uncertainty in the scales is left out.",
}


def _checks(d):
    if d.get("method") == "nuts":
        return _nuts_checks(d)
    return [_pareto_check(d)] if "pareto_k" in d else []


def _nuts_checks(d):
    total = d["n_chains"] * d["n_draws"]
    enough = 100 * d["n_chains"]
    checks = [
        _Check(
            "divergences",
            f"{d['divergences']}",
            "0",
            d["divergences"] > 0,
            f"{d['divergences']} of {total} transitions diverged, so the draws may miss part of "
            "the posterior.",
            f"Raise adapt_delta (0.95, then 0.99); if some remain, {_NARROW}.",
        ),
        _Check(
            "R-hat",
            _of(d, "max_r_hat", ".3f"),
            "<= 1.01",
            d["max_r_hat"] > 1.01,
            f"R-hat of {d['max_r_hat_of']} is {d['max_r_hat']:.3f} (at most 1.01 is good): the "
            "chains do not agree yet.",
            "Raise warmup and draws; if it stays, look for several modes or parameters the data "
            "do not determine.",
        ),
    ]
    for part, of_what in [("bulk", "its mean"), ("tail", "its interval")]:
        ess, element = d[f"min_ess_{part}"], d[f"min_ess_{part}_of"]
        checks.append(
            _Check(
                f"{part} ESS",
                _of(d, f"min_ess_{part}", ".0f"),
                f">= {enough}",
                ess < enough,
                f"The {part} effective sample size of {element} is {ess:.0f} (at least {enough} "
                f"is good): {of_what} is imprecise.",
                "Raise draws.",
            )
        )
    e_bfmi, at_limit = d["min_e_bfmi"], d["share_at_max_tree_depth"]
    return [
        *checks,
        _Check(
            "E-BFMI",
            "unknown" if np.isnan(e_bfmi) else f"{e_bfmi:.2f}",
            ">= 0.3",
            e_bfmi < 0.3,
            f"The smallest E-BFMI of a chain is {e_bfmi:.2f} (at least 0.3 is good): the chains "
            "change energy slowly and may not reach the tails.",
            # Longer warmup was tried, and does not help.
            f"N{_NARROW[1:]}; in a program of your own, sample what a scale governs in "
            "units of that scale.",
        ),
        _Check(
            "tree depth",
            f"{at_limit:.1%} at {d['max_tree_depth']}",
            "none",
            at_limit > 0,
            f"{at_limit:.1%} of the transitions stopped at the largest tree depth "
            f"{d['max_tree_depth']}, before they had moved far: R-hat and effective sample sizes "
            "suffer.",
            f"Raise max_treedepth, or {_NARROW}.",
        ),
    ]


def _pareto_check(d):
    k = d["pareto_k"]
    return _Check(
        "Pareto k-hat",
        "unknown" if np.isnan(k) else f"{k:.2f}",
        "<= 0.7",
        k > 0.7,
        f"Pareto k-hat of the {d['method']} approximation is {k:.2f} (at most 0.7 is good): it is "
        "far from the posterior.",
        'Use method="nuts".',
    )


def _of(d, name, form):
    return "unknown" if d[f"{name}_of"] is None else f"{d[name]:{form}} of {d[f'{name}_of']}"


def sampling_warnings(diagnostics):
    """What is wrong with a sample, and what to do about it.

    Parameters
    ----------
    diagnostics : dict, from the function `diagnostics`

    Returns
    -------
    list of str, one sentence or two for each trouble, empty when there is none

    Source: the thresholds are those of Vehtari et al. (2021), R-hat 1.01 and an ESS of 100 per
    chain, of Stan's own diagnose command, E-BFMI 0.3, and of Vehtari et al. (2024), k-hat 0.7.
    """
    return [f"{check.trouble} {check.advice}" for check in _checks(diagnostics) if check.bad]


def report(diagnostics):
    """What was measured of a sample, line by line, with the good values and what to do.

    Parameters
    ----------
    diagnostics : dict, from the function `diagnostics`

    Returns
    -------
    str, a heading and for NUTS, Laplace and Pathfinder a line for each quantity
    """
    checks = _checks(diagnostics)
    rows = [(c.quantity, c.measured, f"(good: {c.good})", _verdict(c)) for c in checks]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["".join(f"  {cell:{width}}" for cell, width in zip(row, widths)) for row in rows]
    return "\n".join([_heading(diagnostics), *(line.rstrip() for line in lines)])


def _verdict(check):
    if check.bad:
        return check.advice
    return "" if check.measured == "unknown" else "ok"


def _heading(d):
    if d["method"] == "nuts":
        return (
            f"NUTS: {d['n_chains']} chains x {d['n_draws']} draws, "
            f"{d['mean_n_steps']:.1f} leapfrog steps a draw"
        )
    if "pareto_k" in d:
        return f"{d['method'].capitalize()}: {d['n_draws']} draws of an approximation"
    return _WITHOUT_CHECKS.get(d["method"], f"Nothing is measured of method {d['method']!r}.")


# ---------------------------------------------------------------- model averaging


def stack(idatas):
    """Weights that stack the predictive distributions of several fits to the same labels.

    Parameters
    ----------
    idatas : dict, name -> arviz.InferenceData or xarray.DataTree, each with log_likelihood

    Returns
    -------
    pandas.DataFrame, one row a fit in the given order: elpd (expected log predictive density of
    new labels by leave-one-out), se (its standard error), p (effective number of parameters),
    max_pareto_k (above 0.7 the elpd is not to be trusted) and weight, of sum 1.

    Source: Yao et al. (2018), "Using stacking to average Bayesian predictive distributions";
    Vehtari et al. (2017) for leave-one-out by Pareto-smoothed importance sampling.
    """
    import pandas as pd

    arviz = _arviz()
    first = arviz.__version__.startswith("0.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of high Pareto k, which the table shows
        found = {name: arviz.loo(idata, pointwise=True) for name, idata in idatas.items()}
        options = {} if first else {"round_to": "none"}
        compared = arviz.compare(dict(found), method="stacking", **options)
    rows = {
        name: {
            "elpd": float(loo.elpd_loo if first else loo.elpd),
            "se": float(loo.se),
            "p": float(loo.p_loo if first else loo.p),
            "max_pareto_k": float(np.max(loo.pareto_k)),
            "weight": float(compared.loc[name, "weight"]),
        }
        for name, loo in found.items()
    }
    table = pd.DataFrame(rows).T
    table["weight"] *= table["weight"] > 1e-6  # the optimiser ends near zero, not at it
    table["weight"] /= table["weight"].sum()
    return table
