"""Sample the posterior of a model: run one of Stan's methods, and read the draws."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.files import read_without_polars, write_data
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.posterior import stanli
from bdr_stan.posterior.model import Draws, Model, StanInput
from bdr_stan.posterior.settings import SamplerSettings, check_options
from bdr_stan.progress import status, time_left
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import PathName

# Stan stops if a step's predicted gain is below a share of the log density, which depends on the
# bags and the unit of the labels: by default 1e7 epsilons, up to 0.2 below the mode.
_MODE_OPTIONS: dict[str, Any] = {"algorithm": "lbfgs", "tol_rel_grad": 1e3}
_MIN_SHARE = 0.02  # share of all iterations needed to estimate the remaining time
_LONG_SECONDS = 120.0  # seconds
_QUICKER_METHOD = '; method="laplace" takes seconds'


@dataclass(frozen=True)
class Posterior:
    """Draws from the posterior of a model."""

    draws: Draws  # name -> shape (chain, draw, ...)
    stats: Draws  # of the sampler, name -> shape (chain, draw)
    attrs: dict[str, Any]  # inference_method and its settings
    program_data: Mapping[str, Any] = field(default_factory=dict)  # if Stan drew from it

    @property
    def n_draws(self) -> int:
        """Draws of all chains."""
        chains, draws = next(iter(self.draws.values())).shape[:2]
        return chains * draws

    def flat(self, step: int = 1) -> Draws:
        """Every `step`th draw of each chain, all chains in one, shape (S, ...)."""
        some = {name: values[:, ::step] for name, values in self.draws.items()}
        return {name: values.reshape(-1, *values.shape[2:]) for name, values in some.items()}


def sample_posterior(
    model: Model,
    settings: SamplerSettings = SamplerSettings(),  # noqa: B008, it is frozen
) -> Posterior:
    """Draws from the posterior of a model with one of Stan's methods, in the model's form."""
    stan_input = model.stan_input(settings)
    draws, stats, attrs = run(settings.stan_file or model.program, stan_input, settings)
    return Posterior(
        model.read(draws, settings),
        stats,
        {**attrs, **stan_input.attrs},
        stan_input.data,
    )


def run(
    program: PathName, stan_input: StanInput, settings: SamplerSettings
) -> tuple[Draws, Draws, dict[str, Any]]:
    """Run Stan on a program; draws, sample_stats, both (chain, draw, ...), and attributes.

    ValueError or TypeError for invalid options, RuntimeError with Stan's message.
    """
    check_options(settings.method, settings.options, warmup=settings.warmup)
    if stanli.engine_of_run(program, settings.engine) == "stanli":
        return stanli.run(program, stan_input, settings)
    method, chains, draws = settings.method, settings.chains, settings.draws
    options, inits = {**stan_input.options, **settings.options}, stan_input.inits
    threads = options.get("threads_per_chain") or 1
    has_metric = bool({"metric", "inv_metric"} & set(options))
    # The folder comes first: CmdStanPy, which needs a second to import, also keeps files there.
    with scratch_folder() as folder:
        import cmdstanpy

        read_without_polars()
        model = compile_program(program, progress=settings.progress)
        if settings.stan_file is not None:
            inits = [_of_same_axes(init, model.src_info()["parameters"]) for init in inits]
            stan_input = replace(stan_input, inits=inits)
        data_file = Path(folder) / "data.json"
        write_data(data_file, stan_input.data)
        common: dict[str, Any] = {
            "data": str(data_file),
            "seed": settings.seed,
            "sig_figs": 12,
            "output_dir": folder,
        }
        n_parallel = max(1, min(chains, (os.cpu_count() or 1) // threads))
        progress = ChainProgress(folder, chains, settings.warmup, draws, options.get("thin", 1))
        running = status(
            f"Running {method} of {Path(program).stem}",
            settings.progress is not False,
            after=1 if settings.progress else 10,
            detail=progress.text,
        )
        try:
            with cmdstanpy.disable_logging(), running:
                if method == "nuts":
                    metric = stan_input.first_metric(list(model.src_info()["parameters"]))
                    nuts: dict[str, Any] = {
                        "inits": inits,
                        "chains": chains,
                        "parallel_chains": n_parallel,
                        "iter_warmup": settings.warmup,
                        "iter_sampling": draws,
                        "save_warmup": True,  # the rows of the files measure the progress
                        "show_progress": False,
                        **({} if has_metric or metric is None else {"inv_metric": metric}),
                    }
                    fit = model.sample(**{**common, **nuts, **options})
                elif method == "optimize":
                    search = {**common, "inits": inits[0], **options}
                    fit = _optimized(model, search, stan_input.mode_options)
                else:
                    # Its own folder: CmdStanPy names files by the second.
                    its_folder = {"output_dir": os.path.join(folder, "mode")}
                    search = {**common, **its_folder, "inits": inits[0], "jacobian": True}
                    mode = _optimized(model, search, stan_input.mode_options)
                    fit = model.laplace_sample(
                        **{**common, "mode": mode, "draws": draws, **options}
                    )
        except RuntimeError as error:
            raise RuntimeError(
                f"Stan's {method} of {program} failed: {_stan_message(str(error))}"
            ) from error
        return stan_draws(fit), sample_stats(fit), fit_attrs(fit)


def _of_same_axes(init, parameters):
    """Initial values of those parameters that an edit left as many axes as the values have."""
    return {n: v for n, v in init.items() if parameters.get(n, {}).get("dimensions") == np.ndim(v)}


def _optimized(model, options, chosen):
    """The mode, as near as the log density's own rounding lets the search come."""
    # Near the mode steps may be lost in rounding, the first of all, which is short by default. In
    # whitened coordinates a step of length 1 along the gradient is nearly Newton's.
    for first_step in ({}, {"init_alpha": 1.0}):
        with suppress(RuntimeError):  # other errors come again
            return model.optimize(**{**_MODE_OPTIONS, **chosen, **first_step, **options})
    return model.optimize(**options)


