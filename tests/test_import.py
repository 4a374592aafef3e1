"""Importing an estimator loads only what a fit needs."""

import os
import subprocess
import sys

import pytest

LATER = [
    "arviz",
    "cmdstanpy",
    "dask",
    "distributed",
    "jinja2",
    "matplotlib",
    "xarray",
    "h5netcdf",
    "sklearn.svm",
    "bdr_stan.plots",
    "bdr_stan.report.document",
    "bdr_stan.maps",
    "experiments.papers",
    "bdr_stan.estimators.merr",
]


@pytest.mark.parametrize(
    "name", ["BDR", "BLRClassifier", "InverseBDR", "Bags", "AggregateRegressor"]
)
def test_what_a_first_line_loads(name):
    code = f"import sys; from bdr_stan import {name}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(LATER) & set(found.stdout.split())


@pytest.mark.parametrize("option, home", [("-OO", None), ("-B", "/proc/none")])
def test_fits_without_docstrings_and_with_a_home_that_is_read_only(option, home):
    code = (
        "import numpy as np, bdr_stan\n"
        "y = np.random.default_rng(0).normal(size=12)\n"
        "model = bdr_stan.BLR(4, method='exact').fit(y[:, None, None] + np.zeros((1, 9, 1)), y)\n"
        "assert 'intercept' in model.summary().index and model.idata is not None\n"
    )
    given = {} if home is None else {"HOME": home, "XDG_CACHE_HOME": ""}
    ran = subprocess.run(
        [sys.executable, option, "-W", "ignore", "-c", code],
        env=os.environ | given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
