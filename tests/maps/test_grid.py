"""Cells of rasters: their coordinates, windows and CRSs."""

import numpy as np
import pytest
import rasterio
from pyproj import CRS
from rasterio.transform import Affine

from bdr_stan.maps.grid import Grid, Pixels, name_of_crs, same_crs

GRID = Grid(Affine(30, 0, 500, 0, -20, 900), CRS("EPSG:32736"), (4, 6))


def test_centres_are_those_of_rasterio():
    row, col = np.divmod(np.arange(24), 6)
    expected = rasterio.transform.xy(GRID.transform, row, col)
    np.testing.assert_allclose(GRID.centres(row, col), expected, rtol=1e-15)
    cells = GRID.in_cells(np.column_stack(GRID.centres(row, col)))
    np.testing.assert_allclose(cells, np.column_stack([col, row]) + 0.5, rtol=1e-13)


def test_a_window_has_the_same_cells():
    window = GRID.window(slice(1, 3), slice(2, 6))
    assert window.shape == (2, 4)
    np.testing.assert_array_equal(window.centres(1, 3), GRID.centres(2, 5))


def test_cells_of_a_window_lie_where_they_lay():
    window = GRID.window(slice(1, 3), slice(3, 5))
    row, col = np.array([1, 0, 1]), np.array([1, 0, 0])
    assert window.shape == (2, 2)
    np.testing.assert_array_equal(window.centres(row, col), GRID.centres(row + 1, col + 3))


def test_pixels_count_along_rows():
    pixels = Pixels(np.array([2, 1, 2]), np.array([4, 3, 3]), np.ones(3), GRID)
    assert list(pixels.cell) == [16, 9, 15] and list(pixels[[2, 0]].cell) == [15, 16]
    assert repr(pixels) == "Pixels(3 points, grid 4 x 6, EPSG:32736)"


@pytest.mark.parametrize("version", ["WKT1_ESRI", "WKT1_GDAL", "WKT2_2019"])
def test_a_crs_is_known_whichever_program_wrote_it(version):
    for name in ("EPSG:32736", "EPSG:4326"):
        written = CRS.from_wkt(CRS(name).to_wkt(version))
        assert same_crs(written, CRS(name)) and name_of_crs(written) == name
    assert not same_crs(CRS("EPSG:32736"), CRS("EPSG:32737"))


def test_a_crs_without_a_number_has_its_name():
    custom = CRS("+proj=laea +lat_0=7.31 +lon_0=21.73 +type=crs")
    assert name_of_crs(custom) == "unknown" and same_crs(custom, CRS(custom.to_wkt()))
