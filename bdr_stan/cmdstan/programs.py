"""Find, compile and cache Stan programs; nothing statistical."""

import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bdr_stan.cmdstan.cache import (
    about,
    check_trusted,
    damage,
    lock,
    programs_directory,
    seal,
    whole,
)
from bdr_stan.cmdstan.compiler import (
    compiler_version,
    cxx_program,
    missing_programs,
    output_of,
    require_compiler,
    run_make,
)
from bdr_stan.cmdstan.discovery import find, identity, require_cmdstan
from bdr_stan.extras import ToolchainError
from bdr_stan.progress import status
from bdr_stan.results.files import written_whole
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import PathName, as_path, check_flags, saving_to

if TYPE_CHECKING:
    import cmdstanpy

_RUN_BEFORE: set[tuple[Path, int]] = set()  # executables that run, and when they were written
_SAFE_PATH = re.compile(r"[A-Za-z0-9_./+-]+")
# Variables that make reads from the environment.
_MAKE_VARIABLES = (
    *("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS", "O"),
    *("STAN_THREADS", "STAN_NO_RANGE_CHECKS", "STAN_CPP_OPTIMS"),
)
_INCLUDE = re.compile(r"#include\s+(?:\"([^\"\n]+)\"|<([^>\n]+)>|([^\s\"<]\S*))")
# A program's own line for stanc: its options, for example "// stanc: --O1".
_OPTIONS_LINE = re.compile(r"^// stanc:((?: +--\S+)+) *$", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMENT_OR_INCLUDE = re.compile(f"{_COMMENT.pattern}|{_INCLUDE.pattern}", re.DOTALL)
_REDUCE_SUM = re.compile(r"\breduce_sum(_static)?\s*\(")


ON_WINDOWS = (
    "on Windows Stan programs run on stanli: pip install 'bdr-stan[stanli]', then engine='stanli'"
)


class ProgramError(ToolchainError):
    """A Stan program does not compile; the text is the compiler's message."""


# ------------------------------------------------------------------ stock programs


def stan_directory() -> Path:
    """Folder of the Stan programs included in the package."""
    package = Path(__file__).parents[1]
    installed = package / "stan"
    return installed if installed.is_dir() else package.parent / "stan"


def fast_directory() -> Path:
    """Folder of the accelerated programs, which fits run, and of their includes."""
    return stan_directory() / "fast"


def program_names(*, fast: bool = True) -> list[str]:
    """Names of the accelerated programs, or of the plain ones, sorted."""
    folder = fast_directory() if fast else stan_directory()
    return sorted(path.stem for path in folder.glob("*.stan"))


def program_path(name: str, *, fast: bool = True) -> Path:
    """Path of an accelerated program, or of a plain one.

    Raises
    ------
    ValueError : the program does not exist; the message lists the existing ones.
    """
    names = program_names(fast=fast)
    if name not in names:
        kind = "accelerated" if fast else "plain"
        raise ValueError(f"no {kind} Stan program called {name!r}; there are: {', '.join(names)}")
    return (fast_directory() if fast else stan_directory()) / f"{name}.stan"


def title(name: str, *, fast: bool = False) -> str:
    """The first sentence of a program's header."""
    lines = _text(program_path(name, fast=fast)).splitlines()
    header = itertools.takewhile(lambda line: line.startswith("//"), lines)
    text = " ".join(line.lstrip("/ ") for line in header).removeprefix(f"{name}: ")
    return text.partition(". ")[0].partition(".  ")[0]


def eject(name: str, target: PathName, *, fast: bool = False, force: bool = False) -> list[Path]:
    """Write a plain program to edit; fits with it also predict.

    Parameters
    ----------
    name : str, a program of ``stan/``
    target : path, a file ending in .stan or a folder for ``<name>.stan``
    fast : bool, the accelerated program of ``stan/fast/`` instead, with its includes in
        ``functions/`` next to it
    force : bool, overwrite existing files

    Returns
    -------
    list of Path, the files written, the program first; an existing file with the same text is
    unchanged.

    Raises
    ------
    ValueError : no such program.
    FileExistsError : a file exists; nothing is written.
    """
    check_flags(fast=fast, force=force)
    program = program_path(name, fast=fast)
    target = as_path(target, "target")
    if target.suffix != ".stan":
        target = target / program.name
    texts = {target: _text(program)}
    for include, path in _includes(program, _include_folders(program)).items():
        texts[target.parent / include] = _text(path)
    # An include that another program shares may exist already.
    texts = {
        path: text for path, text in texts.items() if not (path.is_file() and _text(path) == text)
    }
    taken = [path for path in texts if path.exists()]
    if taken and not force:
        raise FileExistsError(f"{taken[0]} exists already; force=True (--force) overwrites it")
    with saving_to(target), ExitStack() as files:  # renamed once all are complete
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = files.enter_context(written_whole(path))
            partial.write_text(text, encoding="utf-8")
    return list(texts)


def resolved_text(program: PathName) -> str:
    """The text of a program, stock or a user's, with its includes in their places."""
    source = source_path(program)
    return _resolved(_text(source), _includes(source, _include_folders(source)))


def _resolved(text, includes):
    """The text with includes, name -> path, in their places, but those in comments."""

    def content(line):
        path = includes.get(next(filter(None, line.groups()), None))
        return line[0] if path is None else _resolved(_text(path).rstrip("\n"), includes)

    return _COMMENT_OR_INCLUDE.sub(content, text)


# ------------------------------------------------------------------ compiled programs


class Recipe(NamedTuple):
    """Inputs of an executable other than CmdStan and the compiler."""

    name: str  # of the executable
    source: Path
    options: list[str]  # of stanc
    flags: list[str]  # of make
    key: str  # digest of all of it, of includes, and of settings in the environment


def recipe(program: PathName) -> Recipe:
    """What the executable of a stock program, by name, or of a user's file is made from."""
    source = source_path(program)
    # A name without characters that are special to make, the shell or C++.
    name = re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", source.stem))
    files = {f"{name}.stan": source, **_includes(source, _include_folders(source))}
    threads = any(_REDUCE_SUM.search(_text(path)) for path in files.values())
    flags = ["STAN_THREADS=TRUE"] if threads else []
    options = [word for line in _OPTIONS_LINE.findall(_text(source)) for word in line.split()]
    settings = [os.environ.get(variable, "") for variable in _MAKE_VARIABLES]
    texts = [(file, path.read_bytes()) for file, path in sorted(files.items())]
    key = hashlib.sha256(repr((options, flags, settings, texts)).encode()).hexdigest()[:16]
    return Recipe(name, source, options, flags, key)


def compile_program(program: PathName, *, progress: bool | None = None) -> "cmdstanpy.CmdStanModel":
    """Compile a Stan program, or use the executable from the package or the cache.

    Nothing is written next to the program. What calls reduce_sum is built with STAN_THREADS.

    Parameters
    ----------
    program : str or path
        Name of a stock program, or path of a .stan file. Its includes are searched in its own
        folder, then among the stock programs. A line "// stanc: --O1" has options of stanc.
    progress : bool, default True; show long tasks on stderr

    Returns
    -------
    cmdstanpy.CmdStanModel

    Raises
    ------
    ValueError : no such stock program.
    FileNotFoundError : no such file.
    ProgramError : the program does not compile; the text is the compiler's message.
    ToolchainError : no CmdStan, no compiler, no disk space.
    """
    if sys.platform == "win32":
        raise ToolchainError(ON_WINDOWS)
    made_from = recipe(program)
    check_trusted()
    entry = _compiled(made_from)
    if entry is None:
        home = require_cmdstan()
        require_compiler()
        entry = _entry(made_from, home)
        text, show = f"Compiling {made_from.source.name}", progress is None or bool(progress)
        with status(text, show), lock(entry.name):
            if not _runs(entry, made_from.name):
                _build(entry, made_from, home)
    return _model(entry, made_from.name)


def runs_at_once(program: PathName) -> bool:
    """Whether a program is compiled, or CmdStan and a compiler are there to do it."""
    if sys.platform == "win32":
        return False
    check_trusted()
    if _compiled(recipe(program)):
        return True
    return find() is not None and not missing_programs()


def prebuilt_directory() -> Path:
    """Folder of the executables that came with the package; only platform wheels have it."""
    return Path(__file__).parents[1] / "prebuilt"


def is_prebuilt(name: str) -> bool:
    """Whether the package's own executable of a stock program is used."""
    made_from = recipe(name)
    return _runs(_prebuilt(made_from), made_from.name)


def compiled_programs() -> dict[Path, list[str]]:
    """Every program in the cache with its faults, an empty list if there are none."""
    entries = sorted(programs_directory().glob("*"))
    return {entry: damage(entry) for entry in entries if entry.suffix != ".new"}


def _compiled(made_from):
    """Folder of an executable that can be used, None if there is none."""
    home = find()
    if home is None or missing_programs():  # whatever is there, the newest first
        built = list(programs_directory().glob(f"{made_from.name}-{made_from.key}-????????"))
        built.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    else:
        built = [_entry(made_from, home)]
    candidates = [_prebuilt(made_from), *built]
    return next((entry for entry in candidates if _runs(entry, made_from.name)), None)


def _prebuilt(made_from):
    return prebuilt_directory() / f"{made_from.name}-{made_from.key}"


def _entry(made_from, home):
    """Folder in the cache for a program, a CmdStan and a compiler."""
    compiler = cxx_program()
    builder = [platform.machine(), identity(home), compiler, compiler_version(compiler)]
    digest = hashlib.sha256(repr(builder).encode()).hexdigest()[:8]
    return programs_directory() / f"{made_from.name}-{made_from.key}-{digest}"


def _runs(entry, name):
    return not damage(entry) and not _trial(entry / name)


def _trial(executable):
    """Error of an executable asked for its info, "" if it runs; asked once per process."""
    state = (executable, executable.stat().st_mtime_ns)
    if state in _RUN_BEFORE:
        return ""
    text, problem = output_of(executable, "info")
    if problem or "stan_version_major" not in text:
        return problem or "exit code 0"
    _RUN_BEFORE.add(state)
    return ""


@cache
def _model(entry, name):
    """The model of a compiled program, which needs no stanc for its metadata."""
    import cmdstanpy

    facts = about(entry)

    class CompiledModel(cmdstanpy.CmdStanModel):
        def src_info(self) -> dict[str, Any]:
            return facts

    with cmdstanpy.disable_logging():  # which would report a missing CmdStan
        return CompiledModel(stan_file=entry / f"{name}.stan", exe_file=entry / name)


# ------------------------------------------------------------------ compiling


def _build(entry, made_from, home):
    """Compile in a temporary folder, and put the executable into the cache.

    No name that a user chose reaches make or its shell.
    """
    name, source = made_from.name, made_from.source
    with scratch_folder(f"compiling {source.name}") as folder:
        if not _SAFE_PATH.fullmatch(folder):
            raise ToolchainError(
                f"make cannot build in a folder with blanks or signs in its name: {folder}; "
                "set the environment variable TMPDIR to another folder"
            )
        for link, path in _links(source).items():
            Path(folder, link).symlink_to(path)
        shutil.copyfile(source, Path(folder, f"{name}.stan"))
        facts = json.loads(_stanc(home, folder, made_from, "--info"))
        facts.pop("included_files", None)  # paths of this folder
        _stanc(home, folder, made_from, f"--o={name}.hpp")
        if recipe(source) != made_from:
            raise ToolchainError(f"{source} was changed meanwhile: compile it again")
        goal = [*made_from.flags, "REUSE=1", f"{folder}/{name}"]
        code, output = run_make(home, folder, source.name, *goal)
        if code != 0:
            raise ProgramError(f"{source} does not compile as C++:\n{_errors(output)}")
        with whole(entry) as new:
            for file in (name, f"{name}.stan"):
                shutil.copy(Path(folder, file), new)
            error = _trial(new / name)
            if error:
                raise ToolchainError(f"{source} compiled, but does not run: {error}")
            seal(new, facts)


def _links(source):
    """Links to the folders of includes: stanc splits a list of folders at commas."""
    return {f"include{i}": path for i, path in enumerate(_include_folders(source))}


def _stanc(home, folder, made_from, *options):
    """Run stanc on a program; its output. ProgramError with only its message."""
    links = _links(made_from.source)
    shown = [f"--filename-in-msg={made_from.name}.stan", f"--include-paths={','.join(links)}"]
    program = f"include0/{made_from.source.name}"
    output = subprocess.run(
        [home / "bin" / "stanc", *shown, *made_from.options, *options, program],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if output.returncode == 0:
        return output.stdout
    message = (output.stderr or output.stdout).strip()
    message = message.replace(f"'{made_from.name}.stan'", f"'{made_from.source}'")
    for link, path in links.items():
        message = message.replace(f"'{link}/", f"'{path}/")
    raise ProgramError(f"{made_from.source} is not a valid Stan program.\n{message}")


def _errors(output):
    """The compiler's first error with the lines after it, without make's own lines."""
    lines = [line for line in output.splitlines() if not line.startswith("make")]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return "\n".join(lines[first : first + 15])


# ------------------------------------------------------------------ texts


def source_path(program: PathName) -> Path:
    """Path of a stock program, by its name, or of a user's file; raises if it does not exist."""
    if not isinstance(program, (str, os.PathLike)):
        raise TypeError(f"program must be a name or the path of a .stan file, found {program!r}")
    text = os.fspath(program)
    if not text.endswith(".stan") and os.sep not in text:
        return program_path(text)
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise FileNotFoundError(f"no Stan program {path}")
    return path


def _include_folders(source):
    """Folders to search for includes, in order."""
    return [source.parent.absolute(), fast_directory().absolute()]


def _includes(source, folders):
    """Files that a program includes, directly or not, name -> path; stanc reports missing ones."""
    paths = {}
    pending = [source]
    while pending:
        for match in _INCLUDE.finditer(_text(pending.pop())):
            name = next(filter(None, match.groups()))
            path = next((f / name for f in folders if (f / name).is_file()), None)
            if path is not None and name not in paths:
                paths[name] = path
                pending.append(path)
    return paths


def _text(path):
    return path.read_text(encoding="utf-8", errors="replace")
