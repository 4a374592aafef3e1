"""Which engine runs a Stan program, CmdStan or stanli, and runs by stanli, in this process."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from bdr_stan.cmdstan.files import write_data
from bdr_stan.cmdstan.programs import ProgramError, fast_directory, runs_at_once, source_path
from bdr_stan.extras import (
    STANLI_VERSION,
    in_main_thread,
    require_main_thread,
    require_stanli,
    stanli_version,
)
from bdr_stan.posterior.declarations import block_of, declared
from bdr_stan.posterior.model import Draws, StanInput
from bdr_stan.posterior.settings import ENGINES, SamplerSettings
from bdr_stan.progress import status
from bdr_stan.results.draws import renamed_stats
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import Array, ArrayLike, PathName
from bdr_stan.user_warnings import warn

# Options by CmdStanPy's names -> stanli's, and options of the search for the mode.
_RENAMED = {"adapt_delta": "delta", "max_treedepth": "max_depth"}
_SEARCH = {"iter": "iterations", "history_size": "history_size"}
_START_RADIUS = 2.0  # Stan's own, of parameters without initial values
_NO_STEP = 1e-300  # length of a step of NUTS that ends at its start
_POINTS_AT_ONCE = 100  # each has its own copy of the program in memory
Density = Callable[[Array], tuple[float, Array]]  # RuntimeError if it cannot be evaluated

_TOO_FAR = 1e3  # value, in units of the start's, of points without a density
_PROMISED = 1e-6  # squared slope at a mode, relative to the log density
_STEP = 1e-4  # of central differences of the gradient; error of order step^2


def check_engine(engine: Any) -> None:
    """Raise ValueError or ImportError unless an engine, None for the default, can run."""
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"engine must be None, 'cmdstan' or 'stanli', found {engine!r}")
    if engine == "stanli":
        require_stanli("engine='stanli'")


def engine_of_run(program: PathName, engine: str | None) -> str:
    """The engine of a run: this one or, by default, CmdStan.

    If CmdStan is not set up it is stanli, with a warning, if it is installed and this is the main
    thread; on Windows always.
    """
    if engine is not None:
        return engine
    if stanli_version() != STANLI_VERSION or not in_main_thread():
        return "cmdstan"
    if sys.platform == "win32":
        return "stanli"
    with scratch_folder():  # comes before CmdStanPy, which keeps files there from its import on
        if runs_at_once(program):
            return "cmdstan"
    warn(
        f"CmdStan is not set up, so {Path(program).stem} runs on stanli, an interpreter of Stan "
        "that is still in its alpha stage: install CmdStan by install_cmdstan, or set "
        "engine='stanli' to choose it without this warning"
    )
    return "stanli"


def run(
    program: PathName, stan_input: StanInput, settings: SamplerSettings
) -> tuple[Draws, Draws, dict[str, Any]]:
    """As `bdr_stan.posterior.sampling.run`; ProgramError if the program is not valid Stan."""
    method = settings.method
    options = {**stan_input.options, **settings.options}
    seed = settings.seed
    if seed is None:
        seed = int(np.random.default_rng().integers(1, 2**31))
    running = status(
        f"Running {method} of {Path(program).stem} on stanli",
        settings.progress is not False,
        after=1 if settings.progress else 10,
    )
    with running:
        try:
            model = load(program, stan_input.data, options.pop("threads_per_chain", 1))
            starts = _starts(model, program, options.pop("inits", stan_input.inits), seed)
            if method == "nuts" and len(starts) not in (1, settings.chains):
                raise ValueError(f"{len(starts)} initial values for {settings.chains} chains")
            if method == "nuts":
                result = _nuts(model, program, stan_input, starts, seed, settings, options)
            else:
                result = _at_mode(model, program, stan_input, starts[0], seed, settings, options)
        except ProgramError:
            raise
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(f"Stan's {method} of {program} failed: {_message(error)}") from error
    draws, stats, attrs = result
    return draws, stats, {"inference_method": method, "engine": f"stanli {STANLI_VERSION}", **attrs}


def load(
    program: PathName,
    data: Mapping[str, Any],
    threads_per_chain: int = 1,
    *,
    only_jacobian: bool = False,
) -> Any:
    """A stanli.Model of a stock program, by name, or of a .stan file, with its data.

    Its density includes the Jacobian of the transforms of bounded parameters, and is only the
    Jacobian if `only_jacobian`. RuntimeError for data that the program rejects, and outside the
    main thread: only there the model may be used.
    """
    require_main_thread()
    import stanli

    source = source_path(program)
    text = source.read_text(encoding="utf-8")
    if only_jacobian:
        first, end = block_of(text, "model")
        text = text[:first] + text[end:]
    with scratch_folder() as folder:
        file = Path(folder) / "data.json"
        write_data(file, dict(data))
        try:
            return stanli.Model(
                stan_code=text,
                data=file,
                include_paths=[source.parent, fast_directory()],
                threads_per_chain=threads_per_chain,
            )
        except RuntimeError as error:
            message = str(error).replace("'string'", f"'{source}'").strip()
            if re.match("(Semantic|Syntax) error", message):
                raise ProgramError(f"{source} is not a valid Stan program.\n{message}") from error
            raise


def constrained(model: Any, points: Array, seed: int = 1) -> tuple[Draws, Array]:
    """Variables of a program at unconstrained points, shape (S, n), and the log density there.

    Names -> values, shape (1, S, ...), generated quantities included, and shape (1, S). Each point
    starts a chain of NUTS with a single step that is too short to leave it.
    """
    starts = range(0, len(points), _POINTS_AT_ONCE)
    parts = [
        model.sample(
            chains=len(some),
            warmup=0,
            samples=1,
            inits=some,
            adapt_engaged=False,
            step_size=_NO_STEP,
            max_depth=1,
            refresh=0,
            seed=(seed + k) % 2**31,  # which with a chain's number determines its random numbers
        )
        for k, some in enumerate(points[i : i + _POINTS_AT_ONCE] for i in starts)
    ]
    draws = {
        name: np.swapaxes(np.concatenate([fit.draws(name) for fit in parts]), 0, 1)
        for name in parts[0].variables
    }
    return draws, np.concatenate([fit.sampler_stats[:, 0, 0] for fit in parts])[None]


def _nuts(model, program, stan_input, starts, seed, settings, options):
    """Draws, statistics and attributes of NUTS."""
    import stanli

    cores = os.cpu_count() or 1
    has_metric = bool({"metric", "inv_metric"} & set(options))
    metric = None if has_metric else stan_input.first_metric(declared(program, "parameters"))
    if metric is not None and len(metric) != model.n_unconstrained:  # an edit changed sizes
        metric = None
    chosen = {
        "parallel_chains": max(1, min(settings.chains, cores // model.threads_per_chain)),
        **({} if metric is None else {"inv_metric": metric}),
        **{_RENAMED.get(name, name): value for name, value in options.items()},
    }
    fit = model.sample(
        chains=settings.chains,
        warmup=settings.warmup,
        samples=settings.draws,
        seed=seed,
        inits=starts if len(starts) > 1 else starts[0],
        refresh=0,
        threads_per_chain=model.threads_per_chain,
        **chosen,
    )
    columns = dict(zip(stanli.SAMPLER_COLUMNS, np.moveaxis(fit.sampler_stats, -1, 0), strict=True))
    draws = {name: np.array(fit.draws(name)) for name in fit.variables}
    return draws, renamed_stats(columns, "nuts"), {"max_tree_depth": fit.max_depth}


def _at_mode(model, program, stan_input, start, seed, settings, options):
    """The same of the mode, and of draws from the normal distribution there if "laplace"."""
    with_jacobian = settings.method == "laplace" or options.get("jacobian", False)
    jacobian = None if with_jacobian else load(program, stan_input.data, only_jacobian=True)
    density = _density(model, jacobian)
    search = {**stan_input.mode_options, **options}
    search_options = {ours: search[name] for name, ours in _SEARCH.items() if name in search}
    mode = mode_of_density(density, start, **search_options)
    if settings.method == "optimize":
        return constrained(model, mode[None], seed)[0], {"lp": np.array([[density(mode)[0]]])}, {}
    try:
        factor = np.linalg.cholesky(-hessian(density, mode))
    except np.linalg.LinAlgError as error:
        raise RuntimeError("the log density has no curvature downwards at its mode") from error
    z = np.random.default_rng(seed).standard_normal((settings.draws, len(mode)))
    points = mode + solve_triangular(factor, z.T, lower=True, trans="T").T
    draws, lp = constrained(model, points, seed)
    return draws, {"lp": lp, "log_q": -0.5 * np.sum(z**2, axis=1)[None]}, {}


def _density(model, jacobian):
    """The model's density; without the `jacobian`, if given."""

    def density(q):
        (value, slope), (less, less_slope) = model.log_prob_grad(q), jacobian.log_prob_grad(q)
        return value - less, slope - less_slope

    return model.log_prob_grad if jacobian is None else density


