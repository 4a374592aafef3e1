"""Set up CmdStan, and compile programs along with its driver."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bdr_stan.cmdstan import prebuilt
from bdr_stan.cmdstan.cache import ToolchainError, sweep
from bdr_stan.cmdstan.compiler import compilers_at_once, side_by_side
from bdr_stan.cmdstan.discovery import choose, ready
from bdr_stan.cmdstan.home import WHEEL_VERSION, compile_driver, is_own
from bdr_stan.cmdstan.programs import ON_WINDOWS, compile_program, is_prebuilt, program_path
from bdr_stan.progress import status


def setup(source: str = "auto", *, programs: Sequence[str] = (), progress: bool = True) -> Path:
    """Make sure that there is a CmdStan, and that cmdstanpy uses it.

    Quick when done already; repairs a home with missing parts.

    Parameters
    ----------
    source : {"auto", "pypi", "github"}, default "auto"
        "auto": nothing where the package includes all `programs`, compiled; otherwise the CmdStan
        that cmdstanpy finds by itself, else "pypi". "pypi": built from the package httpstan, needs
        a C++ compiler. "github": the official release, downloaded and built by cmdstanpy.
    programs : sequence of str, default none
        Stock programs (such as "bdr") to compile as well.
    progress : bool, default True, show long tasks on stderr

    Returns
    -------
    Path of the CmdStan home, or of the folder of the programs included in the package.

    Raises
    ------
    ToolchainError : no compiler, no httpstan package, no disk space, Windows; the message says how
        to fix it.
    ValueError, TypeError : an unknown `source` or program.

    Examples
    --------
    >>> from bdr_stan.cmdstan import find, setup
    >>> home = setup(progress=False)  # minutes the first time, then none
    >>> home == find()
    True
    """
    if source not in ("auto", "pypi", "github"):
        raise ValueError(f'source must be "auto", "pypi" or "github", found {source!r}')
    if isinstance(programs, str):
        raise TypeError(f"programs must be a list of names: pass [{programs!r}]")
    for program in programs:
        program_path(program)
    if sys.platform == "win32":
        raise ToolchainError(ON_WINDOWS)
    if source == "auto" and programs and all(is_prebuilt(program) for program in programs):
        compile_program(programs[0])  # sets cmdstanpy's path
        return prebuilt.prebuilt_directory()
    home = _install_from_github(progress) if source == "github" else choose(source)
    sweep()
    ready(home)
    if programs:
        _compile_side_by_side(programs, progress)
    elif is_own(home):
        compile_driver(home, show=progress)
    return home


def _compile_side_by_side(programs, progress):
    """Compile programs in parallel, the longest first, and with the first of them the driver."""
    longest_first = sorted(programs, key=lambda name: -program_path(name).stat().st_size)
    text = f"Compiling {', '.join(programs)}"
    with status(text, progress), side_by_side(compilers_at_once()) as pool:
        # list() raises the first error
        list(pool.map(lambda program: compile_program(program, progress=False), longest_first))


def _install_from_github(progress):
    import cmdstanpy

    with status("Downloading and building CmdStan", progress), cmdstanpy.disable_logging():
        installed = cmdstanpy.install_cmdstan()
    if not installed:
        raise ToolchainError(
            "CmdStan could not be downloaded from GitHub and built; without access to GitHub: "
            f"pip install 'httpstan=={WHEEL_VERSION}' and bdr-stan setup --from pypi"
        )
    return Path(cmdstanpy.cmdstan_path())
