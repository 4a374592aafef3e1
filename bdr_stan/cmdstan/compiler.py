"""The C++ compiler and make: whether they are there, which they are, running them."""

import os
import shutil
import subprocess
import threading
from functools import lru_cache
from pathlib import Path

from bdr_stan.cmdstan.cache import ToolchainError
from bdr_stan.types import PathName


def make_program() -> str:
    """The make that is run: the environment variable MAKE, else make."""
    return os.environ.get("MAKE") or "make"


def cxx_program() -> str:
    """The C++ compiler with its flags: the environment variable CXX, else g++."""
    return os.environ.get("CXX") or "g++"


def require_compiler() -> None:
    """Stop where the compiler or make is missing.

    Raises
    ------
    ToolchainError : one of them is not on the PATH; the text says what to install.
    """
    missing = [p for p in (cxx_program(), make_program()) if shutil.which(p.split()[0]) is None]
    if missing:
        raise ToolchainError(
            f"compiling a Stan program needs {' and '.join(missing)}, not found on the PATH; on "
            "Debian or Ubuntu: sudo apt-get install g++ make; with conda: "
            "conda install -c conda-forge cxx-compiler make"
        )


@lru_cache
def compiler_version(program: str) -> str:
    """First line of what the compiler says of itself, "" if it cannot be run."""
    try:
        said = subprocess.run(
            [*program.split(), "--version"], check=False, capture_output=True, text=True
        )
    except OSError:
        return ""
    return said.stdout.partition("\n")[0]


def make_local_texts(home: PathName) -> list[str]:
    """Text of the user's own make settings, which change what is built."""
    files = (Path(home) / "make" / "local", Path.home() / ".config" / "stan" / "make.local")
    return [file.read_text() for file in files if file.is_file()]


def _room():
    """How many compilers may run at once: each takes up to 3 GB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(os.cpu_count() or 1, int(memory / 3e9)))


compiler_slot = threading.BoundedSemaphore(_room())


def run_make(home: PathName, *arguments: str) -> tuple[int, str]:
    """Run make in the home; the exit code and all it printed."""
    command = [make_program(), *arguments]
    # Another make that called us must not pass on its flags.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        command,
        check=False,
        cwd=home,
        env=environment,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout
