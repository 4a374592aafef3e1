"""Every way into Bags, what comes out again, and every sentence about bad input."""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.utils import _safe_indexing

from bdr_stan.bags import Bags, as_bags, check_labels


@pytest.fixture
def arrays(rng):
    return [rng.normal(size=(n, 2)) for n in (3, 1, 4, 2, 5)]


@pytest.fixture
def bags(arrays):
    return Bags.from_list(
        arrays,
        ids=list("abcde"),
        weights=[np.arange(1.0, len(a) + 1) for a in arrays],
        metadata=pd.DataFrame({"region": list("NSNSN")}),
        features=["age", "income"],
    )


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


def assert_same(bags, arrays):
    assert len(bags) == len(arrays)
    for bag, array in zip(bags, arrays):
        np.testing.assert_array_equal(bag, array)


# ways in


def test_from_list(bags, arrays):
    assert_same(bags, arrays)
    np.testing.assert_array_equal(bags.offsets, [0, 3, 4, 8, 10, 15])
    np.testing.assert_array_equal(bags.sizes, [3, 1, 4, 2, 5])
    assert bags.offsets.dtype == bags.sizes.dtype == np.int64
    assert bags.n_features == 2 and bags.points.shape == (15, 2)
    assert bags.points.flags.c_contiguous
    assert not hasattr(bags, "shape")


def test_effective_sizes(bags, arrays):
    np.testing.assert_array_equal(Bags.from_list(arrays).effective_sizes, [3, 1, 4, 2, 5])
    kish = [sum(range(1, n + 1)) ** 2 / sum(k**2 for k in range(1, n + 1)) for n in bags.sizes]
    np.testing.assert_allclose(bags.effective_sizes, kish)
    tiny = Bags(bags.points, bags.offsets, weights=bags.weights * 1e-250)
    np.testing.assert_allclose(tiny.effective_sizes, kish)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("float32", "float32"), ("float64", "float64"), ("int8", "float64"), ("bool", "float64")],
)
def test_dtypes(given, kept):
    points = np.array([[0, 1], [1, 1], [1, 0]]).astype(given)
    for bags in (Bags(points, [0, 1, 3]), Bags.from_list([points[:1], points[1:]])):
        assert bags.points.dtype == kept
        np.testing.assert_array_equal(bags.points, points.astype(kept))


def test_mixed_dtypes_become_float64():
    bags = Bags.from_list([np.ones((2, 1), np.float32), np.ones((1, 1))])
    assert bags.points.dtype == np.float64


def test_points_are_neither_copied_nor_changed(rng):
    points = rng.normal(size=(6, 2))
    before = points.copy()
    assert np.shares_memory(Bags(points, [0, 2, 6]).points, points)
    np.testing.assert_array_equal(points, before)


def test_from_points_groups_stably_in_order_of_first_appearance():
    points = np.arange(7.0)[:, None]
    bags = Bags.from_points(
        points, bag=["k", "b", "k", "a", "b", "k", "a"], weights=np.arange(1.0, 8.0)
    )
    assert list(bags.ids) == ["k", "b", "a"]
    assert_same(bags, [[[0], [2], [5]], [[1], [4]], [[3], [6]]])
    np.testing.assert_array_equal(bags.weights, [1, 3, 6, 2, 5, 4, 7])


def test_from_points_with_sizes_or_grouped_index_share_the_points(rng):
    points = rng.normal(size=(6, 2))
    by_size = Bags.from_points(points, sizes=[1, 3, 2], ids=[7, 5, 9])
    by_index = Bags.from_points(points, bag=[7, 5, 5, 5, 9, 9])
    for bags in (by_size, by_index):
        assert np.shares_memory(bags.points, points)
        assert_same(bags, [points[:1], points[1:4], points[4:]])
        assert list(bags.ids) == [7, 5, 9]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_from_dataframe(people, kind):
    df = {
        "pandas": people,
        "polars": pl.from_pandas(people),
        "pyarrow": pa.Table.from_pandas(people),
    }[kind]
    bags = Bags.from_dataframe(df, "county", weight="weight", metadata=["region"])
    assert list(bags.ids) == ["b", "a", "c"]
    assert bags.features == ["age", "income", "employed"]
    assert_same(bags, [[[1, 0.1, 1], [3, 0.3, 1]], [[2, 0.2, 0], [5, 0.5, 0]], [[4, 0.4, 1]]])
    np.testing.assert_array_equal(bags.weights, [1, 3, 2, 5, 4])
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
        assert_same(bags, list(frame))
        assert list(bags.ids) == ["b", "a", "c"] and bags.features == frame.features
        np.testing.assert_array_equal(bags.weights, frame.weights)
        assert list(bags.metadata["region"]) == ["N", "S", "W"]


