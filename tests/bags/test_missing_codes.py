"""Codes of missing values, wherever a user's numbers enter; what is no code passes unsaid."""

import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import rioxarray  # noqa: F401
import shapely
import xarray as xr

from bdr_stan import BDR, BLR, AggregateRegressor, Bags, Shrinkage
from bdr_stan.bags.missing_codes import codes_in, ends_of, has_form, joined
from bdr_stan.embedding.covariates import learn_covariates


def seek(values):
    return codes_in(ends_of(np.asarray(values, float)))


def places(values):
    """Bags of one point each, with these metadata x."""
    n = len(values)
    return Bags(np.arange(n)[:, None] % 7, np.arange(n + 1), metadata=pd.DataFrame({"x": values}))


def warned(function):
    """The warnings of codes that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    texts = [str(each.message) for each in caught]
    return [text for text in texts if "codes of missing" in text]


def test_form():
    codes = [
        99,
        -99,
        999,
        9999,
        98,
        997,
        9996,
        77,
        888,
        1111,
        -666666666,
        -222222222,
        99.9,
        9999.99,
    ]
    codes += [255, 127, -128, 65535, 32767, -32768, -32767, 2147483647, 1e20, 1e12, -7, -9]
    codes += [float(np.float32(code)) for code in codes]
    assert all(map(has_form, codes))
    values = [0, 1, 7, 9, 10, 12, 66, 95, 100, 111, 555, 150_000, 1e6, 3.33, 9.7, 66.6, 998.5, -1]
    assert not any(map(has_form, values))


@pytest.mark.parametrize(
    "values, codes",
    [
        ([*range(1, 21), -999], {-999: 1}),
        ([*range(1000, 2000, 7), 9996, 9996, 9998, 9999], {9996: 2, 9998: 1, 9999: 1}),
        ([*range(20), -99, 99, 999, 9999], {-99: 1, 99: 1, 999: 1, 9999: 1}),
        ([*range(100), 500, 999], {999: 1}),  # beyond a true outlier
        ([*np.geomspace(1e3, 8e5, 200), *[999_999] * 9], {999_999: 9}),  # nearer than the spread
        ([*np.geomspace(1e3, 8e5, 200), -99, -9, -9], {-99: 1, -9: 2}),
        ([*np.linspace(0, 1, 50), 12.5, 12.5, 12.5], {12.5: 3}),  # repeated, in no form
        ([1] * 30 + [2] * 40 + [7, 9, 9, 9, 7], {7: 2, 9: 3}),
        ([*range(1, 9), 99], {99: 1}),
        ([*np.linspace(0, 1, 12)] + [9999] * 500, {9999: 500}),
    ],
)
def test_codes(values, codes):
    rng = np.random.default_rng(0)
    assert seek(rng.permutation(values)) == codes
    assert seek(-rng.permutation(values)) == {-code: n for code, n in codes.items()} or any(
        code < 0 for code in codes
    )


def legitimate(rng):
    lognormal = rng.lognormal(10, 1, 5000)
    return {
        "top-coded incomes": np.minimum(lognormal, 150_000),
        "lognormal": lognormal,
        "Cauchy": rng.standard_cauchy(5000),
        "many zeros": np.where(rng.random(5000) < 0.7, 0, rng.normal(1000, 10, 5000)),
        "few zeros": np.append(rng.normal(1000, 10, 5000), [0, 0, 0]),
        "counts": rng.negative_binomial(0.1, 0.05, 5000),
        "large counts": np.r_[rng.poisson(0.5, 5000), 15, 15],
        "indicator": rng.integers(0, 2, 5000),
        "rare indicator": np.r_[np.zeros(500), 1],
        "constant": np.full(50, 3.0),
        "scores": rng.integers(1, 8, 5000),
        "years": rng.integers(1950, 2025, 5000),
        "ages": rng.integers(0, 100, 5000),
        "doses": rng.choice([0, 0.5, 1, 5, 20, 100], 600),
        "percentages": rng.choice([0, 100], 600),
        "one outlier": np.r_[rng.normal(size=500), 1234.5],
        "few": [1, 2, 99],
    }


@pytest.mark.parametrize("kind", legitimate(np.random.default_rng(0)))
def test_what_is_no_code(kind):
    values = legitimate(np.random.default_rng(0))[kind]
    assert seek(values) == {}
    assert seek(-np.asarray(values)) == {}
    assert not warned(
        lambda: Bags.from_points(np.asarray(values, float)[:, None], sizes=[len(values)])
    )


@pytest.mark.parametrize("n", [20, 5_000, 100_000])
def test_ends_are_those_of_all_values_and_follow_from_parts(n):
    rng = np.random.default_rng(n)
    for values in (
        rng.normal(size=n),
        rng.poisson(3, n),
        rng.integers(0, 2, n),
        np.round(rng.normal(size=n), 1),
    ):
        values = np.where(rng.random(n) < 0.01, 9999, values).astype(float)
        ends = ends_of(values)
        distinct, counts = np.unique(values, return_counts=True)
        kept = np.isin(distinct, np.r_[distinct[:8], distinct[-8:]])
        np.testing.assert_array_equal(ends.values, distinct[kept])
        np.testing.assert_array_equal(ends.counts, counts[kept])
        parts = joined([ends_of(part) for part in np.array_split(values, 7)])
        for found, expected in zip(parts, ends, strict=True):
            np.testing.assert_array_equal(found, expected)


# ------------------------------------------------------------------ labels


@pytest.mark.parametrize("code", [-999, -9999, 9999, -666666666, 1e20])
def test_labels_that_are_codes_are_refused(code):
    rng = np.random.default_rng(0)
    bags, y = [rng.normal(size=(4, 2)) for _ in range(80)], rng.uniform(1, 6, 80)
    y[3] = code
    words = rf"label of bag 3 is {code:.10g} \(1 in total\), far from all others".replace(
        "+", r"\+"
    )
    for model in (BLR(3, method="exact"), Shrinkage(), AggregateRegressor(likelihood="normal")):
        with pytest.raises(ValueError, match=words) as error:
            model.fit(bags, y)
    y[3] = float(str(error.value).rpartition("such as ")[2])  # what the message says to pass
    BLR(3, method="exact").fit(bags, y, seed=1)


def test_counts_and_categories_that_are_codes_are_refused():
    rng = np.random.default_rng(0)
    bags, y = [rng.normal(size=(4, 2)) for _ in range(40)], rng.integers(0, 5, 40)
    y[[5, 9]] = 99
    for model in (
        BDR(3, family="poisson"),
        BDR(3, family="ordinal"),
        AggregateRegressor(likelihood="poisson"),
    ):
        with pytest.raises(ValueError, match=r"label of bag 5 is 99 \(2 in total\)"):
            model.fit(bags, y)


def test_labels_that_only_repeat_are_told():
    bags, y = places(np.arange(40)), np.append(np.linspace(0, 1, 37), [-7.25] * 3)
    with pytest.warns(UserWarning, match=r"column 'y' is -7.25 in 3 of 40 bags"):
        BLR(3, method="exact").fit(bags, y, seed=1)


@pytest.mark.parametrize("name", ["trials", "exposure"])
def test_trials_and_exposures_that_are_codes_are_told(name):
    rng = np.random.default_rng(0)
    bags, y = [rng.normal(size=(4, 2)) for _ in range(40)], rng.integers(0, 5, 40)
    numbers = rng.integers(20, 50, 40)
    numbers[7] = 9999
    family = {"trials": "binomial", "exposure": "poisson"}[name]
    model = BDR(3, family=family, method="optimize")
    (text,) = warned(lambda: model.fit(bags, y, seed=1, **{name: numbers}))
    assert f"column '{name}' is 9999 in 1 of 40 bags (2.5%)" in text


# ------------------------------------------------------------------ columns of bags


def test_covariates_and_smooths_that_are_codes_are_told_at_fit_and_predict():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(4, 2)) for _ in range(80)])
    y = rng.normal(size=80)
    table = pd.DataFrame({"income": rng.normal(5, 2, 80), "year": rng.uniform(0, 9, 80)})
    marked = table.copy()
    marked.loc[[3, 5], "income"], marked.loc[7, "year"] = -666666666, 9999
    model = BDR(3, method="optimize", covariates=["income"], smooths=["year"])
    bags.metadata = marked
    (text,) = warned(lambda: model.fit(bags, y, seed=1))
    for words in ("'income' is -666666666 in 2 of 80 bags (2.5%)", "'year' is 9999 in 1 of 80"):
        assert words in text
    bags.metadata = table
    assert not warned(lambda: model.fit(bags, y, seed=1))
    new = bags[:5]
    assert not warned(lambda: model.predict(new))
    new.metadata = marked[3:8].set_axis(range(5))
    (text,) = warned(lambda: model.predict(new))
    assert "'income' is -666666666 in 2 of 5 bags" in text and "'year' is 9999" in text


def test_a_covariate_is_not_told_twice():
    assert len(warned(lambda: learn_covariates(places([*range(30), -999]), ["x"]))) == 1


# ------------------------------------------------------------------ points and weights


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    heights = np.where(rng.random(600) < 0.05, rng.choice([9996, 9998, 9999], 600), 0)
    return pd.DataFrame(
        {
            "town": np.repeat(np.arange(30), 20),
            "height": np.where(heights > 0, heights, rng.normal(1600, 70, 600).round()),
            "age": rng.integers(0, 90, 600),
        }
    )


def test_codes_of_points_are_told_once_however_they_are_read(table, tmp_path):
    n = int((table["height"] > 9000).sum())
    words = f"'height' is 9996, 9998, 9999 in {n} of 600 points ({100 * n / 600:.2g}%)"
    points, town = table[["height", "age"]].to_numpy(float), table["town"].to_numpy()
    table.to_parquet(tmp_path / "points.parquet", row_group_size=100)
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(points, obs=table[["town"]].set_axis(list(map(str, table.index))))
    cells.var_names = ["height", "age"]
    for read in (
        lambda: Bags.from_dataframe(table, "town"),
        lambda: Bags.from_parquet(tmp_path / "points.parquet", "town"),
        lambda: Bags.from_parquet(tmp_path / "points.parquet", "town", lazy=True),
        lambda: Bags.from_dask(dd.from_pandas(table, npartitions=7), "town"),
        lambda: Bags.from_points(table[["height", "age"]], bag=town),
        lambda: Bags(points, np.arange(31) * 20, features=["height", "age"]),
        lambda: Bags.from_list([each[["height", "age"]] for _, each in table.groupby("town")]),
        lambda: Bags.from_anndata(cells, "town", features="X"),
    ):
        (text,) = warned(read)
        assert words in text and "'age'" not in text.partition("codes")[0]
        assert "df.replace({'height': [9996, 9998, 9999]}, float('nan'))" in text
    y = np.arange(30.0)
    for given in (points.reshape(30, 20, 2), list(points.reshape(30, 20, 2))):
        (text,) = warned(lambda given=given: BLR(3, method="exact").fit(given, y, seed=1))
        assert "column 0 is 9996, 9998, 9999" in text
    bags = Bags.from_dataframe(table.assign(height=0), "town")
    assert not warned(lambda: BLR(3, method="exact").fit(bags[:20], y[:20], seed=1).predict(bags))


def test_the_advice_works(table):
    (text,) = warned(lambda: Bags.from_dataframe(table, "town"))
    replaced = eval(
        text.partition("for example with ")[2].partition(" of a table")[0], {"df": table}
    )
    with pytest.warns(UserWarning, match="dropped"):
        bags = Bags.from_dataframe(replaced, "town", missing="drop")
    assert bags.points[:, 0].max() < 2000


def test_codes_in_a_memory_map_are_told_at_the_fit(table, tmp_path):
    np.save(tmp_path / "points.npy", table[["height", "age"]].to_numpy(float))
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    bags = Bags(mapped, np.arange(31) * 20)
    assert not warned(lambda: bags[:20])
    (text,) = warned(lambda: BLR(3, method="exact").fit(bags, np.arange(30.0), seed=1))
    assert "column 0 is 9996, 9998, 9999" in text


def test_codes_in_new_bags_alone_are_told(table):
    plain = table.assign(height=np.random.default_rng(1).normal(1600, 70, 600))
    bags = Bags.from_dataframe(plain, "town")
    model = BLR(3, method="exact").fit(bags, np.arange(30.0), seed=1)
    few = bags.points[:3].copy()
    assert not warned(lambda: model.predict([few]))
    few[1, 0] = 9996
    (text,) = warned(lambda: model.predict([few]))
    assert "column 'height' is 9996 in 1 of 3 points" in text or "column 0 is 9996" in text
    many = plain.assign(height=plain["height"].where(plain.index % 50 > 0, 9999))
    assert len(warned(lambda: model.predict(many))) == 1


def test_codes_of_weights_are_told(table):
    weights = np.random.default_rng(0).uniform(1, 5, 600)
    weights[[3, 80]] = 99999
    weighted = table.assign(weight=weights, height=0)
    for read in (
        lambda: Bags.from_dataframe(weighted, "town", weight="weight"),
        lambda: Bags.from_dask(dd.from_pandas(weighted, npartitions=3), "town", weight="weight"),
    ):
        (text,) = warned(read)
        assert "column 'weights' is 99999 in 2 of 600 points" in text


def test_codes_in_rasters_are_refused():
    gpd = pytest.importorskip("geopandas")
    rng = np.random.default_rng(0)
    at = np.arange(20) + 0.5
    crs = "EPSG:32736"
    shape = gpd.GeoDataFrame({"district": ["a"]}, geometry=[shapely.box(0, 0, 20, 20)], crs=crs)

    def raster(values):
        return xr.DataArray(values, {"y": at[::-1], "x": at}).rio.write_crs(crs)

    land = rng.random((20, 20)) < 0.8
    people = rng.gamma(0.5, 40, (20, 20)).round()
    Bags.from_rasters({"z": raster(people)}, shape, raster(people))
    for code in (65535, 32767, 1e20, -9999, -99999, -32768):
        marked = raster(np.where(land, people, code))
        shown = f"{code:.10g}".replace("+", r"\+")
        with pytest.raises(ValueError, match=f"covariate 'z' is {shown} at .*write_nodata"):
            Bags.from_rasters({"z": marked}, shape)
        if code > 0:
            with pytest.raises(ValueError, match=f"weight is {shown} at .* of 400 pixels"):
                Bags.from_rasters({"z": raster(people)}, shape, marked)
        declared = marked.rio.write_nodata(code)
        with pytest.warns(UserWarning, match="left out"):
            bags = Bags.from_rasters({"z": raster(people)}, shape, declared)
        assert bags.totals == pytest.approx(people[land].sum())
