"""Chains of NUTS on the workers of a Dask cluster, one process of CmdStan each."""

from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.cmdstan.scratch import scratch_folder
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
    output_dir: str,
    **arguments: Any,
) -> Any:
    """The draws of `CmdStanModel.sample`, as CmdStanMCMC, from the workers of a Dask cluster.

    A worker runs one chain per thread. It gets the data once; each host compiles the program once,
    a stock program or a path that workers can read. `data` and `output_dir` are paths; `inits` is
    a list with one dict per chain, or one dict for all. RuntimeError with Stan's message.
    """
    import cmdstanpy

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
        written = client.gather(futures)
    finally:
        client.cancel([content, *futures])
    paths = [str(Path(output_dir) / f"chain-{k}.csv") for k in range(1, chains + 1)]
    for path, chain in zip(paths, written, strict=True):
        Path(path).write_bytes(chain)
    return cmdstanpy.from_csv(paths, method="sample")


def _chain(program, content, k, arguments):
    """On a worker: the CSV file of chain k."""
    with scratch_folder() as folder:
        import cmdstanpy

        data = Path(folder) / "data.json"
        data.write_bytes(content)
        with cmdstanpy.disable_logging():
            fit = compile_program(program, progress=False).sample(
                str(data),
                chains=1,
                chain_ids=[k],
                output_dir=folder,
                show_progress=False,
                **arguments,
            )
        return Path(fit.runset.csv_files[0]).read_bytes()
