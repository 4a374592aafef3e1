"""Bags of raster pixels, one bag per polygon.

The public function, with parameters and errors, is `Bags.from_rasters`; this module returns the
arguments of `Bags`.
"""

from typing import Any

import numpy as np

from bdr_stan.bags.missing_codes import codes_in, ends_of, has_form
from bdr_stan.extras import require_maps
from bdr_stan.maps.coverage import cells_by_centre, cells_by_share
from bdr_stan.maps.districts import outside_warnings, read_districts, unequal_area_warnings
from bdr_stan.maps.grid import Grid, Pixels
from bdr_stan.maps.layers import check_same_grid, grid_of, open_covariates, open_layer, read_cells
from bdr_stan.types import Array, GeoDataFrame
from bdr_stan.user_warnings import warn

COORDINATES = ("x", "y")
_MIN_OVERLAP = 0.01  # pixels: smaller overlaps come from rounded borders


def from_rasters(
    covariates: Any,
    districts: Any,
    weight: Any = None,
    id: str = "district",
    *,
    fractional: bool = True,
) -> dict[str, Any]:
    """Arguments of `Bags` from rasters and polygons; see `Bags.from_rasters`."""
    require_maps()
    layers = open_covariates(covariates)
    for name in COORDINATES:
        if name in layers:
            raise ValueError(
                f"a covariate has the name {name!r} of a coordinate of the pixels: rename it"
            )
    if weight is None:
        name, grid = f"the covariate {next(iter(layers))!r}", grid_of(next(iter(layers.values())))
    else:
        layer = open_layer(weight, "weight")
        name, grid = "the weight", grid_of(layer)
    check_same_grid(grid, layers, name)
    table = read_districts(districts, id, grid)

    bag, pixels = cells_of_districts(table, grid, fractional=fractional)
    weights = pixels.share if fractional else None
    if weight is not None:
        whole = np.empty((len(bag), 1))
        read_cells([layer], pixels.row, pixels.col, whole)
        _check_weights(whole[:, 0], pixels)
        _check_marks(["weight"], whole)
        weights = whole[:, 0] * pixels.share
    points = np.empty((len(bag), len(layers) + 2))
    read_cells(list(layers.values()), pixels.row, pixels.col, points)
    points[:, -2], points[:, -1] = grid.centres(pixels.row, pixels.col)
    _check_marks([f"the covariate {name!r}" for name in layers], points)
    columns, unweighted = [*layers, *COORDINATES], weight is None
    return arguments_of_bags(table, bag, pixels, points, weights, columns, unweighted=unweighted)


def _check_marks(names, values):
    """Raise ValueError if layers, shape (N, p), have undeclared codes of missing data."""
    for name, column in zip(names, values.T):
        codes = codes_in(ends_of(column[~np.isnan(column)]))
        marks = [code for code in codes if has_form(code)]
        if marks:
            listed, n = ", ".join(f"{mark:.10g}" for mark in marks), sum(codes[m] for m in marks)
            several = f"mask them by .where(~raster.isin([{listed}]))"
            fix = f"declare it by .rio.write_nodata({listed})" if len(marks) == 1 else several
            raise ValueError(
                f"{name} is {listed} at {n} of {len(column)} pixels, far from all others, as codes "
                f"of missing data are: {fix}, or, if it was measured, use .clip(...)"
            )


def _check_weights(weights, pixels):
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        i, n = negative[0], len(np.unique(pixels.cell[negative]))
        raise ValueError(
            f"weight is {weights[i]:g} in row {pixels.row[i]}, column {pixels.col[i]} ({n} in "
            "total): weights must be >= 0; where it marks missing data, say so by .rio.write_nodata"
        )


def cells_of_districts(
    table: "GeoDataFrame", grid: Grid, *, fractional: bool
) -> tuple[Array, Pixels]:
    """District, shape (N,), ascending from 0, and `Pixels` of N points."""
    import shapely

    find_cells = cells_by_share if fractional else cells_by_centre
    cells_of = []
    for shape in table.geometry:
        polygon = shapely.Polygon() if shape is None else shape
        cells_of.append(find_cells(shapely.transform(polygon, grid.in_cells), grid.shape))
    row, col, share = (np.concatenate(values) for values in zip(*cells_of))
    bag = np.repeat(np.arange(len(table)), [len(cells[0]) for cells in cells_of])
    return bag, Pixels(row, col, share, grid)


