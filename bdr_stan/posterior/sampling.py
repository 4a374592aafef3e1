"""Sample the posterior of a model: prepare the sampler's coordinates, run Stan, read the draws."""

import os
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.csv_files import read_without_polars
from bdr_stan.cmdstan.data_file import write_data
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.cmdstan.scratch import scratch_folder
from bdr_stan.posterior.chain_progress import ChainProgress
from bdr_stan.posterior.chains_on_workers import sample_on_workers
from bdr_stan.posterior.mode import Mode, blas_threads
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.options import check_options
from bdr_stan.posterior.priors import log_prior_of_scales, prior_centres
from bdr_stan.posterior.scales import maximise_evidence
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.progress import status
from bdr_stan.results.diagnostics import pareto_smoothed
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, PathName

# Prior sd of log(rho) where rho is fixed at its marginal mode: but for rho's own prior, its joint
# density with the weights grows without bound as both go to zero, so a joint mode is meaningless.
_FIXED_RHO_LOG_SD = 1e-3
# Stan stops where a step promises less than a share of the log density, whose level grows with the
# bags and the unit of the labels: by its default, 1e7 epsilons, up to 0.2 below the mode.
_NEAR_THE_MODE: dict[str, Any] = {"algorithm": "lbfgs", "tol_rel_grad": 1e3}
# Chains start up to twice this far from the most probable scales, on the log scale: wide posteriors
# would start some chains where the whitened coordinates do not fit.
_WIDEST_START_LOG_SD = 0.25
_LINES_OF_A_CHAIN = 100  # of its progress

Draws = dict[str, Array]


