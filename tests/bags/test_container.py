"""Selection, reading and values of bags, and every sentence about bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal, assert_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

from bdr_stan import BDR
from bdr_stan.bags import Bags, as_bags


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


def test_points_are_not_changed_and_copied_once(rng):
    points = rng.normal(size=(6, 2))
    before = points.copy()
    assert not np.shares_memory(Bags(points, [0, 2, 6]).points, points)
    assert np.shares_memory(Bags(points, [0, 2, 6], copy=False).points, points)
    np.testing.assert_array_equal(points, before)


def test_as_bags(bags, arrays):
    assert as_bags(bags) is bags
    assert_equal(list(as_bags(arrays)), arrays)
    assert_equal(list(as_bags(tuple(arrays))), arrays)
    boxed = np.empty(len(arrays), object)
    boxed[:] = arrays
    assert_equal(list(as_bags(boxed)), arrays)
    equal = np.arange(12.0).reshape(2, 3, 2)
    assert_equal(list(as_bags(equal)), list(equal))
    assert_equal(list(as_bags([[[1, 2], [3, 4]], [[5, 6]]])), [[[1, 2], [3, 4]], [[5, 6]]])


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
    assert_equal(list(chosen), [arrays[i] for i in expected])
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
    assert_equal(list(copy), arrays)
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
    assert_equal(list(picked), [mapped[15:], mapped[:5]])


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
    message = r"bag 2, point 1, column 1: value is inf \(1 in total\)"
    with pytest.raises(ValueError, match=message):
        bags.check_values()
    with pytest.raises(ValueError, match=message):
        bags.take([2, 0])


def with_value(value):
    points = np.ones((6, 2))
    points[4, 1] = value
    return points


def bad_bags():
    ones = np.ones((3, 2))
    yield lambda: Bags(np.empty((0, 2)), [0]), ValueError, "there are no bags"
    yield (
        lambda: Bags(with_value(np.nan), [0, 2, 6], ids=["p", "q"], features=["x", "y"]),
        ValueError,
        r"bag 1 \(id 'q'\), point 2, column 1 \('y'\): value is nan \(1 in total",
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
        lambda: Bags(ones, [0, 1, 3], weights=[1, 1, -2]),
        ValueError,
        r"bag 1, point 1: weight is -2 \(1 in total\): weights must be finite and >= 0",
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
        r"weights has shape \(2,\), expected \(3,\): one per point",
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
    with pytest.raises(ValueError, match=r"bag 0, point 5, column 1: .* \(2 in total\)"):
        Bags.from_points(points, sizes=[100_000] * 3)


def test_notebooks_show_bags_as_a_table_with_names_escaped():
    bags = Bags(np.eye(3), [0, 1, 3], features=["<b>", "y", "z"])
    html = bags._repr_html_()
    assert "<td>2</td>" in html and "<td>&lt;b&gt;, y, z</td>" in html and "<b>" not in html
    assert "1 / 1.5 / 2 (min / median / max)" in html and "<td>none</td>" in html
    assert ".. (40 in total)" in Bags(np.zeros((2, 40)), [0, 2])._repr_html_()
    assert "<td>0</td>" in bags[:0]._repr_html_()


def test_bags_keep_their_values_when_the_arrays_they_came_from_change():
    def arrays():
        points, weights = np.arange(10.0).reshape(5, 2), np.ones(5)
        return points, weights, np.array([7, 8]), pd.DataFrame({"y": [1.0, 2.0]}, index=[7, 8])

    for kind in (np.array, pd.DataFrame):
        points, weights, ids, about = arrays()
        given = kind(points, copy=False)
        for bags in (
            Bags(given, [0, 2, 5], weights=weights, ids=ids, metadata=about),
            Bags.from_points(given, sizes=[2, 3], weights=weights, ids=ids, metadata=about),
            Bags.from_points(given, bag=np.repeat(ids, [2, 3]), weights=weights),
        ):
            before = bags.points.copy()
            points *= 100
            weights[:] = 5
            ids[0] = 70
            about.loc[7, "y"] = 100
            assert_array_equal(bags.points, before)
            assert_array_equal(bags.weights, 1)
            assert bags.ids[0] == 7 and (bags.metadata is None or bags.metadata["y"].iloc[0] == 1)
            points /= 100
            weights[:], ids[0], about.loc[7, "y"] = 1, 7, 1
    shared = Bags(points, [0, 2, 5], copy=False)
    points *= 100
    assert_array_equal(shared.points, points)


def test_a_list_of_0_and_1_is_no_choice_of_bags():
    bags = Bags(np.zeros((8, 1)), np.arange(9))
    with pytest.raises(
        IndexError, match="8 numbers 0 and 1, as many as there are bags: make a mask"
    ):
        bags[[0, 1, 1, 0, 1, 0, 0, 1]]
    assert len(bags[[0, 1, 1]]) == 3 and len(bags[np.arange(8)]) == 8


def test_bags_in_place_of_an_array_are_refused_with_the_way():
    bags = Bags.from_list([np.ones((3, 2)), np.zeros((4, 2))])
    in_a_pipeline = make_pipeline(StandardScaler(), BDR())
    for use in (np.asarray, np.mean, pd.DataFrame, lambda X: in_a_pipeline.fit(X, [1.0, 2.0])):
        with pytest.raises(TypeError, match="bags are not an array: .* by transformer= of Bags"):
            use(bags)


def test_a_table_and_the_way_back():
    table = pd.DataFrame({"town": ["b", "a", "b"], "age": [31.0, 55.0, 28.0], "y": [1.0, 2.0, 1.0]})
    bags = Bags.from_dataframe(table, "town", metadata=["y"])
    back = bags.to_dataframe()
    pd.testing.assert_frame_equal(
        back, table.sort_values("town")[["town", "age"]].reset_index(drop=True)
    )
    unnamed = Bags.from_points(np.ones((3, 2)), sizes=[1, 2], weights=[1, 2, 3])
    assert list(unnamed.to_dataframe()) == ["bag", "x0", "x1", "weight"]


@pytest.mark.parametrize("transformer", [StandardScaler, "scale"])
def test_what_is_no_transformer(transformer):
    table = pd.DataFrame({"town": ["b", "a"], "age": [31.0, 55.0]})
    with pytest.raises(TypeError, match=r"such as StandardScaler\(\), found"):
        Bags.from_dataframe(table, "town", transformer=transformer)


def fails(points):
    raise RuntimeError("no luck")


def named(function):
    return FunctionTransformer(function, feature_names_out="one-to-one")


@pytest.mark.parametrize(
    "transformer, says",
    [
        (StandardScaler(), "the transformer cannot be fitted to the columns job: "),
        (FunctionTransformer(len), "does not name its columns: .*feature_names_out='one-to-one'"),
        (make_pipeline(FunctionTransformer(len)), "the transformer does not name its columns: "),
        (named(fails), "the transformer fails on the columns job: no luck"),
        (named(lambda x: x + "a"), "the transformer fails on the columns job: could not convert"),
        (named(len), r"makes an array of shape \(\) of 3 rows: it must give one row of numbers"),
        (named(lambda x: np.ones((2, 1))), r"makes an array of shape \(2, 1\) of 3 rows"),
    ],
)
def test_a_transformer_that_fails(transformer, says):
    table = pd.DataFrame({"town": ["b", "a", "a"], "job": ["x", "y", "x"]})
    with pytest.raises(ValueError, match=says):
        Bags.from_dataframe(table, "town", transformer=transformer)


def test_a_transformer_may_make_sparse_points():
    table = pd.DataFrame({"town": ["b", "a", "a"], "job": ["x", "y", "x"]})
    bags = Bags.from_dataframe(table, "town", transformer=OneHotEncoder())
    assert bags.features == ["job_x", "job_y"]
    np.testing.assert_array_equal(bags[0], [[0, 1], [1, 0]])
