"""Find, compile and cache Stan programs; nothing statistical."""

import hashlib
import itertools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdr_stan.cmdstan.cache import (
    ToolchainError,
    built_whole,
    cache_directory,
    check_trusted,
    damage,
    digest,
    locked,
    seal,
    sweep,
    writing,
)
from bdr_stan.cmdstan.compiler import (
    compile_with_make,
    compiler_version,
    cxx_program,
    disk_is_full,
    make_local_texts,
    missing_programs,
    require_compiler,
    side_by_side,
)
from bdr_stan.cmdstan.discovery import choose, find, ready
from bdr_stan.cmdstan.home import (
    compile_driver,
    home_directory,
    identity,
    is_own,
    path_to_run,
    repair_libraries,
)
from bdr_stan.cmdstan.prebuilt import Prebuilt, find_prebuilt
from bdr_stan.progress import status
from bdr_stan.types import PathName, as_path, check_flags, saving_to

if TYPE_CHECKING:
    import cmdstanpy

_STANC_FLAG, _HEADER_FLAG = "STANCFLAGS+=", "USER_HEADER="
_RUN_BEFORE: set[tuple[Path, str]] = set()  # executables that run, and their digests
_SAFE_PATH = re.compile(r"[A-Za-z0-9_./+-]+")
# Variables that make reads from the environment.
_MAKE_VARIABLES = (
    *("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS", "O", "STANCFLAGS"),
    *("STAN_THREADS", "STAN_NO_RANGE_CHECKS", "STAN_CPP_OPTIMS"),
)
# Name, digest of what the executable depends on, digest of the compiler.
_ENTRY_NAME = re.compile(r".+-[0-9a-f]{16}-[0-9a-f]{8}")
_INCLUDE = re.compile(r"#include\s+(?:\"([^\"\n]+)\"|<([^>\n]+)>|([^\s\"<]\S*))")
# A program's own line for stanc: its options, such as "// stanc: --O1".
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
    ValueError : there is no such program; the message lists the existing ones.
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
    """Write a plain program to edit, from which predictions follow.

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
    fresh = {path.with_name(path.name + ".new"): path for path in texts}
    try:
        with saving_to(target):
            for new, path in fresh.items():
                new.parent.mkdir(parents=True, exist_ok=True)
                new.unlink(missing_ok=True)
                with new.open("x", encoding="utf-8") as file:  # which follows no link
                    file.write(texts[path])
            for new, path in fresh.items():
                new.replace(path)
    finally:
        for new in fresh:
            new.unlink(missing_ok=True)
    return list(texts)


def resolved_text(program: PathName) -> str:
    """The text of a program, stock or a user's, with its includes in their places."""
    source = source_path(program)
    return _resolved(_text(source), _includes(source, _include_folders(source)))


def _resolved(text, includes):
    """The text with includes, name -> path, in their places, but those in comments."""

    def content(found):
        path = includes.get(next(filter(None, found.groups()), None))
        return found[0] if path is None else _resolved(_text(path).rstrip("\n"), includes)

    return _COMMENT_OR_INCLUDE.sub(content, text)


# ------------------------------------------------------------------ compiling


def compile_program(
    program: PathName,
    *,
    threads: bool | None = None,
    progress: bool | None = None,
    stanc_options: Mapping[str, Any] | None = None,
    cpp_options: Mapping[str, Any] | None = None,
) -> "cmdstanpy.CmdStanModel":
    """Compile a Stan program, or take the executable from the package or the cache.

    Nothing is written next to the program. Sets up CmdStan first if there is none and something has
    to be compiled.

    Parameters
    ----------
    program : str or path
        Name of a stock program, or path of a .stan file. Its includes are searched in its own
        folder, then in that of the stock programs.
    threads : bool, default whether the program calls reduce_sum
        Build with STAN_THREADS (reduce_sum, several chains in one process).
    progress : bool, default True; show long tasks on stderr
    stanc_options : dict, such as {"O1": True}, as for cmdstanpy
        In addition to those in a line "// stanc: --O1" of the program.
    cpp_options : dict, variables for make, such as {"STAN_NO_RANGE_CHECKS": True}

    Returns
    -------
    cmdstanpy.CmdStanModel

    Raises
    ------
    ValueError : no such stock program.
    FileNotFoundError : no such file.
    ProgramError : the program does not compile; the text is the compiler's message.
    ToolchainError : no compiler, no disk space.
    """
    import cmdstanpy

    show = progress is None or bool(progress)
    source = source_path(program)
    if sys.platform == "win32":
        raise ToolchainError(ON_WINDOWS)
    check_trusted()
    name = _safe_name(source.stem)
    files, flags = _ingredients(source, threads, stanc_options, cpp_options)
    home = choose()
    prebuilt = _prebuilt(name, files, flags, home)
    if prebuilt:
        return _prebuilt_model(prebuilt, source, home)
    sweep()
    entry = _entry(f"{name}-{_key(files, flags, home)}")
    if not _is_ready(entry, name, home):
        require_compiler(is_own(home))
        ready(home)
        first = is_own(home) and not any(home.glob("driver*.o"))
        text = f"Compiling {source.name}" + (" and, once, Stan's driver" if first else "")
        with status(text, show), locked(entry.name):
            if not _is_ready(entry, name, home):
                _build(entry, name, source, files, flags, home)
    cmdstanpy.set_cmdstan_path(str(home))
    return _model(entry, name)


