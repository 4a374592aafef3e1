"""map: rasters and polygons where they lie, with borders, read back from the artists."""

import geopandas as gpd
import numpy as np
import pytest
import shapely
import xarray as xr

from bdr_stan import plots

CRS = "EPSG:32736"


@pytest.fixture
def raster(rng):
    """Values of 4 x 6 cells of 10 m, one of them missing."""
    values = rng.gamma(3, 1, (4, 6))
    values[1, 2] = np.nan
    x, y = 500 + 10 * np.arange(6) + 5, 900 - 10 * np.arange(4) - 5
    return xr.DataArray(values, {"y": y, "x": x}, ("y", "x"), name="rate").rio.write_crs(CRS)


@pytest.fixture
def districts():
    """Two polygons that share the raster's cells, the value of the second missing."""
    shapes = [shapely.box(500, 860, 525, 900), shapely.box(525, 860, 560, 900)]
    return gpd.GeoDataFrame({"cases": [3.0, np.nan]}, geometry=shapes, crs=CRS)


def test_a_raster_is_drawn_where_it_lies(raster, districts):
    ax = plots.map(raster, borders=districts, title="mean", label="cases per person")
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array().filled(np.nan), raster)
    assert image.get_extent() == [500, 560, 860, 900] and image.origin == "upper"
    assert ax.get_aspect() == 1 and ax.get_title() == "mean"
    assert ax.figure.axes[1].get_xlabel() == "cases per person"
    lines = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    np.testing.assert_array_equal(np.unique(lines[:, 0]), [500, 525, 560])
    ax.figure.canvas.draw()
    assert ax.title.get_window_extent().y1 <= ax.figure.bbox.height


def test_rows_from_the_south_are_drawn_from_below(raster):
    image = plots.map(raster[::-1]).images[0]
    assert image.origin == "lower" and image.get_extent() == [500, 560, 860, 900]
    np.testing.assert_array_equal(image.get_array().filled(np.nan), raster[::-1])


def test_polygons_have_the_colours_of_a_column(districts):
    districts.loc[1, "cases"] = 30
    ax = plots.map(districts, "cases", log=True, limits=(1, 10))
    (patches,) = ax.collections
    assert patches.get_clim() == (1, 10) and patches.colorbar.extend == "max"
    np.testing.assert_array_equal(patches.get_array(), [3, 30])
    assert ax.figure.axes[1].get_xlabel() == "cases" and ax.get_xlabel() == ""


def test_polygons_without_a_value_stay_blank(districts):
    (patches,) = plots.map(districts, "cases").collections
    assert len(patches.get_paths()) == 1


def test_degrees_of_longitude_are_shorter_far_from_the_equator(raster):
    north = raster.assign_coords(x=np.arange(6.0), y=61.5 - np.arange(4)).rio.write_crs("EPSG:4326")
    assert plots.map(north).get_aspect() == pytest.approx(2, rel=1e-12)


def test_a_map_on_given_axes(raster):
    import matplotlib.pyplot as plt

    _, (left, right) = plt.subplots(1, 2)
    assert plots.map(raster, ax=right, cmap="magma") is right
    assert right.images[0].get_cmap().name == "magma" and not left.images
    assert right.figure.axes[2].get_xlabel() == "rate"


def test_maps_that_cannot_be_drawn(raster, districts):
    cases = [
        (lambda: plots.map(districts, "rate"), "no column 'rate' to draw: choose from 'cases'"),
        (lambda: plots.map(districts), "no column None to draw"),
        (lambda: plots.map(raster, "rate"), "a raster has no columns: leave column='rate' out"),
        (lambda: plots.map(raster.to_dataset()), r"such as raster\['mean'\], found a Dataset"),
        (lambda: plots.map(raster.expand_dims("time")), "of rows and columns"),
        (lambda: plots.map(raster * np.nan), "'rate' has no value to draw"),
        (lambda: plots.map(raster - raster[0, 0], log=True), "log=True needs values > 0"),
        (lambda: plots.map(raster, limits=(2, 1)), "limits must be a pair"),
        (lambda: plots.map(raster, borders=districts.to_crs("EPSG:4326")),
         r"the borders are not in EPSG:32736: pass borders.to_crs\('EPSG:32736'\)"),
        (lambda: plots.map(raster.drop_vars("spatial_ref")), "the raster has no CRS"),
        (lambda: plots.map(districts.set_crs(None, allow_override=True), "cases"), "has no CRS"),
    ]  # fmt: skip
    for draw, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            draw()
