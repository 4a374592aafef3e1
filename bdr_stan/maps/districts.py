"""Polygons of districts, checked."""

from os import PathLike
from pathlib import Path
from typing import Any

from bdr_stan.bags.checks import plain
from bdr_stan.maps.extent import in_turn_of
from bdr_stan.maps.grid import Grid, name_of_crs, same_crs
from bdr_stan.types import GeoDataFrame

_AREAS = {"Polygon", "MultiPolygon", "GeometryCollection"}


def read_districts(districts: Any, id: str, grid: Grid) -> "GeoDataFrame":
    """Checked districts, indexed by the column `id`, in the CRS of the grid."""
    table = _opened(districts)
    if len(table) == 0:
        raise ValueError("there are no districts: the table has no rows")
    _check_ids(table, id)
    table = table.set_index(id)
    if table.geometry.name != "geometry":
        table = table.rename_geometry("geometry")
    return checked_polygons(table, grid)


def checked_polygons(table: "GeoDataFrame", grid: Grid) -> "GeoDataFrame":
    """Districts with the grid's longitudes; ValueError unless they are polygons in its CRS."""
    if table.crs is None:
        raise ValueError("the districts have no CRS: set it by districts.set_crs('EPSG:..')")
    if not same_crs(table.crs, grid.crs):
        wanted = name_of_crs(grid.crs)
        raise ValueError(
            f"the districts are in {name_of_crs(table.crs)}, the rasters in {wanted}: pass "
            f"geopandas.read_file(..).to_crs({wanted!r})"
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
            f"{districts} is no file that geopandas reads: pass a GeoPackage or a shapefile"
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
            "in all): fill it in or leave these out"
        )
    twice = table[id].duplicated(keep=False)
    if twice.any():
        raise ValueError(
            f"the id {plain(table.loc[twice, id].iloc[0])!r} is in several rows of the "
            f"districts ({twice.sum()} in all): name a column of distinct values by id=, or "
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
            f"{invalid.is_valid_reason().iloc[0]}; {len(invalid)} in all): fix it by "
            "districts.set_geometry(districts.make_valid())"
        )
