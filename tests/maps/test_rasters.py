"""Bags from rasters: points, weights and districts against the definition; what is told."""

import subprocess
import sys
import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
import rioxarray
import shapely
from builders.map_files import arguments_of, assert_same, in_crs, read
from exactextract import exact_extract

from bdr_stan import Bags

# ---------------------------------------------------------------- what the bags are


def test_points_are_pixels_and_weights_their_parts(country, bags):
    assert bags.features == ["elevation", "rain", "x", "y"]
    share = country.shares() * country.usable()
    np.testing.assert_array_equal(bags.sizes, (share > 0).sum(axis=(1, 2)))
    people = np.nan_to_num(country.people)
    for k in range(len(bags)):
        row, col = np.nonzero(share[k])
        part = slice(*bags.offsets[k : k + 2])
        np.testing.assert_array_equal(bags.pixels.row[part], row)
        np.testing.assert_array_equal(bags.pixels.col[part], col)
        np.testing.assert_allclose(bags.pixels.share[part], share[k][row, col], rtol=1e-9)
        expected = share[k][row, col] * people[row, col]
        np.testing.assert_allclose(bags.weights[part], expected, rtol=1e-9)
        for column, image in enumerate(country.values.values()):
            np.testing.assert_array_equal(bags[k][:, column], image[row, col])
        x, y = rasterio.transform.xy(country.transform, row, col)
        np.testing.assert_allclose(bags[k][:, 2:], np.column_stack([x, y]), rtol=1e-12)


def test_totals_are_zonal_sums(country, bags):
    expected = (country.shares() * np.where(country.usable(), country.people, 0)).sum(axis=(1, 2))
    np.testing.assert_allclose(bags.totals, expected, rtol=1e-9)
    everyone = read(country, covariates={"rain": country.covariates["rain"]})
    theirs = exact_extract(str(country.population), country.table, "sum", output="pandas")["sum"]
    np.testing.assert_allclose(everyone.totals, theirs, rtol=1e-6)  # their shares are float32


def test_ids_and_columns_of_the_districts_are_kept_in_their_order(country, bags):
    assert list(bags.ids) == [f"Mara {k}" for k in range(8)]
    assert list(bags.metadata["cases"]) == list(range(0, 80, 10))
    assert bags.metadata["geometry"].array.crs == "EPSG:32736"
    turned = read(country, districts=country.table[::-1])
    assert list(turned.ids) == list(bags.ids)[::-1]
    np.testing.assert_array_equal(turned.totals, bags.totals[::-1])


def test_the_grid_is_that_of_the_files(country, bags):
    with rasterio.open(country.population) as file:
        assert bags.pixels.grid.transform == file.transform
        assert bags.pixels.grid.shape == file.shape
        assert bags.pixels.grid.crs == file.crs


def test_pixels_follow_a_selection(bags):
    chosen = bags[[5, 2]]
    points = np.r_[slice(*bags.offsets[5:7]), slice(*bags.offsets[2:4])]
    np.testing.assert_array_equal(chosen.pixels.row, bags.pixels.row[points])
    np.testing.assert_array_equal(chosen.pixels.col, bags.pixels.col[points])
    x, y = chosen.pixels.grid.centres(chosen.pixels.row, chosen.pixels.col)
    np.testing.assert_array_equal(chosen.points[:, -2:], np.column_stack([x, y]))
    assert list(chosen.metadata.index) == ["Mara 5", "Mara 2"]


def test_pixels_belong_where_their_centres_lie(country):
    bags = read(country, fractional=False)
    rows, cols = country.shape
    y, x = np.mgrid[:rows, :cols] + 0.5
    for k, shape in enumerate(country.shapes):
        inside = shapely.contains_xy(shape, x, y) & country.usable()
        assert bags.sizes[k] == inside.sum()
        assert bags.totals[k] == pytest.approx(country.people[inside].sum(), rel=1e-9)
    assert np.all(bags.pixels.share == 1)
    assert read(country, fractional=False, weight=None).weights is None


