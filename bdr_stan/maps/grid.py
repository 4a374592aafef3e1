"""Grids of raster cells, and the pixel of each point."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class Grid:
    """The common grid of rasters, aligned with the axes of its CRS."""

    transform: Any  # affine.Affine, from (column, row) of a cell's corner to its coordinates
    crs: Any  # pyproj.CRS
    shape: tuple[int, int]  # rows and columns

    def centres(self, row: ArrayLike, col: ArrayLike) -> tuple[Array, Array]:
        """Coordinates x and y, in units of the CRS, of the centres of cells; shapes (n,)."""
        t = self.transform
        return t.c + t.a * (np.asarray(col) + 0.5), t.f + t.e * (np.asarray(row) + 0.5)

    def in_cells(self, xy: Array) -> Array:
        """Coordinates `xy`, shape (n, 2), as fractional (column, row), shape (n, 2)."""
        t = self.transform
        return (xy - np.array([t.c, t.f])) / np.array([t.a, t.e])

    def window(self, row: slice, col: slice) -> "Grid":
        """The part of the grid in the slices `row` and `col`."""
        t, shape = self.transform, (row.stop - row.start, col.stop - col.start)
        transform = type(t)(t.a, t.b, t.c + t.a * col.start, t.d, t.e, t.f + t.e * row.start)
        return Grid(transform, self.crs, shape)


@dataclass(frozen=True, eq=False)
class Pixels:
    """The pixel of each of n points."""

    row: Array  # int, position on the grid, from 0, shape (n,)
    col: Array
    share: Array  # of the pixel in the point's district, 0 < share <= 1
    grid: Grid

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, points: Any) -> "Pixels":
        return Pixels(self.row[points], self.col[points], self.share[points], self.grid)

    def __repr__(self) -> str:
        rows, cols = self.grid.shape
        return f"Pixels({len(self)} points, grid {rows} x {cols}, {name_of_crs(self.grid.crs)})"

    @property
    def cell(self) -> Array:
        """Cell number of each point, counted along rows; int64, shape (n,)."""
        return self.row.astype(np.int64) * self.grid.shape[1] + self.col


def pixels_of(bags: Any) -> Pixels:
    """Pixels of bags; ValueError if the bags are not from rasters."""
    if getattr(bags, "pixels", None) is None:
        raise ValueError(
            "the bags have no pixels: make them by Bags.from_rasters, or draw rates of points by "
            "matplotlib's scatter(x, y, c=rate.mean)"
        )
    return bags.pixels


def check_one_per_point(rate: Any, n_points: int) -> None:
    """Raise ValueError for another number of rates than points of the bags."""
    if len(rate) != n_points:
        raise ValueError(
            f"there are rates of {len(rate)} points, but the bags have {n_points} points"
        )


def same_crs(a: Any, b: Any) -> bool:
    """Whether two pyproj.CRS assign the same coordinates, whichever program wrote them."""
    return a.equals(b, ignore_axis_order=True) or (
        a.to_epsg() is not None and a.to_epsg() == b.to_epsg()
    )


def name_of_crs(crs: Any) -> str:
    """Name of a pyproj.CRS in messages: "EPSG:4326", or its name without an EPSG code."""
    return crs.name if crs.to_epsg() is None else f"EPSG:{crs.to_epsg()}"