def test_from_parquet_leaves_out_the_index_of_pandas(people, tmp_path):
    people.set_index(people.index * 2 + 1).to_parquet(tmp_path / "people.parquet")
    bags = Bags.from_parquet(tmp_path / "people.parquet", "county")
    assert bags.features == ["age", "income", "employed", "weight"]


def test_many_columns():
    df = pd.DataFrame(np.ones((3, 100))).add_prefix("x").assign(bag=1)
    assert Bags.from_dataframe(df, "bag").n_features == 100


def test_from_csv_passes_options_on(tmp_path):
    (tmp_path / "a.csv").write_text("fips;x\n01001;1\n01003;2\n")
    bags = Bags.from_csv(tmp_path / "a.csv", "fips", sep=";", dtype={"fips": str})
    assert list(bags.ids) == ["01001", "01003"]


def test_parquet_without_pyarrow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'bdr-stan\[parquet\]'"):
        Bags.from_parquet(tmp_path / "people.parquet", "county")


def test_missing_file(tmp_path):
    for read in (Bags.from_csv, Bags.from_parquet):
        with pytest.raises(FileNotFoundError, match="there is no file .*none.dat"):
            read(tmp_path / "none.dat", "county")


def test_as_bags(bags, arrays):
    assert as_bags(bags) is bags
    assert_same(as_bags(arrays), arrays)
    assert_same(as_bags(tuple(arrays)), arrays)
    boxed = np.empty(len(arrays), object)
    boxed[:] = arrays
    assert_same(as_bags(boxed), arrays)
    equal = np.arange(12.0).reshape(2, 3, 2)
    assert_same(as_bags(equal), list(equal))
    assert_same(as_bags([[[1, 2], [3, 4]], [[5, 6]]]), [[[1, 2], [3, 4]], [[5, 6]]])


# selection


def test_one_bag(bags, arrays):
    for i in (0, 4, -1, np.int64(2)):
        np.testing.assert_array_equal(bags[i], arrays[i])
        assert np.shares_memory(bags[i], bags.points)
    for i in (5, -6):
        with pytest.raises(IndexError):
            bags[i]


@pytest.mark.parametrize(
    "key",
    [
        slice(1, 4), slice(None, None, -2), slice(2, 2), [3, 0, 0, -1], np.array([4, 1]),
        np.array([True, False, False, True, True]), [True, False, False, False, True], [],
    ],
)  # fmt: skip
def test_several_bags(bags, arrays, key):
    chosen, expected = (
        bags[key],
        np.arange(5)[np.array(key, int) if isinstance(key, list) and not key else key],
    )
    assert isinstance(chosen, Bags)
    assert_same(chosen, [arrays[i] for i in expected])
    np.testing.assert_array_equal(chosen.sizes, bags.sizes[expected])
    np.testing.assert_array_equal(chosen.ids, bags.ids[expected])
    assert list(chosen.metadata["region"]) == [list("NSNSN")[i] for i in expected]
    assert chosen.features == bags.features
    weights = [bags.weights[bags.offsets[i] : bags.offsets[i + 1]] for i in expected]
    np.testing.assert_array_equal(chosen.weights, np.concatenate([*weights, []]))
    np.testing.assert_array_equal(chosen.effective_sizes, bags.effective_sizes[expected])


def test_ranges_share_points_and_others_do_not(bags):
    for chosen in (bags[1:4], bags.take([1, 2, 3]), bags[bags.sizes > 2][:1]):
        assert chosen.points.flags.c_contiguous
    assert np.shares_memory(bags[1:4].points, bags.points)
    assert np.shares_memory(bags.take([1, 2, 3]).points, bags.points)
    picked = bags.take([3, 1])
    assert not np.shares_memory(picked.points, bags.points)
    assert len(picked.points) == 3


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (lambda b: b[5:][0], "out of range"),
        (lambda b: b[[0, 5]], "out of bounds"),
        (lambda b: b[[True, False]], r"the mask has shape \(2,\), expected \(5,\)"),
        (lambda b: b[[0.5]], "1-D array of integers or booleans"),
    ],
)
def test_bad_selection(bags, select, message):
    with pytest.raises(IndexError, match=message):
        select(bags)


