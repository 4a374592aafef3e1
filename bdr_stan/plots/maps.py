"""Maps of pixels, districts and points."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bdr_stan.extras import require_maps
from bdr_stan.maps.grid import name_of_crs, same_crs
from bdr_stan.plots.style import names_as_written, pyplot
from bdr_stan.types import ArrayLike, Axes, Figure, check_flags


@names_as_written
def rate_maps(
    maps: Mapping[str, ArrayLike],
    row: ArrayLike,
    col: ArrayLike,
    *,
    shared: Sequence[str] = (),
    each: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Any,
) -> "Figure":
    """Figure of maps of the same pixels, for example a true rate, its posterior mean and sd.

    Parameters
    ----------
    maps : dict, title -> values, array, shape (n,)
    row, col : see `plots.map`
    shared : titles of maps, side by side, that share one colour scale and bar; default none
    each : dict, title -> dict of options of `map` (label, log, cmap, limits) for this map;
        shared maps use the first map's
    **common : options of `map` for all maps; without a label each bar has the titles of its maps

    Raises
    ------
    ValueError : no map, an unknown title in `shared` or `each`, or as `map`.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import plots
    >>> row, col = np.indices((4, 5)).reshape(2, -1)
    >>> truth = 1.0 + row
    >>> maps = {"true rate": truth, "posterior mean": truth + 0.2, "P(rate > 2)": 1.0 * (truth > 2)}
    >>> shared, rates = ["true rate", "posterior mean"], {"label": "cases per 1,000", "log": True}
    >>> each = {"P(rate > 2)": {"label": "probability", "log": False, "limits": (0, 1)}}
    >>> figure = plots.rate_maps(maps, row, col, shared=shared, each=each, **rates)
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['true rate', 'posterior mean', 'P(rate > 2)']
    """
    each = each or {}
    if not maps:
        raise ValueError("there is no map to draw: pass at least one array of values")
    for title in (*shared, *each):
        if title not in maps:
            raise ValueError(f"there is no map {title!r}; there are: {', '.join(maps)}")
    index = _cells(row, col)
    axes = dict(zip(maps, _map_axes(len(maps), index)))
    groups = [[title] for title in maps if title not in shared]
    for group in [*groups, list(shared)] if shared else groups:
        options = {**common, **each.get(group[0], {})}
        _draw_maps({t: maps[t] for t in group}, index, [axes[t] for t in group], **options)
    return next(iter(axes.values())).figure


def _cells(row, col):
    """Row and column of pixels in the smallest grid that contains them, from 0."""
    row, col = np.asarray(row), np.asarray(col)
    if row.ndim != 1 or row.shape != col.shape or len(row) == 0:
        raise ValueError(
            f"row has shape {row.shape} and col {col.shape}: pass one number per pixel"
        )
    if row.dtype.kind not in "iu" or col.dtype.kind not in "iu":
        raise ValueError(f"row and col must be integers, found {row.dtype} and {col.dtype}")
    index = row - row.min(), col - col.min()
    pixels = np.zeros((index[0].max() + 1, index[1].max() + 1), int)
    np.add.at(pixels, index, 1)
    if pixels.max() > 1:
        i = int(np.argmax(pixels[index] > 1))
        raise ValueError(
            f"the cell in row {row[i]} and col {col[i]} has {pixels[index][i]} pixels: pass each "
            "once"
        )
    return index


def _map_axes(n, index):
    """Axes for n maps in a row."""
    height, width = (k.max() + 1 for k in index)
    side = 2.7 if n > 1 else 4.5
    size = (n * side + 0.2, side * np.clip(height / width, 0.4, 2) + 0.9)
    figure, axes = pyplot().subplots(1, n, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, wspace=0)
    return axes[0]


def _draw_maps(maps, index, axes, *, label=None, log=False, cmap="viridis", limits=None):
    """Maps on one colour scale, which has a bar."""
    check_flags(log=log)
    cells = [_picture(values, index, title, log) for title, values in maps.items()]
    norm, extend = _colour_scale(cells, log, limits)
    for ax, picture, title in zip(axes, cells, maps):
        image = ax.imshow(picture, cmap=cmap, norm=norm, interpolation="nearest")
        _frame(ax, title)
    _draw_bar(image, axes, label or ", ".join(filter(None, maps)) or "value", extend)


def _colour_scale(cells, log, limits):
    """Colour norm of masked arrays, and the ends of the scale that values exceed."""
    from matplotlib.colors import LogNorm, Normalize

    lowest, highest = min(c.min() for c in cells), max(c.max() for c in cells)
    if limits is not None and (np.shape(limits) != (2,) or not limits[0] < limits[1]):
        raise ValueError(f"limits must be a pair (low, high), low < high, found {limits!r}")
    low, high = (lowest, highest) if limits is None else limits
    rounding = 1e-6 * (high - low)  # a probability of 1 and a rounding error is not beyond 1
    beyond = 2 * (lowest < low - rounding) + (highest > high + rounding)
    return (LogNorm if log else Normalize)(low, high), ["neither", "max", "min", "both"][beyond]


def _frame(ax, title):
    """Set the title of a map, and remove ticks and frame."""
    ax.set(xticks=[], yticks=[], xlabel=None, ylabel=None, title=title)
    ax.spines[:].set_visible(False)


def _draw_bar(image, axes, label, extend):
    """Draw the colour bar of an image, with plain numbers, and arrows for values beyond it."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    bar = axes[0].figure.colorbar(
        image,
        ax=axes,
        location="bottom",
        label=label,
        aspect=20 * len(axes),
        pad=0.02,
        extend=extend,
    )
    bar.outline.set_visible(False)
    if isinstance(image.norm, LogNorm):
        low, high = image.get_clim()
        bar.locator = LogLocator(subs=(1, 3) if high < 1e4 * low else (1,), numticks=6)
        bar.formatter = StrMethodFormatter("{x:g}")
        bar.minorticks_off()