@cache
def _model(entry, name):
    """The model of a program in the cache, kept because cmdstanpy runs stanc to make it."""
    import cmdstanpy

    # cmdstanpy gives stanc the folder as a path of includes, which stanc cuts at commas.
    text = None if "," in os.path.realpath(entry) else entry / f"{name}.stan"
    return cmdstanpy.CmdStanModel(stan_file=text, exe_file=entry / name)


def is_prebuilt(name: str) -> bool:
    """Whether the package's own executable of a stock program is used."""
    files, flags = _ingredients(program_path(name))
    return _prebuilt(name, files, flags, choose()) is not None


def runs_at_once(program: PathName) -> bool:
    """Whether a program is compiled, or CmdStan and a compiler are there to do it."""
    if sys.platform == "win32":
        return False
    source, home = source_path(program), choose()
    check_trusted()
    name = _safe_name(source.stem)
    files, flags = _ingredients(source)
    if _prebuilt(name, files, flags, home):
        return True
    try:
        if _is_ready(_entry(f"{name}-{_key(files, flags, home)}"), name, home):
            return True
    except ToolchainError:  # CmdStan was built with packages that this environment lacks
        return False
    return find() is not None and not missing_programs(is_own(home))


def stock_key(name: str) -> str:
    """Digest of everything the executable of a stock program is made from, with our home."""
    files, flags = _ingredients(program_path(name))
    return _key(files, flags, home_directory())


def compiled_programs() -> dict[Path, list[str]]:
    """Every program in the cache with its faults, an empty list where there are none."""
    return {entry: damage(entry) for entry in _cached() if _ENTRY_NAME.fullmatch(entry.name)}


def programs_left_over() -> list[Path]:
    """Programs compiled by earlier versions of bdr_stan, which are no longer used."""
    return [entry for entry in _cached() if not _ENTRY_NAME.fullmatch(entry.name)]


def _cached():
    entries = sorted((cache_directory() / "programs").glob("*"))
    return [entry for entry in entries if entry.is_dir() and ".building-" not in entry.name]


def source_path(program: PathName) -> Path:
    """Path of a stock program, by its name, or of a user's file.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError : there is no such program.
    """
    if not isinstance(program, (str, os.PathLike)):
        raise TypeError(f"program must be a name or the path of a .stan file, found {program!r}")
    text = os.fspath(program)
    if not text.endswith(".stan") and os.sep not in text:
        return program_path(text)
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise FileNotFoundError(f"no Stan program {path}")
    return path


def _ingredients(source, threads=None, stanc_options=None, cpp_options=None):
    """Files of a program, by the names they are compiled under, and flags of stanc and make."""
    includes = _includes(source, _include_folders(source, stanc_options))
    files = {f"{_safe_name(source.stem)}.stan": source, **includes}
    if threads is None:
        threads = any(_REDUCE_SUM.search(_text(path)) for path in files.values())
    stanc_flags = _stanc_flags(_declared_options(source) | dict(stanc_options or {}))
    return files, [*stanc_flags, *_make_flags(cpp_options, threads)]


def _prebuilt(name, files, flags, home):
    """The package's executable of a program, or None."""
    # A CmdStan of the user's compiles programs itself where it can.
    if not is_own(home) and not missing_programs(own=False):
        return None
    found = find_prebuilt(name, _key(files, flags, home_directory()))
    return None if found is None or _trial(found.executable) else found


