"""Check everything that Stan needs, with advice on how to fix what is wrong."""

import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

from bdr_stan.cmdstan.cache import ToolchainError, cache_directory, lock
from bdr_stan.cmdstan.compiler import compiler_version, cxx_program, make_program
from bdr_stan.cmdstan.discovery import INSTALL_HINT, find
from bdr_stan.cmdstan.programs import (
    compiled_programs,
    is_prebuilt,
    prebuilt_directory,
    program_names,
)
from bdr_stan.extras import STANLI_HINT, STANLI_VERSION, stanli_version

_MIN_FREE_GB = 0.5  # for a few programs and their compiler's files


class Finding(NamedTuple):
    """One check: what was checked, whether it passed, and how to fix it.

    Attributes
    ----------
    what : str, what was checked
    ok : bool, whether it passed
    detail : str
        Its version or location, or what is wrong.
    fix : str, default ""
        A command or advice; "" where `ok`.

    Examples
    --------
    >>> from bdr_stan.cmdstan import Finding
    >>> make = Finding("make", ok=False, detail="not found", fix="sudo apt-get install make")
    >>> f"{make.what}: {make.detail}" if make.ok else f"{make.what}: {make.fix}"
    'make: sudo apt-get install make'
    """

    what: str
    ok: bool
    detail: str
    fix: str = ""


def doctor() -> list[Finding]:
    """Check CmdStan, compiler, make, the cache folder, programs and stanli.

    Builds nothing. Where the package includes compiled programs, what only compiling needs may be
    missing. On Windows, where programs run on stanli, cache folder and stanli are checked alone.

    Returns
    -------
    list of Finding, with `fix` a command or advice where `ok` is False.

    Examples
    --------
    >>> from bdr_stan.cmdstan import doctor
    >>> findings = doctor()
    >>> [finding.what for finding in findings]
    ['CmdStan', 'C++ compiler', 'make', ..., 'compiled programs', 'stanli']
    >>> all(finding.ok or finding.fix for finding in findings)
    True
    """
    if sys.platform == "win32":
        return [_cache(), _stanli()]
    to_compile, prebuilt = [_cmdstan(), _compiler(), _make()], []
    if prebuilt_directory().is_dir():
        prebuilt = [_prebuilt()]
    if prebuilt and prebuilt[0].ok:
        to_compile = [f if f.ok else _for_edited(f) for f in to_compile]
    return [*prebuilt, *to_compile, _cache(), _programs(), _stanli()]


def _prebuilt():
    """The programs included in the package; those that cannot be used are compiled."""
    folder = prebuilt_directory()
    unused = [name for name in program_names() if not is_prebuilt(name)]
    if not unused:
        return Finding("prebuilt programs", True, f"{folder}, all run")
    problem = "cannot be used here: damaged, or made for other settings (CXXFLAGS and the like)"
    detail = f"{', '.join(unused)} in {folder} {problem}"
    return Finding("prebuilt programs", False, detail, INSTALL_HINT)


def _for_edited(finding):
    """A missing part that only edited programs need."""
    detail = f"{finding.detail}; needed for edited programs only, unless they run on stanli"
    return Finding(finding.what, True, detail)


def _cmdstan():
    home = find()
    if home is None:
        return Finding("CmdStan", False, "not found", INSTALL_HINT)
    stanc = home / "bin" / "stanc"
    try:
        output = subprocess.run([stanc, "--version"], check=False, capture_output=True, text=True)
    except OSError as error:
        problem = error.strerror
    else:
        if output.returncode == 0:
            return Finding("CmdStan", True, f"{home}, {output.stdout.strip()}")
        problem = output.stderr.strip() or f"exit code {output.returncode}"
    fix = f"rm -r {shlex.quote(str(home))}, then {INSTALL_HINT}"
    return Finding("CmdStan", False, f"{stanc} does not run: {problem}", fix)


def _compiler():
    program = cxx_program()
    version = compiler_version(program)
    fix = "" if version else "sudo apt-get install g++"
    return Finding("C++ compiler", bool(version), version or f"{program} not found", fix)


def _make():
    found = shutil.which(make_program())
    return Finding(
        "make", bool(found), found or "not found", "" if found else "sudo apt-get install make"
    )


def _cache():
    folder, advice = cache_directory(), "export BDR_STAN_CACHE=/a/folder/with/room"
    try:
        with lock("doctor"):
            free = shutil.disk_usage(folder).free / 1e9
    except (ToolchainError, OSError) as error:
        return Finding("cache folder", False, str(error), advice)
    enough = free > _MIN_FREE_GB
    detail = f"{folder}, {free:.1f} GB free"
    return Finding("cache folder", enough, detail, "" if enough else advice)


def _programs():
    """The compiled programs; a damaged one is compiled again when it is next used."""
    programs = compiled_programs()
    damaged = {entry: faults for entry, faults in programs.items() if faults}
    if not damaged:
        return Finding("compiled programs", True, f"{len(programs)}, all complete")
    detail = "; ".join(f"{entry}: {', '.join(faults)}" for entry, faults in damaged.items())
    return Finding("compiled programs", False, detail, f"rm -r {shlex.join(map(str, damaged))}")


def _stanli():
    """The interpreter of Stan that needs no compiler, an extra."""
    found = stanli_version()
    if found in (None, STANLI_VERSION):
        return Finding("stanli", True, found or f"not installed, and optional: {STANLI_HINT}")
    return Finding(
        "stanli", False, f"{found}, but only {STANLI_VERSION} is tested and used", STANLI_HINT
    )