def arguments_of_bags(
    table: "GeoDataFrame",
    bag: Array,
    pixels: Pixels,
    points: Array,
    weights: Array | None,
    features: list[str],
    *,
    unweighted: bool,
) -> dict[str, Any]:
    """Arguments of `Bags`, without pixels that lack data and districts without other pixels.

    `bag`, shape (N,), is ascending; `points`, (N, p), which is overwritten, and `weights`, (N,),
    are NaN where there are no data. With `unweighted`, whole pixels have equal weights. Warns about
    dropped pixels and districts, overlaps and unequal areas; ValueError if no district is left.
    """
    import pandas as pd

    overlap = _overlap_warnings(table, bag, pixels)
    missing = {name: np.isnan(points[:, k]) for k, name in enumerate(features)}
    if weights is not None:
        missing["weight"] = np.isnan(weights)
    kept = ~np.any(list(missing.values()), axis=0)
    reached = np.bincount(bag[kept], minlength=len(table)) > 0
    has_weight = reached
    if weights is not None:
        has_weight = np.bincount(bag[kept], weights[kept], minlength=len(table)) > 0
    if not has_weight.any():
        raise ValueError(
            "no district has a pixel with data and weight: do the rasters and districts cover the "
            "same region?"
        )
    messages = [
        *_pixel_warnings(pixels, missing, weights),
        *_district_warnings(table, reached, has_weight),
        *outside_warnings(table, pixels.grid),
        *overlap,
        *(unequal_area_warnings(pixels.grid, pixels.row[kept]) if unweighted else []),
    ]
    if messages:
        warn("; ".join(messages))
    kept &= has_weight[bag]
    if not kept.all():
        bag, pixels, points = bag[kept], pixels[kept], _rows(points, kept)
        weights = None if weights is None else weights[kept]
    table = table[has_weight]
    sizes = np.bincount(bag, minlength=len(has_weight))[has_weight]
    return {
        "points": points,
        "offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "weights": weights,
        "ids": table.index.to_numpy(),
        "metadata": pd.DataFrame(table),
        "features": features,
        "pixels": pixels,
    }


def _rows(points, kept):
    """Selected rows of an array, moved in place: a copy would double the memory."""
    n = np.count_nonzero(kept)
    for column in points.T:
        column[:n] = column[kept]
    return points[:n]


def _pixel_warnings(pixels, missing, weights):
    """Warning about pixels that lack data, if any."""
    lost = np.any(list(missing.values()), axis=0)
    if not lost.any():
        return []
    cells = pixels.cell

    def number(some):
        return len(np.unique(cells[some]))

    counts = [f"{name} {number(some)}" for name, some in missing.items() if some.any()]
    shown = ", ".join(counts[:5]) + ", .." * (len(counts) > 5)
    share = ""
    if weights is not None and np.nansum(weights[lost]) > 0:
        share = f", with {np.nansum(weights[lost]) / np.nansum(weights):.2%} of the weight"
    return [f"left out {number(lost)} of {number(...)} pixels, which lack data ({shown}){share}"]


def _district_warnings(table, reached, has_weight):
    """Warning about dropped districts, if any."""
    absent = (table.geometry.isna() | table.geometry.is_empty).to_numpy()
    reasons = np.select([absent, ~reached], ["no geometry", "no pixels with data"], "no weight")
    out = [f"{name!r} ({why})" for name, why in zip(table.index[~has_weight], reasons[~has_weight])]
    if not out:
        return []
    some = ", ".join(out[:5]) + ", .." * (len(out) > 5)
    return [f"left out {len(out)} of {len(table)} districts: {some}"]


def _overlap_warnings(table, bag, pixels):
    """Warning about districts that overlap, if any."""
    cells, cell = np.unique(pixels.cell, return_inverse=True)
    excess = np.bincount(cell, pixels.share) - 1
    if not len(cells) or excess.max() < _MIN_OVERLAP:
        return []
    first, second = table.index[bag[cell == excess.argmax()][:2]]
    return [
        f"districts overlap by {excess[excess > 0].sum():.3g} pixels in all, most {first!r} and "
        f"{second!r}: these are counted more than once"
    ]
