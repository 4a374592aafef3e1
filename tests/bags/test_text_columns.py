"""Tables as strangers have them: codes, currencies, dates, marks and copies are not misread."""

import os
import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from bdr_stan import Bags
from bdr_stan.bags.column_values import warn_of_similar_ids
from bdr_stan.embedding.covariates import learn_covariates

TABLE = pd.DataFrame({"county": list("aabbcc"), "x": [1.5, 2, 4, 3, 8, 6]})


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# ------------------------------------------------------------------ ids


def csv(tmp_path, text):
    path = tmp_path / "points.csv"
    path.write_text(text)
    return path


def test_ids_with_leading_zeros_stay_apart(tmp_path):
    path = csv(tmp_path, "county,x\n01,1.5\n1,2.5\n02,3.5\n")
    with pytest.warns(UserWarning, match="leading zeros, case or blanks: '01' and '1'"):
        bags = Bags.from_csv(path, "county")
    assert bags.ids.tolist() == ["01", "02", "1"]
    with pytest.warns(UserWarning, match="'01' and '1'"):
        assert Bags.from_csv(path, "county", dtype={"x": float}).ids.tolist() == bags.ids.tolist()
    assert Bags.from_csv(path, "county", dtype={"county": int}).ids.tolist() == [1, 2]


def test_blanks_about_ids_that_are_numbers_do_not_count(tmp_path):
    path = csv(tmp_path, "x,county\n1.5, 1\n2.5, 2\n3.5,2\n")
    assert Bags.from_csv(path, "county").ids.tolist() == [1, 2]


@pytest.mark.parametrize("ids", [[1, 2, 10], [0.5, 1.5, 2.5], [-1, 0, 3]])
def test_ids_that_are_numbers_stay_numbers(tmp_path, ids):
    path = csv(tmp_path, "county,x\n" + "".join(f"{name},{k}.5\n" for k, name in enumerate(ids)))
    found = Bags.from_csv(path, "county")
    assert found.ids.tolist() == ids and found.ids.dtype.kind in "if"
    missing = csv(tmp_path, "county,x\n1,2.5\n,3.5\n")
    with pytest.raises(ValueError, match="row 1 has no bag: column 'county' is missing"):
        Bags.from_csv(missing, "county")


