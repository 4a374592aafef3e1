"""Rasters as layers: files, arrays, bands and datasets; windows; those that are refused."""

import warnings

import numpy as np
import pytest
import rasterio
import rioxarray
import xarray as xr
from builders.map_files import assert_same, read, write_raster

from bdr_stan import Bags
from bdr_stan.maps import layers

# ---------------------------------------------------------------- ways in


def test_files_arrays_bands_and_datasets_are_one(country, bags):
    arrays = {
        name: rioxarray.open_rasterio(path, masked=True)[0]
        for name, path in country.covariates.items()
    }
    people = rioxarray.open_rasterio(country.population)
    assert_same(read(country, covariates=arrays, weight=people), bags)
    raw = {name: rioxarray.open_rasterio(path)[0] for name, path in country.covariates.items()}
    assert_same(read(country, covariates=raw), bags)  # -9999 is declared, not masked
    dataset = xr.Dataset(arrays)
    assert_same(read(country, covariates=dataset), bags)
    assert_same(read(country, districts=country.table), bags)
    assert_same(read(country, covariates={k: str(v) for k, v in country.covariates.items()}), bags)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="left out")
        assert_same(
            Bags.from_rasters(country.covariates, country.districts, country.population, "NAME_2"),
            bags,
        )


def test_bands_of_one_file(country, bags):
    images = [image.astype(np.float32) for image in country.values.values()]
    named = write_raster(country.folder / "all.tif", *images, names=list(country.values))
    assert_same(read(country, covariates=named), bags)
    bare = write_raster(country.folder / "bare.tif", *images)
    assert read(country, covariates=bare).features == ["band_1", "band_2", "x", "y"]


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
        upside_down = read(country, covariates=south, weight=people)
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
        read(country, covariates=cut, weight=people).totals, bags.totals, rtol=1e-9
    )


@pytest.mark.parametrize("axes", [("lon", "lat"), ("longitude", "latitude")])
def test_axes_of_other_names(country, bags, axes):
    dataset = xr.Dataset(
        {
            name: rioxarray.open_rasterio(path, masked=True)[0].rename(x=axes[0], y=axes[1])
            for name, path in country.covariates.items()
        }
    )
    assert_same(read(country, covariates=dataset), bags)


def test_coordinates_of_single_precision(country, bags):
    dataset = xr.Dataset(
        {
            name: rioxarray.open_rasterio(path, masked=True)[0].drop_vars("spatial_ref")
            for name, path in country.covariates.items()
        }
    )
    dataset = dataset.assign_coords(x=dataset.x.astype("f4"), y=dataset.y.astype("f4"))
    dataset = dataset.rio.write_crs("EPSG:32736")
    assert dataset.rio.transform(recalc=True) != bags.pixels.grid.transform
    assert_same(read(country, covariates=dataset), bags)


def test_true_and_false_are_one_and_zero(country, bags):
    wet = rioxarray.open_rasterio(country.covariates["rain"], masked=True)[0] > 500
    found = read(country, covariates={"z": country.covariates["elevation"], "wet": wet})
    np.testing.assert_array_equal(found.points[:, 1], bags.points[:, 1] > 500)


def test_windows_do_not_matter(country, bags, monkeypatch):
    monkeypatch.setattr(layers, "_WINDOW_BYTES", 1000)  # a few rows
    assert_same(read(country), bags)


def test_scales_of_files_are_applied(country):
    path = country.folder / "scaled.tif"
    path.write_bytes(country.covariates["elevation"].read_bytes())
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.1,), (5.0,)
    bags, plain = read(country, covariates={"z": path}), read(country)
    np.testing.assert_allclose(bags.points[:, 0], 5 + 0.1 * plain.points[:, 0], rtol=1e-6)


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
    flat = xr.DataArray(np.ones((2, 3)), dims=("row", "col"))
    square = xr.DataArray(np.ones((2, 2)), {"y": [2.0, 1.0], "x": [1.0, 2.0]}, ("y", "x"))
    words = xr.DataArray(np.full(shape, "a"), rain[0].coords, ("y", "x"))
    turned = changed_grid(country, "turned", transform=T @ T.rotation(10))
    degrees = changed_grid(country, "degrees", crs="EPSG:4326")
    shifted = changed_grid(country, "shifted", transform=moved)
    fine = changed_grid(country, "fine", transform=T @ T.scale(0.5))
    return [
        ({"covariates": {"z": degrees}}, "the covariate 'z' is in EPSG:4326, but the weight in "
         "EPSG:32736: bring it to that grid by rioxarray's .rio.reproject_match"),
        ({"covariates": {"z": degrees, "rain": country.covariates["rain"]}, "weight": None},
         "'rain' is in EPSG:32736, but the covariate 'z' in EPSG:4326"),
        ({"covariates": {"z": shifted}}, "the covariate 'z' has 20 x 30 cells of 1000 x 1000 from"),
        ({"covariates": {"z": fine}}, "20 x 30 cells of 500 x 500"),
        ({"covariates": {"z": turned}}, "is rotated"),
        ({"covariates": {"x": country.covariates["rain"]}}, "a covariate has the name 'x'"),
        ({"covariates": {}}, "covariates is empty"),
        ({"covariates": [country.covariates["rain"]]}, "covariates must be a dict such as"),
        ({"covariates": rain[0]}, "dict such as {'rain': raster}.*a DataArray"),
        ({"covariates": {"z": 3}}, "the covariate 'z' must be the path of a GeoTIFF"),
        ({"covariates": {"z": bands}}, "two.tif, has 2 bands: choose one"),
        ({"covariates": {"z": country.folder / "no.tif"}}, "there is no file"),
        ({"covariates": {"z": text}}, "text.tif is not a raster that rasterio reads"),
        ({"covariates": {"z": year}}, "the covariate 'z' has the dimension time in addition"),
        ({"covariates": year.to_dataset(name="z")}, "the variable 'z' has the dimension time"),
        ({"covariates": {"z": flat}}, "has the dimensions row, col: rename the dimensions"),
        ({"covariates": {"z": rain[0].isel(y=[0, 1, 3])}}, "y of the covariate 'z' is not evenly"),
        ({"covariates": {"z": square}}, "the covariate 'z' has no CRS: set it by"),
        ({"covariates": {"z": words}}, "the covariate 'z' has values of <U1, not numbers"),
        ({"weight": bands}, "weight, .*two.tif, has 2 bands"),
        ({"weight": 1.0}, "weight must be the path of a GeoTIFF or an xarray.DataArray"),
        ({"weight": negative}, "weight is -99 in row 8, column 11 .1 in total.: weights must"),
    ]  # fmt: skip


def test_layers_that_cannot_be_used(country):
    for changes, words in refused_layers(country):
        with pytest.raises((ValueError, TypeError, OSError), match=words) as error:
            pytest.fail(f"{words}: {read(country, **changes)}")
        assert "\n" not in str(error.value)
