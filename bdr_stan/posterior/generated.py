"""Generated quantities of a Stan program, at draws of its parameters and with other data."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.cmdstan.files import write_data
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.posterior import stanli
from bdr_stan.posterior.declarations import declared
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import Array


def generated_quantities(
    name: str,
    code: str,
    data: Mapping[str, Any],
    draws: Mapping[str, Array],
    wanted: Sequence[str],
    *,
    seed: int,
    engine: str | None = None,
) -> dict[str, Array]:
    """Variables `wanted`, each (S, n), at draws of the program's parameters, each (S, ...).

    RuntimeError with Stan's message if the program rejects the data or a draw.
    """
    with scratch_folder() as folder:
        program = Path(folder) / f"{name}.stan"
        program.write_text(code, encoding="utf-8")
        none = np.empty((len(next(iter(draws.values()))), 0))  # of a parameter without entries
        parameters = {p: draws.get(p, none) for p in declared(program, "parameters")}
        on_stanli = stanli.engine_of_run(program, engine) == "stanli"
        run = _by_stanli if on_stanli else _by_cmdstan
        try:
            quantities = run(program, data, parameters, wanted, seed)
        except RuntimeError as error:
            raise RuntimeError(f"generated quantities of {name}.stan failed: {error}") from error
    for variable, values in quantities.items():
        if np.isnan(values).any():
            raise RuntimeError(
                f"{variable} of {name}.stan is not a number for new bag "
                f"{np.flatnonzero(np.isnan(values).any(axis=0))[0]}: check its generated quantities"
            )
    return quantities


def _by_stanli(program, data, parameters, wanted, seed):
    model = stanli.load(program, data)
    n_draws = len(next(iter(parameters.values())))
    points = [
        model.unconstrain({name: stanli.in_stans_order(v[s]) for name, v in parameters.items()})
        for s in range(n_draws)
    ]
    values, _ = stanli.constrained(model, np.array(points), seed)
    return {name: values[name][0] for name in wanted}


def _by_cmdstan(program, data, parameters, wanted, seed):
    import pandas as pd

    model = compile_program(program, progress=False)
    files = {name: program.with_name(name) for name in ("data.json", "draws.csv", "output.csv")}
    write_data(files["data.json"], dict(data))
    _write_draws(files["draws.csv"], parameters)
    command = [
        *(str(model.exe_file), "id=1", "random", f"seed={seed}"),
        *("data", f"file={files['data.json']}"),
        *("output", f"file={files['output.csv']}", "sig_figs=12"),
        *("method=generate_quantities", f"fitted_params={files['draws.csv']}"),
    ]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode != 0:
        raise RuntimeError((run.stderr or run.stdout).strip())
    table = pd.read_csv(
        files["output.csv"], comment="#", usecols=lambda column: column.partition(".")[0] in wanted
    )
    columns = {name: [c for c in table if c.partition(".")[0] == name] for name in wanted}
    return {name: table[entries].to_numpy(float) for name, entries in columns.items()}


def _write_draws(path, parameters):
    """Draws in CmdStan's format: a column per entry, the first index fastest."""
    header, columns = ["lp__"], [np.zeros(len(next(iter(parameters.values()))))]
    for name, values in parameters.items():
        for index in np.ndindex(values.shape[:0:-1]):
            header.append(".".join([name, *(str(i + 1) for i in reversed(index))]))
            columns.append(values[(slice(None), *reversed(index))])
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(header) + "\n")
        np.savetxt(file, np.column_stack(columns), fmt="%.17g", delimiter=",")
