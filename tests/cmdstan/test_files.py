"""Data of programs: what CmdStanPy's own writer writes, number by number."""

import json

import cmdstanpy
import numpy as np
import pytest

from bdr_stan.cmdstan.files import write_data

RNG = np.random.default_rng(8)
DATA = {
    "N": 3,
    "scale": np.float64(0.1),
    "count": np.int64(7),
    "x": RNG.normal(size=(3, 2)) * 10.0 ** RNG.integers(-300, 300, (3, 2)),
    "across": np.asfortranarray(RNG.normal(size=(2, 3))),
    "every_other": RNG.normal(size=8)[::2],
    "blocks": RNG.normal(size=(2, 2, 2)),
    "whole": np.arange(3.0),
    "labels": np.array([0, 1, 2], np.int32),
    "list": [1, 2],
    "none": np.empty(0),
    "no_columns": np.empty((3, 0)),
    "no_rows": np.empty((0, 3)),
    "extreme": np.array([5e-324, 1.7976931348623157e308, -0.0]),
}


def read_both(tmp_path, data):
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    write_data(ours, data)
    cmdstanpy.write_stan_json(str(theirs), data)
    return json.loads(ours.read_text()), json.loads(theirs.read_text())


def test_the_same_numbers_in_the_same_form(tmp_path):
    ours, theirs = read_both(tmp_path, DATA)
    assert list(ours) == list(DATA) and repr(ours) == repr(theirs)


@pytest.mark.parametrize("data", [{}, {"x": [np.inf, 1.0]}, {"x": -np.inf}, {"x": [np.nan]}])
def test_no_data_and_values_that_are_not_finite(tmp_path, data):
    ours, theirs = read_both(tmp_path, data)
    assert repr(ours) == repr(theirs)