def _picture(values, index, title, log):
    """The values on their grid, masked outside the pixels."""
    values, name = np.asarray(values, dtype=float), "the map" if title is None else repr(title)
    if values.shape != index[0].shape:
        raise ValueError(f"{name} has values of shape {values.shape}, expected {index[0].shape}")
    _check_drawable(values, name, log, "pixel")
    picture = np.full((index[0].max() + 1, index[1].max() + 1), np.nan)
    picture[index] = values
    return np.ma.masked_invalid(picture)


def _check_drawable(values, name, log, unit):
    """Raise ValueError for no value to draw, or a value without a logarithm."""
    if not np.isfinite(values).any():
        raise ValueError(f"{name} has no value to draw")
    if log and not np.nanmin(values) > 0:
        i = int(np.nanargmin(values))
        raise ValueError(f"{name} is {values.flat[i]:.6g} at {unit} {i}: log=True needs values > 0")


@names_as_written
def map(
    values: Any,
    column: str | None = None,
    *,
    row: ArrayLike | None = None,
    col: ArrayLike | None = None,
    borders: Any = None,
    title: str | None = None,
    label: str | None = None,
    log: bool = False,
    cmap: str = "viridis",
    limits: tuple[float, float] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Map of a raster, of a column of polygons, or of pixels; missing values stay blank.

    Rasters and polygons need the extra "maps".

    Parameters
    ----------
    values : xarray.DataArray with a CRS, e.g. ``to_raster(rate.mean, bags)["value"]``; or
        GeoDataFrame, e.g. from `bdr_stan.maps.district_table`; or array, shape (n,), of pixels
    column : str
        Only for a GeoDataFrame.
    row, col : arrays of integers, shape (n,), only for pixels
        Their positions on the grid, row 0 at the top.
    borders : GeoDataFrame in the CRS of a raster or polygons, optional
        Polygons with borders to draw over the map.
    title : str, optional, above the map
    label : str, of the colour bar, with the unit; None for the title, the column or the raster's
        name, or "value"
    log : bool, default False, whether colours follow the logarithm
    cmap : str, default "viridis", matplotlib colour map
    limits : (low, high), values of the first and last colour; None for the map's range
    ax : matplotlib Axes, which are returned; None for a new figure

    Raises
    ------
    ImportError : the extra "maps" is not installed.
    TypeError : no raster of two dimensions, GeoDataFrame or pixels; options of another kind of map.
    ValueError : no such column, no value to draw, values without a logarithm, no CRS, or
        borders in another CRS; arrays of different lengths, a cell with two pixels, or positions
        that are not integers.

    Examples
    --------
    >>> import geopandas as gpd
    >>> from shapely.geometry import box
    >>> from bdr_stan import plots
    >>> shapes = [box(0, 0, 1, 1), box(1, 0, 2, 1)]
    >>> districts = gpd.GeoDataFrame({"cases": [5.0, 20.0]}, geometry=shapes, crs="EPSG:4326")
    >>> ax = plots.map(districts, "cases", title="cases per 1,000", borders=districts)
    >>> ax.get_title()
    'cases per 1,000'
    >>> pixels = plots.map([0.5, 2.0, 8.0], row=[0, 0, 1], col=[0, 1, 1], log=True)
    >>> pixels.images[0].get_array().filled(0)
    array([[0.5, 2. ],
           [0. , 8. ]])
    """
    if row is not None or col is not None:
        if column is not None or borders is not None:
            raise TypeError("pixels have no columns and no CRS: leave column and borders out")
        index = _cells(row, col)
        ax = _map_axes(1, index)[0] if ax is None else ax
        _draw_maps({title: values}, index, [ax], label=label, log=log, cmap=cmap, limits=limits)
        return ax
    require_maps()
    import geopandas as gpd

    check_flags(log=log)
    is_table = isinstance(values, gpd.GeoDataFrame)
    name, numbers = _column(values, column) if is_table else _raster(values, column)
    _check_drawable(numbers, repr(name), log, "district" if is_table else "pixel")
    crs = values.crs if is_table else values.rio.crs
    _check_same_place(crs, borders)
    norm, extend = _colour_scale([np.ma.masked_invalid(numbers)], log, limits)
    left, bottom, right, top = values.total_bounds if is_table else values.rio.bounds()
    # Degrees of longitude are shorter than degrees of latitude.
    aspect = 1 / np.cos(np.radians((bottom + top) / 2)) if crs.is_geographic else 1.0
    if ax is None:
        side = 4.5 * np.clip(aspect * (top - bottom) / (right - left), 0.4, 2) + 0.9
        figure = pyplot().figure(figsize=(4.7, side), layout="compressed")  # for a fixed aspect
        ax = figure.add_subplot()
    if is_table:
        values.assign(value=numbers).plot("value", ax=ax, cmap=cmap, norm=norm, aspect=aspect)
        image = ax.collections[-1]
    else:
        image = ax.imshow(
            np.ma.masked_invalid(numbers),
            cmap=cmap,
            norm=norm,
            interpolation="nearest",
            extent=(left, right, bottom, top),
            origin="lower" if values.rio.transform(recalc=True).e > 0 else "upper",
            aspect=aspect,
        )
    if borders is not None:
        borders.boundary.plot(ax=ax, color="0.3", linewidth=0.25, aspect=aspect)
    _frame(ax, title)
    _draw_bar(image, [ax], label or title or name, extend)
    return ax


@names_as_written
def point_map(
    values: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    title: str | None = None,
    label: str = "value",
    cmap: str = "viridis",
    ax: "Axes | None" = None,
) -> "Axes":
    """Map of values at points.

    Parameters
    ----------
    values, x, y : arrays, shape (n,), value and coordinates of each point
    title, label, cmap, ax : see `plots.map`

    Raises
    ------
    ValueError : no point, or arrays of different lengths.

    Examples
    --------
    >>> from bdr_stan import plots
    >>> ax = plots.point_map([1.0, 4.0, 2.0], [33.1, 33.4, 33.9], [-1.2, -1.0, -1.5], label="rate")
    >>> ax.get_xlabel()
    'x'
    """
    values, x, y = (np.asarray(each, float) for each in (values, x, y))
    if not values.shape == x.shape == y.shape or values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"values, x and y have shapes {values.shape}, {x.shape}, {y.shape}: pass one number "
            "per point each"
        )
    width, height = np.ptp(x), np.ptp(y)
    if ax is None:
        side = 3.6 * np.clip(height / width if width > 0 else 1, 0.4, 2) + 0.7
        ax = pyplot().figure(figsize=(4.8, side), layout="compressed").add_subplot()
    # Marker size in points: squares that fill the plane if points are on a grid.
    square = 230 * np.sqrt(max(width * height, 1e-12) / len(x)) / max(width, height, 1e-6)
    size = float(np.clip(square, 1.5, 9)) ** 2
    image = ax.scatter(x, y, c=values, s=size, cmap=cmap, marker="s", linewidths=0)
    ax.set(aspect="equal", title=title, xlabel="x", ylabel="y")
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax


def _column(table, column):
    """Name and numbers of a column of polygons."""
    if column not in table.columns:
        names = ", ".join(repr(name) for name in table.columns if name != table.geometry.name)
        raise ValueError(f"the table has no column {column!r} to draw: choose from {names}")
    if table.crs is None:
        raise ValueError("the table has no CRS: set it by .set_crs('EPSG:...')")
    return column, table[column].to_numpy(float, na_value=np.nan)


def _raster(raster, column):
    """Name and numbers of a raster."""
    import xarray as xr

    if not isinstance(raster, xr.DataArray) or raster.ndim != 2:
        raise TypeError(
            "values must be a GeoDataFrame or a DataArray of rows and columns, such as "
            f"raster['mean'], found a {type(raster).__name__}"
        )
    if column is not None:
        raise TypeError(f"a raster has no columns: leave column={column!r} out")
    if raster.rio.crs is None:
        raise ValueError("the raster has no CRS: set it by .rio.write_crs('EPSG:...')")
    return str(raster.name or "value"), raster.to_numpy().astype(float)


def _check_same_place(crs, borders):
    """Raise ValueError if the borders are in another CRS."""
    from pyproj import CRS

    if borders is None:
        return
    if borders.crs is None or not same_crs(CRS.from_user_input(crs), borders.crs):
        wanted = name_of_crs(CRS.from_user_input(crs))
        raise ValueError(f"the borders are not in {wanted}: pass borders.to_crs({wanted!r})")
