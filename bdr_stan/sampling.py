"""Run a Stan program on a data dictionary by any of CmdStan's methods."""

import os
import re
import sys
import tempfile

METHODS = ("nuts", "optimize", "laplace", "pathfinder")


def run(
    program, data, inits, *, method, chains, warmup, draws, seed, progress, options, reader
):
    """Run CmdStan on a program and read what it wrote.

    Parameters
    ----------
    program : str or path
        Name of a stock program, or path of a .stan file.
    data : dict
        The program's data.
    inits : list of dict, one for each chain
        Initial values; methods with one chain take the first.
    method : {"nuts", "optimize", "laplace", "pathfinder"}
    chains, warmup, draws : int
        Chains, and iterations of each; laplace and pathfinder give `draws` in one chain.
    seed : int or None
    progress : bool or None
        None shows compiling on stderr, True also the chains' progress on a terminal.
    options : dict
        Further arguments of the cmdstanpy method.
    reader : callable
        Given the CmdStanPy fit while its files are there; its value is returned.

    Raises
    ------
    RuntimeError
        Stan's own message if it fails.
    """
    import cmdstanpy

    from bdr_stan.programs import compile_program

    model = compile_program(program, progress=progress)
    common = {"data": data, "seed": seed, "sig_figs": 12}
    bars = bool(progress) and sys.stderr.isatty()
    with tempfile.TemporaryDirectory() as folder, cmdstanpy.disable_logging():
        common["output_dir"] = folder
        try:
            if method == "nuts":
                fit = model.sample(
                    **{
                        **common,
                        "inits": inits,
                        "chains": chains,
                        "parallel_chains": min(chains, os.cpu_count() or 1),
                        "iter_warmup": warmup,
                        "iter_sampling": draws,
                        "show_progress": bars,
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
                fit = model.pathfinder(**{**common, "inits": inits[0], "draws": draws, **options})
        except RuntimeError as error:
            raise RuntimeError(
                f"Stan's {method} of {program} failed: {_what_stan_says(str(error))}"
            ) from error
        return reader(fit)


def _what_stan_says(text):
    """The lines of an error that are Stan's, each once; all of it if there are none."""
    lines = [line.strip() for line in text.splitlines()]
    # CmdStanPy's own first line ends in a colon or quotes the whole command.
    said = [line for line in lines[1:] if re.match("Exception|Error|Rejecting|Initialization", line)]
    return "\n".join(dict.fromkeys(said)) or text
