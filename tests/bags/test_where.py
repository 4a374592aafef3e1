"""Subgroups of the points of bags."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import Bags

PEOPLE = pd.DataFrame(
    {
        "town": ["a", "a", "a", "b", "b", "c"],
        "sex": ["f", "m", None, "f", "f", "m"],
        "age": [31.0, 55.0, 42.0, np.nan, 20.0, 70.0],
        "weight": [1.0, 2.0, 3.0, 0.0, 5.0, 6.0],
        "votes": [10, 10, 10, 20, 20, 30],
    }
)


def people(**options):
    return Bags.from_dataframe(
        PEOPLE, "town", ["sex", "age"], metadata=["votes"], missing="indicator", **options
    )


def kept(bags):
    return dict(zip(bags.ids.tolist(), bags.sizes.tolist(), strict=True))


@pytest.mark.parametrize(
    ("conditions", "sizes"),
    [
        ({"sex": "f"}, {"a": 1, "b": 2}),
        ({"sex": ["f", "m"]}, {"a": 2, "b": 2, "c": 1}),
        ({"sex": lambda values: values != "f"}, {"a": 1, "c": 1}),
        ({"age": 20}, {"b": 1}),
        ({"age": (31, 70.0)}, {"a": 1, "c": 1}),
        ({"age": lambda values: values < 50}, {"a": 2, "b": 1}),  # the missing age is filled by 43
        ({"age": lambda values: values < 50, "sex": "f"}, {"a": 1, "b": 1}),
        ({"sex=f": 1}, {"a": 1, "b": 2}),
    ],
)
@pytest.mark.filterwarnings("ignore:. of 3 bags have no points that meet")
def test_points_that_meet_all_conditions_stay(conditions, sizes):
    assert kept(people().where(**conditions)) == sizes


def test_points_keep_their_order_weights_ids_and_metadata():
    bags = people(weight="weight")
    with pytest.warns(UserWarning, match=r"1 of 3 bags have no points .* left out, such as bag 2"):
        women = bags.where(sex="f")
    assert kept(women) == {"a": 1, "b": 1}  # a point of weight 0 is none
    np.testing.assert_array_equal(women.weights, [1.0, 5.0])
    assert women.metadata["votes"].tolist() == [10, 20]
    np.testing.assert_array_equal(women.points, bags.points[[0, 4]])
    assert women.columns == bags.columns
    assert kept(bags) == {"a": 3, "b": 2, "c": 1}


def test_columns_without_names_are_numbered():
    bags = Bags.from_list([[[1.0, 5.0], [2.0, 6.0]], [[1.0, 7.0]]])
    assert bags.where(x0=1).sizes.tolist() == [1, 1]


def test_bags_of_a_memory_map(tmp_path):
    points = np.arange(12.0).reshape(6, 2)
    points.tofile(tmp_path / "points")
    stored = np.memmap(tmp_path / "points", np.float64, "r", shape=(6, 2))
    bags = Bags.from_points(stored, sizes=[3, 3], features=["a", "b"])
    some = bags.where(a=lambda values: values > 3)
    np.testing.assert_array_equal(some.points, points[2:])
    assert some.sizes.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("conditions", "error", "message"),
    [
        ({}, ValueError, "where needs a condition"),
        ({"sx": "f"}, ValueError, "no column 'sx': did you mean 'sex'"),
        ({"sex": "x"}, ValueError, "column 'sex' has no value 'x': it has 'f', 'm'"),
        ({"age": "old"}, TypeError, "column 'age' has numbers, found the condition 'old'"),
        ({"age": 999}, ValueError, "no point meets the conditions"),
        ({"age": lambda values: 1}, ValueError, "must return a boolean array"),
    ],
)
def test_conditions_that_mean_nothing(conditions, error, message):
    with pytest.raises(error, match=message):
        people().where(**conditions)
