"""Run make and its compilers, so that they end with the call and trouble is one sentence."""

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

_BYTES_PER_COMPILER = 3e9
# Output of a compiler that was killed or got no memory; zig then prints "Error 134" alone.
_KILLED_TEXTS = (
    *("Killed signal", "error: Killed", "Terminated signal", "Error 134", "Error 137", "Error 143"),
    *("virtual memory exhausted", "Cannot allocate memory", "out of memory"),
)


class BuildError(RuntimeError):
    """A CmdStan cannot be built; the message says how to fix it."""


def require_compiler() -> None:
    """Raise BuildError where the C++ compiler or make is missing."""
    needed = shlex.split(os.environ.get("CXX") or "g++")[0], _make_program()
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        raise BuildError(
            f"building CmdStan needs {' and '.join(missing)}, not found on the PATH: on Debian or "
            "Ubuntu: sudo apt-get install g++ make; or with conda: conda install -c conda-forge "
            "cxx-compiler make"
        )


def _make_program():
    return os.environ.get("MAKE") or "make"


def run_make(home: Path, *arguments: str) -> str:
    """Run make in a home, as many compilers side by side as memory allows; its output."""
    # Flags of a make that called this process must not be inherited.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    process = subprocess.Popen(
        [_make_program(), f"--jobs={_compilers_at_once()}", *arguments],
        cwd=home,
        env=environment,
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
    if process.returncode:
        raise BuildError(_why(output))
    return output


def _end(process):
    """End make and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _compilers_at_once():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(os.cpu_count() or 1, int(memory / _BYTES_PER_COMPILER)))


def _why(output):
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return "the disk is full: make room, or name another folder by --home"
    if any(text in output for text in _KILLED_TEXTS):
        return (
            "the compiler was ended, most likely for lack of memory (it takes up to 3 GB): close "
            "other programs, then try again"
        )
    return "make failed:\n" + "\n".join(output.rstrip().splitlines()[-30:])
