"""Stan's numbers without polars, so that forked processes can fit."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from bdr_stan.cmdstan.files import numbers

FORKS = """
import multiprocessing, os, sys
import numpy as np
from bdr_stan import BLR, Bags
bags = Bags.from_list([np.random.default_rng(i).normal(i, 1, (9, 2)) for i in range(12)])
y = np.arange(12.0)

def fitted(seed):
    model = BLR(3, landmarks="kmeans", method="laplace")
    return model.fit(bags, y, draws=200, seed=seed, progress=False).predict(bags)

here = fitted(1)
pid = os.fork()
if pid == 0:
    os._exit(0 if np.array_equal(fitted(1), here) else 3)
assert os.waitpid(pid, 0)[1] == 0
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert np.array_equal(pool.map(fitted, [1])[0], here)
print("all the same")
"""


def test_numbers_are_those_of_polars(rng):
    values = np.append(rng.normal(size=(50, 4)) * 10.0 ** rng.integers(-300, 300, (50, 4)), 0.1)
    values = np.append(values, [np.inf, -np.inf, np.nan]).reshape(-1, 4)
    lines = [b",".join(b"%.12g" % v for v in row) + b"\n" for row in values]
    text = b"".join(lines)
    theirs = pl.read_csv(text, has_header=False, schema_overrides=[pl.Float64] * 4).to_numpy()
    np.testing.assert_array_equal(numbers(lines), theirs)
    assert numbers(lines[:1]).shape == (1, 4)
    assert numbers([]).shape == (0, 0)


@pytest.mark.slow
def test_processes_forked_after_a_fit_can_fit():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout == "all the same\n", run.stderr
