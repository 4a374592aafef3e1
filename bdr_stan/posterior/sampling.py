"""Run a Stan program on a data dictionary by any of CmdStan's methods."""

import os
import re
import sys
import tempfile

import numpy as np

from bdr_stan.results.diagnostics import pareto_smoothed

METHODS = ("nuts", "optimize", "laplace", "pathfinder")


def run(
    program, data, inits, *, method, chains, warmup, draws, seed, progress, options, reader, unit=None
):
    """Run CmdStan on a program and read what it wrote.

    Parameters
    ----------
    program : str or path
        Name of a stock program, or path of a .stan file.
    data : dict
        The program's data.
    inits : list of dict, one for each chain
        Initial values. Pathfinder runs a path from each, optimize and laplace take the first.
    method : {"nuts", "optimize", "laplace", "pathfinder"}
    chains, warmup, draws : int
        Chains, and iterations of each; laplace and pathfinder give `draws` in one chain.
        Pathfinder draws that many from each path and keeps `draws` of them all, see `resampled`.
    seed : int or None
    progress : bool or None
        None shows compiling on stderr, True also the chains' progress on a terminal.
    options : dict
        Further arguments of the cmdstanpy method.
    reader : callable
        Given the CmdStanPy fit while its files are there; returns draws and sample_stats, dicts
        of arrays of shape (chain, draw, ...), and attributes, a dict.
    unit : dict, parameter -> float, optional
        About how wide the posterior of a parameter is on the unconstrained scale, 1 where it
        is missing: where NUTS begins to learn its metric.

    Returns
    -------
    draws, sample_stats, attributes
        What `reader` returned.

    Raises
    ------
    ValueError
        An option that pathfinder sets itself.
    RuntimeError
        Stan's own message if it fails.
    """
    if method == "pathfinder":
        _check_pathfinder(options)

    import cmdstanpy

    from bdr_stan.cmdstan.programs import compile_program

    model = compile_program(program, progress=progress)
    common = {"data": data, "seed": seed, "sig_figs": 12}
    bars = bool(progress) and sys.stderr.isatty()
    threads = options.get("threads_per_chain") or 1
    with tempfile.TemporaryDirectory() as folder, cmdstanpy.disable_logging():
        common["output_dir"] = folder
        try:
            if method == "nuts":
                fit = model.sample(
                    **{
                        **common,
                        "inits": inits,
                        "chains": chains,
                        "parallel_chains": max(1, min(chains, (os.cpu_count() or 1) // threads)),
                        "iter_warmup": warmup,
                        "iter_sampling": draws,
                        "show_progress": bars,
                        **_first_metric(model, inits[0], unit or {}),
                        **options,
                    }
                )
            elif method == "optimize":
                fit = model.optimize(**{**common, "inits": inits[0], **options})
            elif method == "laplace":
                # A folder of its own: CmdStanPy names files by the second.
                apart = {"output_dir": os.path.join(folder, "mode")}
                mode = model.optimize(**{**common, **apart, "inits": inits[0], "jacobian": True})
                fit = model.laplace_sample(**{**common, "mode": mode, "draws": draws, **options})
            else:
                fit = model.pathfinder(
                    **{
                        **common,
                        "inits": inits if len(inits) > 1 else inits[0],
                        "num_paths": len(inits),
                        "num_single_draws": draws,
                        "psis_resample": False,
                        **options,
                    }
                )
        except RuntimeError as error:
            raise RuntimeError(
                f"Stan's {method} of {program} failed: {_what_stan_says(str(error))}"
            ) from error
        found = reader(fit)
    return resampled(*found, draws) if method == "pathfinder" else found


def _first_metric(model, init, unit):
    """The argument inv_metric, unless the program has other parameters than `init`."""
    names = list(model.src_info()["parameters"])
    if set(names) != set(init):
        return {}
    variances = [np.full(np.size(init[name]), unit.get(name, 1.0) ** 2) for name in names]
    return {"inv_metric": np.concatenate(variances)}


_OF_PATHFINDER = {
    "psis_resample": "its draws are resampled here, after their Pareto k-hat is known",
    "calculate_lp": "the weights of its draws need it",
    "num_paths": "a path starts from each of the initial values",
}


def _check_pathfinder(options):
    for name, reason in _OF_PATHFINDER.items():
        if name in options:
            raise ValueError(f"pathfinder takes no {name}: {reason}; leave it out")


def resampled(draws, stats, attrs, n):
    """Draws of an approximation, resampled to those of the posterior.

    Each draw is kept in proportion to its Pareto-smoothed importance weight, by systematic
    resampling from the middle of each stratum: no random numbers, and every draw appears its
    expected number of times, rounded up or down.

    Parameters
    ----------
    draws, stats : dict, name -> array, shape (1, S, ...)
        `stats` holds lp and log_q, log densities of the posterior and of the approximation, on
        the same scale.
    attrs : dict
    n : int, draws to return

    Returns
    -------
    draws, stats : dict, name -> array, shape (1, n, ...)
    attrs : dict, with pareto_k, the k-hat of all S draws

    Source: Zhang, Carpenter, Gelman, Vehtari (2022) for importance resampling of all paths.
    """
    weights, k = pareto_smoothed((stats["lp"] - stats["log_q"])[0])
    kept = np.searchsorted(np.cumsum(weights), (np.arange(n) + 0.5) / n)
    kept = np.minimum(kept, len(weights) - 1)  # the sum may end just below 1

    def keep(arrays):
        return {name: values[:, kept] for name, values in arrays.items()}

    return keep(draws), keep(stats), {**attrs, "pareto_k": k}


def _what_stan_says(text):
    """The lines of an error that are Stan's, each once; all of it if there are none."""
    lines = [line.strip() for line in text.splitlines()]
    # CmdStanPy's own first line ends in a colon or quotes the whole command.
    said = [line for line in lines[1:] if re.match("Exception|Error|Rejecting|Initialization", line)]
    return "\n".join(dict.fromkeys(said)) or text
