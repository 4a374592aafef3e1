"""Whether a raster covers the districts: parts outside, longitude conventions, areas."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.maps.grid import Grid
from bdr_stan.types import Array

if TYPE_CHECKING:
    import geopandas as gpd

_FULL_CIRCLE = 360.0  # degrees
_MERIDIAN_MARGIN = 1.5  # cells: grids with cells centred at a meridian reach half a cell beyond
_MIN_SHARE_OUTSIDE = 0.01  # of a district's area: less is imprecision of coastlines and borders
_MAX_AREA_RATIO = 1.1  # of two pixels: less changes rates by less than their usual uncertainty


def check_longitudes(table: "gpd.GeoDataFrame", grid: Grid) -> None:
    """Raise ValueError if districts would lie on the raster after a shift of 360 degrees.

    A raster from 0 to 360 misses the western half of districts from -180 to 180.
    """
    import shapely

    if not grid.crs.is_geographic:
        return
    left, bottom, right, top = _extent(grid).bounds
    margin = _MERIDIAN_MARGIN * abs(grid.transform.a)
    inner = shapely.box(left + margin, bottom, max(left, right) - margin, top)
    west, east = table.geometry.total_bounds[[0, 2]]
    for shift, formula in (
        (_FULL_CIRCLE, "(raster.x + 180) % 360 - 180"),
        (-_FULL_CIRCLE, "raster.x % 360"),
    ):
        if min(east + shift, right) - max(west + shift, left) <= margin:
            continue
        shifted = table.geometry.translate(xoff=shift).intersects(inner).to_numpy()
        if shifted.any():
            raise ValueError(
                f"the longitudes of the rasters go from {left:g} to {right:g}, those of the "
                f"districts from {west:g} to {east:g}: {plain(table.index[shifted.argmax()])!r} "
                f"({shifted.sum()} in all) is on the raster only after a turn of 360 degrees; "
                f"bring the rasters to the districts' range by .assign_coords(x={formula})"
                ".sortby('x')"
            )


def share_outside(table: "gpd.GeoDataFrame", grid: Grid) -> Array:
    """Share of each district's area outside the grid, shape (n,); 0 without an area."""
    import shapely

    extent, shapes = _extent(grid), table.geometry.to_numpy()
    area = shapely.area(shapes)
    outside = np.zeros(len(table))
    left, bottom, right, top = shapely.bounds(shapes).T
    xmin, ymin, xmax, ymax = extent.bounds
    beyond = (area > 0) & ((left < xmin) | (bottom < ymin) | (right > xmax) | (top > ymax))
    inside = shapely.area(shapely.intersection(shapes[beyond], extent))
    outside[beyond] = 1 - inside / area[beyond]
    return outside


def outside_warnings(table: "gpd.GeoDataFrame", grid: Grid) -> list[str]:
    """Warning about districts that are partly outside the grid, if any."""
    outside = share_outside(table, grid)
    partly = np.flatnonzero((outside > _MIN_SHARE_OUTSIDE) & (outside < 1))
    if not len(partly):
        return []
    worst = partly[np.argsort(-outside[partly])]
    some = ", ".join(f"{plain(table.index[k])!r} {outside[k]:.0%}" for k in worst[:5])
    return [
        f"{len(partly)} of {len(table)} districts reach beyond the rasters, which miss part of "
        f"their area ({some}{', ..' * (len(partly) > 5)}): use rasters that cover them"
    ]


def unequal_area_warnings(grid: Grid, row: Array) -> list[str]:
    """Warning about pixels in degrees with equal weights but unequal areas, if any."""
    if not grid.crs.is_geographic:
        return []
    rows = np.array([row.min(), row.max()])
    _, latitude = grid.centres(rows, np.zeros(2))
    crossed = latitude.min() < 0 < latitude.max()
    nearest = 0.0 if crossed else latitude[np.abs(latitude).argmin()]
    farthest = latitude[np.abs(latitude).argmax()]
    ratio = np.cos(np.radians(nearest)) / np.cos(np.radians(farthest))
    if ratio < _MAX_AREA_RATIO:
        return []
    return [
        f"pixels in degrees at latitude {nearest:.3g} have {ratio:.3g} times the area of those at "
        f"{farthest:.3g}, but equal weights: pass weight=, such as the population, or "
        "np.cos(np.radians(raster.y)) * xr.ones_like(raster) for the area"
    ]


def _extent(grid: Grid) -> Any:
    """Bounding box of a grid, in its CRS."""
    import shapely

    t, (rows, cols) = grid.transform, grid.shape
    x, y = (t.c, t.c + t.a * cols), (t.f, t.f + t.e * rows)
    return shapely.box(min(x), min(y), max(x), max(y))
