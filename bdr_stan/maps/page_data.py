"""What a map page shows: layers with titles and scales, values as 16-bit codes, and districts."""

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bdr_stan.bags.checks import plain
from bdr_stan.maps.districts import checked_polygons
from bdr_stan.maps.grid import Grid
from bdr_stan.maps.layers import check_same_grid, grid_of, open_covariates, values_of
from bdr_stan.types import Array, DataArray, GeoDataFrame

Maps: TypeAlias = "dict[str, dict[str, DataArray]]"  # time -> name of the layer -> layer
_MOST_CELLS = 2**24  # that all browsers draw on one canvas
_NAMED = re.compile(r"(quantile|exceedance)_(-?[0-9.]+(?:e[-+]?\d+)?)")  # by `to_raster`
_STEPS = 2**16 - 2  # between the codes 1, of the lowest value, and 65535, of the highest
_TOLERANCE = 0.2  # cells, of simplified borders


class Scale(NamedTuple):
    """Values from `low` to `high` as positions from 0 to 1, by their logarithms if `log`."""

    low: float
    high: float
    log: bool = False

    def positions(self, values: Array) -> Array:
        """Positions of values on the scale; 0 if the scale is one value."""
        low, high, values = self.low, self.high, np.asarray(values, float)
        if self.log:
            low, high, values = np.log(low), np.log(high), np.log(values)
        return (values - low) / (high - low) if high > low else 0 * values

    def codes(self, values: Array) -> Array:
        """Values as uint16; 0 for NaN."""
        return np.nan_to_num(1 + np.rint(_STEPS * self.positions(values)), nan=0).astype(np.uint16)

    @property
    def rounding(self) -> float:
        """Largest rounding error of a value by its code; relative to the value if `log`."""
        span = np.log(self.high / self.low) if self.log else self.high - self.low
        return np.expm1(span / _STEPS / 2) if self.log else span / _STEPS / 2


def compressed(codes: Array) -> str:
    """A raster of codes, shape (rows, columns), as base64 text.

    zlib compresses the high bytes, then the low bytes, of the differences along rows, modulo 2^16:
    maps are smooth, so high bytes are mostly 0.
    """
    steps = np.diff(codes, axis=1, prepend=np.uint16(0))
    planes = (steps >> 8).astype(np.uint8).tobytes() + steps.astype(np.uint8).tobytes()
    return base64.b64encode(zlib.compress(planes)).decode("ascii")


@dataclass(frozen=True)
class Layer:
    """Values of a layer over all times, and their kind according to its name."""

    name: str
    lowest: float
    average: float
    highest: float
    log: bool

    @property
    def quantile(self) -> float | None:
        return self._number("quantile")

    @property
    def is_probability(self) -> bool:
        return self._number("exceedance") is not None

    @property
    def is_rate(self) -> bool:
        """Whether the layer has the colours of the mean."""
        return self.name == "mean" or self.quantile is not None

    @property
    def title(self) -> str:
        if self.is_probability:
            return f"Probability above {self._number('exceedance'):g}"
        if self.quantile is not None:
            return f"{100 * self.quantile:g}% quantile"
        return {"mean": "Mean", "sd": "Standard deviation"}.get(self.name, self.name)

    @property
    def stored(self) -> Scale:
        """The scale of the values in the page."""
        if self.is_probability:
            return Scale(0.0, 1.0)
        return Scale(self.lowest, self.highest, self.log)

    def _number(self, kind):
        """The number in the name, for example 0.025 in quantile_0.025, or None."""
        match = _NAMED.fullmatch(self.name)
        return float(match[2]) if match and match[1] == kind else None


def open_maps(maps: Any) -> Maps:
    """Layers by time and name, with rows from north to south and columns from west to east."""
    import xarray as xr

    if isinstance(maps, (xr.Dataset, str, PathLike)):
        maps = {"": maps}
    if not isinstance(maps, Mapping):
        raise TypeError(
            "maps must be an xarray.Dataset, such as to_raster gives, a GeoTIFF or a dict of "
            f"these, found a {type(maps).__name__}"
        )
    if not maps:
        raise ValueError("maps is empty: name at least one raster")
    opened: Maps = {}
    for time, each in maps.items():
        if not isinstance(each, (xr.Dataset, str, PathLike)):
            raise TypeError(
                f"the map {str(time)!r} must be an xarray.Dataset or a GeoTIFF, found a "
                f"{type(each).__name__}"
            )
        if str(time) in opened:
            raise ValueError(f"two maps have the label {str(time)!r}: give each one of its own")
        if isinstance(each, xr.Dataset) and not each.data_vars:
            raise ValueError(
                f"the map{f' {time!r}' * bool(time)} has no layers: add variables to it"
            )
        layers = open_covariates(each)
        first = next(iter(opened.values()), layers)
        odd = sorted(set(layers) ^ set(first))
        if odd:
            raise ValueError(
                f"the maps {next(iter(opened))!r} and {str(time)!r} do not have the same layers: "
                f"{odd[0]!r} is in one of them"
            )
        opened[str(time)] = {name: _north_up(layers[name]) for name in first}
    return opened


def _north_up(layer):
    transform = grid_of(layer).transform
    return layer[:: -1 if transform.e > 0 else 1, :: -1 if transform.a < 0 else 1]


