"""chain_progress: where the chains are, and how long they will take."""

import re

import numpy as np
import pytest

from bdr_stan import BLR
from bdr_stan import progress as progress_module
from bdr_stan.posterior import chain_progress, sampling
from bdr_stan.posterior.chain_progress import ChainProgress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr(chain_progress.time, "monotonic", lambda: now[0])
    return now


def test_where_the_chains_are(clock):
    chains = ChainProgress(4, 1000, 500, side_by_side=2)
    assert chains.text() == ""
    chains.read("Gradient evaluation took 0.002 seconds", 0)
    chains.read("Iteration:    1 / 1500 [  0%]  (Warmup)", 0)
    clock[0] = 10.0
    # 15 gradients of 1,500 iterations, two rounds of chains, less the ten seconds that are over
    assert chains.text() == "iteration 1 of 1500 (warm-up), 3 chains waiting, about 80 s left"
    chains.read("Iteration:  300 / 1500 [ 20%]  (Warmup)", 0)
    chains.read("Iteration:  300 / 1500 [ 20%]  (Warmup)", 1)
    chains.read("a message of the program", 1)
    assert chains.text() == (
        "iterations 300 and 300 of 1500 (warm-up), 2 chains waiting, about 2 min left"
    )
    for chain, iteration in enumerate([1500, 1500, 1200]):
        chains.read(f"Iteration: {iteration} / 1500 [ 80%]  (Sampling)", chain)
    clock[0] = 42.0
    assert (
        chains.text() == "iterations 1500, 1500 and 1200 of 1500, 1 chain waiting, about 18 s left"
    )


def test_chains_of_one_process(clock):
    chains = ChainProgress(2, 10, 10, side_by_side=1)
    chains.read("Chain [2] Iteration: 4 / 20 [ 20%]  (Warmup)", 0)
    chains.read("Chain [1] Iteration: 8 / 20 [ 40%]  (Warmup)", 0)
    assert chains.iteration == {1: 8, 2: 4}


def test_a_long_run_names_the_quicker_method(clock):
    chains = ChainProgress(2, 1000, 1000, side_by_side=2)
    chains.read("Gradient evaluation took 0.05 seconds", 0)
    chains.read("Iteration:    1 / 2000 [  0%]  (Warmup)", 0)
    assert chains.text().endswith(', about 25 min left; method="laplace" takes seconds')
    clock[0] = 1000.0
    for chain in (0, 1):
        chains.read("Iteration: 1100 / 2000 [ 55%]  (Sampling)", chain)
    assert chains.text() == "iterations 1100 and 1100 of 2000, about 14 min left"


def test_a_fit_tells_its_iterations(monkeypatch, capsys):
    """CmdStanPy passes the chains' lines on, and prints nothing itself."""
    monkeypatch.setattr(progress_module._PlainLines, "every", 0.01)
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
