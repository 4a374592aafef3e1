"""setup and discovery: a CmdStan is found or made and used; what is missing is said."""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan import ToolchainError, home
from bdr_stan.cmdstan.programs import compile_program


def test_setup_gives_cmdstanpy_a_home_and_is_quick_when_done():
    import cmdstanpy

    path = cmdstan.setup(progress=False)
    assert cmdstanpy.cmdstan_path() == str(path)
    assert cmdstan.find() == path
    stamps = {p: p.stat().st_mtime_ns for p in path.iterdir()}
    assert cmdstan.setup(progress=False) == path
    assert {p: p.stat().st_mtime_ns for p in path.iterdir()} == stamps


def test_find_builds_nothing(no_cmdstan):
    assert cmdstan.find() is None
    assert not no_cmdstan.exists()


def test_a_home_is_ready_only_with_its_driver(assembled):
    assert cmdstan.find() is None
    assert home.faults(assembled) == ["the driver is not compiled"]
    (assembled / "driver_1.o").touch()
    assert home.faults(assembled) == ["driver_1.o is damaged"]
    (assembled / "driver_1.o.sha256").write_text(hashlib.sha256(b"").hexdigest())
    assert cmdstan.find() == assembled


def test_a_cmdstan_that_cmdstanpy_finds_is_used(no_cmdstan, monkeypatch, tmp_path):
    official = tmp_path / "cmdstan-2.36.0"
    (official / "bin").mkdir(parents=True)
    (official / "bin" / "stanc").touch(mode=0o755)
    (official / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    monkeypatch.setenv("CMDSTAN", str(official))
    assert cmdstan.find() == official
    assert cmdstan.setup(progress=False) == official
    assert not no_cmdstan.exists()


def test_cmdstanpy_accepts_the_assembled_home(assembled, monkeypatch):
    import cmdstanpy

    monkeypatch.setenv("CMDSTAN", str(assembled))
    assert cmdstanpy.cmdstan_path() == str(assembled)
    assert cmdstanpy.utils.cmdstan_version() == (2, 35)


def test_unknown_source_or_program():
    with pytest.raises(ValueError, match='"auto", "pypi" or "github", found .conda.'):
        cmdstan.setup("conda")
    with pytest.raises(ValueError, match="no Stan program called 'nope'; there are: "):
        cmdstan.setup(programs=["nope"])


def test_the_longest_program_is_compiled_first(monkeypatch):
    compiled = []
    module = sys.modules["bdr_stan.cmdstan.setup"]
    monkeypatch.setattr(module, "compilers_at_once", lambda: 1)
    monkeypatch.setattr(module, "compile_program", lambda name, progress: compiled.append(name))
    cmdstan.setup(programs=["blr", "bdr_glm", "bdr"], progress=False)
    assert compiled == ["bdr_glm", "bdr", "blr"]


def test_no_httpstan(monkeypatch, no_cmdstan):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ToolchainError, match=r"pip install 'bdr-stan\[stan\]'"):
        cmdstan.setup(progress=False)
    assert not no_cmdstan.exists()


def test_another_httpstan(monkeypatch, no_cmdstan):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.14.0")
    with pytest.raises(ToolchainError, match="httpstan 4.14.0 is installed, but .* needs httpstan"):
        cmdstan.setup(progress=False)


def test_another_system(monkeypatch, no_cmdstan):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ToolchainError, match="on Linux only: use bdr-stan setup --from github, or"):
        cmdstan.setup(progress=False)


def test_no_compiler(monkeypatch, no_cmdstan):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="needs no-such-compiler, .* apt-get install g[+][+]"):
        cmdstan.setup(progress=False)


def test_without_a_compiler_a_setup_that_is_done_stays_done(quick_cache, quick_make, monkeypatch):
    home = cmdstan.setup(progress=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cmdstan.setup(progress=False) == home


def test_cache_that_cannot_be_written(monkeypatch, no_cmdstan, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="cannot build in the cache folder .* BDR_STAN_CACHE"):
        cmdstan.setup(progress=False)


@pytest.mark.slow
def test_a_virtual_environment_may_go_after_the_build(tmp_path):
    """Executables run on the copies in the home."""
    home = cmdstan.setup("pypi", progress=False)
    coin = compile_program(Path(__file__).parents[1] / "stan" / "driver_coin.stan", progress=False)
    needed = subprocess.run(["ldd", coin.exe_file], capture_output=True, text=True, check=True)
    tbb = next(line for line in needed.stdout.splitlines() if "libtbb" in line)
    assert os.path.samefile(tbb.split()[2], home / "lib" / "libtbb.so.2")
    assert "site-packages" not in needed.stdout
