"""Parquet files whose points stay on disk."""

import sys

import dask
import numpy as np
import pandas as pd
import pytest
from builders.partitions import COLUMNS, parquet_folder, people_table
from numpy.testing import assert_allclose, assert_equal
from sklearn.preprocessing import StandardScaler

from bdr_stan import Bags
from bdr_stan.bags import files as bag_files


@pytest.fixture(autouse=True, scope="module")
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    return parquet_folder(table, tmp_path_factory.mktemp("data") / "my project (copy) [1]")


def in_order(points):
    return points[np.lexsort(points.T)]


def assert_same_points(lazy, bags):
    assert list(lazy.ids) == list(bags.ids) and lazy.features == bags.features
    assert_equal(lazy.sizes, bags.sizes)
    assert_allclose(in_order(lazy.load().points), in_order(bags.points))


@pytest.mark.parametrize("place", ["folder", "file", "pattern", "pattern of folders"])
def test_a_folder_a_file_or_a_pattern(table, folder, tmp_path, place):
    path, rows = folder, slice(None)
    if place == "file":
        path, rows = folder / "part.0.parquet", np.array_split(table.index, 3)[0]
    if place.startswith("pattern"):
        parquet_folder(table, tmp_path / "points" / "here")
        path = tmp_path / "points" / ("here/*.parquet" if place == "pattern" else "**/*.parquet")
    expected = Bags.from_dataframe(table.loc[rows], **COLUMNS)
    assert_same_points(Bags.from_parquet(str(path), **COLUMNS, lazy=True), expected)
    found = Bags.from_parquet(path, **COLUMNS)
    assert list(found.ids) == list(expected.ids)
    assert_allclose(in_order(found.points), in_order(expected.points))


@pytest.mark.parametrize("rows", [1, 150, 10**6])
def test_parts_do_not_matter(table, folder, monkeypatch, rows):
    monkeypatch.setattr(bag_files, "_PART_BYTES", rows * 8 * 7)
    lazy = Bags.from_parquet(folder, **COLUMNS, lazy=True)
    assert lazy.n_parts == {1: 9, 150: 6, 10**6: 1}[rows]  # files of 210, row groups of 100
    rows = np.array([500, 3, 99, 100])
    expected = table[["age", "income"]].to_numpy()[rows]
    assert_equal(lazy.read_rows(rows)[:, :2], expected)
    assert_same_points(lazy, Bags.from_dataframe(table, **COLUMNS))


def test_only_the_columns_that_are_named_are_read(folder, monkeypatch):
    read = []
    monkeypatch.setattr(
        bag_files, "read_groups", lambda of, columns: read.append(columns) or actual(of, columns)
    )
    bags = Bags.from_parquet(folder, "county", ["age"], lazy=True)
    assert bags.features == ["age"] and {tuple(c) for c in read} == {("county", "age")}


actual = bag_files.read_groups


def test_names_of_folders_are_columns(table, tmp_path):
    for name, rows in table.groupby("region"):
        parquet_folder(rows.drop(columns="region"), tmp_path / "all" / f"region={name}", 2)
    assert_same_points(
        Bags.from_parquet(tmp_path / "all", **COLUMNS, lazy=True),
        Bags.from_parquet(tmp_path / "all", **COLUMNS),
    )


def test_an_empty_column_of_one_file_is_missing_values(table, tmp_path):
    first, second = table[:300].assign(region=None), table[300:]
    for k, rows in enumerate((first, second)):
        parquet_folder(rows, tmp_path / "all" / f"{k}", 1)
    options = {**COLUMNS, "missing": "indicator"}
    expected = Bags.from_dataframe(pd.concat([first, second]), **options)
    assert_same_points(Bags.from_parquet(tmp_path / "all", **options, lazy=True), expected)


def files(tmp_path, **changes):
    """A folder of two files, the second changed."""
    parquet_folder(people_table(), tmp_path / "all" / "a", 1)
    parquet_folder(people_table().assign(**changes), tmp_path / "all" / "b", 1)
    return tmp_path / "all"


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        (
            {"income": "high"},
            TypeError,
            "column 'income' holds numbers in {a}, but texts in {b}: give it one kind",
        ),
        ({"county": 3}, TypeError, "column 'county' holds texts in {a}, but numbers in {b}"),
        ({"more": 1.0}, ValueError, "{b} has a column 'more', which {a} lacks"),
        ({"income": np.inf}, ValueError, "{where}bag"),
    ],
)
@pytest.mark.parametrize("lazy", [True, False])
def test_files_that_differ(tmp_path, changes, kind, words, lazy):
    path = files(tmp_path, **changes)
    a, b = (path / name / "part.0.parquet" for name in "ab")
    with pytest.raises(kind) as raised:
        Bags.from_parquet(path, **COLUMNS, lazy=lazy)
    expected = words.format(a=a, b=b, where=f"{a} to {b}: " if lazy else "")
    assert expected in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("lazy", [True, False])
def test_a_file_lacks_a_column(tmp_path, table, lazy):
    path = files(tmp_path)
    second = path / "b" / "part.0.parquet"
    table.drop(columns="age").to_parquet(second)
    with pytest.raises(ValueError, match="has no column 'age', which"):
        Bags.from_parquet(path, **COLUMNS, features=["age"], lazy=lazy)


def test_columns_that_are_not_asked_for_may_differ(tmp_path):
    path = files(tmp_path, more=1.0)
    bags = Bags.from_parquet(path, "county", ["age", "income"], lazy=True)
    assert bags.n_points == 2 * len(people_table())


def test_mistakes(folder, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.parquet").write_text("no table")
    for path, kind, words in (
        (tmp_path / "empty", FileNotFoundError, "holds no file that ends in .parquet"),
        (tmp_path / "none" / "*.parquet", FileNotFoundError, "there is no file"),
        (tmp_path / "a.parquet", ValueError, "a.parquet is not a Parquet file"),
    ):
        for lazy in (True, False):
            with pytest.raises(kind, match=words):
                Bags.from_parquet(path, "county", lazy=lazy)
    with pytest.raises(ValueError, match="lazy=True takes no transformer"):
        Bags.from_parquet(folder, "county", lazy=True, transformer=StandardScaler())
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[dask\]'"):
        Bags.from_parquet(folder, "county", lazy=True)
