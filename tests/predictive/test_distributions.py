"""distributions: levels and tables."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BLR, Bags, BLRClassifier, InverseBDRClassifier
from bdr_stan.predictive.distributions import draw_quantiles, interval_ends, quantile_levels

SHORT = {"seed": 1, "draws": 100}


@pytest.fixture(scope="module")
def towns():
    rng = np.random.default_rng(0)
    age = np.repeat(rng.normal(40, 10, 40), 6) + rng.normal(size=240)
    table = pd.DataFrame({"town": np.repeat([f"t{k:02d}" for k in range(40)], 6), "age": age})
    return Bags.from_dataframe(table, "town")


def test_of_labels(towns):
    y = towns.points.reshape(40, 6).mean(axis=1)
    model = BLR(5, method="exact").fit(towns, y, **SHORT)
    predictive = model.predictive(towns)
    table = predictive.to_dataframe(0.9)
    assert list(table.columns) == ["mean", "sd", "lower", "upper"]
    assert table.index.name == "town" and list(table.index) == list(towns.ids)
    np.testing.assert_array_equal(table["upper"], predictive.interval(0.9)[1])
    pd.testing.assert_frame_equal(
        model.predict_table(towns, level=0.9)[table.columns], table, check_names=False
    )
    assert model.predict_table(towns).index.name == "town"


def test_without_ids(towns):
    arrays = [towns[i] for i in range(40)]
    model = BLR(5, method="exact").fit(arrays, np.arange(40.0), **SHORT)
    table = model.predictive(arrays[:3]).to_dataframe()
    assert table.index.name == "bag" and list(table.index) == [0, 1, 2]


def test_of_a_contrast(towns):
    model = BLR(5, method="exact").fit(towns, np.arange(40.0), **SHORT)
    contrast = model.contrast(towns[3:5], towns[3:5])
    assert list(contrast.to_dataframe().index) == ["t03", "t04"]
    np.testing.assert_array_equal(contrast.to_dataframe()["mean"], 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_of_classes(towns, n_classes):
    classes = np.array(["low", "high", "top"])[np.arange(40) % n_classes]
    model = BLRClassifier(5, method="laplace") if n_classes == 2 else InverseBDRClassifier(5)
    model.fit(towns, classes, seed=1)
    table = model.predictive(towns).to_dataframe()
    assert list(table.columns) == ["predicted", "probability", "lower", "upper"]
    np.testing.assert_array_equal(table["predicted"], model.predict(towns))
    np.testing.assert_array_equal(table["probability"], model.predict_proba(towns).max(axis=1))
    assert (table["lower"] <= table["upper"]).all()


def test_levels():
    np.testing.assert_allclose(interval_ends(0.8), [0.1, 0.9])
    assert quantile_levels(0.3).shape == (1,) and quantile_levels([0.3, 0.4]).shape == (2,)
    for level in (0, 1, 95, np.nan):
        with pytest.raises(ValueError, match=f"between 0 and 1, found {level}"):
            interval_ends(level)
    for q in (0, 1, np.nan, [0.5, 1.0], [[0.5]]):
        with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = "):
            quantile_levels(q)


@pytest.mark.parametrize("weights", [None, np.full(50, 0.02)])
def test_quantiles_leave_the_draws_as_they_are(rng, weights):
    draws = rng.normal(size=(50, 3))
    given = draws.copy()
    draw_quantiles(draws, np.array([0.1, 0.5]), weights)
    np.testing.assert_array_equal(draws, given)
