"""Extent of districts on a raster: parts outside, turns of longitudes, areas of pixels."""

from functools import partial
from typing import Any

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.maps.grid import Grid
from bdr_stan.types import Array, GeoDataFrame

_FULL_CIRCLE = 360.0  # degrees
_MIN_SHARE_OUTSIDE = 0.01  # of a district's area: less is imprecision of coastlines and borders
_MAX_AREA_RATIO = 1.1  # of two pixels: less changes rates by less than their usual uncertainty


def in_turn_of(table: "GeoDataFrame", grid: Grid) -> "GeoDataFrame":
    """Districts with the longitudes of the raster: of parts beyond its turn of 360 degrees moved.

    Raises ValueError for a polygon that seems to cross the whole map, for example across 180
    degrees with longitudes that jump from 180 to -180.
    """
    import shapely

    if not grid.crs.is_geographic:
        return table
    shapes = table.geometry.to_numpy()
    for name, shape in zip(table.index, shapes):
        for ring in shapely.get_rings(shapely.get_parts(shapely.get_parts([shape]))):
            x = np.unique(shapely.get_coordinates(ring)[:, 0])
            width, gap = np.ptp(x), np.diff(x).max(initial=0)
            if gap > _FULL_CIRCLE / 2 and width < _FULL_CIRCLE:
                raise ValueError(
                    f"the district {plain(name)!r} is {width:.4g} degrees wide: split it at 180, "
                    "as antimeridian.fix_polygon does, or, if it is, give its sides more points by "
                    "shapely.segmentize"
                )
    left, _, right, _ = _extent(grid).bounds
    west = (left + right - _FULL_CIRCLE) / 2
    low, _, high, _ = shapely.bounds(shapes).T
    beyond = (low < west) | (high > west + _FULL_CIRCLE)
    if not beyond.any():
        return table
    turn = shapely.box(west, -_FULL_CIRCLE, west + _FULL_CIRCLE, _FULL_CIRCLE)
    moved = [
        shapely.intersection(shapely.transform(shapes[beyond], partial(np.add, [by, 0])), turn)
        for by in (-_FULL_CIRCLE, 0, _FULL_CIRCLE)
    ]
    shapes = shapes.copy()
    shapes[beyond] = shapely.buffer(shapely.union_all(np.array(moved), axis=0), 0)  # no lines
    return table.set_geometry(shapes, crs=table.crs)


def share_outside(table: "GeoDataFrame", grid: Grid) -> Array:
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


def outside_warnings(table: "GeoDataFrame", grid: Grid) -> list[str]:
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
