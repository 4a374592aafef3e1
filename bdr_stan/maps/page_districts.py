"""Districts of a map page: checked tables, and borders as numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from bdr_stan.bags.checks import plain
from bdr_stan.maps.districts import checked_polygons
from bdr_stan.maps.grid import Grid
from bdr_stan.types import Array, GeoDataFrame

_TOLERANCE = 0.2  # cells, of simplified borders


def district_tables(districts: Any, times: Sequence[str], grid: Grid) -> "dict[str, GeoDataFrame]":
    """Checked tables of districts by time, with rows in the order of the first."""
    import geopandas as gpd

    if districts is None:
        return {}
    if isinstance(districts, gpd.GeoDataFrame):
        districts = {"": districts}
    elif not isinstance(districts, Mapping):
        raise TypeError(
            "districts must be a GeoDataFrame, such as district_table gives, or a dict of these, "
            f"found a {type(districts).__name__}"
        )
    elif [str(time) for time in districts] != list(times):
        raise ValueError(
            f"districts has tables for {', '.join(map(repr, map(str, districts)))}, but maps are "
            f"for {', '.join(map(repr, times))}: pass the same labels in the same order"
        )
    tables = {str(time): _checked(table, grid) for time, table in districts.items()}
    first_time, first = next(iter(tables.items()))
    for time, table in tables.items():
        odd = first.index.symmetric_difference(table.index)
        if len(odd):
            raise ValueError(
                f"the districts of {first_time!r} and {time!r} do not have the same ids: "
                f"{plain(odd[0])!r} is in one of them"
            )
    return {time: table.loc[first.index] for time, table in tables.items()}


def _checked(table, grid):
    import geopandas as gpd

    if not isinstance(table, gpd.GeoDataFrame):
        raise TypeError(f"districts must be GeoDataFrames, found a {type(table).__name__}")
    if len(table) == 0:
        raise ValueError("there are no districts: the table has no rows")
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise ValueError(
            f"the id {plain(twice[0])!r} is in several rows of the districts: set_index to a "
            "column of distinct values"
        )
    return checked_polygons(table, grid)


def borders(table: "GeoDataFrame", grid: Grid, aspect: float) -> list[dict[str, Any]]:
    """Name and rings of each district: x and y by turns, from the corner of the grid.

    Lengths are in heights of cells, `aspect` is the width of a cell.
    """
    import shapely

    in_cells = shapely.transform(table.geometry.to_numpy(), grid.in_cells)
    simple = shapely.simplify(in_cells, _TOLERANCE)
    return [
        {"name": str(name), "rings": [_numbers(ring, aspect) for ring in _rings(shape)]}
        for name, shape in zip(table.index, simple)
    ]


def _rings(shape):
    import shapely

    return shapely.get_rings(shapely.get_parts(shapely.get_parts(shape)))


def _numbers(ring, aspect):
    import shapely

    xy: Array = shapely.get_coordinates(ring)[:-1] * [aspect, 1]
    return xy.round(2).ravel().tolist()
