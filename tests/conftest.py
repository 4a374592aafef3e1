"""Fixtures shared by the tests."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest


def pytest_configure(config):
    """Import ArviZ before the workers do: two at once stumble over the stamp it writes each day."""
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
    """Folder of the papers' reference files; tests that need it skip without it."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BDR_STAN_REFERENCE_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no reference data: set BDR_STAN_REFERENCE_DATA to its folder")
    return folder