def common_grid(maps: Maps) -> Grid:
    """The grid of all layers; ValueError if there are several, or too many cells."""
    time, layers = next(iter(maps.items()))
    grid = grid_of(next(iter(layers.values())))
    for other, layers in maps.items():
        named = {f"{name} of {other}" if other else name: each for name, each in layers.items()}
        check_same_grid(grid, named, f"that of {time}" if time else "the first", "map")
    rows, cols = grid.shape
    if rows * cols > _MOST_CELLS:
        raise ValueError(
            f"the maps have {rows} x {cols} cells, and browsers draw {_MOST_CELLS:,} at most: crop "
            "them, or bring them to larger cells by .coarsen(y=2, x=2, boundary='trim').mean()"
        )
    return grid


def read_layers(maps: Maps, *, log: bool) -> tuple[list[Layer], np.ndarray]:
    """The layers, and which cells have a value in any layer, shape (rows, columns)."""
    layers, filled = [], np.array(False)
    for name in next(iter(maps.values())):
        low, total, high, n = np.inf, 0.0, -np.inf, 0
        for time, one in maps.items():
            values = values_of(one[name])
            has_value = np.isfinite(values)
            if not has_value.any():
                where = f" at {time!r}" if time else ""
                raise ValueError(f"the layer {name!r} has no value to draw{where}")
            filled, values = filled | has_value, values[has_value]
            low, high = min(low, values.min()), max(high, values.max())
            total, n = total + values.sum(), n + len(values)
        layer = Layer(name, float(low), float(total / n), float(high), log)
        _check_range(layer)
        layers.append(layer)
    return layers, filled


def _check_range(layer):
    if layer.is_probability and not 0 <= layer.lowest <= layer.highest <= 1:
        raise ValueError(
            f"the layer {layer.name!r} has values from {layer.lowest:.6g} to {layer.highest:.6g}, "
            "but probabilities are between 0 and 1"
        )
    if layer.stored.log and not layer.lowest > 0:
        raise ValueError(
            f"the layer {layer.name!r} is {layer.lowest:.6g} at its lowest pixel: log=True needs "
            "values > 0"
        )


def colour_scales(layers: Sequence[Layer]) -> list[Scale]:
    """Scale of the colours of each layer; quantiles use the mean's, if there is one."""
    mean = next((layer.stored for layer in layers if layer.name == "mean"), None)
    return [mean if mean and layer.is_rate else layer.stored for layer in layers]


def described(layer: Layer, colours: Scale, label: str) -> dict[str, Any]:
    """The page's data of a layer, except its values."""
    stored = layer.stored
    ends = stored.positions(np.array([colours.low, colours.high])).tolist()
    return {
        "title": layer.title,
        "unit": label if layer.is_rate or layer.name == "sd" else "",
        "probability": layer.is_probability,
        **stored._asdict(),
        "colours": ends if ends[0] < ends[1] else [0, 1],
        "beyond": [layer.lowest < colours.low, layer.highest > colours.high],
        "ticks": _ticks(colours, layer.is_probability),
    }


def _ticks(scale, is_probability):
    """Positions and texts of round numbers on a scale."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high, log = scale
    wide = log and high > 10 * low
    locator = LogLocator(subs=(1, 3) if high < 1e4 * low else (1,)) if wide else MaxNLocator(4)
    values = locator.tick_values(low, high)
    values = values[(values >= low) & (values <= high)] if high > low else np.array([low])
    texts = [f"{value:.0%}" if is_probability else f"{value:g}" for value in values]
    return list(zip(scale.positions(values).tolist(), texts))


def readout(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Lines for a selected pixel: title and numbers of the layers, two for an interval."""
    quantiles = {each.quantile: k for k, each in enumerate(layers) if each.quantile is not None}
    lines: list[dict[str, Any]] = []
    for k, layer in enumerate(layers):
        q = layer.quantile
        opposite = None if q is None else quantiles.get(round(1 - q, 12))
        if q is None or opposite is None or opposite == k:
            lines.append({"title": layer.title, "layers": [k]})
        elif q < 0.5:
            lines.append({"title": f"{100 * (1 - 2 * q):g}% interval", "layers": [k, opposite]})
    return lines


def checked_districts(table: Any, grid: Grid) -> "GeoDataFrame":
    """Polygons of districts with distinct ids, in the CRS of the grid; else an error."""
    import geopandas as gpd

    if not isinstance(table, gpd.GeoDataFrame):
        raise TypeError(
            "districts must be a GeoDataFrame, such as district_table gives, found a "
            f"{type(table).__name__}"
        )
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise ValueError(
            f"the id {plain(twice[0])!r} is in several rows of the districts: set_index to a "
            "column of distinct values"
        )
    return checked_polygons(table, grid)


def borders(table: "GeoDataFrame", grid: Grid, aspect: float) -> list[dict[str, Any]]:
    """Name and rings of each district: x, `aspect` times columns, and y, rows, by turns."""
    import shapely

    def numbers(ring):
        xy = shapely.get_coordinates(ring)[:-1] * [aspect, 1]
        return xy.round(2).ravel().tolist()

    in_cells = shapely.transform(table.geometry.to_numpy(), grid.in_cells)
    simple = shapely.simplify(in_cells, _TOLERANCE)
    rings = [shapely.get_rings(shapely.get_parts(shapely.get_parts(shape))) for shape in simple]
    return [
        {"name": str(name), "rings": [numbers(ring) for ring in of_district]}
        for name, of_district in zip(table.index, rings)
    ]
