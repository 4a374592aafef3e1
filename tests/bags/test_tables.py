"""Tables of libraries that offer Arrow streams become bags, and bags become such tables."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bdr_stan import BLR, Bags
from bdr_stan.datasets import county_table


class Relation:
    """A table that offers nothing but an Arrow stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


PEOPLE = county_table(30, seed=1)
KINDS = {
    "relation": lambda df: Relation(pa.table(df)),
    "relation of polars": lambda df: Relation(pl.DataFrame(df)),
    "reader of batches": lambda df: pa.table(df).to_reader(max_chunksize=100),
    "batch": lambda df: pa.table(df).combine_chunks().to_batches()[0],
}


@pytest.fixture(scope="module")
def bags():
    return Bags.from_dataframe(PEOPLE, "county", metadata=["vote"])


@pytest.mark.parametrize("kind", KINDS)
def test_bags_from_a_stream(bags, kind):
    found = Bags.from_dataframe(KINDS[kind](PEOPLE), "county", metadata=["vote"])
    np.testing.assert_array_equal(found.points, bags.points)
    assert found.features == bags.features
    pd.testing.assert_frame_equal(found.metadata, bags.metadata)


@pytest.fixture(scope="module")
def model(bags):
    return BLR(4, method="exact").fit(bags, "vote", seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_for_a_stream(bags, model, kind):
    table = KINDS[kind]
    np.testing.assert_array_equal(model.predict(table(PEOPLE)), model.predict(bags))
    cells = PEOPLE[:5]
    np.testing.assert_array_equal(model.influence(table(cells)).mean, model.influence(cells).mean)


def test_numbers_of_databases():
    amounts = pa.table({"bag": [1, 1, 2], "x": pa.array([1, 2, 3], pa.decimal128(38, 2))})
    bags = Bags.from_dataframe(Relation(amounts), "bag")
    np.testing.assert_array_equal(bags.points, [[1], [2], [3]])


@pytest.mark.parametrize(
    "given, found",
    [
        (pl.Series([1, 2]), "Series, a stream of one column"),
        (pa.chunked_array([[1, 2]]), "ChunkedArray, a stream of one column"),
        (3, "int"),
    ],
)
def test_what_is_no_table(given, found):
    with pytest.raises(TypeError, match=f"or another that offers an Arrow stream, found {found}"):
        Bags.from_dataframe(given, "county")


def test_lazy_tables_are_refused():
    with pytest.raises(TypeError, match=r"a lazy LazyFrame: pass table.collect\(\)$"):
        Bags.from_dataframe(pl.DataFrame(PEOPLE).lazy(), "county")
    dask = pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame(PEOPLE), npartitions=1)
    with pytest.raises(TypeError, match="a Dask DataFrame is for Bags.from_dask$"):
        Bags.from_dataframe(dask, "county")


def test_a_stream_is_no_bags():
    with pytest.raises(TypeError, match="X is a table, not bags: use Bags.from_dataframe"):
        BLR().fit(Relation(pa.table(PEOPLE)), [1.0])


def test_streams_need_pyarrow(monkeypatch):
    relation = Relation(pa.table(PEOPLE))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"a Relation needs pyarrow: .*bdr-stan\[parquet\]"):
        Bags.from_dataframe(relation, "county")
