"""Polygons of districts, checked; and their extent: turns of longitudes, parts beyond a raster."""

from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.maps.grid import Grid, name_of_crs, same_crs
from bdr_stan.types import Array, GeoDataFrame

_AREAS = {"Polygon", "MultiPolygon", "GeometryCollection"}
_FULL_CIRCLE = 360.0  # degrees
_MIN_SHARE_OUTSIDE = 0.01  # of a district's area: less is imprecision of coastlines and borders
_MAX_AREA_RATIO = 1.1  # of two pixels: less changes rates by less than their usual uncertainty


def read_districts(districts: Any, id: str, grid: Grid) -> "GeoDataFrame":
    """Checked districts, indexed by the column `id`, in the CRS of the grid."""
    table = _opened(districts)
    _check_ids(table, id)
    table = table.set_index(id)
    if table.geometry.name != "geometry":
        table = table.rename_geometry("geometry")
    return checked_polygons(table, grid)


def checked_polygons(table: "GeoDataFrame", grid: Grid) -> "GeoDataFrame":
    """Districts with the grid's longitudes; ValueError unless they are polygons in its CRS."""
    if len(table) == 0:
        raise ValueError("there are no districts: the table has no rows")
    if table.crs is None:
        raise ValueError("the districts have no CRS: set it by districts.set_crs('EPSG:...')")
    if not same_crs(table.crs, grid.crs):
        wanted = name_of_crs(grid.crs)
        raise ValueError(
            f"the districts are in {name_of_crs(table.crs)}, the rasters in {wanted}: pass "
            f"geopandas.read_file(...).to_crs({wanted!r})"
        )
    _check_are_areas(table.geometry)
    return in_turn_of(table, grid)


def _opened(districts):
    import geopandas as gpd
    import pyogrio

    if isinstance(districts, gpd.GeoDataFrame):
        return districts
    if not isinstance(districts, (str, PathLike)):
        raise TypeError(
            "districts must be a GeoDataFrame or a file that geopandas reads, found a "
            f"{type(districts).__name__}"
        )
    if not Path(districts).exists():
        raise FileNotFoundError(f"there is no file {districts}")
    try:
        table = gpd.read_file(districts)
    except pyogrio.errors.DataSourceError:
        raise OSError(
            f"{districts} is not a file that geopandas reads: pass a GeoPackage or a shapefile"
        ) from None
    if not isinstance(table, gpd.GeoDataFrame):
        raise ValueError(f"{districts} has no geometries: pass a file of polygons")
    return table


def _check_ids(table, id):
    """Raise ValueError unless a column identifies the districts."""
    names = [str(name) for name in table.columns if name != table.geometry.name]
    if id not in names:
        raise ValueError(
            f"the districts have no column {id!r}: choose by id= from {', '.join(map(repr, names))}"
        )
    missing = table[id].isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"column {id!r} is missing in row {missing.argmax()} of the districts ({missing.sum()} "
            "in total): fill it in or leave these out"
        )
    twice = table[id].duplicated(keep=False)
    if twice.any():
        raise ValueError(
            f"the id {plain(table.loc[twice, id].iloc[0])!r} is in several rows of the "
            f"districts ({twice.sum()} in total): name a column of distinct values by id=, or "
            f"join the parts by districts.dissolve({id!r}).reset_index()"
        )


def _check_are_areas(shapes):
    """Raise ValueError for geometries that are not areas or cross themselves."""
    shapes = shapes[~(shapes.isna() | shapes.is_empty)]
    others = shapes[~shapes.geom_type.isin(_AREAS)]
    if len(others):
        raise ValueError(
            f"the district {plain(others.index[0])!r} is a {others.geom_type.iloc[0]}: "
            "districts must be polygons"
        )
    invalid = shapes[~shapes.is_valid]
    if len(invalid):
        raise ValueError(
            f"the border of the district {plain(invalid.index[0])!r} is not valid ("
            f"{invalid.is_valid_reason().iloc[0]}; {len(invalid)} in total): fix it by "
            "districts.set_geometry(districts.make_valid())"
        )


def in_turn_of(table: "GeoDataFrame", grid: Grid) -> "GeoDataFrame":
    """Districts in the raster's turn of 360 degrees; ValueError for jumps from 180 to -180."""
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
