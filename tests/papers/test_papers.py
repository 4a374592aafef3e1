"""Systems of the papers: where they are, and what old names and files of them say."""

import doctest
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import bdr_stan
from bdr_stan import RBFNetwork
from bdr_stan.estimators import base
from experiments import papers


@pytest.mark.parametrize("name", papers.__all__)
def test_the_error_names_the_place(name):
    with pytest.raises(ImportError, match=f"use `from experiments.papers import {name}` in a"):
        getattr(import_module("bdr_stan"), name)


LOAD = """
import bdr_stan
from {module} import {name}
try:
    print(type(bdr_stan.load({path!r})).__name__)
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("experiments.papers", "FreqShrinkage", "FreqShrinkage\n"),
        ("bdr_stan", "BDR", "`from experiments.papers import FreqShrinkage` in a checkout"),
    ],
)
def test_a_new_process_loads_a_fit_or_says_how(tmp_path, module, name, words):
    y = np.linspace(0, 1, 12)
    model = papers.FreqShrinkage(3).fit(list(y[:, None, None] + np.zeros((1, 4, 1))), y, seed=1)
    model.save(tmp_path / "fit.nc")
    code = LOAD.format(module=module, name=name, path=str(tmp_path / "fit.nc"))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert words in found.stdout


def test_a_file_of_a_system_that_no_longer_saves(tmp_path, monkeypatch):
    """As an older version wrote it."""
    y = np.linspace(0, 1, 12)
    model = RBFNetwork(3).fit(list(y[:, None, None] + np.zeros((1, 4, 1))), y, seed=1)
    described = base.files.write

    def older(path, groups, config):
        described(path, groups, config | {"estimator": "DFDR"})

    monkeypatch.setattr(base.files, "write", older)
    model.save(tmp_path / "fit.nc")
    with pytest.raises(ImportError, match="DFDR is a system of the papers.*; repeat fits that"):
        bdr_stan.load(tmp_path / "fit.nc")


@pytest.mark.parametrize("name", papers.__all__)
def test_examples_give_what_they_say(name):
    tests = doctest.DocTestFinder().find(getattr(papers, name), name, globs={})
    examples = [test for test in tests if test.examples]
    assert examples, f"{name} has no example"
    said = []
    for test in examples:
        assert not doctest.DocTestRunner().run(test, out=said.append).failed, "".join(said)
