"""Caches of their own for the tests, empty or with a home, and runs of a small program."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from builders.executables import STAN, TOSSES, Runner

from bdr_stan import cmdstan
from bdr_stan.cmdstan import home
from bdr_stan.cmdstan.programs import compile_program


@pytest.fixture
def no_cmdstan(monkeypatch, tmp_path):
    """No CmdStan of the user's, and an empty cache."""
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def assembled(no_cmdstan):
    """A home of ours in an empty cache, without its driver object."""
    home.assemble()
    return home.home_directory()


@pytest.fixture
def copy_cache(monkeypatch):
    """Copies the home, driver and all, to another cache, which is used from then on."""

    def copy(cache):
        home = cmdstan.setup(progress=False)
        if not cmdstan.is_own(home):
            pytest.skip("another CmdStan is installed and used")
        cache.mkdir(parents=True)
        shutil.copytree(home, cache / home.name, symlinks=True)
        monkeypatch.setenv("BDR_STAN_CACHE", str(cache))
        monkeypatch.delenv("CMDSTAN")
        return cache

    return copy


@pytest.fixture
def quick_make(tmp_path, monkeypatch):
    """Something that acts as the compiler in no time: its programs only tell what they are."""
    compiler = tmp_path / "bin" / "quick-c++"
    compiler.parent.mkdir()
    compiler.write_text(_QUICK)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return compiler


@pytest.fixture
def quick_cache(no_cmdstan, quick_make):
    """An empty cache, to be filled with what the quick compiler makes."""
    return no_cmdstan


_QUICK = """#!/bin/sh
# What -o names is written, after a while where QUICK_SLEEP says so.
case "$*" in --version|-dump*) echo "quick 1.0"; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "half of it" > "$out"
sleep "${QUICK_SLEEP:-0}"
printf '#!/bin/sh\\necho stan_version_major = 2\\n' > "$out"
chmod +x "$out"
"""


@pytest.fixture
def python(tmp_path):
    """Starts a Python process, in a group of its own, that runs some code."""
    started = []

    def start(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            text=True,
            start_new_session=True,
            cwd=tmp_path,  # where Stan writes the times of profiles
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it started
        process.communicate()


@pytest.fixture(scope="session")
def coin():
    """A program of one parameter, the chance of heads."""
    return compile_program(STAN / "driver_coin.stan", progress=False)


@pytest.fixture
def run(coin, tmp_path):
    """Runs the executable of `coin` in a folder with data for it."""
    runner = Runner(coin.exe_file, tmp_path)
    runner.write("coin.json", N=10, y=TOSSES, trouble=0)
    return runner
