"""The command: it builds where CmdStanPy finds nothing, and leaves alone what it finds."""

import os
from pathlib import Path

import cmdstanpy
import pytest
from cmdstan_from_pypi import home
from cmdstan_from_pypi.__main__ import main


@pytest.fixture(autouse=True)
def user(monkeypatch, tmp_path):
    """A home folder without a CmdStan."""
    monkeypatch.setenv("CMDSTAN", "")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "user"


def test_without_a_cmdstan_one_is_built_where_cmdstanpy_looks(user, quick_compiler, capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith(f"Building CmdStan in {user}/.cmdstan/cmdstan-2.")
    assert home.faults(Path(cmdstanpy.cmdstan_path())) == []
    quick_compiler.unlink()
    assert main([]) == 0
    assert capsys.readouterr().out.startswith(f"CmdStan is ready: {user}/.cmdstan/cmdstan-2.")


def test_another_cmdstan_is_enough(user, capsys):
    official = user / ".cmdstan" / "cmdstan-2.36.0"
    official.mkdir(parents=True)
    (official / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    assert main([]) == 0
    assert capsys.readouterr().out == f"CmdStan is there: {official}\n"


def test_a_damaged_home_of_another_stan_is_refused(assembled, monkeypatch, capsys):
    other = assembled.rename(assembled.with_name("cmdstan-2.99.0"))
    monkeypatch.setenv("CMDSTAN", str(other))
    assert main([]) == 1
    assert capsys.readouterr().err == (
        f"Error: {other}, which CmdStanPy finds, cannot be repaired here: remove it\n"
    )


def test_a_home_that_is_named(tmp_path, quick_compiler, capsys):
    assert main(["--home", str(tmp_path / "here"), "--fast-headers"]) == 0
    assert f"CmdStan is ready: {tmp_path}/here (" in capsys.readouterr().out
    assert home.faults(tmp_path / "here") == []
    assert not list((tmp_path / "here").rglob("*.gch"))  # those of another compiler
    assert not os.path.exists(tmp_path / "user")
