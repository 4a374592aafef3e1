"""The C++ compiler and make: finding and running them."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from bdr_stan.extras import ToolchainError

_DISK_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")
# Output of a compiler that was killed or got no memory.
_KILLED_TEXTS = (
    *("Killed signal", "error: Killed", "Terminated signal", "Error 134", "Error 137", "Error 143"),
    *("virtual memory exhausted", "Cannot allocate memory", "out of memory"),
)


def make_program() -> str:
    """The make to run: the environment variable MAKE, else make."""
    return os.environ.get("MAKE") or "make"


def cxx_program() -> str:
    """The C++ compiler with its flags: the environment variable CXX, else the system's."""
    return os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")


def missing_programs() -> list[str]:
    """Which of compiler and make are missing."""
    compiler, make = cxx_program(), make_program()
    missing = [] if shutil.which(compiler.split()[0]) else [compiler]
    return missing if shutil.which(make) else [*missing, make]


def require_compiler() -> None:
    """Raise ToolchainError if the compiler or make is missing."""
    missing = missing_programs()
    if missing:
        raise ToolchainError(
            f"compiling a Stan program needs {' and '.join(missing)}, not found on the PATH: "
            "on Debian or Ubuntu: sudo apt-get install g++ make; or with "
            "conda: conda install -c conda-forge cxx-compiler make; or do without, by pip install "
            "'bdr-stan[stanli]' and engine='stanli'"
        )


@lru_cache
def compiler_version(program: str) -> str:
    """First line of the version of a compiler with its flags, "" if it cannot be run."""
    return output_of(*program.split(), "--version")[0].partition("\n")[0]


def output_of(*command: str | Path) -> tuple[str, str]:
    """What a program writes, and why it failed, "" if it did not."""
    try:
        run = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    except OSError as error:
        return "", str(error.strerror)
    code = run.returncode
    return run.stdout, (run.stderr.strip() or f"exit code {code}") if code else ""


def run_make(home: Path, folder: str, what: str, *arguments: str) -> tuple[int, str]:
    """Run make to compile `what`, with temporary files in `folder`; exit code and output."""
    # Flags of a make that called this process must not be inherited.
    inherited = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    process = subprocess.Popen(
        [make_program(), *arguments],
        cwd=home,
        env={**inherited, "TMPDIR": folder},
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that its compilers end with it
    )
    try:
        output, _ = process.communicate()
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        _check_machine(output, process.returncode, what)
    return process.returncode, output


def _end(process):
    """End make and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _check_machine(output, code, what):
    """Raise the error of a compiler that failed for lack of disk space or memory."""
    if any(text in output for text in _DISK_FULL_TEXTS):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if code < 0 or any(text in output for text in _KILLED_TEXTS):
        raise ToolchainError(
            f"the compiler was ended while compiling {what}, most likely for lack of memory "
            "(it takes up to 3 GB); close other programs, then try again"
        )
