"""The C++ compiler and make: finding and running them.

Without g++, the compiler is clang from the PyPI package ziglang if that is installed; without make,
`without_make.py` runs the makefile's commands.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path

from bdr_stan.cmdstan.cache import ToolchainError, cache_directory, interrupted
from bdr_stan.types import PathName

ZIG_VERSION = "0.12.1"  # later ones refuse the headers of the TBB that Stan uses
COMPILER_HINT = "pip install 'bdr-stan[compiler]'"

_HERE = Path(__file__).parent
_ZIG_HEADERS = ("guarded_tbb.hpp", "int128_division.hpp")
_DISK_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")
# Output of a compiler that was killed or got no memory; zig then prints "Error 134" alone.
_KILLED_TEXTS = (
    *("Killed signal", "error: Killed", "Terminated signal", "Error 134", "Error 137", "Error 143"),
    *("virtual memory exhausted", "Cannot allocate memory", "out of memory"),
)


def make_program() -> str:
    """The make to run: the environment variable MAKE, else make."""
    return os.environ.get("MAKE") or "make"


def cxx_program() -> str:
    """The C++ compiler with its flags: the environment variable CXX, else g++, else zig."""
    named = os.environ.get("CXX")
    if named or shutil.which("g++") or zig_directory() is None:
        return named or "g++"
    return zig_program()


def zig_program() -> str:
    """Zig's C++ compiler with its flags, for executables that run on any Linux since 2014."""
    headers = hashlib.sha256(b"".join((_HERE / name).read_bytes() for name in _ZIG_HEADERS))
    return (
        # A generic target: by default it would build for this machine's processor alone.
        f"zig c++ -target {platform.machine()}-linux-gnu.2.17 -O2 -s -Qunused-arguments "
        f"-Wno-enum-constexpr-conversion -DBDR_STAN_HEADERS={headers.hexdigest()[:8]} "
        + " ".join(f"-include {name}" for name in _ZIG_HEADERS)
    )


def zig_directory() -> Path | None:
    """Folder of the PyPI package ziglang; None where it is missing or of another version."""
    try:
        version = importlib.metadata.version("ziglang")
        spec = importlib.util.find_spec("ziglang")
    except (importlib.metadata.PackageNotFoundError, ModuleNotFoundError):
        return None
    if version != ZIG_VERSION or spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def missing_programs(own: bool = True) -> list[str]:
    """Which of compiler and make are missing to compile; `own`: for a home built by this package.

    Another CmdStan can use neither zig nor the replacement of make.
    """
    compiler = cxx_program() if own else os.environ.get("CXX") or "g++"
    missing = [] if _found(compiler) else [compiler]
    if not shutil.which(make_program()) and (os.environ.get("MAKE") or not own):
        missing.append(make_program())
    return missing


def require_compiler(own: bool = True) -> None:
    """Raise ToolchainError where the compiler or make is missing; `own` as above."""
    missing = missing_programs(own)
    if missing:
        from_pypi = f"{COMPILER_HINT}; or " if own else ""
        raise ToolchainError(
            f"compiling a Stan program needs {' and '.join(missing)}, not found on the PATH: "
            f"{from_pypi}on Debian or Ubuntu: sudo apt-get install g++ make; or with "
            "conda: conda install -c conda-forge cxx-compiler make; or do without, by pip install "
            "'bdr-stan[stanli]' and engine='stanli'"
        )


def compiler_version(program: str) -> str:
    """First line of the compiler's version, "" if it cannot be run."""
    found = _found(program)
    return _version(program, found) if found else ""


def _found(program):
    """Path of the compiler, which may be in the ziglang package."""
    return shutil.which(program.split()[0], path=_environment()["PATH"])


@lru_cache
def _version(program, found):
    try:
        output = subprocess.run(
            [found, *program.split()[1:], "--version"],
            check=False,
            capture_output=True,
            text=True,
            env=_environment(),
        )
    except OSError:
        return ""
    return output.stdout.partition("\n")[0]


