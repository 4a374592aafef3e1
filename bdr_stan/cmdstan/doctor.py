"""Check everything that Stan needs, with advice on problems."""

import shlex
import shutil
import sys
from typing import NamedTuple

from bdr_stan.cmdstan.cache import cache_directory, lock
from bdr_stan.cmdstan.compiler import compiler_version, cxx_program, make_program, output_of
from bdr_stan.cmdstan.discovery import INSTALL_HINT, find
from bdr_stan.cmdstan.programs import (
    compiled_programs,
    is_prebuilt,
    prebuilt_directory,
    program_names,
)
from bdr_stan.extras import STANLI_HINT, STANLI_VERSION, ToolchainError, stanli_version

_MIN_FREE_GB = 0.5  # for a few programs and their compiler's files


class Finding(NamedTuple):
    """One check: its subject, whether it passed, and a fix."""

    what: str
    ok: bool
    detail: str  # its version or location, or the problem
    fix: str = ""  # a command or advice; "" if `ok`


def doctor() -> list[Finding]:
    """Findings on CmdStan, compiler, make, the cache folder, programs and stanli; builds nothing.

    If the package includes compiled programs, tools for compiling may be missing. On Windows, where
    programs run on stanli, only cache folder and stanli are checked.
    """
    if sys.platform == "win32":
        return [_cache(), _stanli()]
    to_compile = [_cmdstan(), _compiler(), _make()]
    if not prebuilt_directory().is_dir():
        return [*to_compile, _cache(), _programs(), _stanli()]
    prebuilt = _prebuilt()
    if prebuilt.ok:
        note = "; needed for edited programs only, unless they run on stanli"
        to_compile = [f if f.ok else Finding(f.what, True, f.detail + note) for f in to_compile]
    return [prebuilt, *to_compile, _cache(), _programs(), _stanli()]


def _finding(what, good, problem, fix):
    """A finding: `good` as its detail, unless there is a problem."""
    return Finding(what, False, problem, fix) if problem else Finding(what, True, good)


def _prebuilt():
    """The programs included in the package; those that cannot be used are compiled."""
    folder = prebuilt_directory()
    unused = ", ".join(name for name in program_names() if not is_prebuilt(name))
    problem = unused and (
        f"{unused} in {folder} cannot be used here: damaged, or made for other settings (CXXFLAGS "
        "and the like)"
    )
    return _finding("prebuilt programs", f"{folder}, all run", problem, INSTALL_HINT)


def _cmdstan():
    home = find()
    if home is None:
        return Finding("CmdStan", False, "not found", INSTALL_HINT)
    stanc = home / "bin" / "stanc"
    version, problem = output_of(stanc, "--version")
    problem = problem and f"{stanc} does not run: {problem}"
    fix = f"rm -r {shlex.quote(str(home))}, then {INSTALL_HINT}"
    return _finding("CmdStan", f"{home}, {version.strip()}", problem, fix)


def _compiler():
    program = cxx_program()
    version = compiler_version(program)
    problem = "" if version else f"{program} not found"
    return _finding("C++ compiler", version, problem, "sudo apt-get install g++")


def _make():
    make = shutil.which(make_program())
    return _finding("make", make, "" if make else "not found", "sudo apt-get install make")


def _cache():
    folder, problem, free = cache_directory(), "", 0.0
    try:
        with lock("doctor"):
            free = shutil.disk_usage(folder).free / 1e9
    except (ToolchainError, OSError) as error:
        problem = str(error)
    detail = f"{folder}, {free:.1f} GB free"
    problem = problem or (detail if free < _MIN_FREE_GB else "")
    return _finding("cache folder", detail, problem, "export BDR_STAN_CACHE=/a/folder/with/room")


def _programs():
    """The compiled programs; a damaged one is compiled again when it is next used."""
    programs = compiled_programs()
    damaged = {entry: faults for entry, faults in programs.items() if faults}
    problem = "; ".join(f"{entry}: {', '.join(faults)}" for entry, faults in damaged.items())
    fix = f"rm -r {shlex.join(map(str, damaged))}"
    return _finding("compiled programs", f"{len(programs)}, all complete", problem, fix)


def _stanli():
    """The interpreter of Stan that needs no compiler, an extra."""
    version = stanli_version()
    good = version or f"not installed, and optional: {STANLI_HINT}"
    problem = f"{version}, but only {STANLI_VERSION} is tested and used"
    problem = "" if version in (None, STANLI_VERSION) else problem
    return _finding("stanli", good, problem, STANLI_HINT)
