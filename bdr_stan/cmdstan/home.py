"""A CmdStan home built from the PyPI wheel httpstan and our own driver.

The wheel brings Stan's headers, its compiler stanc and the libraries it links with.
The driver (driver/main.cpp) is what CmdStan adds: the program around a compiled
model. In the home lie copies of stanc and the libraries, so that executables outlive
the virtual environment; the headers, 180 MB, are a link into the wheel, set anew when
the wheel has moved.
"""

import hashlib
import importlib.metadata
import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bdr_stan.cmdstan.cache import (
    ToolchainError,
    built_whole,
    cache_directory,
    locked,
    writing,
)
from bdr_stan.cmdstan.compiler import (
    compiler_slot,
    make_local_texts,
    require_compiler,
    run_make,
)
from bdr_stan.cmdstan.progress import status

WHEEL_VERSION = "4.13.0"
STAN_VERSION = "2.35.0"
INSTALL_HINT = "pip install 'bdr-stan[stan]' (or bdr-stan setup --from github)"

_HERE = Path(__file__).parent
_LIBRARIES = "libtbb.so.2", "libsundials_*.a"


def find_wheel() -> Path:
    """Folder of the installed httpstan package, found without importing it.

    Raises
    ------
    ToolchainError : httpstan is missing or has another version than the driver is for, or
    this is not Linux.
    """
    if sys.platform != "linux":
        raise ToolchainError(
            "building Stan from PyPI packages works on Linux only; use bdr-stan setup --from github"
        )
    try:
        version = importlib.metadata.version("httpstan")
        spec = importlib.util.find_spec("httpstan")
    except (importlib.metadata.PackageNotFoundError, ModuleNotFoundError):
        spec = None
    if spec is None or spec.origin is None:
        raise ToolchainError(
            f"the PyPI package httpstan {WHEEL_VERSION}, which carries Stan's compiler and "
            f"headers, is not installed: {INSTALL_HINT}"
        )
    if version != WHEEL_VERSION:
        raise ToolchainError(
            f"httpstan {version} is installed, but building Stan {STAN_VERSION} needs httpstan "
            f"{WHEEL_VERSION}: {INSTALL_HINT}"
        )
    return Path(spec.origin).parent


def home_directory() -> Path:
    """Where the home stands, built or not; its name changes with the driver's source."""
    digest = hashlib.sha256(WHEEL_VERSION.encode())
    for source in _sources():
        digest.update(source.name.encode() + source.read_bytes())
    return cache_directory() / f"stan-{STAN_VERSION}-{digest.hexdigest()[:12]}"


def is_own(home: Path) -> bool:
    """Whether a home is one of ours, of this or an earlier version, built or not."""
    return home == home_directory() or (home / "src" / "main.cpp").is_file()


def faults(home: Path) -> list[str]:
    """What a home of ours lacks, as a list of short texts; empty when it is whole."""
    found = []
    if not (home / "makefile").is_file():
        return ["it has not been built"]
    if not (home / "include" / "stan" / "model" / "model_header.hpp").is_file():
        found.append("Stan's headers are gone (the httpstan package was moved or removed)")
    if not list(home.glob("driver*.o")):
        found.append("the driver is not compiled")
    return found


def assemble() -> None:
    """Make or mend everything of the home but the driver's object, in under a second.

    Raises
    ------
    ToolchainError : no httpstan package, no compiler, or the cache cannot be written to.
    """
    home = home_directory()
    wheel = find_wheel()
    if (home / "makefile").is_file() and _linked_headers(home) == wheel / "include":
        return
    require_compiler()
    with locked(home.name):
        if not (home / "makefile").is_file():
            with built_whole(home) as building, writing():
                _fill(building, wheel)
        if _linked_headers(home) != wheel / "include":
            _link_headers(home, wheel)


def compile_driver(home: Path, flags: Sequence[str] = (), show: bool = True) -> None:
    """Compile the driver for these make flags unless that is done already.

    Raises
    ------
    ToolchainError : the driver does not compile; the text has make's last lines.
    """
    name = _driver_object(home, flags)
    if (home / name).is_file():
        return
    lock = f"{home.name}-{name}"
    with status("Building Stan's driver (once)", show), locked(lock):
        if (home / name).is_file():
            return
        with writing():
            for stale in home.glob(f"{name}.*.tmp"):
                stale.unlink()
        with compiler_slot:
            code, said = run_make(home, *flags, "build")
    if code != 0:
        raise ToolchainError(f"Stan's driver did not compile:\n{_last_lines(said)}")


def _driver_object(home, flags):
    code, said = run_make(home, "-s", *flags, "driver-object")
    if code != 0:
        raise ToolchainError(f"make failed in {home}:\n{_last_lines(said)}")
    return said.split()[-1]


def _last_lines(text, n=30):
    return "\n".join(text.rstrip().splitlines()[-n:])


def _sources():
    return [_HERE / "makefile", *sorted((_HERE / "driver").iterdir())]


def _fill(home, wheel):
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


def _linked_headers(home):
    link = home / "include"
    return link.readlink() if link.is_symlink() else None


def _link_headers(home, wheel):
    """Point `include` to the wheel, by a rename so that no compile sees it missing."""
    link = home / "include.new"
    with writing():
        link.unlink(missing_ok=True)
        link.symlink_to(wheel / "include")
        link.replace(home / "include")


def identity(home: Path) -> str:
    """Text that changes when programs must be compiled anew for this home."""
    # The name of ours tells its content; another may be rebuilt in place.
    stanc = home / "bin" / "stanc"
    stamp = () if home == home_directory() else (stanc.stat().st_size, stanc.stat().st_mtime_ns)
    return repr((str(home), stamp, make_local_texts(home)))
