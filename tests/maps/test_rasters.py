"""Bags from rasters: points, weights and districts against the definition; what is refused."""

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
import xarray as xr
from builders.map_files import in_crs, write_raster
from exactextract import exact_extract

from bdr_stan import Bags
from bdr_stan.maps import bags_from_rasters, layers


def quietly(*arguments, **options):
    """Bags without what is told of pixels that lack data."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="left out")
        return Bags.from_rasters(*arguments, **options)


def of(country, **changes):
    arguments = {
        "covariates": country.covariates,
        "districts": country.districts,
        "weight": country.population,
        "id": "NAME_2",
    }
    return quietly(**arguments | changes)


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
    everyone = of(country, covariates={"rain": country.covariates["rain"]})
    theirs = exact_extract(str(country.population), country.table, "sum", output="pandas")["sum"]
    np.testing.assert_allclose(everyone.totals, theirs, rtol=1e-6)  # their shares are float32


def test_ids_and_columns_of_the_districts_are_kept_in_their_order(country, bags):
    assert list(bags.ids) == [f"Mara {k}" for k in range(8)]
    assert list(bags.metadata["cases"]) == list(range(0, 80, 10))
    assert bags.metadata["geometry"].array.crs == "EPSG:32736"
    turned = of(country, districts=country.table[::-1])
    assert list(turned.ids) == list(bags.ids)[::-1]
    np.testing.assert_array_equal(turned.totals, bags.totals[::-1])


def test_the_grid_is_that_of_the_files(country, bags):
    with rasterio.open(country.population) as file:
        assert bags.pixels.grid.transform == file.transform
        assert bags.pixels.grid.shape == file.shape
        assert bags.pixels.grid.crs == file.crs


def test_pixels_follow_a_selection(bags):
    chosen = bags[[5, 2]]
    at = np.r_[slice(*bags.offsets[5:7]), slice(*bags.offsets[2:4])]
    np.testing.assert_array_equal(chosen.pixels.row, bags.pixels.row[at])
    np.testing.assert_array_equal(chosen.pixels.col, bags.pixels.col[at])
    x, y = chosen.pixels.grid.centres(chosen.pixels.row, chosen.pixels.col)
    np.testing.assert_array_equal(chosen.points[:, -2:], np.column_stack([x, y]))
    assert list(chosen.metadata.index) == ["Mara 5", "Mara 2"]


def test_pixels_belong_where_their_centres_lie(country):
    bags = of(country, fractional=False)
    rows, cols = country.shape
    y, x = np.mgrid[:rows, :cols] + 0.5
    for k, shape in enumerate(country.shapes):
        inside = shapely.contains_xy(shape, x, y) & country.usable()
        assert bags.sizes[k] == inside.sum()
        assert bags.totals[k] == pytest.approx(country.people[inside].sum(), rel=1e-9)
    assert np.all(bags.pixels.share == 1)
    assert of(country, fractional=False, weight=None).weights is None


def test_without_weights_a_pixel_counts_by_its_area(country):
    bags = of(country, weight=None, covariates={"rain": country.covariates["rain"]})
    areas = [shape.area for shape in country.shapes]
    np.testing.assert_allclose(bags.totals, areas, rtol=1e-9)


# ---------------------------------------------------------------- ways in


def same(a, b):
    np.testing.assert_array_equal(a.points, b.points)
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.offsets, b.offsets)


def test_files_arrays_bands_and_datasets_are_one(country, bags):
    arrays = {
        name: rioxarray.open_rasterio(path, masked=True)[0]
        for name, path in country.covariates.items()
    }
    people = rioxarray.open_rasterio(country.population)
    same(of(country, covariates=arrays, weight=people), bags)
    raw = {name: rioxarray.open_rasterio(path)[0] for name, path in country.covariates.items()}
    same(of(country, covariates=raw), bags)  # -9999 is declared, not masked
    dataset = xr.Dataset(arrays)
    same(of(country, covariates=dataset), bags)
    same(of(country, districts=country.table), bags)
    same(of(country, covariates={k: str(v) for k, v in country.covariates.items()}), bags)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="left out")
        same(
            bags_from_rasters(country.covariates, country.districts, country.population, "NAME_2"),
            bags,
        )


def test_bands_of_one_file(country, bags):
    images = [image.astype(np.float32) for image in country.values.values()]
    named = write_raster(country.folder / "all.tif", *images, names=list(country.values))
    same(of(country, covariates=named), bags)
    bare = write_raster(country.folder / "bare.tif", *images)
    assert of(country, covariates=bare).features == ["band_1", "band_2", "x", "y"]


def test_a_netcdf_dataset_with_rows_from_the_south(country, bags):
    dataset = xr.Dataset(
        {
            name: rioxarray.open_rasterio(path, masked=True)[0].drop_vars("band")
            for name, path in country.covariates.items()
        }
    )
    dataset.isel(y=slice(None, None, -1)).to_netcdf(country.folder / "all.nc")
    with xr.open_dataset(country.folder / "all.nc") as south:
        people = rioxarray.open_rasterio(country.population)[0].isel(y=slice(None, None, -1))
        upside_down = of(country, covariates=south, weight=people)
    np.testing.assert_array_equal(upside_down.sizes, bags.sizes)
    np.testing.assert_allclose(upside_down.totals, bags.totals, rtol=1e-9)
    assert upside_down.pixels.grid.transform.e > 0
    ours = bags.points[np.lexsort(bags.points.T[:2])]
    np.testing.assert_allclose(
        upside_down.points[np.lexsort(upside_down.points.T[:2])], ours, rtol=1e-12
    )


def test_part_of_a_raster_has_its_own_grid(country, bags):
    window = {"y": slice(0, 19), "x": slice(1, 29)}
    cut = {
        name: rioxarray.open_rasterio(path, masked=True)[0].isel(window)
        for name, path in country.covariates.items()
    }
    people = rioxarray.open_rasterio(country.population, masked=True)[0].isel(window)
    np.testing.assert_allclose(
        of(country, covariates=cut, weight=people).totals, bags.totals, rtol=1e-9
    )


def test_windows_do_not_matter(country, bags, monkeypatch):
    monkeypatch.setattr(layers, "_WINDOW_BYTES", 1000)  # a few rows
    same(of(country), bags)


def test_scales_of_files_are_applied(country):
    path = country.folder / "scaled.tif"
    path.write_bytes(country.covariates["elevation"].read_bytes())
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.1,), (5.0,)
    bags, plain = of(country, covariates={"z": path}), of(country)
    np.testing.assert_allclose(bags.points[:, 0], 5 + 0.1 * plain.points[:, 0], rtol=1e-6)


# ---------------------------------------------------------------- what is told


def told(country, **changes):
    arguments = {
        "covariates": country.covariates,
        "districts": country.districts,
        "weight": country.population,
        "id": "NAME_2",
    }
    with pytest.warns(UserWarning, match="left out|overlap") as record:
        bags = Bags.from_rasters(**arguments | changes)
    (warning,) = (w for w in record if issubclass(w.category, UserWarning))
    assert warning.filename == __file__
    return str(warning.message), bags


def test_pixels_without_data_are_counted(country):
    message, _ = told(country)
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
    message, bags = told(country, districts=country.folder / "more.gpkg")
    assert (
        "left out 4 of 12 districts: 'nothing' (no geometry), 'empty' (no geometry), "
        "'beyond' (no pixels with data), 'unknown' (no pixels with data)" in message
    )
    same(bags, of(country))
    assert list(bags.ids) == list(country.table["NAME_2"])


def test_districts_without_people_are_named(country):
    people = rioxarray.open_rasterio(country.population, masked=True)[0]
    bags = of(country)
    first = bags.pixels[: bags.offsets[1]]
    people.values[first.row, first.col] = 0
    message, left = told(country, weight=people)
    assert "left out 1 of 8 districts: 'Mara 0' (no weight)" in message
    assert list(left.ids) == list(bags.ids[1:])


def test_districts_that_overlap_are_named(country):
    table = country.table.copy()
    a, b = in_crs(shapely.box(3, 3, 6, 6)), in_crs(shapely.box(4.5, 4, 8, 8))
    table = table.iloc[:2].set_geometry([a, b], crs=table.crs)
    message, _ = told(country, districts=table)
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


def changed_grid(country, name, **changes):
    image = country.values["rain"].astype(np.float32)
    return write_raster(country.folder / f"{name}.tif", image, **changes)


def refused_layers(country):
    """Covariates or weights, and the words in which they are refused."""
    T = country.transform
    moved, shape = T @ T.translation(0.5, 0), country.shape
    bands = country.folder / "two.tif"
    write_raster(bands, *[np.ones(shape)] * 2)
    text = country.folder / "text.tif"
    text.write_text("no raster")
    rain = rioxarray.open_rasterio(country.covariates["rain"], masked=True)
    negative = rioxarray.open_rasterio(country.population, masked=True)[0]
    negative.values[8, 11] = -99
    year = rain.rename(band="time")
    flat = xr.DataArray(np.ones((2, 3)), dims=("lat", "lon"))
    square = xr.DataArray(np.ones((2, 2)), {"y": [2.0, 1.0], "x": [1.0, 2.0]}, ("y", "x"))
    words = xr.DataArray(np.full(shape, "a"), rain[0].coords, ("y", "x"))
    turned = changed_grid(country, "turned", transform=T @ T.rotation(10))
    degrees = changed_grid(country, "degrees", crs="EPSG:4326")
    shifted = changed_grid(country, "shifted", transform=moved)
    fine = changed_grid(country, "fine", transform=T @ T.scale(0.5))
    return [
        ({"covariates": {"z": degrees}}, "the covariate 'z' is in EPSG:4326, but the weight in "
         r"EPSG:32736: bring it to that grid by .rio.reproject_match\(the weight\)"),
        ({"covariates": {"z": degrees, "rain": country.covariates["rain"]}, "weight": None},
         "'rain' is in EPSG:32736, but the covariate 'z' in EPSG:4326"),
        ({"covariates": {"z": shifted}}, "the covariate 'z' has 20 x 30 cells of 1000 x 1000 from"),
        ({"covariates": {"z": fine}}, "20 x 30 cells of 500 x 500"),
        ({"covariates": {"z": turned}}, "is rotated"),
        ({"covariates": {"x": country.covariates["rain"]}}, "a covariate is called 'x'"),
        ({"covariates": {}}, "covariates is empty"),
        ({"covariates": [country.covariates["rain"]]}, "covariates must be a dict of names"),
        ({"covariates": {"z": 3}}, "the covariate 'z' must be the path of a GeoTIFF"),
        ({"covariates": {"z": bands}}, "two.tif, has 2 bands: choose one"),
        ({"covariates": {"z": country.folder / "no.tif"}}, "there is no file"),
        ({"covariates": {"z": text}}, "text.tif is no raster that rasterio reads"),
        ({"covariates": {"z": year}}, "the covariate 'z' has the dimension time beside"),
        ({"covariates": year.to_dataset(name="z")}, "the variable 'z' has the dimension time"),
        ({"covariates": {"z": flat}}, "has the dimensions lat, lon, of which none is known as x"),
        ({"covariates": {"z": square}}, "the covariate 'z' has no CRS: say which"),
        ({"covariates": {"z": words}}, "the covariate 'z' holds <U1, not numbers"),
        ({"weight": bands}, "weight, .*two.tif, has 2 bands"),
        ({"weight": 1.0}, "weight must be the path of a GeoTIFF or an xarray.DataArray"),
        ({"weight": negative}, "weight is -99 in row 8, column 11 .1 such in all.: weights must"),
    ]  # fmt: skip


def test_layers_that_cannot_be_used(country):
    for changes, words in refused_layers(country):
        with pytest.raises((ValueError, TypeError, OSError), match=words) as error:
            pytest.fail(f"{words}: {of(country, **changes)}")
        assert "\n" not in str(error.value)


def refused_districts(country):
    """Districts, and the words in which they are refused."""
    table = country.table
    csv = country.folder / "plain.csv"
    table.drop(columns="geometry").to_csv(csv)
    broken = country.folder / "broken.gpkg"
    broken.write_text("no polygons")
    bow = shapely.Polygon([(0, 0), (1000, 1000), (1000, 0), (0, 1000)])
    crossed = table.set_geometry([bow, *table.geometry[1:]], crs=table.crs)
    points = table.set_geometry(table.centroid)
    return [
        (table.to_crs("EPSG:4326"), "the districts are in EPSG:4326, the rasters in EPSG:32736: "
         r"pass geopandas.read_file\(..\).to_crs\('EPSG:32736'\)"),
        (table.set_crs(None, allow_override=True), "the districts have no CRS"),
        (table.rename(columns={"NAME_2": "NAME"}), "no column 'NAME_2': choose by id= from 'NAME'"),
        (table.assign(NAME_2=["a", "b", "a", *"cdefg"]), "the id 'a' stands at several rows"),
        (table.assign(NAME_2=[7, 1, 1, 2, 3, 4, 5, 6]), "the id 1 stands at several rows"),
        (table.assign(NAME_2=["a", None, None, *"cdefg"]), "'NAME_2' is missing at row 1 .*2 such"),
        (table.iloc[:0], "there are no districts"),
        (points, "the district 'Mara 0' is a Point: districts must be polygons"),
        (crossed, "the border of the district 'Mara 0' is not valid .Self-intersection"),
        (table.translate(9e5).to_frame("geometry").assign(NAME_2=table["NAME_2"]),
         "no district has a pixel with data and weight"),
        (country.folder / "no.gpkg", "there is no file"),
        (csv, "plain.csv has no geometries"),
        (broken, "broken.gpkg is no file that geopandas reads"),
        ([1, 2], "districts must be a GeoDataFrame or a file that geopandas reads, found a list"),
    ]  # fmt: skip


def test_districts_that_cannot_be_used(country):
    for districts, words in refused_districts(country):
        with pytest.raises((ValueError, TypeError, OSError), match=words) as error:
            of(country, districts=districts)
        assert "\n" not in str(error.value)


def test_pixels_of_another_number_are_refused(bags):
    with pytest.raises(ValueError, match="pixels has 3 pixels, but there are"):
        Bags(bags.points, bags.offsets, pixels=bags.pixels[:3])
