"""Fixtures shared by the tests."""

import os
from pathlib import Path

import numpy as np
import pytest


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