def _prebuilt_model(prebuilt: Prebuilt, source: Path, home: Path) -> "cmdstanpy.CmdStanModel":
    """A model that needs no stanc for the information about its program."""
    import cmdstanpy

    class PrebuiltModel(cmdstanpy.CmdStanModel):
        def src_info(self) -> dict[str, Any]:
            return prebuilt.about

    if is_own(home):
        cmdstanpy.set_cmdstan_path(str(path_to_run(home)))
    return PrebuiltModel(stan_file=source, exe_file=prebuilt.executable)


def _safe_name(stem):
    """A name without characters that are special to make, the shell or C++."""
    return re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", stem))


def _include_folders(source, stanc_options=None):
    """Folders to search for includes, in order."""
    given = (stanc_options or {}).get("include-paths", [])
    given = given.split(",") if isinstance(given, str) else [os.fspath(p) for p in given]
    folders = [source.parent, *map(Path, given), fast_directory()]
    return [folder.absolute() for folder in folders]


def _includes(source, folders):
    """Files that a program includes, directly or not: name in the program -> path.

    Files that are not found are left to stanc, whose message has the line.
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


def _declared_options(source):
    """Options of stanc in a program's line "// stanc: --O1"."""
    words = [word for line in _OPTIONS_LINE.findall(_text(source)) for word in line.split()]
    return {word.removeprefix("--"): True for word in words}


def _stanc_flags(options):
    flags = []
    for name, value in (options or {}).items():
        if name == "include-paths" or value is False or value is None:
            continue
        flags.append(f"--{name}" if value is True else f"--{name}={value}")
    return [_STANC_FLAG + flag for flag in flags]


def _make_flags(cpp_options, threads):
    options = dict(cpp_options or {})
    if threads:
        options.setdefault("STAN_THREADS", "TRUE")
    # make tests whether a variable is set, not its value.
    given = {name: value for name, value in options.items() if value not in (None, "")}
    return [f"{name}={value}" for name, value in given.items() if value is not False]


def _entry(stem):
    """Cache entry of a program for the current compiler, or without one, for any compiler."""
    folder = cache_directory() / "programs"
    if missing_programs():
        built = [path for path in folder.glob(f"{stem}-*") if ".building-" not in path.name]
        if built:
            return max(built, key=lambda path: path.stat().st_mtime)
    program = cxx_program()
    compiler = hashlib.sha256(f"{program} {compiler_version(program)}".encode())
    return folder / f"{stem}-{compiler.hexdigest()[:8]}"


def _is_ready(entry, name, home):
    """Whether a program can be run; also repairs what it needs of the home."""
    if damage(entry):
        return False
    if is_own(home):
        repair_libraries(home)
    return not _trial(entry / name)


