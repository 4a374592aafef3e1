"""Districts with counts: a simulated country as rasters and polygons, and real counties."""

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bdr_stan.extras import require_maps
from bdr_stan.types import Array, PathName

if TYPE_CHECKING:
    import geopandas

_CRS = "EPSG:32736"  # UTM 36 south, metres
_PIXEL = 1000.0  # metres
_CORNER = 500_000.0, 8_500_000.0
COVARIATES = ("elevation", "rainfall", "vegetation", "travel_time")


def sids_counties() -> "geopandas.GeoDataFrame":
    """The 100 counties of North Carolina with births and sudden infant deaths of two periods.

    The borders are in degrees. Needs the extra "maps". Source: Cressie (1993), "Statistics for
    Spatial Data"; ``sids.txt`` next to the file has the licence.

    Returns
    -------
    geopandas.GeoDataFrame, columns county (text), births_1974 and deaths_1974 (numbers of 1974 to
    1978), births_1979 and deaths_1979 (of 1979 to 1984), geometry

    Raises
    ------
    ImportError
        The extra is not installed.

    Examples
    --------
    >>> from bdr_stan.datasets import sids_counties
    >>> counties = sids_counties()
    >>> len(counties), int(counties["deaths_1974"].sum())
    (100, 667)
    """
    require_maps()
    import geopandas

    with gzip.open(Path(__file__).parent / "sids.geojson.gz") as file:
        return geopandas.read_file(file)


def country_files(
    folder: PathName, *, side: int = 80, n_districts: int = 90, seed: int = 1
) -> Path:
    """Write a simulated country of side x side pixels of one km, with cases by district.

    The rate, cases per person, falls with elevation and travel time, rises with rainfall, and
    varies smoothly in space; cases are Poisson, with a lognormal effect of each district of log sd
    0.3. Needs the extra "maps".

    Parameters
    ----------
    folder : str or Path, which does not exist yet
    side : int, >= 10, pixels of a side
    n_districts : int, >= 2, number of districts
    seed : int, >= 0, of the random numbers

    Returns
    -------
    Path of the folder, which has
        elevation.tif (metres), rainfall.tif (mm per year), vegetation.tif (index),
        travel_time.tif (minutes), population.tif (people per pixel), rate.tif (true cases per
        person), districts.gpkg (polygons with columns district and cases).

    Raises
    ------
    FileExistsError
        The folder exists.
    ImportError
        The extra is not installed.

    Examples
    --------
    >>> from bdr_stan.datasets import country_files
    >>> folder = country_files("country", side=20, n_districts=5)
    >>> sorted(path.name for path in folder.glob("r*.tif"))
    ['rainfall.tif', 'rate.tif']
    """
    require_maps()
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists: remove it, or choose another folder")
    rng = np.random.default_rng(seed)
    height, wet, towns, other = (_field(rng, side, width) for width in (8, 12, 5, 6))
    images = {
        "elevation": 900 + 400 * height,
        "rainfall": 1100 * np.exp(0.3 * wet),
        "vegetation": 0.5 + 0.15 * np.tanh(wet - 0.5 * height),
        "travel_time": 60 * np.exp(-0.8 * towns),
        "population": np.exp(4 + 1.2 * towns + rng.normal(0, 0.3, (side, side))),
        "rate": np.exp(-3 - 0.8 * height + 0.5 * wet - 0.4 * towns + 0.4 * other),
    }
    districts = _districts(rng, side, n_districts)
    number = _district_of_pixels(districts, side)
    expected = np.bincount(
        number, (images["population"] * images["rate"]).ravel(), minlength=n_districts
    )
    districts["cases"] = rng.poisson(expected * np.exp(0.3 * rng.normal(size=n_districts)))
    folder.mkdir(parents=True)
    for name, image in images.items():
        _write_raster(folder / f"{name}.tif", image)
    districts.to_file(folder / "districts.gpkg")
    return folder


def _field(rng: np.random.Generator, side: int, width: float) -> Array:
    """A smooth field of mean 0 and sd 1, shape (side, side)."""
    from scipy.ndimage import gaussian_filter

    field = gaussian_filter(rng.normal(size=(side, side)), width, mode="reflect")
    return (field - field.mean()) / field.std()


def _districts(rng, side, n):
    """Voronoi cells of random places, cut to the country."""
    import geopandas as gpd
    import shapely

    x, y = _CORNER
    land = shapely.box(x, y - side * _PIXEL, x + side * _PIXEL, y)
    places = np.array([x, y]) + side * _PIXEL * (rng.random((n, 2)) - [0, 1])
    cells = shapely.voronoi_polygons(shapely.multipoints(places), extend_to=land)
    polygons = shapely.intersection(shapely.get_parts(cells), land)
    names = [f"D{k:03d}" for k in range(n)]
    return gpd.GeoDataFrame({"district": names}, geometry=polygons, crs=_CRS)


def _district_of_pixels(districts, side):
    """Index of the district of each pixel's centre, row after row, shape (side^2,)."""
    import shapely

    row, column = np.indices((side, side)).reshape(2, -1) + 0.5
    x, y = _CORNER
    centres = shapely.points(x + column * _PIXEL, y - row * _PIXEL)
    pixel, district = districts.sindex.query(centres, predicate="intersects")
    number = np.empty(side**2, int)
    number[pixel] = district
    return number


def _write_raster(path, image):
    import rasterio
    from affine import Affine

    x, y = _CORNER
    transform = Affine(_PIXEL, 0, x, 0, -_PIXEL, y)
    rows, columns = image.shape
    with rasterio.open(
        path, "w", "GTiff", columns, rows, 1, crs=_CRS, transform=transform, dtype="float32"
    ) as file:
        file.write(image.astype(np.float32), 1)
