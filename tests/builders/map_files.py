"""A small country of districts and rasters, as files and as arrays."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import geopandas as gpd
import numpy as np
import rasterio
import shapely
from rasterio.transform import Affine

from bdr_stan import Bags

CRS = "EPSG:32736"
SIDE = 1000.0
LEFT, TOP = 412_345.6, 9_123_456.7
TRANSFORM = Affine(SIDE, 0, LEFT, 0, -SIDE, TOP)
SHAPE = (20, 30)


@dataclass
class MapFiles:
    """Files, and what is in them.

    covariates : dict, name -> path: elevation, int16 with -9999 at three pixels, and rain
    population : path, NaN beyond some column
    districts : path of a GeoPackage with columns NAME_2 and cases, whose borders cut pixels
    table, shapes : the districts as a GeoDataFrame, and their polygons in cells
    values, people : covariates and population as arrays, NaN where there are no data
    """

    folder: Path
    covariates: dict
    population: Path
    districts: Path
    table: gpd.GeoDataFrame
    shapes: list
    values: dict
    people: np.ndarray
    shape: tuple = SHAPE
    transform: Affine = TRANSFORM

    def shares(self):
        """Part of each pixel in each district, by shapely; shape (districts, rows, columns)."""
        col, row = np.meshgrid(np.arange(self.shape[1]), np.arange(self.shape[0]))
        cells = shapely.box(col, row, col + 1, row + 1)
        return np.array([shapely.area(shapely.intersection(cells, s)) for s in self.shapes])

    def usable(self):
        """Pixels that have all data."""
        return np.isfinite([*self.values.values(), self.people]).all(axis=0)


def in_crs(polygon):
    """A polygon in cells, (column, row), in the coordinates of the CRS."""
    return shapely.transform(polygon, lambda xy: xy * [SIDE, -SIDE] + [LEFT, TOP])


def write_raster(path, *bands, nodata=np.nan, crs=CRS, transform=TRANSFORM, names=()):
    """Bands as a GeoTIFF."""
    options = {"crs": crs, "transform": transform, "nodata": nodata, "dtype": bands[0].dtype}
    rows, cols = bands[0].shape
    with rasterio.open(path, "w", "GTiff", cols, rows, len(bands), **options) as file:
        for k, band in enumerate(bands, 1):
            file.write(band, k)
        for k, name in enumerate(names, 1):
            file.set_band_description(k, name)
    return path


def neighbours(rng, n, land):
    """n polygons that share a land between them."""
    left, top, right, bottom = land.bounds
    seeds = shapely.MultiPoint(rng.uniform((left, top), (right, bottom), (n, 2)))
    cells = shapely.voronoi_polygons(seeds, extend_to=land).geoms
    return [shapely.intersection(cell, land) for cell in cells]


def map_files(folder, rng):
    """Write the country's files to a folder."""
    elevation = rng.integers(0, 3000, SHAPE).astype(np.int16)
    elevation[[3, 4, 9], [5, 5, 12]] = -9999
    rain = rng.gamma(2, 300, SHAPE).astype(np.float32)
    people = rng.gamma(0.5, 100, SHAPE).astype(np.float32)
    people[:, 27:] = np.nan
    shapes = neighbours(rng, 8, shapely.box(1.3, 0.7, 28.6, 18.9))
    districts = gpd.GeoDataFrame(
        {"NAME_2": [f"Mara {k}" for k in range(8)], "cases": np.arange(8) * 10},
        geometry=[in_crs(shape) for shape in shapes],
        crs=CRS,
    )
    districts.to_file(folder / "districts.gpkg")
    return MapFiles(
        folder,
        {
            "elevation": write_raster(folder / "elevation.tif", elevation, nodata=-9999),
            "rain": write_raster(folder / "rain.tif", rain),
        },
        write_raster(folder / "people.tif", people),
        folder / "districts.gpkg",
        districts,
        shapes,
        {
            "elevation": np.where(elevation == -9999, np.nan, elevation.astype(float)),
            "rain": rain.astype(float),
        },
        people.astype(float),
    )


def arguments_of(country):
    """Arguments of `Bags.from_rasters` with the country's files."""
    return {
        "covariates": country.covariates,
        "districts": country.districts,
        "weight": country.population,
        "id": "NAME_2",
    }


def read(country, **changes):
    """Bags of the country's files, or of changed arguments; pixels without data are not told."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="left out")
        return Bags.from_rasters(**arguments_of(country) | changes)


def assert_same(a, b):
    """Bags have the same points and weights."""
    np.testing.assert_array_equal(a.points, b.points)
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.offsets, b.offsets)