@pytest.mark.parametrize(("folders", "ids"), [(["01", "1"], ["01", "1"]), (["1", "12"], [1, 12])])
def test_ids_in_names_of_folders(tmp_path, folders, ids):
    for k, name in enumerate(folders):
        place = tmp_path / f"county={name}"
        place.mkdir()
        pd.DataFrame({"x": [k + 0.5, k + 1.25]}).to_parquet(place / "0.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for lazy in (False, True):
            bags = Bags.from_parquet(tmp_path, "county", lazy=lazy)
            assert list(bags.ids) == ids and bags.features == ["x"]


@pytest.mark.parametrize(
    "pair",
    [("São Paulo", "Sa\u0303o Paulo"), ("New  York", "New York"), (1.0, "1"), ("-01", "-1")],
)
def test_ids_in_other_characters_are_told(pair):
    county = np.array([pair[0], pair[1], "z"], object).repeat(2)
    with pytest.warns(UserWarning, match="1 bags have ids that differ from other ids only in"):
        Bags.from_dataframe(TABLE.assign(county=county), "county")


@pytest.mark.parametrize("other", ["A", " a", "a "])
def test_ids_that_are_nearly_the_same_are_told(other):
    table = TABLE.assign(county=["a", "a", "b", "b", other, other])
    with pytest.warns(UserWarning, match="1 bags have ids that differ from other ids only in"):
        assert len(Bags.from_dataframe(table, "county")) == 3
    with pytest.warns(UserWarning, match="only in type"):
        Bags.from_points(TABLE[["x"]], bag=np.array([1, 1, "1", "1", 2, 2], object))


def test_ids_that_differ_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_similar_ids(np.arange(10))
        warn_of_similar_ids(np.array(["a1", "a01", "10", "1", "0"]))
        warn_of_similar_ids(np.array([f"{k:06}" for k in range(100_000)]))


# ------------------------------------------------------------------ columns of text


@pytest.mark.parametrize(
    "values",
    [
        ["$1,200", "$900", "$15,000"],
        ["35%", "40%", "7%"],
        ["1,200,000", "900,000", "12,000"],
        ["\u22123", "4", "\u22122"],
        ["3,5", "4,25", "1,0"],
        ["1 200", "900", "15 000"],
        ["$5", "$7"],
        ["(1,200)", "300", "(45)"],
        ["1.200,50 €", "900 €"],
        ["$1.2M", "$3M"],
        [".5", ".25", "5."],
    ],
)
def test_numbers_as_text_are_no_categories(values):
    table = TABLE.assign(amount=np.resize(values, 6))
    with pytest.raises(TypeError, match="column 'amount' holds numbers written as text, such as"):
        Bags.from_dataframe(table, "county")


@pytest.mark.parametrize(
    "values",
    [
        ["2021-03-04", "2020-01-01"],
        ["3/4/2021", "12/31/99"],
        ["4 March 2021", "12 May 2020"],
        ["04-Mar-2021", "01-Apr-20"],
        ["Mar 4, 2021", "May 1, 2020"],
        ["08:05", "23:59"],
    ],
)
def test_dates_as_text_are_no_categories(values):
    with pytest.raises(TypeError, match="holds dates or times as text, such as '.*': make"):
        Bags.from_dataframe(TABLE.assign(day=np.resize(values, 6)), "county")


@pytest.mark.parametrize(
    "values",
    [
        ["18-24", "25-64", "65+"],
        ["A1", "B2", "C3"],
        ["0", "1"],
        ["5+", "1-4", "none"],
        ["1A", "1B", "2A", "2B"],
        ["$0-$9", "$10-$99"],
    ],
)
def test_categories_stay_categories(values):
    bags = Bags.from_dataframe(TABLE.assign(group=np.resize(values, 6)), "county")
    assert [f"group={value}" for value in sorted(values)] == bags.features[1:]


def test_a_column_that_stands_twice_in_a_file_is_refused(tmp_path):
    path = csv(tmp_path, "county,age,age\na,1.5,2\nb,2.5,3\n")
    with pytest.raises(ValueError, match="has the column 'age' twice: give each"):
        Bags.from_csv(path, "county")
    true_names = csv(tmp_path, "county,age,age.1\na,1.5,2\nb,2.5,3\n")
    assert Bags.from_csv(true_names, "county").features == ["age", "age.1"]
    dates = csv(tmp_path, "county,x,day\n1,1.5,2020-01-01\n2,2.5,2020-01-02\n")
    bags = Bags.from_csv(dates, "county", metadata=["day"], parse_dates=["day"])
    assert bags.metadata["day"].dt.year.to_list() == [2020, 2020]
    european = csv(tmp_path, "county;age\na;1,5\nb;2,5\n")
    assert_array_equal(
        Bags.from_csv(european, "county", sep=";", decimal=",").points, [[1.5], [2.5]]
    )


def test_a_label_among_the_features_is_told():
    with pytest.warns(UserWarning, match="id or a label: 'vote'; name them in metadata="):
        Bags.from_dataframe(TABLE.assign(vote=[0.1, 0.1, 0.2, 0.2, 0.3, 0.3]), "county")
    with pytest.warns(UserWarning, match="'vote'; name the label and covariates of the bags"):
        Bags.from_dataframe(TABLE.assign(vote=[0.1, 0.1, 0.2, 0.2, 0.1, 0.1]), "county")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1,200", "900", "1,000"], "'z' holds numbers written as text, such as '1,"),
        (["1.5", "2.5", "3"], "'z' holds numbers written as text"),
        (["2020-01-01", "2020-01-02", "2020-01-03"], "'z' holds dates or times as text"),
    ],
)
def test_covariates_that_are_numbers_as_text_are_refused(values, words):
    table = TABLE.assign(z=np.repeat(values, 2))
    bags = Bags.from_dataframe(table, "county", metadata=["z"])
    with pytest.raises(TypeError, match=words):
        learn_covariates(bags, ["z"])
    codes = Bags.from_dataframe(table.astype({"z": "category"}), "county", metadata=["z"])
    assert learn_covariates(codes, ["z"]).levels == {"z": sorted(values)}


