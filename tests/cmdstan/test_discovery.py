"""discovery: the CmdStan that CmdStanPy finds; without one it is said what to do."""

import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan import ToolchainError
from bdr_stan.cmdstan.programs import compile_program


def test_nothing_is_found_and_nothing_built(no_cmdstan):
    assert cmdstan.find() is None
    assert not no_cmdstan.exists()


@pytest.mark.parametrize("named", [True, False])
def test_a_cmdstan_that_cmdstanpy_finds_is_used(no_cmdstan, monkeypatch, tmp_path, named):
    """By the environment variable, or where CmdStanPy looks."""
    official = tmp_path / "user" / ".cmdstan" / "cmdstan-2.36.0"
    official.mkdir(parents=True)
    (official / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    if named:
        official = official.rename(tmp_path / "mine")
        monkeypatch.setenv("CMDSTAN", str(official))
    assert cmdstan.find() == official
    assert not no_cmdstan.exists()


def test_without_cmdstan_one_sentence_says_what_to_do(no_cmdstan):
    with pytest.raises(ToolchainError) as caught:
        compile_program("blr", progress=False)
    assert str(caught.value) == (
        "compiling a Stan program needs CmdStan, and there is none: run install_cmdstan, a command "
        "of CmdStanPy, or in a checkout of bdr_stan make setup; or do without CmdStan, by pip "
        "install 'bdr-stan[stanli]' and engine='stanli'"
    )
    assert not list(no_cmdstan.rglob("*.building-*"))


def test_a_variable_that_names_no_cmdstan(no_cmdstan, monkeypatch, tmp_path):
    monkeypatch.setenv("CMDSTAN", str(tmp_path / "nowhere"))
    assert cmdstan.find() is None


def test_no_compiler(quick_cache, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="needs no-such-compiler, .* apt-get install g[+][+]"):
        compile_program("blr", progress=False)
    monkeypatch.setenv("MAKE", "no-such-make")
    with pytest.raises(ToolchainError, match="needs no-such-compiler and no-such-make, not found"):
        compile_program("blr", progress=False)
