"""Maps beside mgcv: mixtures over draws, held-out districts, what is missing is reported."""

import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bdr_stan import Bags
from experiments import map_peers
from experiments.map_peers import Prediction, Split, about_mgcv, mgcv, mixture, scores

ARGS = SimpleNamespace(draws=2000, bases=(10, 4))


def test_a_mixture_averages_probabilities_over_draws():
    y, expected, size = np.array([3, 40]), np.array([[2.0, 5.0], [30.0, 60.0]]), 4.0
    found = mixture(y, expected, size, log_rates=None)
    p = size / (size + expected)
    reference = np.log(stats.nbinom.pmf(y[:, None], size, p).mean(axis=1))
    np.testing.assert_allclose(found.log_prob, reference)


def test_the_interval_of_a_mixture_is_that_of_its_law_where_draws_agree():
    found = mixture(np.array([7]), np.full((1, 100_000), 50.0), 10.0, log_rates=None)
    law = stats.nbinom(10.0, 10.0 / 60.0)
    np.testing.assert_allclose(np.ravel(found.interval), law.ppf([0.025, 0.975]), atol=1)


def test_scores_are_of_held_out_districts_and_of_their_pixels():
    bags = Bags(np.zeros((4, 2)), [0, 1, 3, 4], features=["x", "y"])
    rate, held_out = np.array([1.0, 2.0, 4.0, 8.0]), np.array([False, True, False])
    split = Split("linear", bags, np.array([100, 5, 100]), held_out, rate)
    middle = np.log([3.0, 6.0])  # 1.5 times the true rates, 2 and 4
    found = scores(
        split,
        Prediction(
            np.array([-2.0]),
            (np.array([5]), np.array([6])),
            np.column_stack([np.log([2.5, 3.5]), middle, middle]),
        ),
    )
    expected = {"NLL": 2, "95% coverage": 1, "correlation": 1, "RMSE": np.log(1.5)}
    expected |= {"bias": np.log(1.5), "pixel coverage": 0.5}
    assert found == pytest.approx(expected)


@pytest.mark.skipif(not map_peers.rscript("library(mgcv)"), reason="needs R's mgcv")
def test_mgcv_recovers_a_line_from_totals_of_one_pixel():
    """With one pixel per district both forms are an ordinary regression of known slope."""
    rng = np.random.default_rng(1)
    n = 80
    points = np.column_stack([rng.normal(size=n), rng.uniform(size=(n, 2))])
    people = rng.uniform(1000, 3000, n)
    rate = 0.1 * np.exp(0.7 * points[:, 0])
    bags = Bags(points, np.arange(n + 1), weights=people, features=["z", "x", "y"])
    split = Split("linear", bags, rng.poisson(people * rate), np.arange(n) % 4 == 0, rate)
    for form, effects in map_peers.MGCV.values():
        prediction, version = mgcv(split, form, effects, ARGS)
        assert version.startswith("mgcv ")
        found = scores(split, prediction)
        assert found["RMSE"] < 0.05 and found["95% coverage"] > 0.8


def test_without_r_the_page_says_that_rows_are_left_out(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    bags = Bags(np.zeros((2, 3)), [0, 1, 2], features=["z", "x", "y"], weights=np.ones(2))
    split = Split("linear", bags, np.array([1, 2]), np.array([False, True]), None)
    assert mgcv(split, "pixels", "curves", ARGS) is None
    assert "rows of mgcv are left out" in about_mgcv(pd.DataFrame({"NLL": [1.0]}), ARGS)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"there is no file .*none\.rda"):
        next(map_peers.madagascar(tmp_path / "none.rda"))
