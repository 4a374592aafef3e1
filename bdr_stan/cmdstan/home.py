"""A CmdStan home built from the PyPI wheel httpstan and our own driver.

The wheel has Stan's headers, its compiler stanc and the libraries to link with. The driver
(driver/main.cpp) is what CmdStan adds: the program around a compiled model. The home has copies of
stanc and the libraries, so that executables outlive the virtual environment; the headers, 180 MB,
are a link into the wheel, updated when the wheel has moved, as are the programs that summarise
draws, which run in Python.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bdr_stan.cmdstan.cache import (
    ToolchainError,
    cache_directory,
    damage,
    digest,
    locked,
    seal,
    workplace,
    writing,
)
from bdr_stan.cmdstan.compiler import (
    compile_with_make,
    make_local_texts,
    missing_programs,
    require_compiler,
    run_make,
)
from bdr_stan.progress import status

WHEEL_VERSION = "4.13.0"
STAN_VERSION = "2.35.0"
INSTALL_HINT = "pip install 'bdr-stan[stan]' (or bdr-stan setup --from github)"

_HERE = Path(__file__).parent
_LIBRARIES = "libtbb.so.2", "libsundials_*.a"
_TOOLS = "stansummary", "diagnose"
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


def find_wheel() -> Path:
    """Folder of the installed httpstan package, found without importing it, else ToolchainError."""
    if sys.platform != "linux":
        raise ToolchainError(
            "building Stan from PyPI packages works on Linux only: use bdr-stan setup --from "
            "github, or pip install 'bdr-stan[stanli]' and engine='stanli'"
        )
    try:
        version = importlib.metadata.version("httpstan")
        spec = importlib.util.find_spec("httpstan")
    except (importlib.metadata.PackageNotFoundError, ModuleNotFoundError):
        spec = None
    if spec is None or spec.origin is None:
        raise ToolchainError(
            f"the PyPI package httpstan {WHEEL_VERSION}, which includes Stan's compiler and "
            f"headers, is not installed: {INSTALL_HINT}"
        )
    if version != WHEEL_VERSION:
        raise ToolchainError(
            f"httpstan {version} is installed, but building Stan {STAN_VERSION} needs httpstan "
            f"{WHEEL_VERSION}: {INSTALL_HINT}"
        )
    return Path(spec.origin).parent


def home_directory() -> Path:
    """Folder of the home, built or not; its name changes with the driver's source."""
    digest = hashlib.sha256(WHEEL_VERSION.encode())
    for source in _sources():
        digest.update(source.name.encode() + source.read_bytes())
    return cache_directory() / f"stan-{STAN_VERSION}-{digest.hexdigest()[:12]}"


def is_own(home: Path) -> bool:
    """Whether a home was built by this package, in this or an earlier version.

    Parameters
    ----------
    home : Path
        Of a CmdStan.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bdr_stan.cmdstan import is_own
    >>> is_own(Path("/opt/cmdstan-2.36.0"))
    False
    """
    sources = (home / "src", home / "driver")  # as built, as in the package
    return home == home_directory() or any((f / "main.cpp").is_file() for f in sources)


def path_to_run(home: Path) -> Path:
    """The folder to give cmdstanpy as CmdStan for prebuilt programs: the home, or this package.

    cmdstanpy reads the version of Stan from the makefile, of which this package has a copy.
    """
    return home if (home / "makefile").is_file() else _HERE


def faults(home: Path) -> list[str]:
    """What a home of ours lacks, as short texts; empty when it is complete."""
    if not home.is_dir():
        return ["it has not been built"]
    found = damage(home)
    if not (home / "include" / "stan" / "model" / "model_header.hpp").is_file():
        found.append("Stan's headers are gone (the httpstan package was moved or removed)")
    drivers = [path.name for path in sorted(home.glob("driver*.o"))]
    found += [f"{name} is damaged" for name in drivers if not _driver_is_whole(home, name)]
    if not drivers:
        found.append("the driver is not compiled")
    return found


def assemble() -> None:
    """Make or repair the home, except the driver's object, in less than a second."""
    home, wheel = home_directory(), find_wheel()
    if _is_current(home, wheel):
        return
    with locked(home.name):
        if _is_current(home, wheel):
            return
        with workplace(home) as fresh, writing():
            _fill(fresh, wheel)
            if not home.is_dir():
                fresh.rename(home)
                return
            # Each file by a rename, so that no compiler or program sees it missing.
            for path in sorted(fresh.rglob("*")):
                if path.is_file() or path.is_symlink():
                    target = home / path.relative_to(fresh)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(target)


