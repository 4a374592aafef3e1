"""Values of pixels as rasters and tables of districts, written and read back."""

import geopandas as gpd
import h5py
import numpy as np
import pandas as pd
import pytest
import rasterio
import xarray as xr
from builders.map_files import CRS
from builders.point_posteriors import point_case

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.maps import district_table, to_raster


def image(bags, values):
    """Values of points on the whole grid, NaN elsewhere."""
    out = np.full(bags.pixels.grid.shape, np.nan)
    for row, col, value in zip(bags.pixels.row, bags.pixels.col, values):
        out[row, col] = value
    return out


@pytest.fixture
def fitted(bags):
    y = np.random.default_rng(3).poisson(0.01 * bags.totals)
    model = AggregateRegressor("poisson", n_landmarks=5, learn_kernel=False, method="vb")
    return model.fit(bags, y, draws=50, seed=1), y


# ---------------------------------------------------------------- rasters


def test_values_come_back_from_a_geotiff(bags, tmp_path):
    rain = bags.points[:, 1]
    raster = to_raster({"rain": rain, "half": rain / 2}, bags)
    path = tmp_path / "my map (1).tif"
    raster.rio.to_raster(path)
    with rasterio.open(path) as file:
        assert file.crs == bags.pixels.grid.crs and file.transform == bags.pixels.grid.transform
        assert file.shape == bags.pixels.grid.shape and np.isnan(file.nodata)
        assert file.descriptions == ("rain", "half")
        np.testing.assert_array_equal(file.read(1), image(bags, rain))
        np.testing.assert_array_equal(file.read(2), image(bags, rain / 2))
        row, col = bags.pixels.row[7], bags.pixels.col[7]
        assert next(file.sample([bags.points[7, -2:]]))[0] == rain[7]
        assert file.index(*bags.points[7, -2:]) == (row, col)


def test_values_come_back_from_netcdf(bags, tmp_path):
    rain = bags.points[:, 1]
    to_raster({"rain": rain}, bags).to_netcdf(tmp_path / "map.nc")
    with h5py.File(tmp_path / "map.nc") as file:
        np.testing.assert_array_equal(file["rain"][:], image(bags, rain))
        assert b"UTM zone 36S" in np.bytes_(file["spatial_ref"].attrs["crs_wkt"])
    with xr.open_dataset(tmp_path / "map.nc", decode_coords="all") as dataset:
        assert dataset.rio.crs == CRS
        assert dataset.rio.transform() == bags.pixels.grid.transform
        again = dataset["rain"].sel(x=bags.points[9, 2], y=bags.points[9, 3], method="nearest")
        assert float(again) == rain[9]


def test_a_pixel_that_districts_share_appears_once(bags):
    cells, count = np.unique(bags.pixels.cell, return_counts=True)
    assert count.max() > 1
    raster = to_raster(bags.points[:, 0], bags)
    assert raster["value"].notnull().sum() == len(cells)


def test_some_districts_on_the_whole_grid(bags):
    some = bags[[6, 1]]
    whole = to_raster({"z": some.points[:, 0]}, some)["z"]
    np.testing.assert_array_equal(whole, image(some, some.points[:, 0]))


def test_what_is_written_is_read_as_bags_again(country, bags, tmp_path):
    raster = to_raster({"rain": bags.points[:, 1], "z": bags.points[:, 0]}, bags)
    with pytest.warns(UserWarning, match="lack data"):
        again = Bags.from_rasters(raster, country.districts, country.population, "NAME_2")
    np.testing.assert_array_equal(again.points[:, :2], bags.points[:, [1, 0]])
    np.testing.assert_array_equal(again.weights, bags.weights)


