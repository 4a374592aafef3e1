"""Layers of a map page: opened on one grid, with the titles and scales that their names imply."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from bdr_stan.maps.grid import Grid
from bdr_stan.maps.layers import check_same_grid, grid_of, open_covariates, values_of
from bdr_stan.maps.quantised import Scale
from bdr_stan.types import DataArray

Maps: TypeAlias = "dict[str, dict[str, DataArray]]"  # time -> name of the layer -> layer
_MOST_CELLS = 2**24  # that all browsers draw on one canvas
_NAMED = re.compile(r"(quantile|exceedance)_(-?[0-9.]+(?:e[-+]?\d+)?)")  # by `rates_to_raster`


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
        found = _NAMED.fullmatch(self.name)
        return float(found[2]) if found and found[1] == kind else None


def open_maps(maps: Any) -> Maps:
    """Layers by time and name, with rows from north to south and columns from west to east."""
    import xarray as xr

    if isinstance(maps, (xr.Dataset, str, PathLike)):
        maps = {"": maps}
    if not isinstance(maps, Mapping):
        raise TypeError(
            "maps must be an xarray.Dataset, such as rates_to_raster gives, a GeoTIFF or a dict of "
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
            found = np.isfinite(values)
            if not found.any():
                where = f" at {time!r}" if time else ""
                raise ValueError(f"the layer {name!r} has no value to draw{where}")
            filled, values = filled | found, values[found]
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
