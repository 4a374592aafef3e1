"""Regroup the pixels of bags by other polygons, for example health zones."""

from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.extras import require_maps
from bdr_stan.maps.districts import read_districts
from bdr_stan.maps.grid import pixels_of
from bdr_stan.maps.rasters import arguments_of_bags, cells_of_districts
from bdr_stan.types import check_flags


def regrouped(bags: Bags, polygons: Any, id: str = "district", *, fractional: bool = True) -> Bags:
    """Regroup the pixels of bags by other polygons, without reading rasters again.

    ``model.predictive(regrouped(bags, zones, id="zone"))`` is the posterior of the zones' totals.

    Parameters
    ----------
    bags : Bags from rasters
    polygons : GeoDataFrame, or a file for geopandas
        In the CRS of the rasters. Parts outside the districts of `bags` have no pixels.
    id : str, default "district"
        Column of `polygons` with distinct values; becomes `ids`.
    fractional : bool, default True
        As in `Bags.from_rasters`.

    Returns
    -------
    Bags, in the order of the polygons, with `pixels`

    Raises
    ------
    ImportError, TypeError, ValueError, OSError
        As `Bags.from_rasters`; the bags were not made from rasters.

    Warns
    -----
    UserWarning : about dropped pixels and polygons, and overlapping polygons.

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
    require_maps()
    source = pixels_of(bags)
    table = read_districts(polygons, id, source.grid)
    check_flags(fractional=fractional)
    bag, pixels = cells_of_districts(table, source.grid, fractional=fractional)
    cells, first = np.unique(source.cell, return_index=True)
    index = np.minimum(np.searchsorted(cells, pixels.cell), len(cells) - 1)
    point, found = first[index], cells[index] == pixels.cell
    points = np.where(found[:, None], bags.points[point], np.nan)
    weights = None
    if bags.weights is not None:  # of the whole pixel, times its share in the polygon
        weights = np.where(found, bags.weights[point] / source.share[point], np.nan) * pixels.share
    elif fractional:
        weights = pixels.share
    features = bags.features or [f"column {k}" for k in range(bags.n_features)]
    unweighted = bags.weights is None
    made = arguments_of_bags(table, bag, pixels, points, weights, features, unweighted=unweighted)
    return Bags(**made, copy=False)
