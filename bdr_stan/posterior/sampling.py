"""Sample the posterior of a model: prepare the sampler's coordinates, run Stan, read the draws."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.csv_files import read_without_polars
from bdr_stan.cmdstan.data_file import write_data
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.cmdstan.progress import shows_bars, status
from bdr_stan.cmdstan.scratch import scratch_folder
from bdr_stan.posterior.chains_on_workers import sample_on_workers
from bdr_stan.posterior.evidence import maximise_evidence
from bdr_stan.posterior.mode import Mode, blas_threads
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.options import check_options
from bdr_stan.posterior.priors import log_prior_of_scales, middle_of_scales
from bdr_stan.results.diagnostics import pareto_smoothed
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, PathName

METHODS = ("nuts", "optimize", "laplace", "pathfinder")
# Prior sd of log(rho) where rho is held at its marginal mode: but for rho's own prior, its joint
# density with the weights grows without bound as both go to zero, so a joint mode says nothing.
_HELD = 1e-3
# Stan stops where a step promises less than a share of the log density, whose level grows with the
# bags and the unit of the labels: by its own 1e7 epsilons up to 0.2 below the mode.
_NEAR_THE_MODE: dict[str, Any] = {"algorithm": "lbfgs", "tol_rel_grad": 1e3}
# Chains start up to twice this far from the most probable scales, on the log scale.
_WIDEST_START = 0.25

Draws = dict[str, Array]


@dataclass(frozen=True)
class Posterior:
    """Draws from the posterior of a model.

    draws : dict, name -> array, shape (chain, draw, ...)
    stats : dict, name -> array, shape (chain, draw), what the sampler says of each draw
    attrs : dict, what is known of the run: inference_method, and what belongs to it
    """

    draws: Draws
    stats: Draws
    attrs: dict[str, Any]

    def flat(self) -> Draws:
        """The draws, all chains in one, shape (S, ...)."""
        return {name: v.reshape(-1, *v.shape[2:]) for name, v in self.draws.items()}


def most_probable_scales(
    model: Model, *, with_priors: bool = True, start: Mapping[str, float] | None = None
) -> tuple[dict[str, float], Mode, dict[str, float]]:
    """Scales of a model of highest evidence, and the mode of the weights there.

    Parameters
    ----------
    model : Model
    with_priors : bool, default True
        Whether the priors of the scales count.
    start : dict, name -> float, optional
        Where the search begins for some of the scales; default the middle of their priors.

    Returns
    -------
    scales : dict, name -> float
    mode : Mode
    log_sds : dict, name -> float
        Posterior standard deviations of the logarithms of the scales, by Laplace's method.

    Raises
    ------
    ValueError
        Priors and data so far apart that numbers overflow.
    """
    likelihood = partial(model.likelihood, level=model.level) if model.level else model.likelihood
    threads = blas_threads(len(model.prior_factor))
    with limited_blas(threads), np.errstate(all="ignore"):
        try:
            scales, mode, log_sds = maximise_evidence(
                likelihood,
                model.prior_factor,
                model.prior_above_level,
                middle_of_scales(model.priors, model.scales) | dict(start or {}),
                gamma_scales=model.gamma_scales,
                log_prior=log_prior_of_scales(model.priors) if with_priors else None,
                with_rho=model.rho_in_likelihood,
            )
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise ValueError(
                f"no most probable {', '.join(model.scales)} can be found, as numbers overflow: "
                "give prior numbers that are nearer the scale of the labels"
            ) from error
    theta = np.append(mode.theta[:-1], mode.theta[-1] + model.level)
    return scales, replace(mode, theta=theta), log_sds


def sample_posterior(
    model: Model,
    *,
    method: str = "nuts",
    stan_file: PathName | None = None,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    seed: int | None = None,
    progress: bool | None = None,
    options: dict[str, Any] | None = None,
) -> Posterior:
    """Draws from the posterior of a model by one of CmdStan's methods.

    Parameters
    ----------
    model : Model
    method : {"nuts", "optimize", "laplace", "pathfinder"}, default "nuts"
        All but NUTS hold rho at its marginal mode.
    stan_file : path, optional
        A variant of the model's program.
    chains, warmup, draws : int, default 4, 1000, 1000
        Chains, and iterations of each; laplace and pathfinder give `draws` in one chain.
    seed : int, optional
    progress : bool, optional
        None tells on stderr what takes longer than ten seconds, True also shows the chains'
        progress on a terminal or in a notebook, False shows nothing.
    options : dict, optional
        Further arguments of the cmdstanpy method; for NUTS also `client`, a Dask client whose
        workers run the chains.

    Returns
    -------
    Posterior
        Its attribute log_evidence, where the program is the model's own, is the log density of the
        labels at the most probable scales, the weights integrated out by Laplace's method.

    Raises
    ------
    ValueError
        The program lacks a variable that predictions need.
    RuntimeError
        Stan's own message if it fails.
    """
    telling = status(
        f"Looking for the most probable scales of {model.program}", progress is not False, after=10
    )
    with telling:
        scales, mode, log_sds = most_probable_scales(model)
    priors = model.priors
    if method != "nuts":
        priors = {**priors, "rho_median": scales["rho"], "rho_log_sd": _HELD}
    data = model.stan_data(model.whitening(scales, mode), priors)
    level = 0.0 if stan_file else model.level  # a user's own program takes labels as they are
    drawn, stats, attrs = run(
        stan_file or model.program,
        _less(level, data) if level else data,
        [
            model.inits(model.with_arrays(start))
            for start in _starts(scales, mode, log_sds, method, chains, seed)
        ],
        method=method,
        chains=chains,
        warmup=warmup,
        draws=draws,
        seed=seed,
        progress=progress,
        options=options or {},
        unit=model.with_arrays(log_sds),
        reader=lambda fit: _read(fit, model, stan_file),
    )
    drawn["intercept"] = drawn["intercept"] + level
    if stan_file is None:
        attrs = {**attrs, "log_evidence": mode.log_evidence}
    return Posterior(with_landmark_weights(model, drawn), stats, attrs)


def _less(level, data):
    """The data of a program with rows [z, 1, y] for labels and intercept less a level."""
    rows = data["rows"].copy()
    rows[:, -1] -= level * rows[:, -2]
    moved = {name: data[name] - level for name in ("intercept_centre", "intercept_location")}
    return {**data, **moved, "rows": rows}


def with_landmark_weights(model: Model, drawn: Draws) -> Draws:
    """The draws, and beta, the weights of the landmarks, among them where there are such."""
    if model.weight_basis is None:
        return drawn
    return {**drawn, "beta": drawn["w"] @ model.weight_basis.T}


def _starts(scales, mode, log_sds, method, chains, seed):
    """Starting points spread wider than the posterior; the mode where that is looked for.

    Pathfinder learns the curvature on its way to the mode, so it must not start there.
    """
    D = len(mode.theta)
    if method in ("optimize", "laplace"):
        return [{"t": np.zeros(D), **scales}]
    rng = np.random.default_rng(seed)
    return [
        {
            "t": rng.uniform(-2, 2, D),
            **{
                name: scale * np.exp(rng.uniform(-2, 2) * min(log_sds[name], _WIDEST_START))
                for name, scale in scales.items()
            },
        }
        for _ in range(chains)
    ]


def _read(fit, model, stan_file):
    """Draws, sampler statistics and attributes of a CmdStanPy fit."""
    drawn = model.without_arrays(stan_draws(fit))
    scales = [name for name in model.scales if name != "rho"]
    gamma = ["gamma"] if model.n_covariates else []
    needed = ["w", *gamma, "intercept", *scales, *model.predicting]
    missing = [name for name in needed if name not in drawn]
    if missing:
        raise ValueError(
            f"{stan_file} has no variable {missing[0]!r}: predictions need "
            f"{', '.join(needed)}, so keep these names"
        )
    for name in model.sampler_only:
        drawn.pop(name, None)
    return model.draws(drawn), sample_stats(fit), fit_attrs(fit)


def run(
    program: PathName,
    data: dict[str, Any],
    inits: list[dict[str, Any]],
    *,
    method: str,
    chains: int,
    warmup: int,
    draws: int,
    seed: int | None,
    progress: bool | None,
    options: dict[str, Any],
    reader: Callable[[Any], tuple[Draws, Draws, dict[str, Any]]],
    unit: dict[str, Any] | None = None,
) -> tuple[Draws, Draws, dict[str, Any]]:
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
        None tells on stderr what takes longer than ten seconds, True also shows the chains'
        progress on a terminal or in a notebook, False shows nothing.
    options : dict
        As of `sample_posterior`.
    reader : callable
        Given the CmdStanPy fit while its files are there; returns draws and sample_stats, dicts
        of arrays of shape (chain, draw, ...), and attributes, a dict.
    unit : dict, parameter -> float or list of its entries, optional
        About how wide the posterior of a parameter is on the unconstrained scale, 1 where it
        is missing: where NUTS begins to learn its metric.

    Returns
    -------
    draws, sample_stats, attributes
        What `reader` returned.

    Raises
    ------
    ValueError, TypeError
        An option that the method does not take.
    RuntimeError
        Stan's own message if it fails.
    """
    check_options(method, options, warmup=warmup)
    bars = bool(progress) and method == "nuts" and shows_bars()
    options = dict(options)
    client = options.pop("client", None)
    threads = options.get("threads_per_chain") or 1
    own_metric = bool({"metric", "inv_metric"} & set(options))
    # The folder comes first: CmdStanPy, which takes a second to import, keeps files there, too.
    with scratch_folder() as folder:
        import cmdstanpy

        read_without_polars()
        model = compile_program(program, progress=progress)
        data_file = Path(folder) / "data.json"
        write_data(data_file, data)
        common: dict[str, Any] = {
            "data": str(data_file),
            "seed": seed,
            "sig_figs": 12,
            "output_dir": folder,
        }
        telling = status(
            f"Running {method} of {Path(program).stem}",
            progress is not False and not bars,
            after=10,
            detail=lambda: _how_far(folder, chains, draws) if method == "nuts" else "",
        )
        try:
            with cmdstanpy.disable_logging(), telling:
                if method == "nuts":
                    chosen = {
                        "inits": inits,
                        "chains": chains,
                        "iter_warmup": warmup,
                        "iter_sampling": draws,
                        **({} if own_metric else _first_metric(model, inits[0], unit or {})),
                        **options,
                    }
                    if client is None:
                        own_cores = max(1, min(chains, (os.cpu_count() or 1) // threads))
                        local = {"parallel_chains": own_cores, "show_progress": bars}
                        fit = model.sample(**{**common, **local, **chosen})
                    else:
                        fit = sample_on_workers(client, program, **{**common, **chosen})
                elif method == "optimize":
                    fit = _optimized(model, {**common, "inits": inits[0], **options})
                elif method == "laplace":
                    # A folder of its own: CmdStanPy names files by the second.
                    apart = {"output_dir": os.path.join(folder, "mode")}
                    mode = _optimized(
                        model, {**common, **apart, "inits": inits[0], "jacobian": True}
                    )
                    fit = model.laplace_sample(
                        **{**common, "mode": mode, "draws": draws, **options}
                    )
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


def _optimized(model, options):
    """The mode, as near as the log density's own rounding lets the search come."""
    if "algorithm" in options:  # whose tolerances are its own
        return model.optimize(**options)
    try:
        return model.optimize(**{**_NEAR_THE_MODE, **options})
    except RuntimeError:  # its steps are lost in rounding; other trouble comes again
        return model.optimize(**options)


_TAIL = 1 << 16  # bytes at the end of a file that tell how long its rows are


def _how_far(folder, chains, draws):
    """How many of the draws each chain has written, about: "chains at 40%, 38%, warmup"."""
    told = [_chain_at(path, draws) for path in sorted(Path(folder).glob("*.csv"))]
    waiting = chains - len(told)
    return "chains at " + ", ".join(told + ["waiting"] * waiting) if told else ""


def _chain_at(path, draws):
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        lines = file.read().splitlines()[1:-1]
    if any(line.startswith(b"#  Elapsed Time") for line in lines):
        return "100%"
    rows = [len(line) + 1 for line in lines if re.match(rb"[-\d]", line)]
    if not rows:
        return "warmup"
    return f"{min(99, round(100 * size * len(rows) / sum(rows) / draws))}%"


def _first_metric(model, init, unit):
    """The argument inv_metric, unless the program has parameters that `init` has not."""
    names = list(model.src_info()["parameters"])
    if not set(names) <= set(init):
        return {}
    variances = [np.full(np.size(init[name]), np.square(unit.get(name, 1.0))) for name in names]
    return {"inv_metric": np.concatenate(variances)}


def resampled(
    draws: Draws, stats: Draws, attrs: dict[str, Any], n: int
) -> tuple[Draws, Draws, dict[str, Any]]:
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
    # CmdStanPy's own first line ends in a colon, or quotes the whole command before Stan's words.
    first, _, rest = text.partition("\n")
    lines = [line.strip() for line in (first.partition("' failed: ")[2], *rest.splitlines())]
    said = [line for line in lines if re.match("Exception|Error|Rejecting|Initialization", line)]
    return "\n".join(dict.fromkeys(said)) or text