def test_without_weights_a_pixel_counts_by_its_area(country):
    bags = read(country, weight=None, covariates={"rain": country.covariates["rain"]})
    areas = [shape.area for shape in country.shapes]
    np.testing.assert_allclose(bags.totals, areas, rtol=1e-9)


# ---------------------------------------------------------------- what is told


def warning_and_bags(country, **changes):
    with pytest.warns(UserWarning, match="left out|overlap") as record:
        bags = Bags.from_rasters(**arguments_of(country) | changes)
    (warning,) = (w for w in record if issubclass(w.category, UserWarning))
    assert warning.filename == __file__
    return str(warning.message), bags


def test_pixels_without_data_are_counted(country):
    message, _ = warning_and_bags(country)
    some = (country.shares() > 0).any(axis=0)
    lost = some & ~country.usable()
    assert f"left out {lost.sum()} of {some.sum()} pixels" in message
    n = np.sum(some & np.isnan(country.people))
    assert f"(elevation 3, weight {n})" in message
    counted = country.shares().sum(axis=0) * np.nan_to_num(country.people)
    assert f"with {counted[lost].sum() / counted.sum():.2%} of the weight" in message


def test_districts_without_pixels_are_named(country):
    beyond, unknown = in_crs(shapely.box(90, 90, 99, 99)), in_crs(shapely.box(27.5, 1, 28.5, 2))
    more = gpd.GeoDataFrame(
        {"NAME_2": ["nothing", "empty", "beyond", "unknown"], "cases": 1},
        geometry=[None, shapely.Polygon(), beyond, unknown],
        crs=country.table.crs,
    )
    table = pd.concat([country.table.iloc[:4], more, country.table.iloc[4:]])
    table.to_file(country.folder / "more.gpkg")
    message, bags = warning_and_bags(country, districts=country.folder / "more.gpkg")
    assert (
        "left out 4 of 12 districts: 'nothing' (no geometry), 'empty' (no geometry), "
        "'beyond' (no pixels with data), 'unknown' (no pixels with data)" in message
    )
    assert_same(bags, read(country))
    assert list(bags.ids) == list(country.table["NAME_2"])


def test_districts_without_people_are_named(country):
    people = rioxarray.open_rasterio(country.population, masked=True)[0]
    bags = read(country)
    first = bags.pixels[: bags.offsets[1]]
    people.values[first.row, first.col] = 0
    message, left = warning_and_bags(country, weight=people)
    assert "left out 1 of 8 districts: 'Mara 0' (no weight)" in message
    assert list(left.ids) == list(bags.ids[1:])


def test_districts_that_overlap_are_named(country):
    table = country.table.copy()
    a, b = in_crs(shapely.box(3, 3, 6, 6)), in_crs(shapely.box(4.5, 4, 8, 8))
    table = table.iloc[:2].set_geometry([a, b], crs=table.crs)
    message, _ = warning_and_bags(country, districts=table)
    assert "districts overlap by 3 pixels in all, most 'Mara 0' and 'Mara 1'" in message


def test_clean_files_are_read_in_silence(country):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        Bags.from_rasters({"rain": country.covariates["rain"]}, country.districts, id="NAME_2")


# ---------------------------------------------------------------- what is refused


def test_without_the_extra_the_way_to_it_is_said(tmp_path):
    (tmp_path / "rasterio.py").write_text("raise ImportError('none')")
    code = "from bdr_stan import Bags; import bdr_stan.maps; Bags.from_rasters({}, {})"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportError: maps need geopandas, rasterio and rioxarray: pip install" in run.stderr


def test_pixels_of_another_number_are_refused(bags):
    with pytest.raises(ValueError, match="pixels has 3 pixels, but there are"):
        Bags(bags.points, bags.offsets, pixels=bags.pixels[:3])
