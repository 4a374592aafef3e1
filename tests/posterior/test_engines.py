"""Which engine runs a program where none is asked for."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from builders.training import labelled_bags

from bdr_stan import BLR
from bdr_stan.posterior import stanli
from bdr_stan.posterior.stanli import engine_of_run


@pytest.fixture
def state(monkeypatch):
    """Sets whether CmdStan would run at once, and the installed version of stanli."""

    def set_state(ready, version):
        monkeypatch.setattr(stanli, "runs_at_once", lambda program: ready)
        monkeypatch.setattr(stanli, "stanli_version", lambda: version)

    return set_state


def test_stanli_takes_the_place_of_a_cmdstan_that_is_not_set_up(state):
    state(ready=False, version="0.24.0")
    with pytest.warns(UserWarning, match="CmdStan is not set up, so bdr runs on stanli, .* alpha"):
        assert engine_of_run("bdr", None) == "stanli"


@pytest.mark.parametrize(
    "ready, version, engine",
    [
        (True, "0.24.0", None),
        (False, None, None),
        (False, "0.23.0", None),
        (False, "0.24.0", "cmdstan"),
    ],
)
def test_else_it_is_cmdstan(state, ready, version, engine):
    state(ready, version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine_of_run("bdr", engine) == "cmdstan"


def test_in_another_thread_it_is_cmdstan(state):
    state(ready=False, version="0.24.0")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(engine_of_run, "bdr", None).result() == "cmdstan"


def test_what_is_asked_for_is_used_without_a_warning(state):
    state(ready=True, version="0.24.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine_of_run("bdr", "stanli") == "stanli"


def test_a_first_fit_where_no_cmdstan_is(rng, tmp_path, monkeypatch):
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "cache"))
    bags, y = labelled_bags(rng)
    with pytest.warns(UserWarning, match="CmdStan is not set up, so blr runs on stanli"):
        fit = BLR(4).fit(bags, y, chains=2, warmup=200, draws=300, seed=1)
    assert fit.idata["posterior"].attrs["engine"] == "stanli 0.24.0"
    assert np.corrcoef(fit.predict(bags), y)[0, 1] > 0.5
