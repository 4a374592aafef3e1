"""Share of each grid cell inside a polygon.

By Green's theorem, an edge adds to each cell of its row the area between itself and the cell's
right side. Edges are cut at cell borders, so shares are exact up to rounding, and neighbouring
polygons' shares add up to one.
"""

from typing import Any

import numpy as np

from bdr_stan.types import Array

_ROUNDING = 1e-9  # of a cell: far above the rounding of coordinates and far below relevant shares


def cells_by_share(polygon: Any, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Row, column and share, each (n,), of grid cells in a polygon, whose x are columns, y rows."""
    return _cells(polygon, shape, _covered)


def cells_by_centre(polygon: Any, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """As `cells_by_share`, for cells with their centre in the polygon; all shares are 1."""
    return _cells(polygon, shape, _central)


def _cells(polygon, shape, shares):
    """Cells in the grid with a share above 0, by `shares` of those in the polygon's bounds."""
    import shapely

    rows, cols = shape
    left, top, right, bottom = polygon.bounds
    if left < 0 or top < 0 or right > cols or bottom > rows:
        polygon = shapely.intersection(polygon, shapely.box(0, 0, cols, rows))
    if polygon.area == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    bounds = np.array(polygon.bounds)
    corner = np.floor(bounds[:2]).astype(np.int64)
    share = shares(polygon, corner, np.ceil(bounds[2:]).astype(np.int64) - corner)
    row, col = np.nonzero(share)
    return row + corner[1], col + corner[0], share[row, col]


def _central(polygon, corner, size):
    """1 for cells with their centre in the polygon, else 0, shape (rows, columns)."""
    from rasterio.features import rasterize
    from rasterio.transform import Affine

    origin, shape = Affine.translation(*corner.tolist()), tuple(size[::-1].tolist())
    return rasterize([polygon], out_shape=shape, transform=origin, dtype="uint8").astype(float)


def _covered(polygon, corner, size):
    """Share of each cell in the polygon, shape (rows, columns)."""
    start, end = _edges(polygon)
    share = _shares(start - corner, end - corner, size)
    share[share > 1 - _ROUNDING] = 1
    share[share <= _ROUNDING] = 0
    return share


def _edges(polygon):
    """Start and end points of edges, shapes (n, 2), with the polygon to their left."""
    import shapely

    parts = shapely.get_parts(shapely.get_parts(polygon))  # a collection may contain multipolygons
    parts = shapely.orient_polygons(parts[shapely.get_dimensions(parts) == 2])
    xy, ring = shapely.get_coordinates(shapely.get_rings(parts), return_index=True)
    same = ring[1:] == ring[:-1]
    return xy[:-1][same], xy[1:][same]


def _shares(start, end, size):
    """Share of each cell inside the edges, shape (rows, columns)."""
    a, b = _cut_at_cells(start, end)
    height, (x, y) = b[:, 1] - a[:, 1], (a + b).T / 2
    col = np.floor(x).astype(np.int64)
    row = np.minimum(np.floor(y), size[1] - 1).astype(np.int64)  # if rounding passes the last
    # An edge adds -height * (col + 1 - x) to its own cell and -height to each cell to the right of
    # it. `here` and `after` are differences along the row, which the cumulative sum adds up.
    width = size[0] + 2
    here = np.bincount(row * width + col, -height * (col + 1 - x), size[1] * width)
    after = np.bincount(row * width + col + 1, -height * (x - col), size[1] * width)
    return np.cumsum((here + after).reshape(size[1], width), axis=1)[:, : size[0]]


def _cut_at_cells(start, end):
    """Edges cut at cell borders; those along rows enclose no area and are dropped."""
    slanted = start[:, 1] != end[:, 1]
    start, end = start[slanted], end[slanted]
    numbers = np.arange(len(start))
    cuts = [(numbers, np.zeros(len(start))), (numbers, np.ones(len(start)))]
    cuts += [_crossings(start[:, k], end[:, k]) for k in (0, 1)]
    edge, t = (np.concatenate(values) for values in zip(*cuts))
    order = np.lexsort((t, edge))
    edge, t = edge[order], t[order][:, None]
    points = start[edge] + t * (end - start)[edge]
    same = edge[1:] == edge[:-1]
    return points[:-1][same], points[1:][same]


def _crossings(a, b):
    """Edge number and fraction 0 < t < 1 where edges from a to b cross integers."""
    first = np.floor(np.minimum(a, b)) + 1
    count = np.maximum(np.ceil(np.maximum(a, b)) - first, 0).astype(np.int64)
    edge = np.repeat(np.arange(len(a)), count)
    integer = first[edge] + np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
    return edge, (integer - a[edge]) / (b - a)[edge]
