"""chain_progress: where the chains are, and how long they will take."""

import re

import numpy as np
import pytest

from bdr_stan import BLR
from bdr_stan import progress as progress_module
from bdr_stan.posterior import sampling
from bdr_stan.posterior.sampling import ChainProgress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr(sampling.time, "monotonic", lambda: now[0])
    return now


def write(folder, chain, draws, torn=b""):
    """What a chain has written after some draws."""
    rows = b"-1.5,0.9\n" * draws
    text = b"# method = sample\nlp__,accept_stat__\n" + rows[:9] + b"# Adaptation\n" + rows[9:]
    (folder / f"blr-1_{chain}.csv").write_bytes(text + torn)


def test_where_the_chains_are(clock, tmp_path):
    chains = ChainProgress(tmp_path, 4, 1000, 500)
    assert chains.text() == ""
    write(tmp_path, 1, 0)
    assert chains.text() == "iteration 0 of 1500 (warm-up), 3 chains waiting"
    write(tmp_path, 1, 300, torn=b"2,")
    write(tmp_path, 2, 300)
    clock[0] = 5.0
    expected = "iterations 300 and 300 of 1500 (warm-up), 2 chains waiting, about 45 s left"
    assert chains.text() == expected
    for chain, draws in enumerate([1500, 1500, 1200], 1):
        write(tmp_path, chain, draws)
    clock[0] = 42.0
    expected = "iterations 1500, 1500 and 1200 of 1500, 1 chain waiting, about 18 s left"
    assert chains.text() == expected
    (tmp_path / "blr-1_1.csv").unlink()  # as where the fit is interrupted
    assert chains.text() == expected


def test_thinned_chains_write_fewer_rows(clock, tmp_path):
    write(tmp_path, 1, 40)
    assert ChainProgress(tmp_path, 1, 100, 100, thin=4).text() == "iteration 160 of 200"
    assert ChainProgress(tmp_path, 1, 50, 50, thin=3).text() == "iteration 100 of 100"


def test_a_long_run_names_the_quicker_method(clock, tmp_path):
    chains = ChainProgress(tmp_path, 1, 1000, 1000)
    write(tmp_path, 1, 40)
    clock[0] = 30.0
    assert chains.text().endswith(', about 24 min left; method="laplace" takes seconds')
    write(tmp_path, 1, 1100)
    clock[0] = 1000.0
    assert chains.text() == "iteration 1100 of 2000, about 14 min left"


def test_a_fit_tells_its_iterations(monkeypatch, capsys):
    """From the chains' files; CmdStanPy prints nothing."""
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN_LINES", 0.01)
    real = sampling.status
    at_once = lambda text, show, *, after, detail=lambda: "": real(  # noqa: E731
        text, show, after=0.0, detail=detail
    )
    monkeypatch.setattr(sampling, "status", at_once)
    rng = np.random.default_rng(1)
    y = rng.normal(size=30)
    bags = [rng.normal(label, 0.5, (6, 1)) for label in y]
    BLR(3).fit(bags, y, seed=1, chains=3, warmup=700, draws=800, progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(r"Running nuts of blr: .*iterations? \d+.* of 1500", said.err)
    at = [int(n) for n in re.findall(r"(\d+) of 1500", said.err)]
    assert min(at) < 700 and len(set(at)) > 3
