"""Bags whose points stay in the partitions of a Dask DataFrame."""

import sys
from contextlib import nullcontext

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from builders.partitions import COLUMNS, partitions
from dask.distributed import Client
from numpy.testing import assert_allclose, assert_equal

from bdr_stan import BDR, MERR, Bags, tune


@pytest.fixture(autouse=True, scope="module")
def in_this_thread():
    """What Dask's schedulers do with several workers is the affair of the tests that say so."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def lazy(table):
    return Bags.from_dask(partitions(table, 5), **COLUMNS)


def assert_same_bags(found, expected):
    assert list(found.ids) == list(expected.ids)
    assert found.features == expected.features and found.columns == expected.columns
    assert_equal(found.sizes, expected.sizes)
    assert_allclose(found.effective_sizes, expected.effective_sizes, rtol=1e-14)
    assert_allclose(found.totals, expected.totals, rtol=1e-14)
    if expected.metadata is not None:
        pd.testing.assert_frame_equal(found.metadata, expected.metadata)
    assert found.n_points == len(expected.points)


@pytest.mark.parametrize("n", [1, 5, 60])
def test_all_that_is_known_of_bags_is_as_in_memory(table, in_memory, n):
    assert_same_bags(Bags.from_dask(partitions(table, n), **COLUMNS), in_memory)


def test_without_weights_and_metadata(table):
    few = table[["county", "age"]]
    found = Bags.from_dask(partitions(few, 4), "county")
    assert_same_bags(found, Bags.from_dataframe(few, "county"))
    assert found.metadata is None and not found.weighted
    assert_equal(found.effective_sizes, found.sizes)  # exactly: bags are grouped by their sizes


def test_equal_weights_give_whole_effective_sizes(table):
    same = table.assign(w=0.3)
    found = Bags.from_dask(partitions(same, 7), **COLUMNS)
    assert_equal(found.effective_sizes, found.sizes)


def test_repr_and_what_is_known_of_parts(lazy):
    assert repr(lazy).startswith("PartitionedBags(40 bags, ")
    assert repr(lazy).endswith(", 5 parts, weighted)")
    assert repr(lazy[:0]) == "PartitionedBags(0 bags, 5 features)"
    html = lazy._repr_html_()
    assert "<td>one per point</td>" in html
    assert '<th scope="row">storage</th><td>5 parts</td>' in html
    assert lazy.cut[3] and not lazy.cut.all()


def test_load_gives_the_points_back(lazy, in_memory):
    loaded = lazy.load()
    assert_same_bags(loaded, in_memory)
    for own, expected in zip(loaded, in_memory):
        assert_equal(own[np.lexsort(own.T)], expected[np.lexsort(expected.T)])
    assert_allclose(loaded.sums(loaded.weights), loaded.totals)


@pytest.mark.parametrize(
    "key", [slice(5, 20, 3), [7, 3, 30], np.arange(40) % 3 == 0, np.array([-1, 0])]
)
def test_selection(lazy, in_memory, key):
    assert_same_bags(lazy[key], in_memory[key])
    assert_equal(np.sort(lazy[key].load().points, axis=0), np.sort(in_memory[key].points, axis=0))


def test_selection_of_a_selection(lazy, in_memory):
    assert_same_bags(lazy[::-2][[4, 1]], in_memory[::-2][[4, 1]])


def test_rows_are_those_of_the_table_whatever_the_partitions(table):
    numbers = table[["county", "age", "income"]]
    rows = np.array([7, 300, 0, 7, 41])
    for n in (1, 6):
        bags = Bags.from_dask(partitions(numbers, n), "county")
        assert_equal(bags.read_rows(rows), numbers[["age", "income"]].to_numpy()[rows])


def test_sample_of_a_selection_is_from_its_bags(lazy):
    chosen = lazy[[3, 8]]
    sample = chosen.sample_points(50, np.random.default_rng(1))
    assert sample.shape == (50, 5)
    of_these = {tuple(point) for point in chosen.load().points}
    assert {tuple(point) for point in sample} <= of_these


def test_parts_come_in_their_order_with_their_rows(lazy):
    done = []
    numbers = np.arange(len(lazy))
    found = list(
        lazy.map_parts(lambda bags, own: own, numbers, progress=lambda *call: done.append(call))
    )
    assert len(found) == 5
    for which, own in found:
        assert_equal(which, own)
    assert done[-1] == (lazy.n_points, lazy.n_points) and len(done) == 5


def test_index_may_name_the_bags(table, in_memory):
    ddf = partitions(table.set_index("county"), 3)
    assert_same_bags(Bags.from_dask(ddf, **COLUMNS), in_memory)


def test_empty_partitions_do_not_matter(table, in_memory):
    ddf = dd.concat([partitions(table[:0], 1), partitions(table, 2), partitions(table[:0], 1)])
    found = Bags.from_dask(ddf, **COLUMNS)
    assert_same_bags(found, in_memory)
    assert found.n_parts == 2


def test_points_without_weight(table):
    """All the weight of a bag may be in one part of it."""
    some = table.assign(w=np.where(table.county.eq("c003") & (table.index < 150), 0, table.w))
    found = Bags.from_dask(partitions(some, 8), **COLUMNS)
    expected = Bags.from_dataframe(some, **COLUMNS)
    assert_equal(found.sizes, expected.sizes)
    assert_allclose(found.totals, expected.totals)
    assert_allclose(found.effective_sizes, expected.effective_sizes)
    alike = [Bags.concatenate([b]).totals for b in (found.load(), expected)]
    assert_allclose(*alike)


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_missing_values(table, missing):
    gaps = table.mask(np.random.default_rng(1).random(table.shape) < 0.1)
    gaps[["county", "w", "y", "people"]] = table[["county", "w", "y", "people"]]
    gaps.loc[gaps.county == "c005", "age"] = np.nan
    dropped = r"^dropped \d+ of \d+ points with missing values \('"
    with pytest.warns(UserWarning, match=dropped) if missing == "drop" else nullcontext():
        found = Bags.from_dask(partitions(gaps, 6), **COLUMNS, missing=missing)
    with pytest.warns(UserWarning, match=dropped) if missing == "drop" else nullcontext():
        expected = Bags.from_dataframe(gaps, **COLUMNS, missing=missing)
    assert list(found.ids) == list(expected.ids) and found.features == expected.features
    assert_equal(found.sizes, expected.sizes)
    assert_allclose(
        np.sort(found.load().points, axis=0), np.sort(expected.points, axis=0), rtol=1e-14
    )


def test_dropped_rows_are_counted_once_for_all_parts(table):
    gaps = table.assign(age=table.age.where(table.county != "c005"))
    n = int((gaps.county == "c005").sum())
    with pytest.warns(UserWarning, match="dropped") as caught:
        Bags.from_dask(partitions(gaps, 6), **COLUMNS, missing="drop")
    assert [str(w.message) for w in caught] == [
        f"dropped {n} of {len(gaps)} points with missing values ('age' {n}); 1 bags have no other "
        "points and are dropped"
    ]


def test_read_like_a_fit(table, lazy, in_memory):
    new = table[table.region != "west"]
    found = Bags.from_dask(partitions(new, 3), **COLUMNS, like=in_memory)
    assert found.features == in_memory.features
    assert_same_bags(found, Bags.from_dataframe(new, **COLUMNS, like=in_memory))
    by_itself = Bags.from_dask(partitions(new, 3), **COLUMNS)
    assert by_itself.like(lazy.columns).features == lazy.features
    assert lazy.like(None) is lazy


def test_constant_columns_are_told_once(table):
    odd = table.assign(one=1.0, size=table.people / 100)
    with pytest.warns(UserWarning, match="constant") as caught:
        Bags.from_dask(partitions(odd, 4), **COLUMNS)
    assert [str(w.message) for w in caught] == [
        "constant columns, which carry no information: 'one'; columns that are the same for all "
        "points of a bag: 'size'; name the label and covariates of the bags in metadata= and leave "
        "them out of the features"
    ]


# ------------------------------------------------------------------ errors


def changed(column, row, value):
    def change(table):
        table = table.astype({column: object}) if isinstance(value, str) else table.copy()
        table.loc[row, column] = value
        return table

    return change


BAD = {
    "an id is missing": (
        changed("county", 250, None),
        ValueError,
        "partition 1: row 124 has no bag: column 'county' is missing (1 in total)",
    ),
    "a value is missing": (
        changed("age", 9, np.nan),
        ValueError,
        "partition 0: missing values in the columns 'age' 1",
    ),
    "a value is infinite": (changed("age", 9, np.inf), ValueError, "partition 0: bag"),
    "a weight is negative": (changed("w", 400, -1.0), ValueError, "weight is -1"),
    "a label differs within a bag": (
        changed("y", 300, 99.0),
        ValueError,
        "column 'y' is not constant in bag",
    ),
    "no weight in a bag": (
        lambda table: table.assign(w=table.w.where(table.county != "c003", 0.0)),
        ValueError,
        "all weights of bag 3 (id 'c003') are zero",
    ),
    "no rows": (lambda table: table[:0], ValueError, "no part of the table has a row"),
}


@pytest.mark.parametrize(("change", "kind", "words"), BAD.values(), ids=BAD)
def test_bad_values_are_told_in_a_sentence(table, change, kind, words):
    with pytest.raises(kind) as raised:
        Bags.from_dask(partitions(change(table), 5), **COLUMNS)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def parts_of_kinds(first, second):
    """A Dask DataFrame whose partitions hold values of two kinds, whatever it says of them."""
    same = {"town": ["a", "b", "b"], "x": [1.0, 2.0, 3.0]}
    tables = [dask.delayed(pd.DataFrame)(same | changes) for changes in (first, second)]
    return dd.from_delayed(tables, meta=pd.DataFrame(same), verify_meta=False)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            {"x": ["u", "v", "u"]},
            "column 'x' holds texts in partition 1, but numbers in partition 0: give it one kind",
        ),
        (
            {"town": [1, 2, 2]},
            "column 'town' holds numbers in partition 1, but other values in partition 0",
        ),
    ],
)
def test_partitions_of_several_kinds(second, words):
    with pytest.raises(TypeError) as raised:
        Bags.from_dask(parts_of_kinds({}, second), "town")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda t, b: Bags.from_dask(t, "county"), TypeError, "use Bags.from_dataframe"),
        (lambda t, b: Bags.from_dask(partitions(t, 2), "town"), ValueError, "no column 'town'"),
        (lambda t, b: iter(b), TypeError, "use bags.load()"),
        (lambda t, b: b[[1, 1]], ValueError, "selected once"),
        (lambda t, b: b[[99]], IndexError, "99"),
        (lambda t, b: b.take([0], axis=1), ValueError, "axis=1"),
        (lambda t, b: MERR().fit(b, np.arange(40.0)), TypeError, "bags.load()"),
        (lambda t, b: tune(b, np.arange(40.0), models=[BDR()], cv=3), TypeError, "bags.load()"),
        (lambda t, b: BDR().fit(b, np.arange(39.0)), ValueError, "39 labels"),
        (lambda t, b: BDR().fit(b[:0], []), ValueError, "no bags"),
    ],
)
def test_mistakes(table, lazy, call, kind, words):
    with pytest.raises(kind) as raised:
        call(table, lazy)
    assert words in str(raised.value)


def test_dask_is_named_where_it_is_missing(monkeypatch, table):
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[dask\]'"):
        Bags.from_dask(table, "county")


# ------------------------------------------------------------------ clients


def test_the_running_client_computes(table, in_memory):
    ddf = partitions(table, 4)
    with Client(processes=False, n_workers=2, dashboard_address=None) as client:
        found = Bags.from_dask(ddf, **COLUMNS)
        assert_same_bags(found, in_memory)
        assert_equal(np.sort(found.load().points, 0), np.sort(in_memory.points, 0))
        assert any(client.run(lambda dask_worker: len(dask_worker.state.log)).values())
        with pytest.raises(ValueError, match="partition 0: row 2 has no bag"):
            Bags.from_dask(partitions(changed("county", 2, None)(table), 5), **COLUMNS)
    assert_same_bags(found.load(), in_memory)  # now without one
