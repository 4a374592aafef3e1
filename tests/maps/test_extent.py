"""Districts beyond the rasters, longitudes of two conventions, pixels of unequal areas."""

import warnings

import geopandas as gpd
import numpy as np
import pytest
import rioxarray  # noqa: F401
import shapely
import xarray as xr

from bdr_stan import Bags
from bdr_stan.maps import regrouped


def degrees(left, right, bottom=-10, top=10, step=1.0):
    """A layer of the longitudes of pixels."""
    x = np.arange(left + step / 2, right, step)
    y = np.arange(top - step / 2, bottom, -step)
    return xr.DataArray(np.tile(x, (len(y), 1)), {"y": y, "x": x}).rio.write_crs("EPSG:4326")


def boxes(**bounds):
    shapes = [shapely.box(*each) for each in bounds.values()]
    return gpd.GeoDataFrame({"district": list(bounds)}, geometry=shapes, crs="EPSG:4326")


def test_a_part_beyond_the_raster_is_reported():
    raster, table = degrees(0, 20), boxes(inner=(2, -5, 8, 5), edge=(15, -5, 25, 5))
    with pytest.warns(UserWarning, match=r"1 of 2 districts reach beyond .* \('edge' 50%\)"):
        bags = Bags.from_rasters({"z": raster}, table)
    assert bags.totals == pytest.approx([60, 50])
    with pytest.warns(UserWarning, match="'zone' 25%"):
        regrouped(bags, boxes(zone=(10, -5, 23 + 1 / 3, 5)), "district")


def test_borders_a_little_beyond_the_raster_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        Bags.from_rasters({"z": degrees(0, 20)}, boxes(a=(0, -5, 10, 5), b=(10, -5, 20.05, 5)))


@pytest.mark.parametrize(
    "raster, table",
    [
        (degrees(0, 360), boxes(half=(-10, -5, 10, 5), whole=(20, -5, 30, 5))),
        (degrees(-180, 180), boxes(half=(170, -5, 190, 5))),
        (degrees(-180, 180), boxes(far=(200, -5, 220, 5))),
        (degrees(170, 190), boxes(east=(177, -5, 179, 5), west=(-176, -5, -173, 5))),
        (degrees(-190, -170), boxes(east=(177, -5, 182, 5), west=(-176, -5, -173, 5))),
        (degrees(-180, 180), boxes(across=(177, -5, 182, 5), west=(-176, -5, -173, 5))),
        (degrees(0, 360), boxes(across=(-183, -5, -178, 5), east=(359, -5, 361, 5))),
    ],
)
def test_longitudes_of_districts_become_those_of_the_rasters(raster, table):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        bags = Bags.from_rasters({"z": raster}, table)
    areas = shapely.area(table.geometry.to_numpy())  # in square degrees, of which geopandas warns
    assert bags.totals == pytest.approx(areas)
    np.testing.assert_allclose(bags.points[:, 0], bags.points[:, 1])
    for shape, bag in zip(bags.metadata.geometry, bags, strict=True):
        assert shape.geom_type in ("Polygon", "MultiPolygon")
        assert shapely.contains_xy(shape, bag[:, 1], bag[:, 2]).all()


def test_a_district_across_180_degrees_that_is_not_split_is_refused():
    fiji = shapely.Polygon([(177, -19), (-178, -19), (-178, -16), (177, -16)])
    islands = shapely.MultiPolygon([shapely.box(-179, -12, -178, -11), fiji])
    other = shapely.box(0, -10, 10, 10)
    for shape in (fiji, islands):
        table = gpd.GeoDataFrame({"district": ["a", "b"]}, geometry=[other, shape], crs="EPSG:4326")
        with pytest.raises(ValueError, match="'b' is 355 degrees wide: split it at 180"):
            Bags.from_rasters({"z": degrees(-180, 180, -30, 30)}, table)
    split = [shapely.box(177, -19, 180, -16), shapely.box(-180, -19, -178, -16)]
    table.geometry = [other, shapely.MultiPolygon(split)]
    for left in (-180, 0):
        bags = Bags.from_rasters({"z": degrees(left, left + 360, -30, 30)}, table)
        assert bags.totals == pytest.approx([200, 15])
    whole = boxes(world=(-180, -10, 180, 10), wide=(-170, -10, 170, 10))
    with pytest.raises(ValueError, match="'wide' is 340 degrees wide: .* shapely.segmentize"):
        Bags.from_rasters({"z": degrees(-180, 180)}, whole)
    whole.geometry = whole.geometry.segmentize(10)
    with pytest.warns(UserWarning, match="overlap"):
        assert Bags.from_rasters({"z": degrees(-180, 180)}, whole).totals == pytest.approx(
            [7200, 6800]
        )