def make_local_texts(home: PathName) -> list[str]:
    """Texts of the user's own make settings, which change what is built."""
    files = (Path(home) / "make" / "local", Path.home() / ".config" / "stan" / "make.local")
    return [file.read_text() for file in files if file.is_file()]


# ------------------------------------------------------------------ running make


def compilers_at_once() -> int:
    """How many compilers may run side by side: each takes up to 3 GB."""
    import psutil

    return max(1, min(os.cpu_count() or 1, int(psutil.virtual_memory().total / 3e9)))


@cache
def _compiler_slots():
    return threading.BoundedSemaphore(compilers_at_once())


_running: set[subprocess.Popen] = set()


@contextmanager
def side_by_side(n: int) -> Iterator[Executor]:
    """Threads to compile in; on an interrupt running compilers end and none starts."""
    with ThreadPoolExecutor(n) as pool:
        try:
            yield pool
        except Exception:
            raise
        except BaseException:
            interrupted.set()
            try:
                for process in tuple(_running):
                    _end(process)
                pool.shutdown(wait=True, cancel_futures=True)
            finally:
                interrupted.clear()
            raise


def compile_with_make(home: Path, workplace: Path, what: str, *arguments: str) -> tuple[int, str]:
    """Run make in `home` when memory allows, with temporary files in `workplace`.

    Returns the exit code and all output; `what` is compiled, in messages.
    """
    with _compiler_slots():
        if interrupted.is_set():
            raise ToolchainError(f"compiling {what} was interrupted")
        zig = workplace / "zig"
        folders = {"TMPDIR": str(workplace), "ZIG_LOCAL_CACHE_DIR": str(zig)}
        code, output = run_make(home, *arguments, **folders)
        shutil.rmtree(zig, ignore_errors=True)
    if code != 0 and any(text in output for text in _DISK_FULL_TEXTS):
        raise ToolchainError(disk_is_full(what))
    if code < 0 or (code != 0 and any(text in output for text in _KILLED_TEXTS)):
        raise ToolchainError(
            f"the compiler was ended while compiling {what}, most likely for lack of memory "
            "(it takes up to 3 GB); close other programs, then try again"
        )
    return code, output


def disk_is_full(what: str) -> str:
    """Message about a full disk while compiling `what`."""
    return (
        f"the disk is full, compiling {what} in {cache_directory()} stopped; "
        "make room, or set the environment variable BDR_STAN_CACHE to another folder"
    )


def run_make(home: PathName, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run make, or its replacement, in the home; the exit code and all output."""
    make = [make_program()]
    if not (shutil.which("make") or os.environ.get("MAKE")):
        make = [sys.executable, "-I", str(_HERE / "without_make.py")]
    process = subprocess.Popen(
        [*make, *arguments],
        cwd=home,
        env={**_environment(), **environment},
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that its compilers end with it
    )
    _running.add(process)
    try:
        if interrupted.is_set():
            _end(process)
        output, _ = process.communicate()
    except BaseException:
        _end(process)
        process.communicate()
        raise
    finally:
        _running.discard(process)
    return process.returncode, output


def _environment():
    """The environment of make and the compiler, which may be ziglang's."""
    # Flags of a make that called this process must not be inherited.
    inherited = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    path = inherited.get("PATH", os.defpath)
    zig = zig_directory() if cxx_program().split()[0] == "zig" else None
    if zig is None:
        return {**inherited, "PATH": path}
    headers = [str(_HERE), *filter(None, [inherited.get("CPLUS_INCLUDE_PATH")])]
    return {
        **inherited,
        "CXX": cxx_program(),
        "PATH": os.pathsep.join([str(zig), path]),
        "CPLUS_INCLUDE_PATH": os.pathsep.join(headers),
        "ZIG_GLOBAL_CACHE_DIR": str(cache_directory() / "zig"),  # its C++ library, compiled once
    }


def _end(process):
    """End make and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
