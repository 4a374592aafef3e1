"""Shares of cells against areas of intersections by shapely and exactextract."""

import exactextract
import geopandas as gpd
import numpy as np
import pytest
import shapely
from builders.map_files import neighbours
from exactextract.raster import NumPyRasterSource

from bdr_stan.maps.coverage import cells_by_centre, cells_by_share


def by_intersection(polygon, shape):
    """Share of each cell of the grid, from the definition."""
    col, row = np.meshgrid(np.arange(shape[1]), np.arange(shape[0]))
    return shapely.area(shapely.intersection(shapely.box(col, row, col + 1, row + 1), polygon))


def on_grid(cells, shape):
    row, col, share = cells
    grid = np.zeros(shape)
    np.add.at(grid, (row, col), share)
    return grid


def star(rng, centre, radius, n=40):
    """A polygon with bays."""
    angle = np.sort(rng.uniform(0, 2 * np.pi, n))
    r = radius * rng.uniform(0.4, 1, n)
    return shapely.Polygon(centre + r[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


SHAPE = (12, 17)
TRIANGLE = shapely.Polygon([(2.3, 1.1), (9.7, 4.2), (4.4, 10.6)])
RING = TRIANGLE.buffer(1.3).difference(TRIANGLE)
POLYGONS = {
    "triangle": TRIANGLE,
    "the other way round": TRIANGLE.reverse(),
    "with a hole": RING,
    "with a hole, the other way round": RING.reverse(),
    "two parts": shapely.MultiPolygon([TRIANGLE, shapely.box(11.5, 0.25, 16.75, 3)]),
    "within a cell": shapely.box(3.25, 4.5, 3.5, 4.75),
    "whole cells": shapely.box(3, 4, 8, 9),
    "the grid": shapely.box(0, 0, 17, 12),
    "beyond all sides": shapely.box(-3.5, -2.5, 30, 40).difference(RING),
    "across a corner": TRIANGLE.buffer(4),
    "thin": shapely.LineString([(0.1, 0.2), (16.3, 11.4)]).buffer(0.01),
    "with a line": shapely.GeometryCollection([RING, shapely.LineString([(0, 0), (3, 3)])]),
}


@pytest.mark.parametrize("polygon", POLYGONS.values(), ids=POLYGONS)
def test_shares_are_areas_of_intersections(polygon):
    row, col, share = cells_by_share(polygon, SHAPE)
    expected = by_intersection(shapely.union_all(shapely.get_parts(polygon)), SHAPE)
    np.testing.assert_allclose(on_grid((row, col, share), SHAPE), expected, atol=1e-12)
    assert len(row) == np.count_nonzero(expected > 1e-9)  # each once, and none in vain
    assert share.min() > 0 and share.max() <= 1


def test_shares_of_random_polygons(rng):
    for _ in range(30):
        polygon = star(rng, rng.uniform(-2, 18, 2), rng.uniform(0.1, 9))
        cells = on_grid(cells_by_share(polygon, SHAPE), SHAPE)
        np.testing.assert_allclose(cells, by_intersection(polygon, SHAPE), atol=1e-12)


def test_shares_are_those_of_exactextract(rng):
    polygon = star(rng, (8, 6), 7)
    row, col, share = cells_by_share(polygon, SHAPE)
    crs = "EPSG:32736"
    wkt = gpd.GeoSeries([], crs=crs).crs.to_wkt()
    raster = NumPyRasterSource(np.ones(SHAPE), 0, 0, SHAPE[1], SHAPE[0], srs_wkt=wkt)
    frame = gpd.GeoDataFrame({"id": [1]}, geometry=[polygon], crs=crs)
    theirs = exactextract.exact_extract(raster, frame, ["cell_id", "coverage"], output="pandas")
    cell, part = theirs.loc[0, "cell_id"], theirs.loc[0, "coverage"]
    flipped = np.zeros(SHAPE)  # their first row is the one of largest y
    flipped[SHAPE[0] - 1 - cell // SHAPE[1], cell % SHAPE[1]] = part
    np.testing.assert_allclose(on_grid((row, col, share), SHAPE), flipped, atol=1e-6)


def test_shares_of_neighbours_add_up_to_one(rng):
    parts = neighbours(rng, 25, shapely.box(0, 0, 17, 12))
    total = sum(on_grid(cells_by_share(part, SHAPE), SHAPE) for part in parts)
    np.testing.assert_allclose(total, 1, atol=1e-12)


def test_rounding_of_coordinates_makes_no_slivers():
    row, _, share = cells_by_share(shapely.box(3 - 1e-11, 4 + 1e-11, 8 + 1e-11, 9 + 1e-11), SHAPE)
    assert len(row) == 25 and np.all(share == 1)


@pytest.mark.parametrize("cells", [cells_by_share, cells_by_centre])
@pytest.mark.parametrize("polygon", [shapely.Polygon(), shapely.box(30, 30, 40, 40)])
def test_polygons_without_cells(cells, polygon):
    assert [len(values) for values in cells(polygon, SHAPE)] == [0, 0, 0]


def test_cells_whose_centres_lie_in_a_polygon(rng):
    for _ in range(20):
        polygon = star(rng, rng.uniform(0, 16, 2), rng.uniform(0.5, 9))
        row, col, share = cells_by_centre(polygon, SHAPE)
        y, x = np.mgrid[: SHAPE[0], : SHAPE[1]] + 0.5
        inside = shapely.contains_xy(polygon, x, y)
        np.testing.assert_array_equal(on_grid((row, col, share), SHAPE), inside)
