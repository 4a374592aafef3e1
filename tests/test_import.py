"""Importing an estimator loads only what a fit needs."""

import os
import subprocess
import sys

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


def test_what_a_first_line_loads():
    names = "Bags", "BDR", "BLRClassifier", "InverseBDR", "AggregateRegressor"
    lines = (f"from bdr_stan import {name}; print('{name}:', *sys.modules)" for name in names)
    code = "\n".join(["import sys", *lines])
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = dict(line.split(":", 1) for line in found.stdout.splitlines())
    assert list(loaded) == list(names)
    assert [(name, set(LATER) & set(modules.split())) for name, modules in loaded.items()] == [
        (name, set()) for name in names
    ]


def test_fits_without_docstrings_and_with_a_home_that_is_read_only():
    code = (
        "import numpy as np, bdr_stan\n"
        "y = np.random.default_rng(0).normal(size=12)\n"
        "model = bdr_stan.BLR(4, method='exact').fit(y[:, None, None] + np.zeros((1, 9, 1)), y)\n"
        "assert 'intercept' in model.summary().index and model.idata is not None\n"
    )
    home = {"HOME": "/proc/none", "XDG_CACHE_HOME": ""}
    ran = subprocess.run(
        [sys.executable, "-OO", "-B", "-W", "ignore", "-c", code],
        env=os.environ | home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
