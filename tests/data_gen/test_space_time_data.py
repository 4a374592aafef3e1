"""The generated months: cases follow the rates, and a split changes the bags alone."""

import numpy as np
import pandas as pd
import pytest

from data_gen.malaria import load_country, write_country
from data_gen.space_time import (
    COLUMNS,
    COVARIATES,
    DISPERSION,
    FIELD_MONTHS,
    SURVEYS,
    country_tables,
    months_of,
)


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, n_pixels=1500, n_districts=30, seed=3)
    return load_country(folder)


@pytest.fixture(scope="module")
def data(country):
    return months_of(country, n_months=24, seed=2)


def test_bags_are_districts_in_months(country, data):
    assert len(data.bags) == 30 * 24 and data.bags.features == list(COLUMNS)
    months = data.bags.points[:, COLUMNS.index("month")].reshape(24, -1)
    np.testing.assert_array_equal(months, np.repeat(np.arange(24.0)[:, None], 1500, axis=1))
    for column in (*COVARIATES, "x", "y"):
        values = data.bags.points[:, COLUMNS.index(column)].reshape(24, -1)
        expected = country.bags.points[:, list(country.bags.features).index(column)]
        np.testing.assert_array_equal(values, np.tile(expected, (24, 1)))
    np.testing.assert_array_equal(data.bags.totals[:30], country.bags.totals)


def test_counts_are_those_of_the_rates_times_reporting(data):
    expected = data.bags.sums(data.bags.weights * data.rate)
    scaled = (data.y - expected) / np.sqrt(expected + (DISPERSION * expected) ** 2)
    assert abs(scaled.mean()) < 0.15 and 0.9 < scaled.std() < 1.1


def test_the_field_changes_slowly(data):
    """Less season and rain, log rates a month apart differ less than those of many months."""
    log_rate = np.log(data.rate).reshape(24, -1)
    rain = data.bags.points[:, COLUMNS.index("rain")].reshape(24, -1)
    log_rate -= 0.3 * rain
    log_rate -= log_rate.mean(axis=1, keepdims=True)
    step = np.std(log_rate[1:] - log_rate[:-1])
    far = np.std(log_rate[12:] - log_rate[:12])
    assert FIELD_MONTHS < 12 and 0.4 < far < 0.9 and step < far / 2.5


def test_a_split_leaves_all_else_as_it_is(country, data):
    split = months_of(country, n_months=24, split=9, seed=2)
    assert len(split.bags) == len(data.bags) + 24 - 9
    same = np.isin(split.bags.ids, data.bags.ids)
    kept = np.isin(data.bags.ids, split.bags.ids)
    np.testing.assert_array_equal(split.y[same], data.y[kept])
    halves, whole = split.part(~same), data.part(~kept)
    assert set(halves.bags.metadata["month"]) == set(range(9, 24))
    np.testing.assert_array_equal(halves.y.reshape(-1, 2).sum(axis=1), whole.y)
    np.testing.assert_allclose(halves.bags.totals.reshape(-1, 2).sum(axis=1), whole.bags.totals)
    x = halves.bags.sums(halves.bags.points[:, -2]) / halves.bags.sizes
    assert np.all(x[::2] > x[1::2])  # east, west


@pytest.mark.parametrize(
    "arguments, message",
    [({"n_months": 1}, "n_months must be at least 2"), ({"split": 36}, "from 1 to 35, found 36")],
)
def test_months_reject(country, arguments, message):
    with pytest.raises(ValueError, match=message):
        months_of(country, **arguments)


def test_tables_are_of_one_country():
    tables = country_tables(n_pixels=400, n_districts=10, n_months=18, seed=4)
    pixels, weather, cases = tables.pixels, tables.weather, tables.cases
    assert len(pixels) == 400 and len(weather) == 400 * 18 and len(cases) == 10 * 18
    people = pixels["population"].to_numpy()
    expected = pd.DataFrame(tables.rate.T * people[:, None]).groupby(pixels["district"]).sum()
    cases = cases.pivot(index="district", columns="month", values="cases")
    scaled = np.log((cases + 1) / (expected + 1)).to_numpy()
    assert abs(np.median(scaled)) < 0.1 and scaled.std() < 0.4
    for name, table in tables.surveys.items():
        design = SURVEYS[name]
        assert len(table) == design["n_places"] and set(table["month"]) <= set(design["months"])
        away = np.abs(table[["x", "y"]].to_numpy()[:, None] - pixels[["x", "y"]].to_numpy())
        pixel = away.max(axis=2).argmin(axis=1)
        assert away.max(axis=2).min(axis=1).max() < 0.5 * np.sqrt(1_044_683 / 400) + 0.1
        log_rate = np.log(tables.rate[table["month"], pixel])
        odds = np.log((table["positives"] + 0.5) / (table["examined"] - table["positives"] + 0.5))
        slope, spread = np.polyfit(log_rate, odds, 1, cov=True)
        assert abs(slope[0] - design["slope"]) < 3 * np.sqrt(spread[0, 0])
    rain = weather.merge(pixels, on="pixel")["rain"]
    assert len(rain) == len(weather) and abs(rain.mean()) < 1e-6
    with pytest.raises(ValueError, match="n_months must be at least 18, found 17"):
        country_tables(n_months=17)
