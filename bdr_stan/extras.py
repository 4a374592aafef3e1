"""What an installation may lack: libraries of the package's extras, and tools."""

import importlib.metadata
import threading
from importlib import import_module

STANLI_VERSION = "0.24.0"  # the only one that is tested
STANLI_HINT = "pip install 'bdr-stan[stanli]'"


class ToolchainError(RuntimeError):
    """CmdStan is missing, or a program cannot be compiled; the message has the fix.

    Examples
    --------
    >>> from bdr_stan.cmdstan import ToolchainError
    >>> from bdr_stan.cmdstan.programs import compile_program
    >>> try:
    ...     model = compile_program("blr", progress=False)
    ... except ToolchainError as error:
    ...     print(error)  # how to fix it
    ...
    """


def require(message: str, *modules: str) -> None:
    """Import modules; ImportError with the message, how to install them, if one is missing."""
    try:
        for name in modules:
            import_module(name)
    except ImportError as error:
        raise ImportError(message) from error


def require_maps() -> None:
    """ImportError with the install command if a library of the extra "maps" is missing."""
    require(
        "maps need geopandas, rasterio and rioxarray: pip install 'bdr-stan[maps]'",
        *("geopandas", "rasterio", "rioxarray"),
    )


def in_main_thread() -> bool:
    """Whether this is the thread that Python started with."""
    return threading.current_thread() is threading.main_thread()


def require_main_thread() -> None:
    """RuntimeError in other threads: there stanli has no stack of derivatives and crashes."""
    if not in_main_thread():
        raise RuntimeError(
            "stanli runs only in the main thread: use processes instead of threads, or "
            "engine='cmdstan'"
        )


def stanli_version() -> str | None:
    """Version of the installed stanli; None if it is missing."""
    try:
        return importlib.metadata.version("stanli")
    except importlib.metadata.PackageNotFoundError:
        return None


def require_stanli(what: str) -> None:
    """ImportError without the tested stanli, RuntimeError in another thread than the main one."""
    require_main_thread()
    require(f"{what} needs stanli, which is not installed: {STANLI_HINT}", "stanli")
    version = stanli_version()
    if version != STANLI_VERSION:
        raise ImportError(
            f"{what} needs stanli {STANLI_VERSION}, found {version}, which is not tested: "
            f"{STANLI_HINT}"
        )
