"""How the columns of tables become those of points, and every sentence about those that cannot."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bdr_stan import BDR, BLR, MERR, AggregateRegressor, Bags, RBFNetwork, load
from bdr_stan.bags import TableColumns

KINDS = {"pandas": lambda df: df, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


@pytest.fixture
def people(rng):
    """Six towns of 2 to 40 people in no order; the label depends on all three columns."""
    town = np.repeat(np.arange(6), [2, 5, 9, 14, 20, 40])
    table = pd.DataFrame(
        {
            "town": [f"t{k}" for k in town],
            "age": rng.normal(40 + 3 * town, 10),
            "income": rng.lognormal(10, 0.5, len(town)),
            "region": rng.choice(["rural", "urban"], len(town)),
            "votes": rng.random(len(town)) < 0.4,
        }
    )
    return table.sample(frac=1, random_state=1).reset_index(drop=True)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_stay_and_texts_become_columns_of_0_and_1(people, kind):
    bags = Bags.from_dataframe(KINDS[kind](people), "town")
    assert bags.features == ["age", "income", "region=rural", "region=urban", "votes"]
    rows = people[people.town == "t3"]
    assert_array_equal(bags[3][:, :2], rows[["age", "income"]])
    assert_array_equal(bags[3][:, 2], rows.region == "rural")
    assert_array_equal(bags[3][:, 3:], np.c_[rows.region == "urban", rows.votes])
    assert_array_equal(bags.sources, [0, 1, 2, 2, 3])
    assert bags[1:3].columns is bags.columns


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_are_those_that_occur(people, kind):
    people["region"] = pd.Categorical(people.region, ["urban", "rural", "sea"])
    people["code"] = pd.Categorical(np.arange(len(people)) % 3)
    bags = Bags.from_dataframe(KINDS[kind](people.astype({"code": "string"})), "town", ["region"])
    assert bags.features == ["region=rural", "region=urban"]
    if kind == "pandas":
        coded = Bags.from_dataframe(people, "town", ["code"])
        assert coded.features == ["code=0", "code=1", "code=2"]


def test_numpy_texts_are_texts(people):
    texts = [np.str_(text) for text in people.region]
    of_numpy = people.assign(region=pd.Series(texts, people.index, dtype=object))
    assert type(of_numpy.region[0]) is np.str_
    bags = Bags.from_dataframe(of_numpy, "town", ["region"])
    assert bags.features == ["region=rural", "region=urban"]


def missing_some(people):
    return people.assign(
        age=people.age.mask(people.index == 3), region=people.region.mask(people.index % 30 == 4)
    )


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_missing_values_are_refused_with_their_counts(people, kind):
    n = len(range(4, len(people), 30))
    with pytest.raises(ValueError, match=f"^missing values in the columns 'age' 1, 'region' {n}: "):
        Bags.from_dataframe(KINDS[kind](missing_some(people)), "town")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_missing_values_are_dropped_or_marked(people, kind):
    table = missing_some(people)
    with pytest.warns(UserWarning, match="dropped 4 of 90 points with missing values"):
        dropped = Bags.from_dataframe(KINDS[kind](table), "town", missing="drop")
    expected = Bags.from_dataframe(table.dropna(), "town")
    assert_array_equal(dropped.points, expected.points)
    assert_array_equal(dropped.offsets, expected.offsets)

    marked = Bags.from_dataframe(KINDS[kind](table), "town", missing="indicator")
    assert marked.features == [
        "age", "age missing", "income", "region=rural", "region=urban", "region missing", "votes"
    ]  # fmt: skip
    first = marked.points[marked.points[:, 1] == 1]
    assert first.shape == (1, 7) and first[0, 0] == pytest.approx(table.age.mean())
    assert_array_equal(marked.points[:, 3:6].sum(axis=1), 1)
    assert marked.points[:, 5].sum() == 3


def test_dropping_the_last_point_of_a_bag_is_said(people):
    table = people.assign(age=people.age.mask(people.town == "t0"))
    with pytest.warns(UserWarning, match="1 bags have no other points and are dropped"):
        bags = Bags.from_dataframe(table, "town", missing="drop")
    assert list(bags.ids) == ["t1", "t2", "t3", "t4", "t5"]


DAY = datetime.date(2020, 1, 1)
REFUSED = {
    "dates": ([pd.Timestamp("2020-01-01")], TypeError, "'x' holds Datetime values: make a number"),
    "spans": ([pd.Timedelta(1, "D")], TypeError, "'x' holds Duration values: make a number"),
    "days": ([DAY], TypeError, "'x' holds date: make numbers or texts"),
    "lists": ([[1, 2]], TypeError, "'x' holds several values in one cell: give each a column"),
    "dicts": ([{"a": 1}], TypeError, "'x' holds several values in one cell"),
    "kinds": ([1, "a"], TypeError, "'x' holds int and str, such as 'a': make numbers or texts"),
    "a cell": (["1", "2.5", "n/a", "4"], TypeError, "'x' holds text such as 'n/a' among numbers"),
    "written": (["1", "2", "3", "4"], TypeError, "'x' holds numbers written as text"),
    "names": ([f"n{k}" for k in range(300)], ValueError, "'x' holds 300 different texts, too many"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_columns_that_are_no_features(case):
    cells, error, message = REFUSED[case]
    n = max(20, len(cells))
    table = pd.DataFrame({"bag": np.arange(n) % 2, "x": (cells * n)[:n]})
    with pytest.raises(error, match=f"^column {message}"):
        Bags.from_dataframe(table, "bag")


def test_nested_columns_of_polars():
    table = pl.DataFrame({"bag": [1, 2], "x": [[1], [2]]})
    with pytest.raises(TypeError, match="column 'x' holds several values in one cell"):
        Bags.from_dataframe(table, "bag")


# ------------------------------------------------------------------ warnings


def test_columns_that_say_little_are_told(people):
    number = people.town.str[1:].astype(int)
    table = people.assign(
        one=1.0, two="b", level=number // 2, code=number, share=number / 7 + 1, label=number
    )
    with pytest.warns(UserWarning, match="^constant columns, which carry no info") as found:
        Bags.from_dataframe(table, "town", metadata=["label"])
    (warning,) = found
    text = str(warning.message)
    assert "constant columns, which carry no information: 'one', 'two'; columns" in text
    assert "the same for all points of a bag: 'level'; name the label and covariates" in text
    assert "like an id or a label: 'code', 'share'; name them in metadata=" in text
    assert "column 'share' is a linear function of 'label'" in text
    assert "'age'" not in text and "'region'" not in text
    assert warning.filename == __file__


def test_usual_columns_are_not_told(people):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bags.from_dataframe(people, "town")


# ------------------------------------------------------------------ new tables


ESTIMATORS = {
    "BLR": BLR(4, method="exact"),
    "RBFNetwork": RBFNetwork(4),
    "MERR": MERR(),
    "AggregateRegressor": AggregateRegressor("normal", n_landmarks=4, method="vb"),
}


@pytest.fixture
def fitted(people):
    y = people.groupby("town").age.mean().to_numpy()
    return BLR(4, method="exact").fit(Bags.from_dataframe(people, "town"), y, seed=1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_tables_like_that_of_the_fit_go_into_predict(people, name, tmp_path):
    bags = Bags.from_dataframe(people, "town")
    y = people.groupby("town").age.mean().to_numpy()
    model = ESTIMATORS[name].fit(bags, y, seed=1)
    model.save(tmp_path / "fit.nc")
    few = people[(people.region == "urban") & (people.town > "t1")]
    expected = model.predict(Bags.from_dataframe(few, "town", like=bags))
    assert len(expected) == few.town.nunique()
    assert_array_equal(model.predict(few), expected)  # a category that does not occur
    assert_array_equal(model.predict(Bags.from_dataframe(few, "town")), expected)
    again = load(tmp_path / "fit.nc").predict(few.sample(frac=1, random_state=2))
    np.testing.assert_allclose(again, expected, rtol=1e-10)


def test_points_of_a_table_have_rates(people):
    bags = Bags.from_dataframe(people, "town", weight=None)
    model = AggregateRegressor(n_landmarks=4, method="vb").fit(bags, np.arange(6), seed=1)
    urban = people[people.region == "urban"].reset_index(drop=True)
    rates = model.predict_points(urban).mean
    for table in (pl.from_pandas(urban), pa.Table.from_pandas(urban)):
        assert_array_equal(model.predict_points(table).mean, rates)
    with pytest.raises(ValueError, match="the table has no column 'region'"):
        model.predict_points(urban.drop(columns="region"))


def test_categories_that_were_not_seen(people, fitted):
    people.loc[people.index[0], "region"] = "sea"
    with pytest.raises(
        ValueError, match=r"'region' holds 'sea' \(1 row\), .* it has 'rural', 'urb"
    ):
        fitted.predict(people)
    with pytest.raises(ValueError, match=r"bag . \(id 't.'\) has 'region=sea', which the model"):
        fitted.predict(Bags.from_dataframe(people, "town"))
    bags = Bags.from_dataframe(people, "town", like=fitted, unseen="other")
    assert bags.features == list(fitted.feature_names_in_)
    assert (bags.points[:, 2:4].sum(axis=1) == 0).sum() == 1
    assert fitted.predict(bags).shape == (6,)


def test_missing_values_where_the_fit_had_some(people):
    y = people.groupby("town").age.mean().to_numpy()
    bags = Bags.from_dataframe(missing_some(people), "town", missing="indicator")
    model = BLR(4, method="exact").fit(bags, y, seed=1)
    whole = model.predict(people)
    assert_array_equal(whole, model.predict(Bags.from_dataframe(people, "town", like=bags)))
    people.loc[people.index[0], "income"] = np.nan
    with pytest.raises(ValueError, match="missing values in the columns 'income' 1"):
        model.predict(people)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unseen": "other"}, "unseen='other' goes with like"),
        ({"unseen": "new"}, "unseen must be 'error' or 'other', found 'new'"),
        ({"missing": "mean"}, "missing must be 'error' or 'drop' or 'indicator', found 'mean'"),
        ({"like": BDR()}, "like must be bags that come from a table, or an estimator fitted"),
    ],
)
def test_arguments_that_do_not_go_together(people, arguments, message):
    with pytest.raises(ValueError, match=message):
        Bags.from_dataframe(people, "town", **arguments)


def test_like_says_which_columns(people, fitted):
    with pytest.raises(ValueError, match="like determines the columns of a point"):
        Bags.from_dataframe(people, "town", ["age"], like=fitted)
    with pytest.raises(ValueError, match="the table has no column 'age'"):
        Bags.from_dataframe(people.drop(columns="age"), "town", like=fitted)


# ------------------------------------------------------------------ transformers of one's own


def test_a_transformer_of_your_own(people, tmp_path):
    own = ColumnTransformer(
        [("number", StandardScaler(), ["age", "income"]), ("kind", OneHotEncoder(), ["region"])]
    )
    bags = Bags.from_dataframe(people, "town", transformer=own)
    assert bags.features[0] == "number__age" and bags.n_features == 4
    assert not hasattr(own, "transformers_")  # a clone was fitted
    np.testing.assert_allclose(bags.points[:, :2].std(axis=0), 1)
    y = people.groupby("town").age.mean().to_numpy()
    model = BLR(4, method="exact").fit(bags, y, seed=1)
    assert_array_equal(model.predict(people), model.predict(bags))
    with pytest.raises(
        TypeError, match="a file cannot keep the transformer of the table's columns"
    ):
        model.save(tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []


def test_columns_go_through_files():
    columns = TableColumns(("x", "k"), {"k": ("a", "b")}, {"x": 2.0, "k": np.nan}, "bag", None)
    again = TableColumns.from_config(columns.config())
    assert again.features == columns.features == ["x", "x missing", "k=a", "k=b", "k missing"]
    assert (again.bag, again.weight, again.fills["x"]) == ("bag", None, 2.0)
