"""Fixtures shared by the tests."""

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest


def pytest_configure(config):
    """Import ArviZ before the workers do: two at once stumble over the stamp it writes each day.

    Jobs in the background ignore interrupts, and so would the processes that tests interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        import arviz  # noqa: F401


def pytest_collection_modifyitems(items):
    """Files of many slow tests come first: side by side, what is left at the end is then short."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


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
