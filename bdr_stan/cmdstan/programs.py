"""Find, compile and cache Stan programs; nothing statistical."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdr_stan.cmdstan.cache import (
    ToolchainError,
    built_whole,
    cache_directory,
    locked,
    writing,
)
from bdr_stan.cmdstan.compiler import (
    compiler_slot,
    compiler_version,
    cxx_program,
    make_local_texts,
    require_compiler,
    run_make,
)
from bdr_stan.cmdstan.discovery import choose, ready
from bdr_stan.cmdstan.home import compile_driver, identity, is_own
from bdr_stan.cmdstan.progress import status
from bdr_stan.types import PathName

if TYPE_CHECKING:
    import cmdstanpy

_STANC = "STANCFLAGS+="
# Variables that make takes from the environment.
_ENVIRONMENT = (
    *("CXX", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS", "O", "STANCFLAGS"),
    *("STAN_THREADS", "STAN_NO_RANGE_CHECKS", "STAN_CPP_OPTIMS"),
)
_INCLUDE = re.compile(r"^[ \t]*#include[ \t]+(?:\"([^\"]+)\"|<([^>]+)>|(\S+))", re.MULTILINE)
_REDUCE_SUM = re.compile(r"\breduce_sum(_static)?\s*\(")


class ProgramError(ToolchainError):
    """A Stan program does not compile; the text is the compiler's message."""


# ------------------------------------------------------------------ stock programs


def stan_directory() -> Path:
    """Folder of the Stan programs that come with the package."""
    package = Path(__file__).parents[1]
    installed = package / "stan"
    return installed if installed.is_dir() else package.parent / "stan"


def program_names() -> list[str]:
    """Names of the stock programs, sorted."""
    return sorted(path.stem for path in stan_directory().glob("*.stan"))


def program_path(name: str) -> Path:
    """Path of a stock program.

    Raises
    ------
    ValueError : there is no such program; the text lists those there are.
    """
    if name not in program_names():
        raise ValueError(
            f"no Stan program called {name!r}; there are: {', '.join(program_names())}"
        )
    return stan_directory() / f"{name}.stan"


def eject(name: str, target: PathName, *, force: bool = False) -> list[Path]:
    """Write a stock program, ready to edit, with its includes in ``functions/`` beside it.

    Parameters
    ----------
    name : str, a stock program
    target : path, a file ending in .stan or a folder for ``<name>.stan``
    force : bool, overwrite files that are there already

    Returns
    -------
    list of Path, the files written, the program first; a file that is there already with
    the same text is left alone.

    Raises
    ------
    ValueError : no such program.
    FileExistsError : a file is there already; nothing is written.
    """
    program = program_path(name)
    target = Path(target)
    if target.suffix != ".stan":
        target = target / program.name
    sources = {target: program}
    for include, path in _includes(program, _include_folders(program)).items():
        sources[target.parent / include] = path
    # An include that another program brought along before is no obstacle.
    sources = {
        path: source
        for path, source in sources.items()
        if not (path.is_file() and path.read_bytes() == source.read_bytes())
    }
    taken = [path for path in sources if path.exists()]
    if taken and not force:
        raise FileExistsError(f"{taken[0]} exists already; force=True (--force) overwrites it")
    fresh = {path.with_name(path.name + ".new"): path for path in sources}
    try:
        for new, path in fresh.items():
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources[path], new)
        for new, path in fresh.items():
            new.replace(path)
    finally:
        for new in fresh:
            new.unlink(missing_ok=True)
    return list(sources)


# ------------------------------------------------------------------ compiling


def compile_program(
    program: PathName,
    *,
    threads: bool | None = None,
    progress: bool | None = None,
    stanc_options: Mapping[str, Any] | None = None,
    cpp_options: Mapping[str, Any] | None = None,
) -> "cmdstanpy.CmdStanModel":
    """Compile a Stan program, or take it from the cache.

    Nothing is written beside the program. Sets up CmdStan first if there is none.

    Parameters
    ----------
    program : str or path
        Name of a stock program, or path of a .stan file. Its includes are looked for in
        its own folder, then in that of the stock programs.
    threads : bool, default whether the program calls reduce_sum
        Build with STAN_THREADS (reduce_sum, several chains in one process).
    progress : bool, default True; show on stderr what takes long
    stanc_options : dict, such as {"O1": True}, as cmdstanpy takes them
    cpp_options : dict, variables for make, such as {"STAN_NO_RANGE_CHECKS": True}

    Returns
    -------
    cmdstanpy.CmdStanModel

    Raises
    ------
    ValueError : no such stock program.
    FileNotFoundError : no such file.
    ProgramError : the program does not compile; the text is the compiler's message.
    ToolchainError : no compiler, no room.
    """
    import cmdstanpy

    show = progress is None or bool(progress)
    source = _source(program)
    name = re.sub(r"\W", "_", source.stem)  # make and C++ take no blanks or dashes
    folders = _include_folders(source, stanc_options)
    files = {f"{name}.stan": source, **_includes(source, folders)}
    if threads is None:
        threads = any(_REDUCE_SUM.search(_text(path)) for path in files.values())
    flags = [*_stanc_flags(stanc_options), *_make_flags(cpp_options, threads)]
    home = choose()
    entry = cache_directory() / "programs" / f"{name}-{_key(files, flags, home)}"
    executable = entry / name
    if not (executable.is_file() and (home / "bin" / "stanc").is_file()):
        require_compiler()
        ready(home)
        first = is_own(home) and not any(home.glob("driver*.o"))
        text = f"Compiling {source.name}" + (" and, once, Stan's driver" if first else "")
        with status(text, show), locked(entry.name):
            if not executable.is_file():
                _build(entry, name, source, files, folders, flags, home)
    cmdstanpy.set_cmdstan_path(str(home))
    return cmdstanpy.CmdStanModel(stan_file=entry / f"{name}.stan", exe_file=executable)


