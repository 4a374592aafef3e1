"""Districts of a map page: borders as numbers, and tables that are refused."""

from functools import reduce

import geopandas as gpd
import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from bdr_stan.maps import write_map_page
from bdr_stan.maps.grid import Grid
from bdr_stan.maps.page_data import borders

GRID = Grid(Affine(100, 0, 5000, 0, -100, 9000), CRS("EPSG:32736"), shape=(20, 30))


def districts(*shapes):
    names = [f"d{k}" for k in range(len(shapes))]
    return gpd.GeoDataFrame({"cases": 1.0}, index=names, geometry=list(shapes), crs="EPSG:32736")


def polygon(rings):
    """The area of rings of alternating x and y, by even and odd crossings."""
    parts = [shapely.Polygon(np.reshape(ring, (-1, 2))) for ring in rings]
    return reduce(shapely.symmetric_difference, parts)


def test_borders_in_cells_from_the_corner():
    hole = shapely.box(5100, 8600, 5900, 8900) - shapely.box(5300, 8700, 5500, 8800)
    two = shapely.box(6000, 8000, 6200, 8100) | shapely.box(7000, 8000, 7100, 9000)
    mixed = shapely.GeometryCollection([two, shapely.Point(0, 0)])
    found = borders(districts(hole, two, mixed, None), GRID, 1.0)
    assert [each["name"] for each in found] == ["d0", "d1", "d2", "d3"]
    assert [len(each["rings"]) for each in found] == [2, 2, 2, 0]
    cells = shapely.box(1, 1, 9, 4) - shapely.box(3, 2, 5, 3)
    assert polygon(found[0]["rings"]).equals(cells)
    pair = shapely.box(10, 9, 12, 10) | shapely.box(20, 0, 21, 10)
    assert polygon(found[1]["rings"]).equals(pair) and polygon(found[2]["rings"]).equals(pair)
    (wide,) = borders(districts(shapely.box(5100, 8600, 5900, 8900)), GRID, 0.5)
    assert polygon(wide["rings"]).equals(shapely.box(0.5, 1, 4.5, 4))


def test_simplified_borders_stay_within_a_fifth_of_a_pixel(rng):
    angle = np.linspace(0, 2 * np.pi, 3000, endpoint=False)
    radius = 700 + rng.normal(0, 8, len(angle))
    shape = shapely.Polygon(np.c_[6500 + radius * np.cos(angle), 8000 + radius * np.sin(angle)])
    (found,) = borders(districts(shape.buffer(0)), GRID, 1.0)
    simple = polygon(found["rings"])
    exact = shapely.transform(shape.buffer(0), GRID.in_cells)
    assert shapely.hausdorff_distance(simple.exterior, exact.exterior) < 0.21
    assert shapely.get_num_coordinates(simple) < 300


def test_tables_that_are_refused(months, table, tmp_path):
    lines = table.set_geometry(table.geometry.boundary)
    twice = table.rename({table.index[0]: table.index[1]})
    cases = [
        (3, TypeError, "districts must be a GeoDataFrame, such as .*found a int"),
        ({"June": table}, TypeError, "must be a GeoDataFrame, such as .*found a dict"),
        (table.drop(columns="geometry"), TypeError, "found a DataFrame"),
        (table[:0], ValueError, "there are no districts"),
        (twice, ValueError, "the id .* is in several rows of the districts: set_index to"),
        (table.set_crs(None, allow_override=True), ValueError, "the districts have no CRS: set it"),
        (table.to_crs("EPSG:4326"), ValueError, "in EPSG:4326, the rasters in EPSG:32736: pass"),
        (lines, ValueError, "districts must be polygons"),
    ]
    for districts_, kind, message in cases:
        with pytest.raises(kind, match=message) as raised:
            write_map_page(tmp_path / "map.html", months, districts_)
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "map.html").exists()
