"""Set kernels of many kernels of the distance at once, from histograms of squared distances.

Each pair of bags has a weighted histogram of the squared distances s between their points. Bins are
1/32 of an octave wide, and contain the sums of 1, x, ..., x^4, x the place in the bin: enough for
the sum of any quartic in s. In such a narrow bin every kernel of the distance is one to about 1e-11
of k(a, a), by interpolation at Chebyshev nodes; over the pairs of two bags these errors average
out, to about 1e-13.
"""

import itertools
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernel_means.set_kernels import values_at_squares
from bdr_stan.kernels import Stationary
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array

_ROWS = 400  # points of a block on either side: its arrays of pairs, 1.3 MB each, stay in cache
_BAGS = 16  # maximum number of bags on either side; each pair has a histogram
_TERMS = 5
_MANTISSA = 52  # bits of a double's fraction; below the exponent, which counts octaves
_SHIFT = _MANTISSA - 5  # 2^5 bins an octave
_ONE = int(np.array([1.0]).view(np.int64)[0])  # the bits of 1.0
# Squared distances below this part of the largest are rounding errors of zero.
_SHARE_OF_ZERO = 2.0**-48


def stationary_set_kernels(
    kernels: list[Stationary],
    bags: Bags,
    others: Bags | None,
    out: list[Array],
    *,
    n_jobs: int | None = None,
) -> None:
    """Write set kernels of kernels of the distance to `out`, all from the same pairs of points.

    The kernels have one number each as bandwidth, and the same columns and units; `out` has an
    array (n, m) for each, m the number of `others`, None for `bags` again.
    """
    columns: Any = slice(None)
    if kernels[0].columns is not None:
        columns = [int(column) for column in kernels[0].columns]
    centre = np.mean(bags.points[:, columns], axis=0, dtype=np.float64)
    units = kernels[0].units
    left = right = _Side(bags, columns, centre, units)
    if others is not None:
        right = _Side(others, columns, centre, units)
    bins = _Bins(kernels, (left.radius() + right.radius()) ** 2)
    for part in out:
        part[:] = 0

    def fill(numbers):
        for i in numbers:
            rows, first, last = left.chunk(i)
            for j in range(i if right is left else 0, len(right.chunks)):
                others_rows, other_first, other_last = right.chunk(j)
                sums = bins.sums(rows, others_rows)
                if right is left and i == j:
                    sums /= 2  # the transpose is added in the end
                for part, values in zip(out, sums, strict=True):
                    part[first:last, other_first:other_last] += values

    list(map_in_threads(fill, left.tasks(), n_jobs))
    for side in (left, right):
        side.bags.release()
    if right is left:
        for part in out:
            part[:] = part + part.T


class _Rows:
    """Points of one chunk, moved to the centre, with precomputed terms for pairs."""

    def __init__(self, points, weights, bag):
        self.points, self.weights, self.bag = points, weights, bag
        self.norms = np.einsum("ij,ij->i", points, points)
        self.n_bags = bag[-1] + 1


class _Side:
    """Bags cut to chunks of points: rows or columns of the pairs."""

    def __init__(self, bags, columns, centre, units):
        self.bags, self.weights = bags, bags.point_shares
        self.columns, self.centre, self.units = columns, centre, units
        self.chunks = []  # first row and the one after the last, the same of bags
        for chunk in bags.chunks(_ROWS):
            if chunk.last - chunk.first == 1:  # it may be a piece of a bag
                self.chunks.append((chunk.start, chunk.stop, chunk.first, chunk.last))
                continue
            for first in range(chunk.first, chunk.last, _BAGS):
                last = min(first + _BAGS, chunk.last)
                self.chunks.append((bags.offsets[first], bags.offsets[last], first, last))

    def radius(self):
        """Largest distance of a point from the centre."""
        return np.sqrt(max(self.chunk(i)[0].norms.max() for i in range(len(self.chunks))))

    def tasks(self):
        """Chunk numbers, the pieces of one bag together: no two threads write the same sums."""
        numbers = range(len(self.chunks))
        return [list(g) for _, g in itertools.groupby(numbers, lambda i: self.chunks[i][2])]

    def chunk(self, i):
        """Points of chunk i, its first bag and the one after its last."""
        start, stop, first, last = self.chunks[i]
        points = self.bags.read(start, stop)[:, self.columns].astype(np.float64) - self.centre
        if self.units is not None:
            points /= self.units
        bag = np.searchsorted(self.bags.offsets, np.arange(start, stop), side="right") - 1 - first
        return _Rows(points, self.weights[start:stop], bag), first, last


class _Bins:
    """Histograms of squared distances, up to `largest`, and the kernels as quartics in each bin.

    The bin of a double is its exponent with the first bits of its fraction; the rest of the
    fraction is the place in the bin.
    """

    def __init__(self, kernels, largest):
        self.smallest = max(largest, np.finfo(float).tiny / _SHARE_OF_ZERO) * _SHARE_OF_ZERO
        ends = np.array([self.smallest, 2 * largest + self.smallest])
        self.first, last = ends.view(np.int64) >> _SHIFT
        bins = np.arange(self.first, last + 1)
        low, high = ((b << _SHIFT).view(np.float64)[:, None] for b in (bins, bins + 1))
        place = np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS) / 2
        squares = low + (high - low) * (place + 0.5)
        squares[0] = 0  # squares in the first bin are rounding errors of zero
        to_coefficients = np.linalg.inv(np.vander(place, increasing=True)).T
        self.quartics = np.empty((_TERMS, len(bins), len(kernels)))
        for k, kernel in enumerate(kernels):
            self.quartics[:, :, k] = (values_at_squares(kernel, squares) @ to_coefficients).T

    def sums(self, rows, columns):
        """Sums of each kernel over pairs of points of two `_Rows`, (kernels, bags, other bags)."""
        squares = (-2 * rows.points) @ columns.points.T
        squares += rows.norms[:, None]
        squares += columns.norms
        np.maximum(squares, self.smallest, out=squares)
        bits = squares.view(np.int64)
        place = bits >> _SHIFT
        first = place.min()
        width = place.max() - first + 1
        n_pairs = rows.n_bags * columns.n_bags
        place += (rows.bag * (columns.n_bags * width) - first)[:, None]
        place += columns.bag * width
        # The rest of the fraction becomes a fraction itself: a double in [1, 2).
        bits <<= _MANTISSA - _SHIFT
        bits &= (1 << _MANTISSA) - 1
        bits |= _ONE
        squares -= 1.5
        x, place = squares.ravel(), place.ravel()
        power = np.multiply.outer(rows.weights, columns.weights).ravel()
        bins = slice(first - self.first, first - self.first + width)
        total = np.zeros((n_pairs, self.quartics.shape[2]))
        for quartics in self.quartics[:, bins]:
            histogram = np.bincount(place, power, minlength=n_pairs * width)
            total += histogram.reshape(n_pairs, width) @ quartics
            power *= x
        return total.T.reshape(-1, rows.n_bags, columns.n_bags)