def _source(program):
    """Path of a stock program's or a user's file."""
    text = os.fspath(program)
    if not text.endswith(".stan") and os.sep not in text:
        return program_path(text)
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise FileNotFoundError(f"no Stan program {path}")
    return path


def _include_folders(source, stanc_options=None):
    """Where includes are looked for, in this order."""
    given = (stanc_options or {}).get("include-paths", [])
    given = given.split(",") if isinstance(given, str) else [os.fspath(p) for p in given]
    folders = [source.parent, *map(Path, given), stan_directory()]
    return [folder.absolute() for folder in folders]


def _includes(source, folders):
    """Files that a program includes, directly or not: name in the program -> path.

    What is not found is left to stanc, which tells the line.
    """
    found = {}
    pending = [source]
    while pending:
        for match in _INCLUDE.finditer(_text(pending.pop())):
            name = next(filter(None, match.groups()))
            path = next((f / name for f in folders if (f / name).is_file()), None)
            if path is not None and name not in found:
                found[name] = path
                pending.append(path)
    return found


def _text(path):
    return path.read_text(encoding="utf-8", errors="replace")


def _stanc_flags(options):
    flags = []
    for name, value in (options or {}).items():
        if name == "include-paths" or value is False or value is None:
            continue
        flags.append(f"--{name}" if value is True else f"--{name}={value}")
    return [_STANC + flag for flag in flags]


def _make_flags(cpp_options, threads):
    options = dict(cpp_options or {})
    if threads:
        options.setdefault("STAN_THREADS", "TRUE")
    # make asks whether a variable is set, not to what
    given = {name: value for name, value in options.items() if value not in (None, "")}
    return [f"{name}={value}" for name, value in given.items() if value is not False]


def _key(files, flags, home):
    """Digest of everything the executable depends on."""
    settings = [os.environ.get(name, "") for name in _ENVIRONMENT]
    machine = [platform.machine(), compiler_version(cxx_program())]
    if any("native" in text for text in [*flags, *settings, *make_local_texts(home)]):
        machine.append(_cpu_model())
    digest = hashlib.sha256(repr([flags, settings, machine, identity(home)]).encode())
    headers = {flag: Path(flag.partition("=")[2]) for flag in flags if flag.startswith("USER_HEAD")}
    for name, path in sorted({**files, **headers}.items()):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def _cpu_model():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return "\n".join(
        sorted(
            {
                line
                for line in text.splitlines()
                if line.startswith(("model name", "flags", "Features"))
            }
        )
    )


def _build(entry, name, source, files, folders, flags, home):
    """Compile in a folder of its own that becomes the cache entry."""
    with built_whole(entry) as building:
        with writing():
            for file, path in files.items():
                if not _leaves_folder(file):
                    (building / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, building / file)
        # make runs in the home, and takes no blanks in a target
        target = os.path.relpath(building / name, home)
        if re.search(r"\s", target):
            raise ToolchainError(
                f"make cannot build in a folder with white space in its name: {building}; "
                "set the environment variable BDR_STAN_CACHE to another folder"
            )
        stanc_flags = [f"--filename-in-msg={name}.stan"]
        if "#include" in _text(source):
            # the copies first; the folders are for what could not be copied
            paths = [os.path.dirname(target), *map(str, folders)]
            stanc_flags.append("--include-paths=" + ",".join(dict.fromkeys(paths)))
        stanc_flags += [f.removeprefix(_STANC) for f in flags if f.startswith(_STANC)]
        make_flags = [flag for flag in flags if not flag.startswith(_STANC)]
        _check_syntax(home, target, stanc_flags, source, files)
        arguments = [_STANC + flag.replace(" ", r"\ ") for flag in stanc_flags] + make_flags
        if is_own(home):
            with ThreadPoolExecutor(1) as pool:
                driver = pool.submit(compile_driver, home, make_flags, show=False)
                _make(home, source, *arguments, f"{target}.o")
                driver.result()
            arguments.append("REUSE_OBJECT=1")
        _make(home, source, *arguments, target)
        (building / f"{name}.hpp").unlink(missing_ok=True)


def _leaves_folder(name):
    """An include by an absolute path or through "..": read where it is, not copied."""
    return os.path.isabs(name) or ".." in Path(name).parts


def _check_syntax(home, target, flags, source, files):
    """Run stanc alone, for its message without the noise of make."""
    command = ["bin/stanc", *flags, f"--o={target}.hpp", f"{target}.stan"]
    said = subprocess.run(
        command, cwd=home, check=False, capture_output=True, text=True, errors="replace"
    )
    if said.returncode == 0:
        return
    message = (said.stderr or said.stdout).strip()
    for name, path in files.items():
        for quoted in (name, f"{os.path.dirname(target)}/{name}"):
            message = message.replace(f"'{quoted}'", f"'{path}'")
    raise ProgramError(f"{source} is not a valid Stan program.\n{message}")


def _make(home, source, *arguments):
    with compiler_slot:
        code, said = run_make(home, *arguments)
    if code == 0:
        return
    if "No space left on device" in said:
        raise ToolchainError(
            f"the disk is full, compiling {source.name} in {cache_directory()} stopped; "
            "make room, or set the environment variable BDR_STAN_CACHE to another folder"
        )
    raise ProgramError(f"{source} does not compile as C++:\n{_errors(said)}")


def _errors(said):
    """The compiler's first error with what follows it, without make's own lines."""
    lines = [line for line in said.splitlines() if not line.startswith("make")]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return "\n".join(lines[first : first + 15])
