"""Fixtures shared by the tests."""

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from functools import wraps
from pathlib import Path

import numpy as np
import pytest

# Modules that draw from a posterior by NumPy; other generators sample points and make data.
DRAWING = {
    "bdr_stan.aggregate.variational",
    "bdr_stan.models.bdr",
    "bdr_stan.models.inverse",
    "bdr_stan.posterior.laplace",
    "bdr_stan.posterior.latent_gaussian",
    "bdr_stan.posterior.stanli",
}


def pytest_configure(config):
    """Import ArviZ before the workers do: two at once stumble over the stamp it writes each day.

    Jobs in the background ignore interrupts, and so would the processes that tests interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        import arviz  # noqa: F401
    if shift := int(os.environ.get("BDR_STAN_SEED_SHIFT", "0")):
        _shift_seeds(shift)


def _shift_seeds(shift):
    """Add a number to each seed that draws from a posterior, by CmdStan, stanli or NumPy."""
    import cmdstanpy
    import stanli

    def shifted(seed):
        return seed + shift if isinstance(seed, (int, np.integer)) else seed

    def shift_option(owner, name):
        plain = getattr(owner, name)

        @wraps(plain)
        def of_shifted_seed(*args, **options):
            if "seed" in options:
                options["seed"] = shifted(options["seed"])
            return plain(*args, **options)

        setattr(owner, name, of_shifted_seed)

    for method in ("sample", "optimize", "laplace_sample"):
        shift_option(cmdstanpy.CmdStanModel, method)
    shift_option(stanli.Model, "sample")
    generator = np.random.default_rng

    def of_shifted_seed(seed=None):
        draws = sys._getframe(1).f_globals.get("__name__") in DRAWING
        return generator(shifted(seed) if draws else seed)

    np.random.default_rng = of_shifted_seed


def pytest_collection_modifyitems(items):
    """Files of many slow tests come first: side by side, what is left at the end is then short.

    Before them the one test that runs many, on the newest Python.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.path.name != "test_newest.py", -slow[item.path]))


@pytest.fixture
def rng():
    return np.random.default_rng(20181109)


@pytest.fixture(scope="session")
def reference_data():
    """Folder of the papers' reference files, which may not be copied into the repository.

    Without it tests skip, unless BDR_STAN_REFERENCE_DATA names it: then it must be there.
    """
    beside = Path(__file__).parents[2] / "shared" / "data"
    named = os.environ.get("BDR_STAN_REFERENCE_DATA")
    folder = Path(named or beside)
    if named and not folder.is_dir():
        pytest.fail(f"BDR_STAN_REFERENCE_DATA names {folder}, which is no folder")
    if not folder.is_dir():
        pytest.skip("no reference data: set BDR_STAN_REFERENCE_DATA to its folder")
    return folder


@pytest.fixture(scope="module")
def table():
    """A table of points whose bags do not lie together."""
    from builders.partitions import people_table

    return people_table()


@pytest.fixture(scope="module")
def in_memory(table):
    """The bags of `table`."""
    from builders.partitions import COLUMNS

    from bdr_stan import Bags

    return Bags.from_dataframe(table, **COLUMNS)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Folder of temporary files of this process and those it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


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