def test_rasters_across_180_degrees_that_are_torn_apart_are_told_how_to_join():
    raster, table = degrees(170, 190), boxes(a=(177, -5, 182, 5))
    torn = raster.assign_coords(x=(raster.x + 180) % 360 - 180)
    for layer in (torn, torn.sortby("x")):
        with pytest.raises(ValueError, match="x of .* not evenly spaced") as error:
            Bags.from_rasters({"z": layer}, table)
        assert "by .assign_coords(x=raster.x % 360).sortby('x')" in str(error.value)
        joined = layer.assign_coords(x=layer.x % 360).sortby("x")
        assert Bags.from_rasters({"z": joined}, table).totals == pytest.approx([50])


@pytest.mark.parametrize("left", [-180, -180.5])
def test_a_raster_of_the_world_takes_districts_at_its_edge(left):
    table = boxes(east=(150, -5, 180, 5), west=(-180, -5, -150, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="1 of 2 districts reach beyond")
            bags = Bags.from_rasters({"z": degrees(left, left + 360)}, table)
    assert bags.totals == pytest.approx([300, 300], rel=0.02)


def test_pixels_in_degrees_without_weights_are_reported_where_areas_differ():
    table = boxes(south=(0, 0, 10, 10), north=(0, 50, 10, 60))
    raster = degrees(0, 10, 0, 60)
    with pytest.warns(UserWarning, match=r"latitude 0.5 have 1.97 times .* at 59.5.*pass weight="):
        Bags.from_rasters({"z": raster}, table)
    area = np.cos(np.radians(raster.y)) * xr.ones_like(raster)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        bags = Bags.from_rasters({"z": raster}, table, area)
        Bags.from_rasters({"z": raster}, table[:1])  # 1.5%
    exact = np.degrees(np.diff(np.sin(np.radians([[0, 10], [50, 60]]))))[:, 0] * 10
    assert bags.totals == pytest.approx(exact, rel=1e-3)


def test_a_mark_of_missing_data_is_refused():
    raster, table = degrees(0, 20), boxes(a=(0, -5, 10, 5), b=(10, -5, 20, 5))
    marked = raster.where((raster.x > 0.6) | (raster.y > -4), -9999)
    with pytest.raises(ValueError, match=r"'z' is -9999 at 1 of 200 .*write_nodata\(-9999\)"):
        Bags.from_rasters({"z": marked}, table)
    with pytest.warns(UserWarning, match="left out 1 of 200 pixels"):
        bags = Bags.from_rasters({"z": marked.rio.write_nodata(-9999)}, table)
    assert bags.points[:, 0].min() > 0
    Bags.from_rasters({"z": raster.where(raster.y > 0, -raster.x * 100)}, table)
    Bags.from_rasters({"z": 10 * raster - 1004}, table)  # from -999 to -809: measured values


def test_values_that_wait_for_their_scale_are_refused():
    raster, table = degrees(0, 20), boxes(a=(0, -5, 10, 5))
    scaled = raster.assign_attrs(scale_factor=0.1)
    for layers in ({"z": scaled}, xr.Dataset({"z": scaled})):
        with pytest.raises(ValueError, match=r"'z' has scale_factor 0.1 and add_offset 0 .*mask"):
            Bags.from_rasters(layers, table)
    with pytest.raises(ValueError, match=r"weight has scale_factor 1 and add_offset 273.15"):
        Bags.from_rasters({"z": raster}, table, raster.assign_attrs(add_offset=273.15))
    Bags.from_rasters({"z": raster.assign_attrs(scale_factor=1.0, add_offset=0.0)}, table)
