"""Chains of NUTS on the workers of a Dask cluster, one process of CmdStan each."""

from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.csv_files import read_without_polars
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.posterior.model import Draws
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import PathName

__all__ = ["sample_on_workers"]


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
    per thread. It gets the data once; each host compiles the program once, a stock program or a
    path that workers can read. `data` is a path; `inits` is a list with one dict per chain, or one
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
