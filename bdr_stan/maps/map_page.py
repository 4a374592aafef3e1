"""An interactive map as one HTML file: layers of pixels, polygons of districts, several times."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bdr_stan.extras import require, require_maps
from bdr_stan.maps.grid import name_of_crs
from bdr_stan.maps.layers import values_of
from bdr_stan.maps.page_data import (
    borders,
    checked_districts,
    colour_scales,
    common_grid,
    compressed,
    described,
    open_maps,
    read_layers,
    readout,
)
from bdr_stan.report.page import Section, Table, Text, write_page
from bdr_stan.results.files import checked_output
from bdr_stan.types import Dataset, GeoDataFrame, PathName, check_flags

_EARTH_RADIUS = 6_371_009  # metres


def write_map_page(
    path: PathName,
    maps: "Dataset | PathName | Mapping[str, Dataset | PathName]",
    districts: "GeoDataFrame | None" = None,
    *,
    title: str = "Map",
    label: str = "rate",
    log: bool = False,
) -> Path:
    """Write an interactive map as one HTML file that needs no network.

    The map moves and zooms with mouse, touch and keyboard. A click on a pixel shows the values of
    all layers and of its district.

    Needs the extras "maps" and "report".

    Parameters
    ----------
    path : str or Path of the HTML file, which is replaced if it exists; it is returned
    maps : xarray.Dataset, e.g. from `to_raster`, or GeoTIFF written from it
        One layer per variable. A dict, label -> Dataset or GeoTIFF, for example one per month, on
        one grid and of the same layers, has a slider, in the order of the dict.
    districts : GeoDataFrame in the CRS of the maps, e.g. from `district_table`, optional
        Borders on the map, and a table of all columns that can be sorted.
    title : str, default "Map", heading of the page
    label : str, default "rate"
        Name of the mapped rate, with the unit.
    log : bool, default False
        Whether colours follow the logarithm, except for probabilities.

    Raises
    ------
    ImportError : an extra is not installed.
    TypeError : `maps` or `districts` of another type.
    ValueError
        No layer, or one without values or without a CRS; maps with different grids or layers; more
        than 2^24 cells; values without a logarithm; probabilities beyond 0 and 1; districts in
        another CRS, that are not polygons or lack distinct ids.
    OSError : the file cannot be written.

    Notes
    -----
    Values are stored as 16-bit numbers, on a linear scale between the lowest and the highest value
    of a layer, or a logarithmic one with `log`; the page has a table of the rounding errors.
    Colours span the range of a layer; for quantiles the range of the mean. Borders are simplified
    by a fifth of a pixel.

    Examples
    --------
    >>> import rioxarray
    >>> import xarray as xr
    >>> from bdr_stan.maps import write_map_page
    >>> centres = {"y": [8950.0, 8850.0], "x": [5050.0, 5150.0]}
    >>> may = xr.Dataset({"mean": (("y", "x"), [[0.5, 1.0], [0.7, 2.0]])}, centres)
    >>> maps = {"May": may.rio.write_crs("EPSG:32736"), "June": 2 * may.rio.write_crs("EPSG:32736")}
    >>> write_map_page("map.html", maps, label="cases per person").name
    'map.html'
    """
    checked_output(path)
    require_maps()
    require(
        "pages of maps need Jinja2 and matplotlib: pip install 'bdr-stan[maps,report]'",
        "jinja2",
        "matplotlib",
    )
    check_flags(log=log)
    opened = open_maps(maps)
    grid = common_grid(opened)
    table = None if districts is None else checked_districts(districts, grid)
    layers, filled = read_layers(opened, log=log)
    cells = _extent(filled)
    data = _data(opened, layers, grid.window(*cells), cells, label)
    lead = f"{filled.sum():,} pixels in {name_of_crs(grid.crs)}"
    sections = [_value_section(layers)]
    if table is not None:
        data["districts"] = borders(table, grid.window(*cells), data["aspect"])
        lead += f", {len(table)} districts"
        sections.insert(0, _district_section(table))
    page, lead = "maps/map_page.html", f"{lead}."
    return write_page(path, title, lead, sections, template=page, label=label, data=data)


def _extent(filled):
    """Rows and columns of the smallest window with all cells that have a value."""
    numbers = (np.flatnonzero(filled.any(axis=axis)) for axis in (1, 0))
    return tuple(slice(int(each[0]), int(each[-1]) + 1) for each in numbers)


def _data(maps, layers, grid, cells, label):
    """What the script of the page needs of the maps, on the `grid` of these cells."""
    return {
        **_geometry(grid),
        "label": label,
        "times": list(maps),
        "layers": [
            described(layer, colours, label)
            for layer, colours in zip(layers, colour_scales(layers))
        ],
        "readout": readout(layers),
        "colours": _colours(),
        "codes": [
            [compressed(layer.stored.codes(values_of(one[layer.name][cells]))) for layer in layers]
            for one in maps.values()
        ],
        "districts": [],
    }


def _geometry(grid):
    """Size and place of the grid; height of a cell in metres, and its width in heights."""
    t, (rows, cols) = grid.transform, grid.shape
    metres, shrunk = grid.crs.axis_info[0].unit_conversion_factor, 1.0
    if grid.crs.is_geographic:
        metres *= _EARTH_RADIUS  # the factor is radians per degree
        shrunk = np.cos(np.radians(t.f + t.e * rows / 2))
    return {
        "rows": rows,
        "columns": cols,
        "aspect": float(abs(t.a / t.e) * shrunk),
        "metres": float(abs(t.e) * metres),
        "x": t.c,
        "y": t.f,
        "dx": t.a,
        "dy": t.e,
        "axes": ["longitude", "latitude"] if grid.crs.is_geographic else ["x", "y"],
    }


def _colours():
    """viridis, perceptually uniform and legible for colour-blind readers, as 256 colours."""
    import matplotlib
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in matplotlib.colormaps["viridis"](np.arange(256))]


def _district_section(table):
    """The section of the table of the districts."""
    caption = "A header sorts the districts, a name shows one on the map."
    columns = table.drop(columns=table.geometry.name).rename_axis(table.index.name or "district")
    return Section("districts", "Districts", [Table(caption, columns, sortable=True)])


def _value_section(layers):
    """Ranges of the layers, and how the values are stored."""
    columns = {
        "lowest": [each.lowest for each in layers],
        "mean": [each.average for each in layers],
        "highest": [each.highest for each in layers],
        "rounded by at most": [
            f"{each.stored.rounding:.2%}" if each.stored.log else f"{each.stored.rounding:.2g}"
            for each in layers
        ],
    }
    ranges = Table.of("Values of all pixels.", columns, [each.title for each in layers], "layer")
    text = (
        "Values are stored in this page as 16-bit numbers, rounded by at most what the table says, "
        "and shown with four digits. Pixels without colour have no data. Colours span the range of "
        "a layer, those of quantiles the range of the mean: an arrow at the end of the scale means "
        "that values go beyond. Borders are simplified by a fifth of a pixel."
    )
    return Section("values", "Values", [ranges, Text(text)])