def test_rates_at_the_pixels(bags, fitted, tmp_path):
    rate = fitted[0].predict_points(bags)
    for name in ("exceedance", "quantiles"):
        for values in (["high"], "high", 0.5):
            with pytest.raises(TypeError, match=f"^{name} must be a list of numbers, found"):
                to_raster(rate, bags, **{name: values})
    raster = to_raster(rate, bags, quantiles=(0.05, 0.95), exceedance=(0.01,))
    names = ["mean", "sd", "quantile_0.05", "quantile_0.95", "exceedance_0.01"]
    assert list(raster.data_vars) == names
    expected = [rate.mean, rate.sd, *rate.quantile([0.05, 0.95]), rate.exceedance(0.01)]
    for name, values in zip(names, expected):
        np.testing.assert_array_equal(raster[name], image(bags, values))
    raster.rio.to_raster(tmp_path / "rates.tif")
    with rasterio.open(tmp_path / "rates.tif") as file:
        assert list(file.descriptions) == names
    assert list(to_raster(rate, bags, quantiles=()).data_vars) == ["mean", "sd"]


def test_rasters_that_cannot_be_made(bags, rng):
    with pytest.raises(ValueError, match=r"'rain' has values of shape \(3,\), expected \("):
        to_raster({"rain": [1.0, 2.0, 3.0]}, bags)
    plain = Bags.from_list([np.ones((3, 2))])
    with pytest.raises(ValueError, match="no pixels: make them by Bags.from_rasters"):
        to_raster(np.ones(3), plain)
    rate = point_case(rng).posterior()
    with pytest.raises(
        ValueError, match=f"rates of 53 points, but the bags have {len(bags.points)}"
    ):
        to_raster(rate, bags)


# ---------------------------------------------------------------- districts


def test_a_table_of_districts_comes_back_from_a_geopackage(country, bags, fitted, tmp_path):
    model, y = fitted
    predictive = model.predictive(bags)
    table = district_table(predictive, bags, y, level=0.8)
    table.reset_index().to_file(tmp_path / "districts.gpkg")
    again = gpd.read_file(tmp_path / "districts.gpkg").set_index("NAME_2")
    assert list(again.index) == list(country.table["NAME_2"]) and again.crs == country.table.crs
    assert again.geom_equals(country.table.set_index("NAME_2").geometry).all()
    lower, upper = predictive.interval(0.8)
    for name, values in {
        "observed": y,
        "predicted": predictive.mean,
        "sd": predictive.sd,
        "lower": lower,
        "upper": upper,
        "weight": bags.totals,
    }.items():
        np.testing.assert_array_equal(again[name], values)


def test_districts_held_out_have_no_labels(bags, fitted):
    model, _ = fitted
    table = district_table(model.predictive(bags[5:]), bags[5:])
    assert list(table.index) == ["Mara 5", "Mara 6", "Mara 7"] and "observed" not in table


def test_ids_are_the_index_whatever_the_metadata_has(bags, fitted):
    numbered = Bags(
        bags.points, bags.offsets, ids=bags.ids, metadata=bags.metadata.reset_index(drop=True)
    )
    assert list(district_table(fitted[0].predictive(bags), numbered).index) == list(bags.ids)


def test_observed_labels_are_matched_by_their_index(bags, fitted):
    model, y = fitted
    predictive, named = model.predictive(bags), pd.Series(y, bags.ids)
    table = district_table(predictive, bags, named.sample(frac=1, random_state=1))
    np.testing.assert_array_equal(table["observed"], y)
    with pytest.raises(ValueError, match="index of observed"):
        district_table(predictive, bags, named.rename({bags.ids[0]: "elsewhere"}))


def test_tables_that_cannot_be_made(bags, fitted):
    model, y = fitted
    predictive = model.predictive(bags)
    with pytest.raises(ValueError, match="there are predictions of 8 bags, but 3 bags"):
        district_table(predictive, bags[:3])
    with pytest.raises(ValueError, match=r"observed has shape \(7,\), expected \(8,\)"):
        district_table(predictive, bags, y[1:])
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        district_table(predictive, bags, level=95)
    with pytest.raises(ValueError, match="the bags have no polygons: make them by"):
        district_table(predictive, Bags.from_list([np.ones((3, 2))] * 8))
