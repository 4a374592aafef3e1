"""A CmdStan home built from the PyPI wheel httpstan and a driver of our own.

The wheel has Stan's headers, its compiler stanc and the libraries to link with. The driver
(driver/main.cpp) is what CmdStan adds: the program around a compiled model. The home has all of
them, so that it outlives the virtual environment; only the programs that summarise draws run in
the Python that built it.

A home is built under a temporary name, under a lock, and renamed at the end, so that what has its
final name is complete. A manifest records the files, so that later damage is detected.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from cmdstan_from_pypi.make import BuildError, require_compiler, run_make

# Releases of httpstan for which the driver is written, and their Stan.
STAN_OF_HTTPSTAN = {"4.13.0": "2.35.0", "4.17.0": "2.39.0"}

_HERE = Path(__file__).parent
_MANIFEST = "manifest.json"
_LIBRARIES = "libtbb.so.2", "libsundials_*.a"
_SUMMARIES = "stansummary", "diagnose"
_HEADER = "include/stan/model/model_header.hpp"
_EXAMPLE = """// The example that CmdStanPy compiles to see whether a CmdStan works.
data {
  int<lower=0> N;                    // tosses
  array[N] int<lower=0, upper=1> y;  // heads
}
parameters {
  real<lower=0, upper=1> theta;      // probability of heads
}
model {
  theta ~ beta(1, 1);
  y ~ bernoulli(theta);
}
"""


class Wheel(NamedTuple):
    """The installed package httpstan."""

    folder: Path
    version: str

    @property
    def stan_version(self) -> str:
        """The version of Stan."""
        return STAN_OF_HTTPSTAN[self.version]


def default_home() -> Path:
    """Where CmdStanPy looks by itself."""
    return Path.home() / ".cmdstan" / f"cmdstan-{find_wheel().stan_version}"


def find_wheel() -> Wheel:
    """The installed httpstan package, found without importing it, else BuildError."""
    if sys.platform != "linux":
        raise BuildError("building Stan from PyPI packages works on Linux only: install_cmdstan")
    try:
        version = importlib.metadata.version("httpstan")
        spec = importlib.util.find_spec("httpstan")
    except (importlib.metadata.PackageNotFoundError, ModuleNotFoundError):
        version, spec = "no httpstan", None
    if version not in STAN_OF_HTTPSTAN or spec is None or spec.origin is None:
        needed = "4.13.0" if sys.version_info < (3, 12) else "4.17.0"
        raise BuildError(
            "building Stan needs the PyPI package httpstan, its headers and its compiler, found "
            f"{version}: pip install 'httpstan=={needed}'"
        )
    return Wheel(Path(spec.origin).parent, version)


def is_own(home: Path) -> bool:
    """Whether a home was built by this package, in this or an earlier version."""
    return (home / "src" / "main.cpp").is_file()


def faults(home: Path) -> list[str]:
    """What a home of ours lacks, as short texts; empty when it is complete."""
    if not home.is_dir():
        return ["it has not been built"]
    try:
        manifest = json.loads((home / _MANIFEST).read_text())
        found = [
            f"{name} is damaged"
            for name, sealed in manifest["files"].items()
            if _state(home / name) != sealed
        ]
        if manifest["sources"] != _digest_of_sources():
            found.append("it was built by another version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [f"{_MANIFEST} is missing or damaged"]
    if not (home / _HEADER).is_file():
        found.append("Stan's headers are gone")
    return found


def build(home: Path, *, fast_headers: bool = False) -> None:
    """Make `home` a complete CmdStan; quick when it is one of ours already.

    With `fast_headers` Stan's headers are also there in the form that g++ reads fast, 800 MB: each
    program takes 10 seconds less.
    """
    if home.exists() and not is_own(home):
        raise BuildError(f"{home} is another CmdStan: name another folder by --home")
    if faults(home):
        wheel = find_wheel()
        require_compiler()
        with _writing(home):
            home.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(home.parent / f".{home.name}.lock")
        with lock:
            if faults(home):
                with _built_whole(home) as fresh:
                    fill(fresh, wheel)
                    run_make(fresh, *["fast-headers"] * fast_headers, "drivers")
                    _seal(fresh)
    write_summaries(home)
    if fast_headers and not (home / f"{_HEADER}.gch").exists():
        run_make(home, "fast-headers")


@contextmanager
def _built_whole(home: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `home` when the block ends without an error.

    First it removes what a killed process left behind; call it under the lock.
    """
    with _writing(home):
        for stale in home.parent.glob(f".{home.name}.building-*"):
            _remove(stale)
        workplace = Path(tempfile.mkdtemp(prefix=f".{home.name}.building-", dir=home.parent))
    try:
        with _writing(home):
            fresh = workplace / "fresh"
            fresh.mkdir()
            yield fresh
            if home.exists():
                home.rename(workplace / "old")
            fresh.rename(home)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _remove(folder):
    """Remove a folder into which compilers of a killed process may still write for a moment."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


@contextmanager
def _writing(home):
    """Raise BuildError with advice where the folder of a home is full or read-only."""
    try:
        yield
    except OSError as error:
        raise BuildError(f"cannot build in {home.parent}: {error.strerror or error}") from error


def fill(home: Path, wheel: Wheel, *, headers: bool = True) -> None:
    """Write everything but the drivers and the manifest to an empty folder."""
    (home / "bin").mkdir()
    shutil.copy2(wheel.folder / "stanc", home / "bin" / "stanc")
    (home / "bin" / "stanc").chmod(0o755)
    (home / "lib").mkdir()
    for pattern in _LIBRARIES:
        for library in (wheel.folder / "lib").glob(pattern):
            shutil.copy2(library, home / "lib")
    (home / "lib" / "libtbb.so").symlink_to("libtbb.so.2")
    shutil.copytree(_HERE / "driver", home / "src")
    makefile = (_HERE / "makefile").read_text()
    (home / "makefile").write_text(makefile.replace("{STAN_VERSION}", wheel.stan_version))
    shutil.copyfile(_HERE / "summaries.py", home / "bin" / "summaries.py")
    example = home / "examples" / "bernoulli"
    example.mkdir(parents=True)
    (example / "bernoulli.stan").write_text(_EXAMPLE)
    if headers:
        shutil.copytree(
            wheel.folder / "include",
            home / "include",
            copy_function=_link_or_copy,
            ignore=shutil.ignore_patterns("*.gch"),
        )


def _link_or_copy(source, target):
    """The same file under a second name, on one file system, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _seal(home):
    """Write the manifest; the headers, 180 MB, are left out."""
    files = [
        path
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.relative_to(home).parts[0] != "include"
    ]
    manifest = {
        "sources": _digest_of_sources(),
        "files": {str(path.relative_to(home)): _state(path) for path in files},
    }
    (home / _MANIFEST).write_text(json.dumps(manifest, indent=1))


def _state(path):
    """Digest of a file, and whether it is executable; None where it cannot be read."""
    try:
        with path.open("rb") as handle:
            return [hashlib.file_digest(handle, "sha256").hexdigest(), os.access(path, os.X_OK)]
    except OSError:
        return None


def _digest_of_sources():
    sources = [_HERE / "makefile", _HERE / "summaries.py", *sorted((_HERE / "driver").iterdir())]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def write_summaries(home: Path) -> None:
    """Programs for CmdStanPy that summarise draws in this Python; for another, written anew."""
    for name in _SUMMARIES:
        path = home / "bin" / name
        command = f'{shlex.quote(sys.executable)} -P "${{0%/*}}/summaries.py" {name}'
        text = f'#!/bin/sh\nexec {command} "$@"\n'
        if path.is_file() and path.read_text(errors="replace") == text:
            continue
        new = path.with_name(f"{name}.{os.getpid()}.new")
        new.write_text(text)
        new.chmod(0o755)
        new.replace(path)