@pytest.mark.parametrize(
    "points", [np.array([["1"], ["2.5"]], object), pd.DataFrame({"x": ["1", "2.5"]})]
)
def test_points_and_weights_that_are_numbers_as_text_are_refused(points):
    for make in (
        lambda: Bags(points, [0, 1, 2]),
        lambda: Bags.from_points(points, sizes=[1, 1]),
        lambda: Bags.from_list([points, points]),
        lambda: Bags([[1.0], [2.0]], [0, 1, 2], weights=np.ravel(points)),
    ):
        with pytest.raises(TypeError, match="holds text such as '1', not numbers"):
            make()


def test_complex_covariates_are_refused():
    about = pd.DataFrame({"z": [1 + 2j, 2, 3]}, index=list("abc"))
    bags = Bags([[0.0], [1.0], [2.0]], [0, 1, 2, 3], ids=list("abc"), metadata=about)
    with pytest.raises(TypeError, match="covariate 'z' holds complex"):
        learn_covariates(bags, ["z"])
    with pytest.raises(TypeError, match="^column 'x' holds complex: make numbers or texts"):
        Bags.from_dataframe(TABLE.assign(x=TABLE["x"] + 1j), "county")


# ------------------------------------------------------------------ the index of pandas


def test_a_named_index_is_no_feature_but_may_be_the_bag(tmp_path):
    table = TABLE.assign(row=np.arange(6) + 0.5).set_index("row")
    table.to_parquet(tmp_path / "points.parquet")
    for lazy in (False, True):
        assert Bags.from_parquet(tmp_path / "points.parquet", "county", lazy=lazy).features == ["x"]
        weighted = Bags.from_parquet(tmp_path / "points.parquet", "county", None, "row", lazy=lazy)
        assert weighted.weighted and weighted.features == ["x"]
    by_county = TABLE.set_index("county")
    by_county.to_parquet(tmp_path / "county.parquet")
    expected = Bags.from_dataframe(TABLE, "county")
    for found in (
        Bags.from_parquet(tmp_path / "county.parquet", "county"),
        Bags.from_dataframe(by_county, "county"),
    ):
        assert_array_equal(found.points, expected.points)
        assert_array_equal(found.ids, expected.ids)


# ------------------------------------------------------------------ marks, copies, files


def test_marks_of_missing_values_are_told(rng):
    table = pd.DataFrame({"county": np.repeat(np.arange(10), 5), "age": rng.normal(40, 9, 50)})
    marked = table.assign(age=table["age"].where(np.arange(50) % 10 > 0, -999))
    words = r"'age' is -999 in 5 of 50 points \(10%\), .*df.replace\(\{'age': \[-999\]\}"
    with pytest.warns(UserWarning, match=words):
        Bags.from_dataframe(marked, "county")
    with pytest.warns(UserWarning, match=words):
        Bags.from_dataframe(marked, "county", like=Bags.from_dataframe(table, "county"))
    with pytest.warns(UserWarning, match="'age' is 9999 in 5 of 50 points"):
        Bags.from_dataframe(marked.replace(-999, 9999), "county")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bags.from_dataframe(table.assign(age=rng.normal(-900, 60, 50).round()), "county")
        Bags.from_dataframe(table.assign(age=np.where(np.arange(50) == 3, -999, 1.5)), "county")


