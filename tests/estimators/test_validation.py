"""validation: what passes; what is refused is in tests/bad_input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import bdr_stan
from bdr_stan import BLR
from bdr_stan.estimators.validation import check_bounds, check_stan_file
from bdr_stan.types import check_seed


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """A fit with a Stan program of its own, from a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.stan").touch()
    bags = [np.array([[0.0], [1.0]]), np.array([[2.0]]), np.array([[3.0], [5.0]])]
    model = BLR(2, method="exact").fit(bags, [0.0, 1.0, 2.0])
    model.set_params(method="nuts", stan_file="mine.stan", compress=False)
    model.check_parameters()
    model.save("fit.nc")
    return bdr_stan.load("fit.nc")


@pytest.mark.parametrize("same", [lambda m: m, clone, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_program_from_a_file_is_not_run_until_it_is_set_again(loaded, same):
    model = same(loaded)
    assert model.stan_file == "mine.stan" and repr(model.stan_file) == "'mine.stan'"
    with pytest.raises(ValueError, match="'mine.stan' in the fit that was loaded from fit.nc"):
        model.check_parameters()
    model.set_params(stan_file="mine.stan").check_parameters()
    model.set_params(stan_file=None).check_parameters()


def test_a_loaded_fit_predicts_and_is_saved_again(loaded, tmp_path):
    bags = [np.array([[0.5]]), np.array([[2.5], [1.0]])]
    loaded.save(tmp_path / "again.nc")
    again = bdr_stan.load(tmp_path / "again.nc")
    np.testing.assert_array_equal(again.predict(bags), loaded.predict(bags))
    with pytest.raises(ValueError, match="loaded from .*again.nc"):
        check_stan_file(again.stan_file)


def test_seeds_that_pass():
    for seed in (None, 0, np.int64(7), 2**32 - 1):
        check_seed(seed)


def test_bounds_that_pass():
    for bounds in (None, (0, 1), [0.5, None], (None, None), np.array([-1.0, 2.0])):
        check_bounds(bounds)
