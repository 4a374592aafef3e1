"""Chains of NUTS: how far they are, by the CSV files that they write, and on Dask workers."""

import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.csv_files import read_without_polars
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.posterior.model import Draws
from bdr_stan.progress import time_left
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import PathName

__all__ = ["sample_on_workers"]
_MIN_SHARE = 0.02  # share of all iterations needed to estimate the remaining time
_LONG_SECONDS = 120.0  # seconds
_QUICKER_METHOD = '; method="laplace" takes seconds'


def sample_on_workers(
    client: Any,
    program: PathName,
    *,
    data: str,
    inits: Any,
    chains: int,
    seed: int | None,
    **arguments: Any,
) -> tuple[Draws, Draws, dict[str, Any]]:
    """The draws of `CmdStanModel.sample` from the workers of a Dask cluster.

    They are draws, sample_stats, both (chain, draw, ...), and attributes. A worker runs one chain
    per thread. It receives the data once; each host compiles the program once, a stock program or a
    path readable by workers. `data` is a path; `inits` is a list with one dict per chain, or one
    dict for all. RuntimeError with Stan's message.
    """
    if seed is None:
        seed = int(np.random.default_rng().integers(1, 2**31))
    inits = inits if isinstance(inits, list) else [inits] * chains
    content = client.scatter(Path(data).read_bytes(), broadcast=True)
    alike = {**arguments, "seed": seed}
    futures = [
        client.submit(_chain, program, content, k, {**alike, "inits": init}, pure=False)
        for k, init in enumerate(inits, 1)
    ]
    try:
        draws, stats, attrs = zip(*client.gather(futures), strict=True)
    finally:
        client.cancel([content, *futures])
    return _side_by_side(draws), _side_by_side(stats), attrs[0]


def _side_by_side(chains):
    """Arrays of several chains, as one dict."""
    return {name: np.concatenate([chain[name] for chain in chains]) for name in chains[0]}


def _chain(program, content, k, arguments):
    """On a worker: draws, sample_stats and attributes of chain k."""
    with scratch_folder() as folder:
        import cmdstanpy

        read_without_polars()
        data = Path(folder) / "data.json"
        data.write_bytes(content)
        with cmdstanpy.disable_logging():
            fit = compile_program(program, progress=False).sample(
                str(data),
                chains=1,
                chain_ids=[k],
                show_progress=False,
                **{**arguments, "output_dir": folder},
            )
        return stan_draws(fit), sample_stats(fit), fit_attrs(fit)


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
