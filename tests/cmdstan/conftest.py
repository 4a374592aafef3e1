"""An empty cache, and in it a home without its driver."""

import pytest

from bdr_stan.cmdstan import home


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
