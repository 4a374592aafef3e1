"""without_make: the commands of the makefile, run where there is no make."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan import ToolchainError, compiler
from bdr_stan.cmdstan.compiler import run_make
from bdr_stan.cmdstan.programs import compile_program

COIN = Path(__file__).parents[1] / "stan" / "driver_coin.stan"
SCRIPT = Path(compiler.__file__).with_name("without_make.py")


@pytest.fixture
def no_make(tmp_path, monkeypatch):
    """A PATH with what the quick compiler needs, and no more."""
    (tmp_path / "few").mkdir()
    for name in ("sleep", "chmod"):
        (tmp_path / "few" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path / "few"))
    monkeypatch.delenv("MAKE", raising=False)


def commands(output):
    """The commands that are shown, word by word, without how a file is written whole."""
    output = re.sub(r"\\\n\s*", " ", output)
    output = re.sub(r"driver\w*_\w+\.o", "driver.o", output)
    lines = [shlex.split(line.partition(" && ")[0]) for line in output.splitlines() if line]
    return [[re.sub(r"(\.\$PPID)?\.tmp$", "", word) for word in line] for line in lines]


@pytest.mark.parametrize(
    "arguments",
    [
        ["PROGRAM"],
        ["PROGRAM.o"],
        ["build"],
        ["O=1", "STAN_THREADS=TRUE", "PROGRAM"],
        ["STAN_NO_RANGE_CHECKS=1", "STAN_CPP_OPTIMS=1", "CXXFLAGS=-g -DA='b c'", "PROGRAM"],
        ["CPPFLAGS=-I here", "LDFLAGS=-L there", "LDLIBS=-lm", "KEEP_OBJECT=1", "PROGRAM"],
        ["STANCFLAGS+=--O1", "STANCFLAGS+='--name=a b'", "RUN_PATH=$$ORIGIN/../lib", "PROGRAM"],
        ["STANCFLAGS+=--allow-undefined", "USER_HEADER=/a b/c.hpp", "PROGRAM"],
        ["STANCFLAGS+=--allow-undefined", "PROGRAM"],
        ["CXX=g++ -O2", "PROGRAM"],
    ],
    ids=" ".join,
)
def test_the_commands_are_those_of_make(assembled, tmp_path, arguments):
    (tmp_path / "coin.stan").touch()
    arguments = [word.replace("PROGRAM", str(tmp_path / "coin")) for word in arguments]
    code, output = run_make(assembled, "-n", *arguments)
    assert code == 0, output
    ours = subprocess.run(
        [sys.executable, "-I", SCRIPT, "-n", *arguments],
        cwd=assembled,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert commands(ours.stdout) == commands(output)


def test_a_program_compiles_without_make(quick_cache, quick_make, no_make):
    model = compile_program(COIN, progress=False)
    assert sorted(os.listdir(Path(model.exe_file).parent)) == [
        "driver_coin",
        "driver_coin.stan",
        "manifest.json",
    ]
    assert cmdstan.find() is not None  # the driver is whole
    found = next(finding for finding in cmdstan.doctor() if finding.what == "make")
    assert found.ok
    assert "run without it" in found.detail


def test_the_compilers_error_is_told(quick_cache, quick_make, no_make):
    quick_make.write_text("#!/bin/sh\necho 'x.hpp:1: error: of the compiler'; exit 1\n")
    with pytest.raises(ToolchainError, match="error: of the compiler"):
        compile_program(COIN, progress=False)


def test_settings_that_make_alone_reads_are_refused(assembled, quick_make, no_make):
    (assembled / "make").mkdir()
    (assembled / "make" / "local").write_text("CXXFLAGS += -g\n")
    with pytest.raises(ToolchainError, match="make/local changes how Stan is built.* install make"):
        cmdstan.setup(progress=False)


def test_a_make_that_is_named_must_be_there(quick_cache, quick_make, no_make, monkeypatch):
    monkeypatch.setenv("MAKE", "no-such-make")
    with pytest.raises(ToolchainError, match="needs no-such-make, not found"):
        compile_program(COIN, progress=False)