def repair_libraries(home: Path) -> None:
    """Repair the libraries and tools that a compiled program uses, where damaged."""
    if home == home_directory() and (damage(home) or not _has_tools(home)):
        assemble()


def compile_driver(home: Path, flags: Sequence[str] = (), show: bool = True) -> None:
    """Compile the driver for these make flags unless that has been done."""
    if missing_programs() and not faults(home):
        return  # whatever is compiled already can be used
    require_compiler()
    name = _driver_object(home, flags)
    if _driver_is_whole(home, name):
        return
    lock = f"{home.name}-{name}"
    with status("Building Stan's driver (once)", show), locked(lock):
        if _driver_is_whole(home, name):
            return
        with workplace(home.with_name(lock)) as temporary:
            with writing():
                for stale in (*home.glob(f"{name}.*.tmp"), home / name):
                    stale.unlink(missing_ok=True)
            code, output = compile_with_make(home, temporary, "Stan's driver", *flags, "build")
    if code != 0:
        raise ToolchainError(f"Stan's driver did not compile:\n{_last_lines(output)}")


def _driver_is_whole(home, name):
    """Whether a driver's object has the checksum that make wrote next to it."""
    try:
        return (home / f"{name}.sha256").read_text().split()[0] == digest(home / name)
    except (OSError, ValueError, IndexError):
        return False


def _driver_object(home, flags):
    code, output = run_make(home, "-s", *flags, "driver-object")
    if code != 0:
        raise ToolchainError(f"make failed in {home}:\n{_last_lines(output)}")
    return output.split()[-1]


def _last_lines(text):
    return "\n".join(text.rstrip().splitlines()[-30:])


def _sources():
    return [_HERE / "makefile", *sorted((_HERE / "driver").iterdir())]


def _fill(home, wheel):
    """Write everything but the driver's objects to an empty folder.

    The manifest omits the tools and the link to the headers, which depend on the environment.
    """
    (home / "bin").mkdir()
    shutil.copy2(wheel / "stanc", home / "bin" / "stanc")
    (home / "bin" / "stanc").chmod(0o755)
    (home / "lib").mkdir()
    for pattern in _LIBRARIES:
        for library in (wheel / "lib").glob(pattern):
            shutil.copy2(library, home / "lib")
    (home / "lib" / "libtbb.so").symlink_to("libtbb.so.2")
    (home / "src").mkdir()
    for source in _sources():
        shutil.copyfile(
            source, home / ("makefile" if source.name == "makefile" else f"src/{source.name}")
        )
    example = home / "examples" / "bernoulli"
    example.mkdir(parents=True)
    (example / "bernoulli.stan").write_text(_EXAMPLE)
    seal(home)
    for name in _TOOLS:
        (home / "bin" / name).write_text(_tool(name))
        (home / "bin" / name).chmod(0o755)
    (home / "include").symlink_to(wheel / "include")


def _tool(name):
    """A program for CmdStanPy that runs one of our modules in this Python."""
    command = f"{shlex.quote(sys.executable)} -P -m bdr_stan.cmdstan.summaries {name}"
    return f'#!/bin/sh\nexec {command} "$@"\n'


def _has_tools(home):
    """Whether a home has executable tools that run in this Python."""
    tools = {name: home / "bin" / name for name in _TOOLS}
    return all(
        os.access(path, os.X_OK) and path.read_text(errors="replace") == _tool(name)
        for name, path in tools.items()
    )


def _is_current(home, wheel):
    """Whether a home is whole, and its links and tools are of this environment."""
    headers = home / "include"
    linked = headers.is_symlink() and headers.readlink() == wheel / "include"
    return linked and not damage(home) and _has_tools(home)


def identity(home: Path) -> str:
    """Text that changes when programs must be compiled again for this home."""
    # The name of ours has a digest of its content; another may be rebuilt in place.
    stanc = home / "bin" / "stanc"
    if home == home_directory():
        state: tuple[object, ...] = (home.name,)
    else:
        state = (str(home), stanc.stat().st_size, stanc.stat().st_mtime_ns)
    return repr((state, make_local_texts(home)))