def _trial(executable):
    """Error of an executable asked for its info, "" if it runs; asked once per process."""
    state = (executable, digest(executable))
    if state in _RUN_BEFORE:
        return ""
    try:
        output = subprocess.run(
            [executable, "info"], check=False, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        return str(error.strerror)
    if output.returncode != 0 or "stan_version_major" not in output.stdout:
        return output.stderr.strip() or f"exit code {output.returncode}"
    _RUN_BEFORE.add(state)
    return ""


def _key(files, flags, home):
    """Digest of everything the executable depends on except the compiler."""
    settings = [os.environ.get(name, "") for name in _MAKE_VARIABLES]
    machine = [platform.machine()]
    if any(
        "native" in text for text in [*flags, *settings, cxx_program(), *make_local_texts(home)]
    ):
        machine.append(_cpu_model())
    key = hashlib.sha256(repr([flags, settings, machine, identity(home)]).encode())
    header = _user_header(flags)
    for name, path in sorted({**files, **({_HEADER_FLAG: header} if header else {})}.items()):
        content = path.read_bytes() if path.is_file() else b""
        key.update(f"{name} {len(content)} ".encode() + content)
    return key.hexdigest()[:16]


def _cpu_model():
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    prefixes = ("model name", "flags", "Features")
    return "\n".join(sorted({x for x in text.splitlines() if x.startswith(prefixes)}))


# No name that a user chose reaches make or its shell: program, includes and header are copied or
# linked under safe names to a folder next to the home and compiled there.


def _build(entry, name, source, files, flags, home):
    """Compile in a separate folder that becomes the cache entry."""
    stanc_flags = [f"--filename-in-msg={name}.stan", "--include-paths=."]
    stanc_flags += [f.removeprefix(_STANC_FLAG) for f in flags if f.startswith(_STANC_FLAG)]
    make_flags = [f for f in flags if not f.startswith((_STANC_FLAG, _HEADER_FLAG))]
    with built_whole(entry) as building, _path_for_make(building, home) as folder:
        with writing():
            copies = _copy(files, building)
            arguments = [*make_flags, *_link_header(flags, source, building, folder)]
        _translate(home, building, name, stanc_flags, source, copies)
        arguments += [_STANC_FLAG + shlex.quote(flag).replace("$", "$$") for flag in stanc_flags]
        arguments.append("REUSE=1")
        if is_own(home):
            # So that the cache can be copied to another place.
            arguments.append(f"RUN_PATH=$$ORIGIN/../../{home.name}/lib")
            with side_by_side(1) as pool:
                driver = pool.submit(compile_driver, home, make_flags, show=False)
                _make(home, building, source, *arguments, f"{folder}/{name}.o")
                driver.result()
        _make(home, building, source, *arguments, f"{folder}/{name}")
        for helper in (f"{name}.hpp", "user_header.hpp", "user"):
            (building / helper).unlink(missing_ok=True)
        error = _trial(building / name)
        if error:
            raise ToolchainError(f"{source} compiled, but does not run: {error}")
        seal(building)


@contextmanager
def _path_for_make(building: Path, home: Path) -> Iterator[str]:
    """A path to a folder without characters that are special to make or its shell."""
    relative = os.path.relpath(building, home)
    if _SAFE_PATH.fullmatch(relative):
        yield relative
        return
    with tempfile.TemporaryDirectory(prefix="bdr_stan-") as folder:
        if not _SAFE_PATH.fullmatch(folder):
            raise ToolchainError(
                f"make cannot build in a folder with blanks or signs in its name: {building}; "
                "set the environment variable BDR_STAN_CACHE to another folder"
            )
        link = Path(folder) / "link"
        link.symlink_to(building)
        yield str(link)


def _copy(files, building):
    """Copy program and includes; the name of each copy -> path of the original.

    An include by an absolute path or through ".." gets another name, also in the copies' text.
    """
    outside = [name for name in files if os.path.isabs(name) or ".." in Path(name).parts]
    names = {name: f"outside/{i}/{Path(name).name}" for i, name in enumerate(outside)}

    def renamed(match):
        name = next(filter(None, match.groups()))
        return f'#include "{names[name]}"' if name in names else match.group()

    for name, path in files.items():
        copy = building / names.get(name, name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if outside:
            text = path.read_bytes().decode(errors="surrogateescape")
            copy.write_bytes(_INCLUDE.sub(renamed, text).encode(errors="surrogateescape"))
        else:
            shutil.copyfile(path, copy)
    return {names.get(name, name): path for name, path in files.items()}


def _user_header(flags):
    """Path of the user's C++ code, None if there is none."""
    given = [flag.removeprefix(_HEADER_FLAG) for flag in flags if flag.startswith(_HEADER_FLAG)]
    return Path(given[-1]).expanduser().absolute() if given else None


def _link_header(flags, source, building, folder):
    """Write a header that includes the user's from its own folder; arguments of make."""
    path = _user_header(flags)
    if path is None and not any("allow-undefined" in flag for flag in flags):
        return []
    path = path or source.parent / "user_header.hpp"
    (building / "user").symlink_to(path.parent)
    (building / "user_header.hpp").write_text(f'#include "user/{path.name}"\n')
    return [f"{_HEADER_FLAG}{folder}/user_header.hpp"]


def _translate(home, building, name, flags, source, copies):
    """Run stanc to write the C++ code; separately from make, for its message alone."""
    output = subprocess.run(
        [home / "bin" / "stanc", *flags, f"--o={name}.hpp", f"{name}.stan"],
        cwd=building,
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if output.returncode == 0:
        return
    message = (output.stderr or output.stdout).strip()
    if "No space left on device" in message:
        raise ToolchainError(disk_is_full(source.name))
    for copy, path in copies.items():
        for quoted in (copy, f"./{copy}"):
            message = message.replace(f"'{quoted}'", f"'{path}'")
    raise ProgramError(f"{source} is not a valid Stan program.\n{message}")


def _make(home, building, source, *arguments):
    code, output = compile_with_make(home, building, source.name, *arguments)
    if code != 0:
        raise ProgramError(f"{source} does not compile as C++:\n{_errors(output)}")


def _errors(output):
    """The compiler's first error with the lines after it, without make's own lines."""
    lines = [line for line in output.splitlines() if not line.startswith("make")]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return "\n".join(lines[first : first + 15])
