"""Every way into Bags, and every sentence about what cannot be read."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_equal

from bdr_stan.bags import Bags

# Tables of a few rows; tests/bags/test_columns.py asserts these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:constant columns:UserWarning"),
    pytest.mark.filterwarnings("ignore:columns that are the same for all points:UserWarning"),
]


@pytest.fixture
def people():
    return pd.DataFrame(
        {
            "county": ["b", "a", "b", "c", "a"],
            "age": [1, 2, 3, 4, 5],
            "income": [0.1, 0.2, 0.3, 0.4, 0.5],
            "employed": [True, False, True, True, False],
            "name": list("vwxyz"),
            "weight": [1.0, 2.0, 3.0, 4.0, 5.0],
            "region": ["N", "S", "N", "W", "S"],
        }
    )


def test_from_list(bags, arrays):
    assert_equal(list(bags), arrays)
    np.testing.assert_array_equal(bags.offsets, [0, 3, 4, 8, 10, 15])
    np.testing.assert_array_equal(bags.sizes, [3, 1, 4, 2, 5])
    assert bags.offsets.dtype == bags.sizes.dtype == np.int64
    assert bags.n_features == 2 and bags.points.shape == (15, 2)
    assert bags.points.flags.c_contiguous
    assert not hasattr(bags, "shape")


def test_from_points_groups_stably_in_order_of_first_appearance():
    points = np.arange(7.0)[:, None]
    bags = Bags.from_points(
        points, bag=["k", "b", "k", "a", "b", "k", "a"], weights=np.arange(1.0, 8.0)
    )
    assert list(bags.ids) == ["k", "b", "a"]
    assert_equal(list(bags), [[[0], [2], [5]], [[1], [4]], [[3], [6]]])
    np.testing.assert_array_equal(bags.weights, [1, 3, 6, 2, 5, 4, 7])


def test_from_points_with_sizes_or_grouped_index_share_the_points(rng):
    points = rng.normal(size=(6, 2))
    by_size = Bags.from_points(points, sizes=[1, 3, 2], ids=[7, 5, 9], copy=False)
    by_index = Bags.from_points(points, bag=[7, 5, 5, 5, 9, 9], copy=False)
    for bags in (by_size, by_index):
        assert np.shares_memory(bags.points, points)
        assert_equal(list(bags), [points[:1], points[1:4], points[4:]])
        assert list(bags.ids) == [7, 5, 9]


def test_ungrouped_memory_map_must_be_sorted(mapped):
    with pytest.raises(ValueError, match="do not lie together in the memory map: sort the file"):
        Bags.from_points(mapped, bag=np.arange(20) % 3)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_from_dataframe(people, kind):
    df = {
        "pandas": people,
        "polars": pl.from_pandas(people),
        "pyarrow": pa.Table.from_pandas(people),
    }[kind]
    features = ["age", "income", "employed"]
    bags = Bags.from_dataframe(df, "county", features, weight="weight", metadata=["region"])
    assert list(bags.ids) == ["a", "b", "c"]
    assert bags.features == ["age", "income", "employed"]
    assert_equal(
        list(bags), [[[2, 0.2, 0], [5, 0.5, 0]], [[1, 0.1, 1], [3, 0.3, 1]], [[4, 0.4, 1]]]
    )
    np.testing.assert_array_equal(bags.weights, [2, 5, 1, 3, 4])
    assert bags.metadata["region"].to_dict() == {"b": "N", "a": "S", "c": "W"}
    chosen = Bags.from_dataframe(df, "county", features=["income", "age"])
    np.testing.assert_array_equal(chosen[2], [[0.4, 4]])
    assert chosen.weights is None and chosen.metadata is None


def test_from_dataframe_keeps_float32(people):
    df = people[["county"]].assign(a=np.float32(0.1), b=np.float32(0.2))
    assert Bags.from_dataframe(df, "county").points.dtype == np.float32
    assert Bags.from_dataframe(df.assign(c=1), "county").points.dtype == np.float64


@pytest.mark.parametrize("features", [None, ["income", "age"]])
def test_from_parquet_and_csv(people, tmp_path, features):
    people.to_parquet(tmp_path / "people.parquet")
    people.to_csv(tmp_path / "people.csv", index=False)
    options = {"features": features, "weight": "weight", "metadata": ["region"]}
    frame = Bags.from_dataframe(people, "county", **options)
    for bags in (
        Bags.from_parquet(tmp_path / "people.parquet", "county", **options),
        Bags.from_csv(tmp_path / "people.csv", "county", **options),
    ):
        assert_equal(list(bags), list(frame))
        assert list(bags.ids) == ["a", "b", "c"] and bags.features == frame.features
        np.testing.assert_array_equal(bags.weights, frame.weights)
        assert list(bags.metadata["region"]) == ["S", "N", "W"]


def test_from_parquet_leaves_out_the_index_of_pandas(people, tmp_path):
    numbers = people.drop(columns=["name", "region"])
    numbers.set_index(people.index * 2 + 1).to_parquet(tmp_path / "people.parquet")
    bags = Bags.from_parquet(tmp_path / "people.parquet", "county")
    assert bags.features == ["age", "income", "employed", "weight"]


def test_many_columns():
    df = pd.DataFrame(np.ones((3, 100))).add_prefix("x").assign(bag=1)
    assert Bags.from_dataframe(df, "bag").n_features == 100


def test_from_csv_passes_options_on(tmp_path):
    (tmp_path / "a.csv").write_text("fips;x\n01001;1\n01003;2\n")
    bags = Bags.from_csv(tmp_path / "a.csv", "fips", sep=";", dtype={"fips": str})
    assert list(bags.ids) == ["01001", "01003"]


def test_csv_files_in_other_formats_are_answered(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Gemeinde;alter\n1;2,5\n")
    with pytest.raises(ValueError, match="one column, 'Gemeinde;alter': pass sep=';', and decimal"):
        Bags.from_csv(path, "Gemeinde")
    path.write_text("Gemeinde,alter\nMünchen,2\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"is not in UTF-8 .*: pass encoding='latin-1'"):
        Bags.from_csv(path, "Gemeinde")
    assert Bags.from_csv(path, "Gemeinde", encoding="latin-1").ids[0] == "München"


@pytest.mark.parametrize("bag", [["county", "name"], ["county"], ("county", "name")])
def test_several_columns_are_not_one(people, tmp_path, bag):
    advice = "pass 'county'$" if len(bag) == 1 else "join several columns into one$"
    people.to_csv(tmp_path / "a.csv")
    people.to_parquet(tmp_path / "a.parquet")
    for call in (
        lambda: Bags.from_dataframe(people, bag),
        lambda: Bags.from_csv(tmp_path / "a.csv", bag),
        lambda: Bags.from_parquet(tmp_path / "a.parquet", bag),
        lambda: Bags.from_parquet(tmp_path / "a.parquet", bag, lazy=True),
    ):
        with pytest.raises(TypeError, match=f"^bag must be the name of one column, .*: {advice}"):
            call()
    with pytest.raises(TypeError, match=r"^weight must be .*: pass 'weight'$"):
        Bags.from_dataframe(people, "county", ["age"], weight=["weight"])
    with pytest.raises(TypeError, match=r"^each of features must be .*: pass 'age'$"):
        Bags.from_dataframe(people, "county", [["age"]])


def test_columns_of_another_table_are_joined_first(people):
    with pytest.raises(ValueError, match=r"join another table to it first, .*on='county'\)$"):
        Bags.from_dataframe(people, "county", ["age"], metadata=["turnout"])


def test_parquet_without_pyarrow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'bdr-stan\[parquet\]'"):
        Bags.from_parquet(tmp_path / "people.parquet", "county")


def test_missing_file(tmp_path):
    for read in (Bags.from_csv, Bags.from_parquet):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.dat"):
            read(tmp_path / "none.dat", "county")


def bad_arrays():
    ones = np.ones((3, 2))
    yield lambda: Bags.from_list([]), ValueError, "there are no bags"
    yield (
        lambda: Bags.from_list([ones, ones[:0]], ids=["p", "q"]),
        ValueError,
        r"bag 1 \(id 'q'\) has no points: leave it out",
    )
    yield (
        lambda: Bags.from_points(ones, sizes=[2, 0, 1, 0]),
        ValueError,
        r"bag 1 has no points \(2 in total\)",
    )
    yield (
        lambda: Bags.from_list([ones, np.ones((2, 3))]),
        ValueError,
        "bag 1 has points of 3 features, but bag 0 of 2: give every bag the same columns",
    )
    yield (
        lambda: Bags.from_list([ones, np.ones(4)]),
        ValueError,
        r"bag 1 is 1-D with shape \(4,\), .* pass array.reshape\(-1, 1\)",
    )
    yield (
        lambda: Bags.from_list([ones, np.ones((1, 2, 2))]),
        ValueError,
        r"bag 1 has shape \(1, 2, 2\), expected \(n_points, p\)",
    )
    yield (lambda: Bags.from_list([[[1, 2], [3]]]), ValueError, "bag 0 is ragged")
    yield (
        lambda: Bags.from_list([ones, [["a", "b"]]]),
        TypeError,
        "bag 1 holds text such as 'a', not numbers: encode or leave out such columns",
    )
    yield (
        lambda: Bags.from_points(ones, sizes=[1, 1]),
        ValueError,
        "sizes sum to 2, but there are 3 points",
    )
    yield lambda: Bags.from_points(ones, sizes=[4, -1]), ValueError, "size of bag 1 is negative"
    yield lambda: Bags.from_points(ones, sizes=[1.5, 1.5]), TypeError, "sizes must be .* integers"
    yield lambda: Bags.from_points(ones), TypeError, "exactly one of bag .* and sizes"
    yield (
        lambda: Bags.from_points(ones, bag=[1, 1]),
        ValueError,
        r"bag has shape \(2,\), expected \(3,\): one per point",
    )
    yield (
        lambda: Bags.from_points(ones, bag=[1, np.nan, 2]),
        ValueError,
        r"point 1 has no bag \(1 in total\)",
    )
    yield (
        lambda: Bags.from_points(ones, bag=[1, 1, 2], ids=[1, 2]),
        TypeError,
        "ids come from bag",
    )
    yield (
        lambda: Bags.from_list([ones], weights=[[1, 2]]),
        ValueError,
        r"the weights of bag 0 have shape \(2,\), expected \(3,\)",
    )
    yield (
        lambda: Bags.from_list([ones], weights=[]),
        ValueError,
        "weights has 0 arrays, but there are 1 bags",
    )


@pytest.mark.parametrize(("make", "error", "message"), list(bad_arrays()))
def test_bad_arrays(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "arguments", "error", "message"),
    [
        ({}, {"bag": "conty"}, ValueError, "no column 'conty': did you mean 'county'?"),
        ({}, {"features": ["agee"]}, ValueError, "no column 'agee': did you mean 'age'"),
        ({}, {"weight": "zzz"}, ValueError, "no column 'zzz': it has 'county', 'age'"),
        ({}, {"features": "age"}, TypeError, r"features must be a list .* pass \['age'\]"),
        ({}, {"weight": "name"}, TypeError, "column 'name' holds String, not numbers"),
        ({}, {"metadata": ["age"]}, ValueError,
         r"column 'age' is not constant in bag 1 \(id 'b'\): 1 and 3; it must have one value"),
        ({"county": ["b", None, "b", "c", "a"]}, {}, ValueError,
         r"row 1 has no bag: column 'county' is missing \(1 in total\)"),
        ({"age": [1, None, 3, 4, 5]}, {}, ValueError, "missing values in the columns 'age' 1:"),
        ({"age": [1, np.inf, 3, 4, 5]}, {}, ValueError,
         r"bag 0 \(id 'a'\), point 0, column 0 \('age'\): value is inf"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("convert", [lambda df: df, pl.from_pandas], ids=["pandas", "polars"])
def test_bad_table(people, convert, change, arguments, error, message):
    with pytest.raises(error, match=message):
        Bags.from_dataframe(convert(people.assign(**change)), **({"bag": "county"} | arguments))


def test_table_without_rows_features_or_table(people):
    with pytest.raises(ValueError, match="the table has no rows"):
        Bags.from_dataframe(people[:0], "county")
    with pytest.raises(ValueError, match="the table has no column left to be a feature"):
        Bags.from_dataframe(people[["county"]], "county")
    with pytest.raises(TypeError, match="expected a pandas, polars or pyarrow .*, found dict"):
        Bags.from_dataframe({"county": [1]}, "county")


def test_missing_column_in_a_file(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    people.to_csv(tmp_path / "people.csv", index=False)
    for read, name in ((Bags.from_parquet, "people.parquet"), (Bags.from_csv, "people.csv")):
        with pytest.raises(ValueError, match=r"no column 'incom': did you mean 'income'\?"):
            read(tmp_path / name, "county", features=["incom"])


def test_bags_of_a_table_come_in_the_order_of_their_ids(rng):
    """In a shuffled table large bags appear first: their order would tell their size."""
    county = np.repeat(np.arange(50), np.arange(1, 51))
    table = pd.DataFrame({"county": county, "x": rng.normal(size=len(county))})
    shuffled = table.sample(frac=1, random_state=1)
    bags = Bags.from_dataframe(shuffled, bag="county")
    np.testing.assert_array_equal(bags.ids, np.arange(50))
    np.testing.assert_array_equal(bags.sizes, np.arange(1, 51))
    for k in (0, 20, 49):
        np.testing.assert_array_equal(
            bags[k][:, 0], shuffled["x"][shuffled["county"] == k].to_numpy()
        )


def test_ids_of_several_kinds_are_ordered_by_their_text(rng):
    table = pd.DataFrame({"bag": ["b", 2, "a", 2], "x": [1.0, 2.0, 3.0, 4.0]})
    bags = Bags.from_dataframe(table, bag="bag", features=["x"])
    assert list(bags.ids) == [2, "a", "b"]
    np.testing.assert_array_equal(bags.points[:, 0], [2, 4, 3, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["x", "x"]}, "features names the column 'x' twice"),
        ({"features": ["x", "bag"]}, "column 'bag' is both bag and among the features"),
        ({"features": ["x", "y"], "metadata": ["y"]}, "column 'y' is both metadata and among"),
        ({"features": ["x", "w"], "weight": "w"}, "column 'w' is both weight and among"),
    ],
)
def test_a_column_has_one_role(arguments, message):
    table = pd.DataFrame({"bag": [0, 0, 1], "x": [1.0, 2, 3], "y": [1, 1, 2], "w": [1.0, 1, 1]})
    with pytest.raises(ValueError, match=message):
        Bags.from_dataframe(table, bag="bag", **arguments)


def test_masked_values_are_refused():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, -9999.0]], mask=[[0, 0], [0, 1]])
    with pytest.raises(ValueError, match="bag 1 has 1 masked value"):
        Bags.from_list([np.ones((2, 2)), masked])
    with pytest.raises(ValueError, match="points has 1 masked value"):
        Bags.from_points(masked, sizes=[2])
    assert len(Bags.from_list([np.ma.masked_array([[1.0]], mask=False)])) == 1


def test_frames_with_reordered_columns_are_refused():
    frame = pd.DataFrame({"age": [1.0], "income": [2.0]})
    with pytest.raises(ValueError, match="bag 1 is a table with the columns income, age"):
        Bags.from_list([frame, frame[["income", "age"]]])
