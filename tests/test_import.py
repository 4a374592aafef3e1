"""Importing an estimator loads only what a fit needs."""

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
    "bdr_stan.baselines",
    "bdr_stan.estimators.merr",
]


@pytest.mark.parametrize(
    "name", ["BDR", "BLRClassifier", "InverseBDR", "Bags", "AggregateRegressor"]
)
def test_what_a_first_line_loads(name):
    code = f"import sys; from bdr_stan import {name}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(LATER) & set(found.stdout.split())