def test_a_table_that_was_appended_to_itself_is_told(rng):
    table = pd.DataFrame({"county": np.repeat(np.arange(10), 5), "x": rng.normal(size=50)})
    for k in (2, 3):
        with pytest.warns(UserWarning, match=f"each row occurs {k} times in its bag"):
            Bags.from_dataframe(pd.concat([table] * k), "county")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bags.from_dataframe(table, "county")
        Bags.from_dataframe(pd.concat([table, table.iloc[:30]]), "county")
        one = pd.concat([table.iloc[:5]] * 2)  # not in every bag
        Bags.from_dataframe(pd.concat([one, table.iloc[5:]]), "county")
        counts = pd.concat([table.assign(x=np.arange(50) % 7)] * 2)
        Bags.from_dataframe(counts, "county")


def test_copies_in_bags_of_many_points_are_told(rng):
    table = pd.DataFrame({"county": np.repeat([0, 1], 60_000), "x": rng.normal(size=120_000)})
    with pytest.warns(UserWarning, match="each row occurs 2 times in its bag"):
        Bags.from_dataframe(pd.concat([table] * 2), "county")


def test_a_file_that_changes_between_passes_is_refused(tmp_path):
    path = tmp_path / "points.parquet"
    pq.write_table(pa.Table.from_pandas(TABLE, preserve_index=False), path)
    bags = Bags.from_parquet(path, "county", lazy=True)
    assert len(bags.load()) == 3
    pq.write_table(pa.Table.from_pandas(TABLE.assign(x=TABLE["x"] * 2), preserve_index=False), path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(OSError, match="is gone or has changed since the bags were made"):
        bags.load()
    path.unlink()
    with pytest.raises(OSError, match="is gone or has changed since the bags were made"):
        bags.load()


# ------------------------------------------------------------------ categories, sums of weights


def told(function):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(each.message) for each in caught]


def of_people(rng, **columns):
    return pd.DataFrame({"town": np.arange(2000) % 100, "x": rng.normal(size=2000), **columns})


def readings(table, tmp_path):
    """Ways to read a table, in memory and in parts."""
    table.to_parquet(tmp_path / "people.parquet", row_group_size=500)
    yield lambda: Bags.from_dataframe(table, "town")
    yield lambda: Bags.from_dask(dd.from_pandas(table, npartitions=3), "town")
    yield lambda: Bags.from_parquet(tmp_path / "people.parquet", "town")


def test_numbers_that_became_categories_are_told(rng, tmp_path):
    age = rng.integers(0, 90, 2000)
    labelled = pd.Series(age).astype(object).where(age < 85, "85 or older")
    for read in (
        lambda: Bags.from_dataframe(of_people(rng, age=pd.Categorical(labelled)), "town"),
        *readings(of_people(rng, age=pd.Categorical(labelled.astype(str))), tmp_path),
    ):
        (text,) = told(read)
        assert "85 of the 86 categories of column 'age' are numbers" in text
        assert "'85 or older'" in text and "read_stata" in text
    for values in (age, pd.Categorical(age), pd.Categorical(np.where(age < 45, "young", "1"))):
        assert not told(
            lambda values=values: Bags.from_dataframe(of_people(rng, age=values), "town")
        )


def test_labelled_ages_of_stata_are_told(rng, tmp_path):
    age = rng.integers(0, 90, 2000)
    path = tmp_path / "people.dta"
    of_people(rng, age=age).to_stata(path, value_labels={"age": {85: "eighty-five", 0: "newborn"}})
    table = pd.read_stata(path, index_col="index")
    assert any(
        "categories of column 'age'" in text
        for text in told(lambda: Bags.from_dataframe(table, "town"))
    )
    numbers = pd.read_stata(path, index_col="index", convert_categoricals=False)
    assert not told(lambda: Bags.from_dataframe(numbers, "town"))