def _starts(model, program, inits, seed):
    """Initial values on the unconstrained scale, a row for each of `inits`."""
    names = declared(program, "parameters")
    rng = np.random.default_rng(seed)
    starts = []
    for init in [inits] if isinstance(inits, Mapping) else inits:
        try:
            starts.append(_unconstrained(model, {name: init[name] for name in names}))
        except (KeyError, RuntimeError, ValueError):
            # Parameters without initial values, and those that an edit gave another size.
            near_zero = rng.uniform(-_START_RADIUS, _START_RADIUS, (1, model.n_unconstrained))
            values = {name: v[0, 0] for name, v in constrained(model, near_zero)[0].items()}
            values = {name: values.get(name, []) for name in names}
            kept = [n for n in names if n in init and np.size(init[n]) == np.size(values[n])]
            starts.append(_unconstrained(model, values | {name: init[name] for name in kept}))
    return np.array(starts)


def _unconstrained(model, values):
    return model.unconstrain({name: in_stans_order(value) for name, value in values.items()})


def in_stans_order(value: ArrayLike) -> Any:
    """A number, or a flat list with the first index fastest: nested lists would be transposed."""
    return np.ravel(value, order="F").tolist() if np.ndim(value) else float(value)


def _message(error):
    """Error message of the first chain, with advice if stanli lacks a feature."""
    text = re.sub(r"^\d+ of \d+ chains failed; first: (chain \d+: )?", "", str(error))
    missing = "; engine='cmdstan' takes all of Stan" if "unsupported" in text else ""
    return text + missing