@dataclass(frozen=True)
class Posterior:
    """Draws from the posterior of a model.

    draws : dict, name -> array, shape (chain, draw, ...)
    stats : dict, name -> array, shape (chain, draw), of the sampler
    attrs : dict, inference_method and its settings
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
    """Scales of highest evidence, the mode of the weights there, and the scales' log sds.

    Parameters
    ----------
    model : Model
    with_priors : bool, default True
        Whether the priors of the scales count.
    start : dict, name -> float, optional
        Where the search begins for some of the scales; default the centres of their priors.

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
                prior_centres(model.priors, model.scales) | dict(start or {}),
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
    settings: SamplerSettings = SamplerSettings(),  # noqa: B008, it is frozen
) -> Posterior:
    """Draws from the posterior of a model by one of CmdStan's methods.

    All but NUTS fix rho at its marginal mode. The attribute log_evidence of the result, of stock
    programs, is that of the most probable scales.

    Raises
    ------
    ValueError
        The program lacks a variable that predictions need.
    RuntimeError
        Stan's own message if it fails.
    """
    telling = status(
        f"Looking for the most probable scales of {model.program}",
        settings.progress is not False,
        after=10,
    )
    with telling:
        scales, mode, log_sds = most_probable_scales(model)
    priors = model.priors
    if settings.method != "nuts":
        priors = {**priors, "rho_median": scales["rho"], "rho_log_sd": _FIXED_RHO_LOG_SD}
    data = model.stan_data(model.whitening(scales, mode), priors)
    stan_file = settings.stan_file
    level = 0.0 if stan_file else model.level  # a user's own program takes labels as they are
    drawn, stats, attrs = run(
        stan_file or model.program,
        _less(level, data) if level else data,
        [
            model.inits(model.with_arrays(start))
            for start in _starts(scales, mode, log_sds, settings)
        ],
        settings,
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
    shifted = {name: data[name] - level for name in ("intercept_centre", "intercept_location")}
    return {**data, **shifted, "rows": rows}


def with_landmark_weights(model: Model, drawn: Draws) -> Draws:
    """The draws with beta, the weights of the landmarks, where features are landmarks."""
    if model.weight_basis is None:
        return drawn
    return {**drawn, "beta": drawn["w"] @ model.weight_basis.T}


def _starts(scales, mode, log_sds, settings):
    """Initial values spread wider than the posterior; the mode for methods that search for it.

    Pathfinder learns the curvature on its way to the mode, so it must not start there.
    """
    D = len(mode.theta)
    if settings.method in ("optimize", "laplace"):
        return [{"t": np.zeros(D), **scales}]
    rng = np.random.default_rng(settings.seed)
    return [
        {
            "t": rng.uniform(-2, 2, D),
            **{
                name: scale * np.exp(rng.uniform(-2, 2) * min(log_sds[name], _WIDEST_START_LOG_SD))
                for name, scale in scales.items()
            },
        }
        for _ in range(settings.chains)
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
    settings: SamplerSettings,
    *,
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
    settings : SamplerSettings
        Pathfinder takes `draws` from each path and keeps as many of them all, see `resampled`.
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
    method, chains, draws = settings.method, settings.chains, settings.draws
    check_options(method, settings.options, warmup=settings.warmup)
    options = dict(settings.options)
    client = options.pop("client", None)
    threads = options.get("threads_per_chain") or 1
    own_metric = bool({"metric", "inv_metric"} & set(options))
    # The folder comes first: CmdStanPy, which takes a second to import, keeps files there, too.
    with scratch_folder() as folder:
        import cmdstanpy

        read_without_polars()
        model = compile_program(program, progress=settings.progress)
        data_file = Path(folder) / "data.json"
        write_data(data_file, data)
        common: dict[str, Any] = {
            "data": str(data_file),
            "seed": settings.seed,
            "sig_figs": 12,
            "output_dir": folder,
        }
        own_cores = max(1, min(chains, (os.cpu_count() or 1) // threads))
        progress = ChainProgress(chains, settings.warmup, draws, own_cores)
        telling = status(
            f"Running {method} of {Path(program).stem}",
            settings.progress is not False,
            after=1 if settings.progress else 10,
            detail=progress.text,
        )
        try:
            with cmdstanpy.disable_logging(), telling:
                if method == "nuts":
                    chosen = {
                        "inits": inits,
                        "chains": chains,
                        "iter_warmup": settings.warmup,
                        "iter_sampling": draws,
                        "refresh": max(1, (settings.warmup + draws) // _LINES_OF_A_CHAIN),
                        **({} if own_metric else _first_metric(model, inits[0], unit or {})),
                        **options,
                    }
                    if client is None:
                        local = {"parallel_chains": own_cores, "show_progress": False}
                        fit = _telling(model, progress).sample(**{**common, **local, **chosen})
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
                f"Stan's {method} of {program} failed: {_stan_message(str(error))}"
            ) from error
        found = reader(fit)
    return resampled(*found, draws) if method == "pathfinder" else found


def _optimized(model, options):
    """The mode, as near as the log density's own rounding lets the search come."""
    if "algorithm" in options:  # whose tolerances are its own
        return model.optimize(**options)
    try:
        return model.optimize(**{**_NEAR_THE_MODE, **options})
    except RuntimeError:  # steps lost in rounding; other errors come again
        return model.optimize(**options)


def _telling(model, progress):
    """A copy of a CmdStanPy model whose chains report; CmdStanPy's own bars go to stdout."""
    telling = copy(model)
    telling._run_cmdstan = lambda **arguments: model._run_cmdstan(
        **{**arguments, "progress_hook": progress.read}
    )
    return telling


def _first_metric(model, init, unit):
    """The argument inv_metric, unless the program has parameters that `init` lacks."""
    names = list(model.src_info()["parameters"])
    if not set(names) <= set(init):
        return {}
    variances = [np.full(np.size(init[name]), np.square(unit.get(name, 1.0))) for name in names]
    return {"inv_metric": np.concatenate(variances)}


def resampled(
    draws: Draws, stats: Draws, attrs: dict[str, Any], n: int
) -> tuple[Draws, Draws, dict[str, Any]]:
    """S draws of an approximation, resampled to n of the posterior; pareto_k joins `attrs`.

    Each draw is kept in proportion to its Pareto-smoothed importance weight, by systematic
    resampling from the centre of each stratum: no random numbers, and every draw appears its
    expected number of times, rounded up or down. `stats` has lp and log_q, log densities of the
    posterior and of the approximation.

    Source: Zhang, Carpenter, Gelman, Vehtari (2022) for importance resampling of all paths.
    """
    weights, k = pareto_smoothed((stats["lp"] - stats["log_q"])[0])
    kept = np.searchsorted(np.cumsum(weights), (np.arange(n) + 0.5) / n)
    kept = np.minimum(kept, len(weights) - 1)  # the sum may end just below 1

    def keep(arrays):
        return {name: values[:, kept] for name, values in arrays.items()}

    return keep(draws), keep(stats), {**attrs, "pareto_k": k}


def _stan_message(text):
    """The lines of an error that Stan wrote, each once; all lines if Stan wrote none."""
    # CmdStanPy's first line ends in a colon, or quotes the whole command before Stan's message.
    first, _, rest = text.partition("\n")
    lines = [line.strip() for line in (first.partition("' failed: ")[2], *rest.splitlines())]
    by_stan = [line for line in lines if re.match("Exception|Error|Rejecting|Initialization", line)]
    return "\n".join(dict.fromkeys(by_stan)) or text
