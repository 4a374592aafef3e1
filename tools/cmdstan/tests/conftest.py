"""Homes for the tests, and runs of a small program."""

import hashlib
import os
import shutil
from pathlib import Path

import cmdstanpy
import numpy as np
import pytest
from cmdstan_from_pypi import home as home_module
from cmdstan_from_pypi.make import run_make
from executables import COIN, TOSSES, Runner
from filelock import FileLock

_QUICK = """#!/bin/sh
# What -o names is written, after a while where QUICK_SLEEP says so.
case "$*" in *--version|*-dump*) echo "quick 1.0"; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "half of it" > "$out"
sleep "${QUICK_SLEEP:-0}"
printf '#!/bin/sh\\necho stan_version_major = 2\\n' > "$out"
chmod +x "$out"
"""


@pytest.fixture
def rng():
    return np.random.default_rng(20181109)


@pytest.fixture(scope="session")
def reference_data():
    """Folder of reference files, which may not be copied into the repository."""
    beside = Path(__file__).parents[4] / "shared" / "data"
    folder = Path(os.environ.get("BDR_STAN_REFERENCE_DATA") or beside)
    if not folder.is_dir():
        pytest.skip("no reference data: set BDR_STAN_REFERENCE_DATA to its folder")
    return folder


@pytest.fixture
def quick_compiler(tmp_path, monkeypatch):
    """Something that acts as the compiler in no time: its programs only tell what they are."""
    compiler = tmp_path / "bin" / "quick-c++"
    compiler.parent.mkdir()
    compiler.write_text(_QUICK)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return compiler


@pytest.fixture
def small_wheel(tmp_path, monkeypatch):
    """In place of httpstan, also in processes that are started: its tools, one of its headers."""
    real = home_module.find_wheel().folder
    package = tmp_path / "packages" / "httpstan"
    header = package / "include" / "stan" / "model" / "model_header.hpp"
    header.parent.mkdir(parents=True)
    shutil.copyfile(real / header.relative_to(package), header)
    (package / "__init__.py").touch()
    for name in ("stanc", "lib"):
        (package / name).symlink_to(real / name)
    monkeypatch.syspath_prepend(package.parent)
    return package


@pytest.fixture
def assembled(tmp_path):
    """A home without its drivers and headers."""
    folder = tmp_path / "cmdstan-2.35.0"
    folder.mkdir()
    home_module.fill(folder, home_module.find_wheel(), headers=False)
    home_module.write_summaries(folder)
    return folder


@pytest.fixture(scope="session")
def home():
    """The home that CmdStanPy finds."""
    found = Path(cmdstanpy.cmdstan_path())
    if not home_module.is_own(found):
        pytest.skip("another CmdStan is installed and used")
    assert home_module.faults(found) == [], "build it: python -m cmdstan_from_pypi"
    return found


@pytest.fixture(scope="session")
def minor(home):
    """The second number of Stan's version."""
    return cmdstanpy.utils.cmdstan_version()[1]


@pytest.fixture(scope="session")
def compiled(home, pytestconfig):
    """Compiles a program, once for all runs of the tests; its executable."""

    def compile_once(source, *flags):
        made_from = (home / "manifest.json").read_bytes() + source.read_bytes()
        digest = hashlib.sha256(made_from + repr((home, flags)).encode()).hexdigest()[:12]
        folder = pytestconfig.cache.mkdir(f"{source.stem}-{digest}")
        executable = folder / source.stem
        with FileLock(folder / "lock"):
            if not executable.exists():
                shutil.copy(source, folder)
                run_make(home, *flags, str(executable))
        return executable

    return compile_once


@pytest.fixture(scope="session")
def coin(compiled):
    """A program of one parameter, the chance of heads."""
    executable = compiled(COIN)
    return cmdstanpy.CmdStanModel(stan_file=executable.with_suffix(".stan"), exe_file=executable)


@pytest.fixture
def run(coin, tmp_path):
    """Runs the executable of `coin` in a folder with data for it."""
    runner = Runner(coin.exe_file, tmp_path)
    runner.write("coin.json", N=10, y=TOSSES, trouble=0)
    return runner