def mode_of_density(
    density: Density, start: Array, *, iterations: int = 10_000, history_size: int = 20
) -> Array:
    """Mode from L-BFGS, started at a point of shape (n,); RuntimeError if none is found."""
    at_start = density(start)[0]

    def negative(q):
        try:
            value, slope = density(q)
        except RuntimeError:  # for example if a scale overflows
            value, slope = -np.inf, q
        if not np.isfinite([value, *slope]).all():  # a step too far: the search tries a shorter one
            return _TOO_FAR * (1 + abs(at_start)), np.zeros_like(q)
        return -value, -slope

    optimum = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": 20 * iterations,
            "maxcor": history_size,
            "ftol": 1e-15,
            "gtol": 1e-7,
        },
    )
    if optimum.status == 1:
        raise RuntimeError(f"no mode was found in {optimum.nit} iterations: set iter to more")
    # If rounding ends the search, the predicted gain of a step along the gradient is negligible.
    if np.max(np.abs(optimum.jac), initial=0.0) ** 2 > _PROMISED * (1 + abs(optimum.fun)):
        raise RuntimeError(
            "the search for the mode came to a halt on a slope, as at a kink or step of the "
            "density: use method='nuts', which needs no mode"
        )
    return optimum.x


def hessian(density: Density, point: Array) -> Array:
    """Second derivatives by central differences of the gradient, shape (n, n)."""
    steps = _STEP * np.eye(len(point))
    rows = [density(point + h)[1] - density(point - h)[1] for h in steps]
    half = np.array(rows).reshape(len(point), len(point)) / (4 * _STEP)
    return half + half.T