def _stan_message(text):
    """The lines of an error that Stan wrote, each once; all lines if Stan wrote none."""
    # CmdStanPy's first line ends in a colon, or quotes the whole command before Stan's message.
    first, _, rest = text.partition("\n")
    lines = [line.strip() for line in (first.partition("' failed: ")[2], *rest.splitlines())]
    beginnings = "Exception|Error|Rejecting|Initialization|Line search"
    by_stan = [line for line in lines if re.match(beginnings, line)]
    return "\n".join(dict.fromkeys(by_stan)) or text


class ChainProgress:
    """Iterations of chains; each chain adds a row per `thin` iterations to a file in `folder`."""

    def __init__(self, folder: PathName, chains: int, warmup: int, draws: int, thin: int = 1):
        self.folder, self.chains, self.warmup = Path(folder), chains, warmup
        self.iterations, self.thin = warmup + draws, thin
        self.bytes: dict[Path, int] = defaultdict(int)  # read so far
        self.rows: dict[Path, int] = defaultdict(int)  # that these bytes have
        self.start = time.monotonic()

    def text(self) -> str:
        """For example "iterations 34 and 320 of 2000 (warm-up), about 4 min left"; at first ""."""
        with suppress(OSError):  # an interrupted fit removes the files
            for path in self.folder.glob("*.csv"):
                self._read(path)
        rows = [self.rows[path] for path in sorted(self.rows)]
        reached = [min(self.thin * n, self.iterations) for n in rows]
        if not reached:
            return ""
        text = f"iteration{'s' * (len(reached) > 1)} {_listed(reached)} of {self.iterations}"
        if max(reached) < self.warmup:
            text += " (warm-up)"
        waiting = self.chains - len(reached)
        if waiting:
            text += f", {waiting} chain{'s' * (waiting > 1)} waiting"
        seconds = self._seconds_left(sum(reached) / (self.chains * self.iterations))
        hint = _QUICKER_METHOD if seconds > _LONG_SECONDS and max(reached) < self.warmup else ""
        return text + time_left(seconds) + hint

    def _read(self, path):
        """Count the draws that were written since the last time."""
        with path.open("rb") as file:
            file.seek(self.bytes[path])
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]  # a row may be half written
        self.bytes[path] += len(new)
        self.rows[path] += sum(line[:1] not in (b"#", b"l", b"") for line in new.splitlines())

    def _seconds_left(self, done):
        """Seconds until all chains have ended; a rough estimate, 0 if unknown."""
        elapsed = time.monotonic() - self.start
        return elapsed * (1 - done) / done if done >= _MIN_SHARE else 0.0


def _listed(numbers):
    """For example "3", "3 and 4", "3, 4 and 5"."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last
