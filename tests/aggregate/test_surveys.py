"""bdr_stan.aggregate.surveys: checks of places, and their percentiles among the bags' points."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from builders.totals import Given

from bdr_stan import RBF, Bags, Matern32
from bdr_stan.aggregate.rows import point_rows
from bdr_stan.aggregate.surveys import (
    checked_surveys,
    percentiles_of_places,
    periods,
    survey_rows,
)
from bdr_stan.kernels import HilbertSpace

RNG = np.random.default_rng(1)
BAGS = Bags.from_points(
    RNG.uniform(size=(60, 2)), sizes=[20, 40], weights=RNG.gamma(2, 1, 60), features=["x", "z"]
)
PLACES = Bags.from_points(
    RNG.uniform(0.2, 0.8, (4, 2)),
    sizes=[1, 2, 1],
    weights=[1.0, 1.0, 3.0, 2.0],
    features=["x", "z"],
    ids=["a", "b", "c"],
    metadata=pd.DataFrame({"positive": [1, 0, 3], "examined": [5, 4, 3]}),
)


CONSTANT = RBF(1.0)


def percentiles(bags, surveys, theta, kernel=CONSTANT):
    """As of a fit whose features are the columns themselves."""
    features = Given(bags.n_features)
    training = SimpleNamespace(
        rows=point_rows(bags, features),
        surveys=survey_rows(surveys, features),
        periods=periods(kernel.on(bags.features, bags.n_features), bags, surveys.places),
    )
    return percentiles_of_places(training, theta)


def test_percentiles_are_weighted_shares_of_points_below():
    surveys = checked_surveys(BAGS, PLACES, "positive", "examined", "rbf")
    theta = np.array([1.0, -0.5, 0.3])
    f = BAGS.points @ theta[:2] + theta[2]
    expected = []
    for points, weights in zip(np.split(PLACES.points, [1, 3]), np.split(PLACES.weights, [1, 3])):
        place = np.average(points @ theta[:2] + theta[2], weights=weights)
        expected.append(BAGS.weights[f < place].sum() / BAGS.weights.sum())
    np.testing.assert_allclose(percentiles(BAGS, surveys, theta), expected)


def test_percentiles_are_among_points_of_the_same_month():
    """Months are known as such where the kernel is a product, and are the same within bags."""
    rng = np.random.default_rng(2)
    month = np.repeat([3, 4, 3, 5], 25)
    points = np.column_stack([rng.uniform(size=100), month])
    bags = Bags.from_points(points, sizes=[25] * 4, features=["x", "month"])
    places = Bags.from_list([[[0.3, 3.0]], [[0.6, 5.0]], [[0.5, 4.6]]], features=["x", "month"])
    surveys = checked_surveys(bags, places, [1, 1, 1], [9, 9, 9], "rbf")
    theta = np.array([1.0, 10.0, 0.0])  # rates grow with the months
    expected = [np.mean(points[month == m, 0] < x) for m, x in ((3, 0.3), (5, 0.6))]
    product = RBF(1.0, columns=["x"]) * RBF(1.0, columns=["month"])
    found = percentiles(bags, surveys, theta, product + RBF(2.0))
    np.testing.assert_allclose(found, [*expected, 0.0])
    assert percentiles(bags, surveys, theta, RBF(2.0))[1] > 0.75 + expected[1] / 4 - 0.01


def test_ties_count_by_half():
    two = Bags.from_points(BAGS.points[:2], sizes=[1, 1], features=["x", "z"])
    surveys = checked_surveys(BAGS, two, [1, 1], [2, 2], "rbf")
    np.testing.assert_allclose(percentiles(BAGS, surveys, np.array([0, 0, 1.0])), 0.5)


def test_places_may_lie_up_to_the_horizon():
    """A survey after the last month of the counts, of which the field is a forecast."""
    later = Bags.from_list([[[0.5, 0.5]], [[0.5, 3.5]]], features=["x", "z"])
    time = HilbertSpace(Matern32(columns=["z"]), horizon=3)
    kernel = HilbertSpace(Matern32(columns=["x"])) * time
    assert len(checked_surveys(BAGS, later, [0, 1], [2, 2], kernel).places) == 2
    for too_short in ("rbf", HilbertSpace(Matern32(columns=["z"]), horizon=2)):
        with pytest.raises(ValueError, match="bag 1 lies outside all bags .* column 'z' is 3.5"):
            checked_surveys(BAGS, later, [0, 1], [2, 2], too_short)


def test_series_are_matched_by_their_index():
    shuffled = PLACES.metadata.iloc[[2, 0, 1]]
    found = checked_surveys(BAGS, PLACES, shuffled["positive"], shuffled["examined"], "rbf")
    np.testing.assert_array_equal(found.positives, [1, 0, 3])
    np.testing.assert_array_equal(found.examined, [5, 4, 3])


FAR = Bags.from_points([[0.5, 0.5], [30.0, 0.5]], sizes=[1, 1], features=["x", "z"])


@pytest.mark.parametrize(
    "places, positives, examined, says",
    [
        (PLACES, [1, 0, 4], [5, 4, 3], "number of positives of bag 2 .id 'c'. is 4 .*exceeds"),
        (PLACES, [1, -1, 3], [5, 4, 3], "number of positives of bag 1 .* is -1"),
        (PLACES, [1, 0.5, 3], [5, 4, 3], "number of positives of bag 1 .* is 0.5"),
        (PLACES, [1, np.nan, 3], [5, 4, 3], "number of positives of bag 1 .* is nan"),
        (PLACES, [1, 0, 0], [5, 4, 0], "number examined of bag 2 .* is 0 .*at least one"),
        (PLACES, [1, 0, 0], [5, np.inf, 1], "number examined of bag 1 .* is inf"),
        (PLACES, [1, 0], [5, 4, 3], "positives has shape .2,., expected .3,.: one per survey"),
        (PLACES, [1, 0, 3], 5, "examined has shape .., expected .3,.: one per survey place"),
        (PLACES, ["a", "b", "c"], [5, 4, 3], "the positives of place 0 .* is 'a', not a number"),
        (PLACES, "positives", "examined", "positives='positives' is not a column"),
        (FAR, [0, 1], [2, 2], "bag 1 lies outside all bags .1 in total., as column 'x' is 30"),
        (PLACES[:1], [1], [2], "surveys has 1 place, from which no slope follows: .* at least 2"),
        ([np.ones((1, 3))], [0], [1], "the surveys have 3 features per point, but the bags have 2"),
        (
            Bags.from_points([[0.5, 0.5]], sizes=[1], features=["z", "x"]), [0], [1],
            "column 0 of the surveys is 'z', but the bags have 'x' there",
        ),
    ],
)  # fmt: skip
def test_unusable_surveys(places, positives, examined, says):
    with pytest.raises((ValueError, TypeError), match=says):
        checked_surveys(BAGS, places, positives, examined, "rbf")


TWO = {"clusters": PLACES, "schools": PLACES[1:]}


def test_several_surveys_are_stacked():
    shuffled = PLACES.metadata["positive"].iloc[[2, 0, 1]]
    found = checked_surveys(BAGS, TWO, {"schools": [0, 3], "clusters": shuffled}, "examined", "rbf")
    assert found.names == ("clusters", "schools")
    np.testing.assert_array_equal(found.survey, [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(found.positives, [1, 0, 3, 0, 3])
    np.testing.assert_array_equal(found.examined, [5, 4, 3, 4, 3])
    rows = survey_rows(found, Given(2))
    alone = [
        survey_rows(checked_surveys(BAGS, p, "positive", "examined", "rbf"), Given(2))
        for p in TWO.values()
    ]
    np.testing.assert_array_equal(rows.shares, np.concatenate([each.shares for each in alone]))
    np.testing.assert_array_equal(rows.rows.rows, np.vstack([each.rows.rows for each in alone]))


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"surveys": {}}, "surveys is an empty dict"),
        (
            {"surveys": TWO | {"schools": PLACES.to_dataframe()}},
            "surveys\\['schools'\\]: X is a table, not bags: use Bags.from_dataframe",
        ),
        ({"surveys": {1: PLACES}}, "surveys are named by text, such as 'schools', found 1"),
        ({"surveys": PLACES}, "positives is a dict of several surveys, but surveys is a Bags"),
        ({"positives": [1, 0, 3]}, "positives of several surveys must be a dict .* found a list"),
        ({"positives": {"clusters": [1, 0, 3]}}, "positives has no 'schools': .* the same names"),
        (
            {"examined": {"clusters": [5] * 3, "schools": [5] * 2, "clinics": [5]}},
            "surveys has no 'clinics': .* here 'clusters', 'schools'",
        ),
        (
            {"positives": {"clusters": [1, 0, 3], "schools": [0, 4]}},
            "number of positives\\['schools'\\] of bag 1 .id 'c'. is 4 .*exceeds",
        ),
        (
            {"surveys": TWO | {"schools": PLACES[1:2]}},
            "surveys\\['schools'\\] has 1 place, .* at least 2",
        ),
        (
            {"surveys": TWO | {"schools": FAR}},
            "surveys\\['schools'\\]: bag 1 lies outside all bags",
        ),
        (
            {"surveys": TWO | {"schools": [np.ones((1, 3))] * 2}},
            "the surveys\\['schools'\\] have 3 features per point",
        ),
        ({"examined": "people"}, "examined\\['clusters'\\]='people' is not a column"),
    ],
)
def test_unusable_several_surveys(changes, says):
    given = {"surveys": TWO, "positives": {"clusters": [1, 0, 3], "schools": [0, 3]}}
    with pytest.raises((ValueError, TypeError), match=says):
        checked_surveys(BAGS, **given | {"examined": "examined"} | changes, kernel="rbf")