@pytest.mark.parametrize("text", ["<5", "--", "Suppressed", "1-9"])
@pytest.mark.parametrize("kind", [str, object])
def test_texts_among_numbers_are_named(rng, text, kind):
    cells = pd.Series(rng.integers(5, 60, 2000)).astype(kind).where(rng.random(2000) < 0.9, text)
    with pytest.raises(TypeError, match=f"column 'count' holds .*'{text}'"):
        Bags.from_dataframe(of_people(rng, count=cells), "town")
    bags = Bags.from_list(rng.normal(size=(60, 3, 1)), metadata=pd.DataFrame({"count": cells[:60]}))
    with pytest.raises(TypeError, match=f"column 'count' holds .*'{text}'"):
        learn_covariates(bags, ["count"])


def test_categories_that_are_alike_are_told(rng, tmp_path):
    areas = rng.choice(["Urban", "Urban ", "urban", "rural"], 2000)
    for read in readings(of_people(rng, area=areas), tmp_path):
        (text,) = told(read)
        assert "2 categories of column 'area' differ from other categories" in text
        assert "'Urban' and 'Urban ', 'Urban' and 'urban'" in text
    bags = Bags.from_list(rng.normal(size=(60, 3, 1)), metadata=pd.DataFrame({"area": areas[:60]}))
    for roles in ({"names": ["area"]}, {"names": [], "groups": ["area"]}):
        (text,) = told(lambda roles=roles: learn_covariates(bags, **roles))
        assert "2 categories of column 'area' differ from other categories" in text


def test_an_order_that_is_lost_is_told(rng):
    levels = ["low", "mid", "high"]
    values = pd.Categorical(rng.choice(levels, 2000), levels, ordered=True)
    (text,) = told(lambda: Bags.from_dataframe(of_people(rng, income=values), "town"))
    assert "categories of column 'income' lose their order" in text
    table = of_people(rng, income=values)
    codes = table.assign(income=table["income"].cat.codes)  # what it says to do
    assert not told(lambda: Bags.from_dataframe(codes, "town"))
    assert not told(
        lambda: Bags.from_dataframe(of_people(rng, income=values.as_unordered()), "town")
    )
    bags = Bags.from_list(rng.normal(size=(60, 3, 1)), metadata=pd.DataFrame({"u": values[:60]}))
    (text,) = told(lambda: learn_covariates(bags, ["u"]))
    assert "categories of column 'u' lose their order" in text


def test_weights_that_are_shares_add_up_alike(rng):
    sizes = rng.integers(3, 9, 40)
    town = np.repeat(np.arange(40), sizes)
    share = rng.uniform(1, 5, len(town))
    share /= np.bincount(town, share)[town]
    table = pd.DataFrame({"town": town, "x": rng.normal(size=len(town)), "share": share})
    again = pd.concat([table, table[table["town"] == 7]])
    some = pd.concat([table, table[table["town"] == 7].iloc[:1]])
    for repeated in (again, some):
        for read in (
            lambda repeated=repeated: Bags.from_dataframe(repeated, "town", weight="share"),
            lambda repeated=repeated: Bags.from_dask(
                dd.from_pandas(repeated.reset_index(drop=True), npartitions=3),
                "town",
                weight="share",
            ),
            lambda repeated=repeated: Bags.from_points(
                repeated[["x"]], bag=repeated["town"], weights=repeated["share"]
            ),
        ):
            (text,) = told(read)
            total = repeated.loc[repeated["town"] == 7, "share"].sum()
            assert (
                f"(id 7) add up to {total:.4g} (1 such bags), the weights of all others to 1"
                in text
            )
    for factor in (1, 100, rng.uniform(1, 2, len(town)), 0.01 + share, np.round(share, 4) / share):
        scaled = table.assign(share=table["share"] * factor)
        assert not told(lambda scaled=scaled: Bags.from_dataframe(scaled, "town", weight="share"))
    assert not told(lambda: Bags.from_dataframe(table.assign(share=1), "town", weight="share"))
