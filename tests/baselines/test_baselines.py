"""Baselines: where they are, and that a saved fit finds its class."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from bdr_stan import baselines


@pytest.mark.parametrize("name", baselines.__all__)
def test_the_error_names_the_place(name):
    with pytest.raises(ImportError, match=f"from bdr_stan.baselines import {name}"):
        getattr(import_module("bdr_stan"), name)


def test_a_new_process_loads_a_fit(tmp_path):
    model = baselines.ConstantRate().fit([np.ones((2, 1)), np.ones((4, 1))], [2, 4])
    model.save(tmp_path / "fit.nc")
    code = f"import bdr_stan; print(bdr_stan.load({str(tmp_path / 'fit.nc')!r}).rate_)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(found.stdout) == 1.0
