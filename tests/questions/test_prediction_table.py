"""Predictions as a table, of bags in memory and of bags in partitions."""

import dask
import numpy as np
import pandas as pd
import pytest
from builders.partitions import COLUMNS, partitions
from builders.problems import location_bags
from numpy.testing import assert_allclose, assert_array_equal

from bdr_stan import (
    BDR,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
)


@pytest.fixture(scope="module")
def lazy(table):
    """A third of the bags is cut by partitions."""
    rows = table.sort_values("county", ignore_index=True)
    with dask.config.set(scheduler="synchronous"):
        yield Bags.from_dask(partitions(rows, 16), **COLUMNS)


QUICK = {"n_landmarks": 10, "method": "optimize"}
MODELS = [
    BDR(**QUICK, covariates=["people"]),
    InverseBDR(**QUICK),
    BDRClassifier(**QUICK),
    BLRClassifier(**QUICK),
    InverseBDRClassifier(**QUICK),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def fitted(request, in_memory):
    y = in_memory.metadata["y"].to_numpy()
    if "Classifier" in type(request.param).__name__:
        y = np.where(y > 3, "high", "low")
    return request.param.fit(in_memory, y, seed=1)


def test_table_of_bags_in_memory(fitted, in_memory):
    found = fitted.predict_table(in_memory, level=0.8)
    predictive = fitted.predictive(in_memory)
    assert found.index.name == "county" and list(found.index) == list(in_memory.ids)
    assert_array_equal(found["n_points"], in_memory.sizes)
    if hasattr(fitted, "classes_"):
        assert_array_equal(found["predicted"], fitted.predict(in_memory))
        assert_allclose(found["probability"], predictive.probabilities.max(axis=1))
    else:
        assert_allclose(found["mean"], predictive.mean)
        assert_allclose(found["sd"], predictive.sd)
        assert_allclose(found[["lower", "upper"]].T, predictive.interval(0.8))


def test_table_of_bags_in_partitions(fitted, lazy, in_memory):
    assert 0 < lazy.cut.sum() < len(lazy)
    chosen = np.random.default_rng(1).permutation(len(lazy))[:30]
    found = fitted.predict_table(lazy[chosen])
    expected = fitted.predict_table(in_memory[chosen])
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8, check_exact=False)


def test_new_tables(fitted, table, in_memory):
    """A Dask DataFrame goes into predictions as a pandas DataFrame does."""
    new = table.drop(columns="y")
    with dask.config.set(scheduler="synchronous"):
        found = fitted.predict_table(partitions(new, 3))
        assert_array_equal(fitted.predict(partitions(new, 3)), fitted.predict(partitions(new, 3)))
    pd.testing.assert_frame_equal(found, fitted.predict_table(new), rtol=1e-8)


def test_influence_of_points_by_partitions_of_dask(table, in_memory):
    y = in_memory.metadata["y"].to_numpy()
    model = BDR(**QUICK).fit(in_memory, y, seed=1)

    def influence(part):
        return pd.Series(model.influence(part).mean, index=part.index)

    with dask.config.set(scheduler="synchronous"):
        found = partitions(table, 4).map_partitions(influence, meta=("f", float)).compute()
    assert_allclose(found, model.influence(table).mean, rtol=1e-10)


def test_influence_along_a_column_and_contrasts_of_partitions(lazy, in_memory):
    model = BDR(**QUICK).fit(in_memory, in_memory.metadata["y"].to_numpy(), seed=1)
    values, found = model.influence_along("age", lazy)
    again, expected = model.influence_along("age", in_memory)
    assert len(values) == len(again) == 60
    assert_allclose(found.mean, expected.mean, atol=0.5 * np.ptp(expected.mean))
    assert_allclose(model.contrast(lazy.load(), in_memory).mean, 0, atol=1e-10)
    with pytest.raises(TypeError, match=r"must be in memory: load\(\) the bags"):
        model.contrast(lazy, in_memory)


def test_table_of_totals():
    bags, centres = location_bags()
    totals = np.round(np.exp(centres) * bags.sizes)
    model = AggregateRegressor(n_landmarks=8, method="vb", learn_kernel=False)
    model.fit(bags, totals, seed=1)
    found, predictive = model.predict_table(bags, level=0.5), model.predictive(bags)
    assert_allclose(found["mean"], predictive.mean)
    assert_allclose(found[["lower", "upper"]].T, predictive.interval(0.5))
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1"):
        model.predict_table(bags, level=1)
