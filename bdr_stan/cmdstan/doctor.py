"""Check everything that Stan needs, with advice on how to fix what is wrong."""

import os
import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

from bdr_stan.cmdstan import prebuilt
from bdr_stan.cmdstan.cache import ToolchainError, cache_directory, locked
from bdr_stan.cmdstan.compiler import (
    COMPILER_HINT,
    ZIG_VERSION,
    compiler_version,
    cxx_program,
    make_program,
)
from bdr_stan.cmdstan.discovery import foreign_home
from bdr_stan.cmdstan.home import WHEEL_VERSION, faults, find_wheel, home_directory
from bdr_stan.cmdstan.programs import (
    compiled_programs,
    is_prebuilt,
    program_names,
    programs_left_over,
)
from bdr_stan.extras import STANLI_HINT, STANLI_VERSION, stanli_version

_MIN_FREE_GB = 0.5  # a home and a few programs


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
    """Check compiler, make, the httpstan package, the cache folder, CmdStan, programs and stanli.

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
    ['C++ compiler', 'make', ..., 'compiled programs', 'stanli']
    >>> all(finding.ok or finding.fix for finding in findings)
    True
    """
    if sys.platform == "win32":
        return [_cache(), _stanli()]
    to_compile = [_compiler(), _make(), *_stan()]
    if not prebuilt.prebuilt_directory().is_dir():
        return [*to_compile, _cache(), _programs(), _stanli()]
    prebuilt_programs = _prebuilt()
    if prebuilt_programs.ok:
        to_compile = [finding if finding.ok else _for_edited(finding) for finding in to_compile]
    return [prebuilt_programs, *to_compile, _cache(), _programs(), _stanli()]


def _prebuilt():
    """The programs included in the package; those that cannot be used are compiled."""
    folder = prebuilt.prebuilt_directory()
    unused = [name for name in program_names() if not is_prebuilt(name)]
    if unused:
        return Finding(
            "prebuilt programs",
            False,
            f"{', '.join(unused)} in {folder} cannot be used here: damaged, made for other "
            "settings (CXXFLAGS and the like), or another CmdStan is there",
            f"{COMPILER_HINT}, and they are compiled",
        )
    return Finding("prebuilt programs", True, f"{folder}, all run")


def _for_edited(finding):
    """A missing part that only edited programs need."""
    return Finding(
        finding.what,
        True,
        f"{finding.detail}; needed for edited programs only: {COMPILER_HINT} installs all of it",
    )


def _compiler():
    program = cxx_program()
    version = compiler_version(program)
    source = f", of the PyPI package ziglang {ZIG_VERSION}" if program.startswith("zig ") else ""
    return Finding(
        "C++ compiler",
        bool(version),
        version + source if version else f"{program} not found",
        "" if version else f"sudo apt-get install g++, or {COMPILER_HINT}",
    )


def _make():
    found = shutil.which(make_program())
    if not found and not os.environ.get("MAKE"):
        return Finding("make", True, "not found, its commands are run without it")
    return Finding(
        "make", bool(found), found or "not found", "" if found else "sudo apt-get install make"
    )


def _cache():
    folder, advice = cache_directory(), "export BDR_STAN_CACHE=/a/folder/with/room"
    try:
        with locked("doctor"):
            free = shutil.disk_usage(folder).free / 1e9
    except ToolchainError as error:
        return Finding("cache folder", False, str(error), advice)
    enough = free > _MIN_FREE_GB
    detail = f"{folder}, {free:.1f} GB free"
    return Finding("cache folder", enough, detail, "" if enough else advice)


def _stan():
    """The CmdStan that is used; for one of ours also the package it is built from."""
    foreign = foreign_home()
    if foreign is not None:
        return [_stanc(foreign)]
    try:
        wheel = Finding("httpstan package", True, str(find_wheel()))
    except ToolchainError as error:
        wheel = Finding(
            "httpstan package", False, str(error), f"pip install 'httpstan=={WHEEL_VERSION}'"
        )
    home = home_directory()
    found = faults(home)
    if found:
        return [wheel, Finding("CmdStan", False, f"{home}: {'; '.join(found)}", "bdr-stan setup")]
    return [wheel, _stanc(home)]


def _stanc(home):
    stanc = home / "bin" / "stanc"
    try:
        output = subprocess.run([stanc, "--version"], check=False, capture_output=True, text=True)
    except OSError as error:
        problem = error.strerror
    else:
        if output.returncode == 0:
            return Finding("CmdStan", True, f"{home}, {output.stdout.strip()}")
        problem = output.stderr.strip() or f"exit code {output.returncode}"
    return Finding(
        "CmdStan",
        False,
        f"{stanc} does not run: {problem}",
        f"rm -r {shlex.quote(str(home))}; bdr-stan setup",
    )


def _programs():
    """The compiled programs; a damaged one is compiled again when it is next used."""
    programs = compiled_programs()
    damaged = {entry: faults for entry, faults in programs.items() if faults}
    if not damaged:
        return Finding(
            "compiled programs", True, f"{len(programs)}, all complete{_stale_programs_text()}"
        )
    return Finding(
        "compiled programs",
        False,
        "; ".join(f"{entry}: {', '.join(faults)}" for entry, faults in damaged.items()),
        f"rm -r {shlex.join(map(str, damaged))}",
    )


def _stanli():
    """The interpreter of Stan that needs no compiler, an extra."""
    found = stanli_version()
    if found in (None, STANLI_VERSION):
        return Finding("stanli", True, found or f"not installed, and optional: {STANLI_HINT}")
    return Finding(
        "stanli", False, f"{found}, but only {STANLI_VERSION} is tested and used", STANLI_HINT
    )


def _stale_programs_text():
    """Text about programs of earlier versions, which only take disk space."""
    entries = programs_left_over()
    if not entries:
        return ""
    folder = shlex.quote(str(entries[0].parent))
    return (
        f"; {len(entries)} of an earlier version, no longer used"
        f" (rm -r {folder} clears all; what is used is compiled again)"
    )
