"""Rasters as layers of one grid, read window by window."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bdr_stan.bags.checks import LARGEST_VALUE
from bdr_stan.maps.grid import Grid, name_of_crs, same_crs
from bdr_stan.types import Array, DataArray

_WINDOW_BYTES = 1 << 25
_AXIS_NAMES = {"lon": "x", "lat": "y"}  # that rioxarray does not recognise
# Tolerance, in cells, for coordinates of equal grids: some files store them in float32.
_GRID_TOLERANCE = 0.01


def open_covariates(covariates: Any) -> "dict[str, DataArray]":
    """Layers by name from files, arrays, bands of a file or variables of a Dataset."""
    import xarray as xr

    if isinstance(covariates, xr.Dataset):
        layers = _variables(covariates)
    elif isinstance(covariates, Mapping):
        layers = {
            str(name): open_layer(value, f"the covariate {name!r}")
            for name, value in covariates.items()
        }
    elif isinstance(covariates, (str, PathLike)):
        layers = _bands(covariates)
    else:
        raise TypeError(
            "covariates must be a dict such as {'rain': raster}, one GeoTIFF or an xarray.Dataset, "
            f"found a {type(covariates).__name__}"
        )
    if not layers:
        raise ValueError("covariates is empty: name at least one raster")
    return layers


def open_layer(value: Any, what: str) -> "DataArray":
    """A file of one band or a DataArray as a layer; messages call it `what`."""
    import xarray as xr

    if isinstance(value, (str, PathLike)):
        array = _open(value)
        if len(array) > 1:
            raise ValueError(
                f"{what}, {value}, has {len(array)} bands: choose one, for example "
                "with rioxarray.open_rasterio(path, masked=True)[0]"
            )
        return _checked(array[0], f"{what}, {value},")
    if not isinstance(value, xr.DataArray):
        raise TypeError(
            f"{what} must be the path of a GeoTIFF or an xarray.DataArray, found a "
            f"{type(value).__name__}"
        )
    return _checked(value.squeeze("band") if value.sizes.get("band") == 1 else value, what)


def _bands(path):
    """Bands of a file, named by their descriptions or band_1, band_2, ..."""
    array = _open(path)
    names = array.attrs.get("long_name", ())
    names = (names,) if isinstance(names, str) else names
    if len(names) != len(array) or len(set(names)) < len(names) or not all(names):
        names = [f"band_{k}" for k in range(1, len(array) + 1)]
    return {name: _checked(band, f"{path}") for name, band in zip(names, array)}


def _variables(dataset):
    """Variables of a Dataset; variables without dimensions describe the CRS."""
    import rioxarray  # noqa: F401

    dataset = dataset.set_coords([name for name in dataset.data_vars if not dataset[name].dims])
    layers = {}
    for name, array in dataset.data_vars.items():
        if array.rio.crs is None and dataset.rio.crs is not None:
            array = array.rio.write_crs(dataset.rio.crs)
        layers[str(name)] = _checked(array, f"the variable {name!r}")
    return layers


def _open(path):
    """All bands of a raster as one lazy DataArray without a cache."""
    import rasterio
    import rioxarray
    import xarray as xr

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        array = rioxarray.open_rasterio(path, mask_and_scale=True, cache=False)
    except rasterio.errors.RasterioIOError:
        raise OSError(f"{path} is not a raster that rasterio reads: pass a GeoTIFF") from None
    if not isinstance(array, xr.DataArray):
        raise ValueError(
            f"{path} has several rasters: open it by xarray and pass the Dataset, or one variable"
        )
    return array


def _checked(layer, what):
    """A numeric layer with a CRS, dimensions (y, x) and regular spacing; else an error."""
    import rioxarray

    layer = layer.rename({name: _AXIS_NAMES[name] for name in layer.dims if name in _AXIS_NAMES})
    try:
        rows, cols = layer.rio.y_dim, layer.rio.x_dim
    except rioxarray.exceptions.MissingSpatialDimensionError:
        raise ValueError(
            f"{what} has the dimensions {', '.join(map(str, layer.dims))}: rename the dimensions "
            "of columns and rows to x and y with .rename(...)"
        ) from None
    others = [str(name) for name in layer.dims if name not in (rows, cols)]
    if others:
        raise ValueError(
            f"{what} has the dimension {others[0]} in addition to rows and columns: choose one "
            f"layer of it, for example with .isel({others[0]}=0)"
        )
    if layer.dtype.kind not in "fiub":
        raise TypeError(
            f"{what} has values of {layer.dtype}, not numbers: encode it or leave it out"
        )
    scale, offset = layer.attrs.get("scale_factor", 1), layer.attrs.get("add_offset", 0)
    if (scale, offset) != (1, 0):
        raise ValueError(
            f"{what} has scale_factor {scale:g} and add_offset {offset:g} among its attributes, so "
            "its values may not be in their units yet: open it by "
            "rioxarray.open_rasterio(path, mask_and_scale=True) or xarray.open_dataset(path), or "
            "delete these attributes if it is scaled"
        )
    if layer.rio.crs is None:
        raise ValueError(f"{what} has no CRS: set it by .rio.write_crs('EPSG:...')")
    transform = layer.rio.transform()
    if transform.b != 0 or transform.d != 0:
        raise ValueError(f"{what} is rotated: make its rows lie along x by .rio.reproject(crs)")
    for name in (rows, cols):
        coordinate = layer[name].to_numpy()
        if _is_uneven(coordinate):
            across = layer.rio.crs.is_geographic and not _is_uneven(np.sort(coordinate % 360))
            turned = f".assign_coords({name}=raster.{name} % 360).sortby({name!r})"
            raise ValueError(
                f"the coordinate {name} of {what} is not evenly spaced: bring it to a regular grid "
                f"by {turned if across else '.interp(...)'}"
            )
    return layer.transpose(rows, cols).rename({rows: "y", cols: "x"})


def _is_uneven(coordinate):
    """Whether coordinates of rows or columns are not evenly spaced."""
    steps = np.diff(coordinate)
    mean = steps.mean() if len(steps) else 0.0
    return np.any(np.abs(steps - mean) > 5 * _GRID_TOLERANCE * abs(mean))


def grid_of(layer: "DataArray") -> Grid:
    """The grid of a layer."""
    from pyproj import CRS

    transform = layer.rio.transform()
    # A cropped raster may have the transform of the whole; its coordinates are correct.
    by_coordinates = layer.rio.transform(recalc=True)
    if not transform.almost_equals(by_coordinates, _GRID_TOLERANCE * abs(transform.a)):
        transform = by_coordinates
    rows, cols = layer.shape
    return Grid(transform, CRS.from_user_input(layer.rio.crs), (rows, cols))


def check_same_grid(
    grid: Grid, layers: "Mapping[str, DataArray]", raster: str, what: str = "covariate"
) -> None:
    """Raise ValueError for layers on another grid than `raster`'s, named in the message."""
    for name, layer in layers.items():
        layer_grid = grid_of(layer)
        fix = "bring it to that grid by rioxarray's .rio.reproject_match"
        if not same_crs(layer_grid.crs, grid.crs):
            raise ValueError(
                f"the {what} {name!r} is in {name_of_crs(layer_grid.crs)}, but {raster} in "
                f"{name_of_crs(grid.crs)}: {fix}"
            )
        if layer_grid.shape != grid.shape or _far(layer_grid, grid):
            raise ValueError(
                f"the {what} {name!r} has {_describe(layer_grid)}, but {raster} "
                f"{_describe(grid)}: {fix}"
            )


