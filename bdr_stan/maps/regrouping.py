"""The pixels of bags in other polygons: health zones from districts."""

from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.maps.districts import read_districts
from bdr_stan.maps.grid import pixels_of
from bdr_stan.maps.libraries import check_installed
from bdr_stan.maps.rasters import arguments_of_bags, cells_of_districts

__all__ = ["regrouped"]


def regrouped(bags: Bags, polygons: Any, id: str = "district", *, fractional: bool = True) -> Bags:
    """The same pixels as bags of other polygons, without reading rasters.

    ``model.predictive(regrouped(bags, zones, id="zone"))`` is the posterior of the zones' totals.

    Parameters
    ----------
    bags : Bags from rasters
    polygons : GeoDataFrame, or a file that geopandas reads
        In the CRS of the rasters. Where they reach beyond the districts of `bags` no pixels are
        known.
    id : str, default "district"
        Column of `polygons`, all of whose values differ; becomes `ids`.
    fractional : bool, default True
        As in `Bags.from_rasters`.

    Returns
    -------
    Bags, in the order of the polygons, with `pixels`

    Raises
    ------
    ImportError, TypeError, ValueError, OSError
        As `Bags.from_rasters`; the bags do not come from rasters.

    Warns
    -----
    UserWarning
        Of pixels and polygons that are left out, and of polygons that overlap.

    Examples
    --------
    >>> import geopandas as gpd
    >>> import numpy as np
    >>> from affine import Affine
    >>> from pyproj import CRS
    >>> from shapely.geometry import box
    >>> from bdr_stan import Bags
    >>> from bdr_stan.maps import Grid, Pixels, regrouped
    >>> grid = Grid(Affine(1, 0, 0, 0, -1, 2), CRS("EPSG:32736"), shape=(2, 2))
    >>> pixels = Pixels(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.ones(4), grid)
    >>> bags = Bags(np.zeros((4, 1)), [0, 2, 4], ids=["north", "south"], pixels=pixels)
    >>> names, halves = {"zone": ["west", "east"]}, [box(0, 0, 1, 2), box(1, 0, 2, 2)]
    >>> zones = gpd.GeoDataFrame(names, geometry=halves, crs="EPSG:32736")
    >>> regrouped(bags, zones, id="zone").sizes
    array([2, 2])
    """
    return Bags(**_arguments(bags, polygons, id, fractional))


def _arguments(bags, polygons, id, fractional):
    check_installed()
    known = pixels_of(bags)
    table = read_districts(polygons, id, known.grid)
    bag, pixels = cells_of_districts(table, known.grid, fractional=fractional)
    cells, first = np.unique(known.cell, return_index=True)
    place = np.minimum(np.searchsorted(cells, pixels.cell), len(cells) - 1)
    point, there = first[place], cells[place] == pixels.cell
    points = np.where(there[:, None], bags.points[point], np.nan)
    weights = None
    if bags.weights is not None:  # of the whole pixel, then of the part in the polygon
        weights = np.where(there, bags.weights[point] / known.share[point], np.nan) * pixels.share
    elif fractional:
        weights = pixels.share
    features = bags.features or [f"column {k}" for k in range(bags.n_features)]
    return arguments_of_bags(
        table, bag, pixels, points, weights, features, unweighted=bags.weights is None
    )