def test_bags_have_one_axis(bags):
    with pytest.raises(TypeError, match="bags have one index"):
        bags[:, 0]
    with pytest.raises(ValueError, match="bags have one axis, 0; found axis=1"):
        bags.take([0], axis=1)


class BagMean(RegressorMixin, BaseEstimator):
    """Predicts the mean of column 0, if it is given Bags."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y):
        assert isinstance(X, Bags) and len(X) == len(y)
        self.fitted_ = True
        return self

    def predict(self, X):
        assert isinstance(X, Bags)
        return np.array([self.factor * bag[:, 0].mean() for bag in X])


def test_scikit_learn_keeps_the_type(bags, rng):
    y = np.array([bag[:, 0].mean() for bag in bags])
    train, test, y_train, _ = train_test_split(bags, y, test_size=2, random_state=0)
    assert isinstance(train, Bags) and isinstance(test, Bags) and len(test) == 2
    np.testing.assert_allclose([bag[:, 0].mean() for bag in train], y_train)
    for key in ([3, 1], slice(1, 3), np.array([True, True, False, False, True])):
        assert isinstance(_safe_indexing(bags, key), Bags)
    many = Bags.from_list([rng.normal(size=(n % 3 + 1, 2)) for n in range(12)])
    y = np.array([bag[:, 0].mean() for bag in many])
    np.testing.assert_allclose(cross_val_score(BagMean(), many, y, cv=KFold(3)), 1)
    search = GridSearchCV(BagMean(), {"factor": [0.5, 1.0]}, cv=KFold(3, shuffle=True))
    assert search.fit(many, y).best_params_ == {"factor": 1.0}


def test_pickle(bags, arrays):
    copy = pickle.loads(pickle.dumps(bags))
    assert_same(copy, arrays)
    np.testing.assert_array_equal(copy.weights, bags.weights)
    assert list(copy.ids) == list("abcde") and copy.features == bags.features
    assert copy.metadata.equals(bags.metadata)


def test_repr(bags, tmp_path):
    text = "Bags(5 bags, 15 points, 2 features, sizes 1 / 3 / 5 (min / median / max), float64"
    assert repr(bags) == text + ", weighted)"
    assert repr(bags[:0]) == "Bags(0 bags, 2 features)"
    np.save(tmp_path / "points.npy", bags.points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    assert repr(Bags.from_points(mapped, sizes=bags.sizes)) == text + ", memory map)"


# memory maps


@pytest.fixture
def mapped(tmp_path, rng):
    np.save(tmp_path / "points.npy", rng.normal(size=(20, 2)))
    return np.load(tmp_path / "points.npy", mmap_mode="r")


@pytest.mark.parametrize("how", [{"sizes": [5, 15]}, {"bag": np.repeat([4, 3], [5, 15])}])
def test_memory_map_is_not_loaded(mapped, how):
    bags = Bags.from_points(mapped, **how)
    assert bags.is_memory_map and bags[1:].is_memory_map
    assert bags.points is mapped
    np.testing.assert_array_equal(bags[1], mapped[5:])


def test_bags_picked_from_a_memory_map_are_loaded(mapped):
    bags = Bags.from_points(mapped, sizes=[5, 10, 5])
    picked = bags.take([2, 0])
    assert not picked.is_memory_map
    assert_same(picked, [mapped[15:], mapped[:5]])


def test_ungrouped_memory_map_must_be_sorted(mapped):
    with pytest.raises(ValueError, match="do not lie together in the memory map: sort the file"):
        Bags.from_points(mapped, bag=np.arange(20) % 3)


def test_integer_memory_map_is_read_as_floats(tmp_path):
    np.save(tmp_path / "pixels.npy", np.arange(12, dtype=np.uint8).reshape(6, 2))
    bags = Bags.from_points(np.load(tmp_path / "pixels.npy", mmap_mode="r"), sizes=[4, 2])
    assert bags[0].dtype == bags.take([1, 0]).points.dtype == np.float64
    np.testing.assert_array_equal(bags[1], [[8, 9], [10, 11]])


def test_bad_values_in_a_memory_map_are_found_when_read(tmp_path):
    points = np.zeros((9, 2))
    points[7, 1] = np.inf
    np.save(tmp_path / "points.npy", points)
    bags = Bags.from_points(np.load(tmp_path / "points.npy", mmap_mode="r"), sizes=[3, 3, 3])
    message = r"bag 2, point 1, column 1: value is inf \(1 such in all\)"
    with pytest.raises(ValueError, match=message):
        bags.check_values()
    with pytest.raises(ValueError, match=message):
        bags.take([2, 0])


# bad input


def with_value(value):
    points = np.ones((6, 2))
    points[4, 1] = value
    return points


def bad_bags():
    ones = np.ones((3, 2))
    yield lambda: Bags.from_list([]), ValueError, "there are no bags"
    yield lambda: Bags(np.empty((0, 2)), [0]), ValueError, "there are no bags"
    yield (
        lambda: Bags.from_list([ones, ones[:0]], ids=["p", "q"]),
        ValueError,
        r"bag 1 \(id 'q'\) has no points: leave it out",
    )
    yield (
        lambda: Bags.from_points(ones, sizes=[2, 0, 1, 0]),
        ValueError,
        r"bag 1 has no points \(2 such in all\)",
    )
    yield (
        lambda: Bags(with_value(np.nan), [0, 2, 6], ids=["p", "q"], features=["x", "y"]),
        ValueError,
        r"bag 1 \(id 'q'\), point 2, column 1 \('y'\): value is nan \(1 such",
    )
    yield (
        lambda: Bags(with_value(-np.inf), [0, 2, 6]),
        ValueError,
        "bag 1, point 2, column 1: value is -inf",
    )
    yield (
        lambda: Bags(with_value(-3.4e38), [0, 2, 6]),
        ValueError,
        r"value -3.4e\+38 looks like a nodata marker .* drop these points or fill them in",
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
        "bag 1 holds <U1, not numbers: encode or leave out such columns",
    )
    yield (
        lambda: Bags(np.ones(4), [0, 4]),
        ValueError,
        r"points is 1-D with shape \(4,\), .* points.reshape\(-1, 1\)",
    )
    yield lambda: Bags(np.ones((4, 0)), [0, 4]), ValueError, "expected .* with p >= 1"
    yield (
        lambda: Bags(ones, [0, 4]),
        ValueError,
        "offsets must rise from 0 to the number of points, 3; found 0 to 4",
    )
    yield lambda: Bags(ones, [0, 2.5, 3]), TypeError, "offsets must be a 1-D array of integers"
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
        r"bag has shape \(2,\), expected \(3,\): one a point",
    )
    yield (
        lambda: Bags.from_points(ones, bag=[1, np.nan, 2]),
        ValueError,
        r"point 1 has no bag \(1 such in all\)",
    )
    yield (
        lambda: Bags.from_points(ones, bag=[1, 1, 2], ids=[1, 2]),
        TypeError,
        "ids come from bag",
    )
    yield (
        lambda: Bags(ones, [0, 1, 3], weights=[1, 1, -2]),
        ValueError,
        r"bag 1, point 1: weight is -2 \(1 such in all\): weights must be finite and >= 0",
    )
    yield (
        lambda: Bags(ones, [0, 1, 3], weights=[1, np.nan, 2]),
        ValueError,
        "bag 1, point 0: weight is nan",
    )
    yield (
        lambda: Bags(ones, [0, 1, 3], weights=[1, 0, 0], ids=["p", "q"]),
        ValueError,
        r"all weights of bag 1 \(id 'q'\) are zero",
    )
    yield (
        lambda: Bags(ones, [0, 1, 3], weights=[1, 1]),
        ValueError,
        r"weights has shape \(2,\), expected \(3,\): one a point",
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
    yield (
        lambda: Bags(ones, [0, 1, 3], ids=["p", "p"]),
        ValueError,
        "bags 0 and 1 have the same id 'p'",
    )
    yield lambda: Bags(ones, [0, 1, 3], ids=["p"]), ValueError, r"ids has shape \(1,\)"
    yield (
        lambda: Bags(ones, [0, 1, 3], metadata=pd.DataFrame({"a": [1]})),
        ValueError,
        "metadata has 1 rows, but there are 2 bags",
    )
    yield (
        lambda: Bags(ones, [0, 3], features=["a"]),
        ValueError,
        "features names 1 columns, but points have 2",
    )
    yield (
        lambda: as_bags(ones),
        TypeError,
        r"single array of shape \(3, 2\), not bags: .* Bags.from_points\(points, bag=...\)",
    )
    yield lambda: as_bags(pd.DataFrame(ones)), TypeError, "use Bags.from_dataframe"
    yield lambda: as_bags("bags"), TypeError, "X is a str, not bags"


@pytest.mark.parametrize(("make", "error", "message"), list(bad_bags()))
def test_bad_bags(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_all_bad_values_are_counted():
    points = np.ones((300_000, 2))  # more than one block
    points[[5, 299_999], 1] = np.nan
    with pytest.raises(ValueError, match=r"bag 0, point 5, column 1: .* \(2 such in all\)"):
        Bags.from_points(points, sizes=[100_000] * 3)


@pytest.mark.parametrize(
    ("change", "arguments", "error", "message"),
    [
        ({}, {"bag": "conty"}, ValueError, "no column 'conty': did you mean 'county'?"),
        ({}, {"features": ["agee"]}, ValueError, "no column 'agee': did you mean 'age'"),
        ({}, {"weight": "zzz"}, ValueError, "no column 'zzz': it has 'county', 'age'"),
        ({}, {"features": "age"}, TypeError, r"features must be a list .* pass \['age'\]"),
        ({}, {"features": ["name"]}, TypeError, "column 'name' holds String, not numbers"),
        ({}, {"weight": "name"}, TypeError, "column 'name' holds String, not numbers"),
        ({}, {"metadata": ["age"]}, ValueError,
         r"column 'age' is not constant in bag 0 \(id 'b'\): 1 and 3; it must have one value"),
        ({"county": ["b", None, "b", "c", "a"]}, {}, ValueError,
         r"row 1 has no bag: column 'county' is missing \(1 such in all\)"),
        ({"age": [1, None, 3, 4, 5]}, {}, ValueError,
         r"bag 1 \(id 'a'\), point 0, column 0 \('age'\): value is nan"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("convert", [lambda df: df, pl.from_pandas], ids=["pandas", "polars"])
def test_bad_table(people, convert, change, arguments, error, message):
    with pytest.raises(error, match=message):
        Bags.from_dataframe(convert(people.assign(**change)), **({"bag": "county"} | arguments))


def test_table_without_rows_features_or_table(people):
    with pytest.raises(ValueError, match="the table has no rows"):
        Bags.from_dataframe(people[:0], "county")
    with pytest.raises(ValueError, match="no numeric column left"):
        Bags.from_dataframe(people[["county", "name"]], "county")
    with pytest.raises(TypeError, match="expected a pandas, polars or pyarrow table, found dict"):
        Bags.from_dataframe({"county": [1]}, "county")


def test_missing_column_in_a_file(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    people.to_csv(tmp_path / "people.csv", index=False)
    for read, name in ((Bags.from_parquet, "people.parquet"), (Bags.from_csv, "people.csv")):
        with pytest.raises(ValueError, match="no column 'incom': did you mean 'income'?"):
            read(tmp_path / name, "county", features=["incom"])


# labels


def test_check_labels(bags):
    labels = check_labels(bags, [1, 2, 3, 4, 5])
    assert labels.dtype == np.float64
    np.testing.assert_array_equal(labels, [1, 2, 3, 4, 5])
    series = pd.Series([True, False, True, True, True], index=list("vwxyz"))
    np.testing.assert_array_equal(check_labels(bags, series), [1, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([1, 2, 3], ValueError, "y has 3 labels, but there are 5 bags"),
        ([[1], [2], [3], [4], [5]], ValueError, r"shape \(5, 1\), .* pass y.ravel\(\)"),
        (np.ones((5, 2)), ValueError, r"y has shape \(5, 2\), expected \(5,\)"),
        (3.0, ValueError, r"y has shape \(\), expected \(5,\)"),
        ([1, 2, np.nan, 4, np.inf], ValueError,
         r"label of bag 2 \(id 'c'\) is nan \(2 such in all\): leave these bags out"),
        ([1, None, 2, 3, 4], ValueError, r"label of bag 1 \(id 'b'\) is nan"),
        (list("vwxyz"), TypeError, "labels y are not numbers"),
        ([[1], [2, 3], 4, 5, 6], TypeError, "labels y are not numbers"),
        ([2, 2, 2, 2, 2], ValueError, "all 5 labels equal 2: there is nothing to learn"),
    ],
)  # fmt: skip
def test_bad_labels(bags, y, error, message):
    with pytest.raises(error, match=message):
        check_labels(bags, y)