def _far(a, b):
    """Whether the corners of two grids of the same shape differ."""
    rows, cols = b.shape
    corners = [np.array(g.centres(np.array([0, rows]), np.array([0, cols]))).T for g in (a, b)]
    return np.abs(b.in_cells(corners[0]) - b.in_cells(corners[1])).max() > _GRID_TOLERANCE


def _describe(grid):
    t = grid.transform
    return (
        f"{grid.shape[0]} x {grid.shape[1]} cells of {abs(t.a):.6g} x {abs(t.e):.6g} "
        f"from ({t.c:.9g}, {t.f:.9g})"
    )


def read_cells(layers: "list[DataArray]", row: Array, col: Array, out: Array) -> None:
    """Write values of p layers at n cells into `out`, shape (n, p); NaN where there are no data."""
    if not len(row):
        return
    order = np.argsort(row, kind="stable")
    cols = slice(int(col.min()), int(col.max()) + 1)
    height = max(1, _WINDOW_BYTES // (8 * (cols.stop - cols.start)))
    for top in range(int(row.min()), int(row.max()) + 1, height):
        inside = order[slice(*np.searchsorted(row, (top, top + height), sorter=order))]
        if not len(inside):
            continue
        rows = slice(top, int(row[inside[-1]]) + 1)
        for k, layer in enumerate(layers):
            window = values_of(layer[rows, cols])
            out[inside, k] = window[row[inside] - top, col[inside] - cols.start]


def values_of(window: "DataArray") -> Array:
    """Values of a window as floats, NaN where there are no data."""
    values = window.values.astype(np.float64)
    for mark in ("_FillValue", "missing_value"):
        if mark in window.attrs:
            values[values == window.attrs[mark]] = np.nan
    values[~(np.abs(values) <= LARGEST_VALUE)] = np.nan
    return values
