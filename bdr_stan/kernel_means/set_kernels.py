"""Set kernels: inner products of the kernel means of bags, for one kernel or a whole grid.

    K(A, B) = sum_ab w_a w_b k(a, b),  weights of a bag with sum 1, equal where there are none

Kernels of a grid see the same pairs of points, and the pairs are nearly all of the work. What
they share is computed once:

- Kernels of the distance share a weighted histogram of the squared distances s of each pair of
  bags. Bins are 1/32 of an octave wide, and hold the sums of 1, x, .., x^4, x the place in the
  bin: enough for the sum of any quartic in s. In so narrow a bin every kernel of the distance is
  one to about 1e-11 of k(a, a), by interpolation at Chebyshev nodes; over the pairs of two bags
  these errors average out, to about 1e-13.
- Polynomials share the means of the powers of inner products.

Source: Szabo, Sriperumbudur, Poczos, Gretton (2016), "Learning theory for distribution
regression".
"""

import itertools
from math import comb

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from bdr_stan.bags import as_bags
from bdr_stan.embedding.mean_embedding import point_chunks
from bdr_stan.kernel_means.kernel_mean import bag_inner_products
from bdr_stan.kernels import Polynomial, Stationary

_ROWS = 400  # points of a block on either side: its arrays of pairs, 1.3 MB each, stay in cache
_BAGS = 16  # at most so many bags on either side, each pair of which has a histogram
_TERMS = 5
_MANTISSA = 52  # bits of a double's fraction; below the exponent, which counts octaves
_SHIFT = _MANTISSA - 5  # 2^5 bins an octave
# Squared distances below this part of the largest are rounding errors of zero.
_NOTHING = 2.0**-48


def set_kernels(bags, kernels, others=None, *, n_jobs=None):
    """Set kernels between bags, for each kernel of a list.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    kernels : list of Kernel
        Their bandwidths numbers, or arrays of shape (p,). Kernels of the distance with one
        number as bandwidth and the same columns share their work, and so do polynomials.
    others : Bags, or list of m arrays, optional
        Default `bags` again, of which half the work then suffices.
    n_jobs : int, optional
        Number of threads, default all cores.

    Returns
    -------
    array, shape (len(kernels), n, m), or (len(kernels), n, n) and symmetric
        Besides it, memory grows with the number of bags alone: kernel values of all pairs of
        points are never held.

    Raises
    ------
    ValueError : a column that the points lack, a bandwidth that is no number yet, `others` of
        another number of features, or values of a memory map that are no numbers.

    Notes
    -----
    Sharing changes the value of one pair of points by at most about 1e-11 k(a, a), that of two
    bags of 100 points by 1e-13. Time grows with the pairs of points, 15 to 25 ns each for all
    kernels of the distance together.
    """
    bags = as_bags(bags)
    itself = others is None
    others = bags if itself else as_bags(others)
    if others.n_features != bags.n_features:
        raise ValueError(
            f"the others have {others.n_features} features a point, but the bags "
            f"{bags.n_features}: pass the same columns in the same order"
        )
    kernels = [kernel.on(bags.features, bags.n_features) for kernel in kernels]
    for kernel in kernels:
        kernel.prepare(bags.read(0, 1))  # raises where the bandwidth waits for data
    for each in (bags, others):
        if each.is_memory_map:
            each.check_values()
    pairs = _Pairs(bags, None if itself else others, n_jobs)
    groups = {}
    for k, kernel in enumerate(kernels):
        groups.setdefault(_sharing(kernel) or k, []).append(k)
    out = np.empty((len(kernels), len(bags), len(others)))
    for share, members in groups.items():
        own = [kernels[k] for k in members]
        if len(own) > 1 and share[0] is Stationary:
            pairs.of_distances(own, members, out)
        elif len(own) > 1 and len(own) > max(kernel.degree for kernel in own):
            pairs.of_products(own, members, out)
        else:
            for k in members:
                out[k] = pairs.of_any(kernels[k])
    return out


def point_weights(bags):
    """Weight of each point within its bag, shape (N_points,), of sum 1 in every bag."""
    if bags.weights is None:
        return np.repeat(1 / bags.sizes, bags.sizes)
    totals = np.add.reduceat(bags.weights, bags.offsets[:-1])
    return bags.weights / np.repeat(totals, bags.sizes)


def of_squares(kernel, squares):
    """Values of a kernel of the distance, of one bandwidth, at squared distances >= 0."""
    values = squares / (-2 * kernel.bandwidth**2)
    kernel.profile(values)
    values *= kernel.variance
    return values


def _sharing(kernel):
    """What a kernel has in common with those it can share work with; None for no others."""
    if isinstance(kernel, Stationary) and np.ndim(kernel.bandwidth) == 0:
        return Stationary, kernel.columns
    if isinstance(kernel, Polynomial):
        return Polynomial, kernel.columns
    return None


class _Pairs:
    """Pairs of points of bags and of other bags, or of the same bags (`others` None)."""

    def __init__(self, bags, others, n_jobs):
        self.bags, self.others, self.n_jobs = bags, others, n_jobs
        self.weights = point_weights(bags)
        self.other_weights = None if others is None else point_weights(others)

    def of_any(self, kernel):
        return bag_inner_products(
            self.bags, self.weights, kernel, self.others, self.other_weights, n_jobs=self.n_jobs
        )

    def of_products(self, kernels, members, out):
        """Write set kernels of polynomials: (g + c)^p = sum_q (p choose q) c^(p - q) g^q."""
        columns = kernels[0].columns
        largest = max(kernel.degree for kernel in kernels)
        powers = [1.0, *(self.of_any(Polynomial(q, 0.0, columns)) for q in range(1, largest + 1))]
        for k, kernel in zip(members, kernels, strict=True):
            p, c = kernel.degree, kernel.constant
            terms = (comb(p, q) * c ** (p - q) * powers[q] for q in range(p + 1))
            out[k] = kernel.variance * sum(terms)

    def of_distances(self, kernels, members, out):
        """Write set kernels of stationary kernels."""
        columns = slice(None) if kernels[0].columns is None else list(kernels[0].columns)
        centre = np.mean(self.bags.points[:, columns], axis=0, dtype=np.float64)
        left = right = _Side(self.bags, self.weights, columns, centre)
        if self.others is not None:
            right = _Side(self.others, self.other_weights, columns, centre)
        radius = left.radius() + right.radius()
        bins = _Bins(kernels, radius**2)
        out[members] = 0

        def fill(chunks):
            for i in chunks:
                rows, first, last = left.chunk(i)
                for j in range(i if right is left else 0, len(right.chunks)):
                    columns, other_first, other_last = right.chunk(j)
                    sums = bins.sums(rows, columns)
                    if right is left and i == j:
                        sums /= 2  # the transpose is added in the end
                    for k, values in zip(members, sums, strict=True):
                        out[k, first:last, other_first:other_last] += values

        with threadpool_limits(1, user_api="blas"):
            threads = Parallel(-1 if self.n_jobs is None else self.n_jobs, require="sharedmem")
            threads(delayed(fill)(chunks) for chunks in left.tasks())
        for side in (left, right):
            side.bags.release()
        if right is left:
            for k in members:
                out[k] = out[k] + out[k].T


class _Rows:
    """Points of one chunk, moved to the centre, and what pairs of them need."""

    def __init__(self, points, weights, bag):
        self.points, self.weights, self.bag = points, weights, bag
        self.norms = np.einsum("ij,ij->i", points, points)
        self.n_bags = bag[-1] + 1


class _Side:
    """Bags cut to chunks of points: rows or columns of the pairs."""

    def __init__(self, bags, weights, columns, centre):
        self.bags, self.weights, self.columns, self.centre = bags, weights, columns, centre
        self.chunks = []
        for start, stop, first, last in point_chunks(bags.offsets, _ROWS):
            if last - first == 1:
                self.chunks.append((start, stop, first, last))
                continue
            for a in range(first, last, _BAGS):
                b = min(a + _BAGS, last)
                self.chunks.append((bags.offsets[a], bags.offsets[b], a, b))

    def radius(self):
        """Largest distance of a point from the centre."""
        return np.sqrt(max(self.chunk(i)[0].norms.max() for i in range(len(self.chunks))))

    def tasks(self):
        """Chunk numbers, the pieces of one bag together: no two threads write the same sums."""
        numbers = range(len(self.chunks))
        return [list(of) for _, of in itertools.groupby(numbers, key=lambda i: self.chunks[i][2])]

    def chunk(self, i):
        """Points of chunk i, its first bag and the one after its last."""
        start, stop, first, last = self.chunks[i]
        points = self.bags.read(start, stop)[:, self.columns].astype(np.float64) - self.centre
        bag = np.searchsorted(self.bags.offsets, np.arange(start, stop), side="right") - 1 - first
        return _Rows(points, self.weights[start:stop], bag), first, last


class _Bins:
    """Histograms of squared distances, up to `largest`, and the kernels as quartics in each bin.

    The bin of a double is its exponent with the first bits of its fraction; what is left of the
    fraction is the place in the bin.
    """

    def __init__(self, kernels, largest):
        self.smallest = max(largest, np.finfo(float).tiny / _NOTHING) * _NOTHING
        self.first, last = _bin(np.array([self.smallest, 2 * largest + self.smallest]))
        bins = np.arange(self.first, last + 1)
        low, high = ((b << _SHIFT).view(np.float64)[:, None] for b in (bins, bins + 1))
        place = np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS) / 2
        squares = low + (high - low) * (place + 0.5)
        squares[0] = 0  # what lies in the first bin are rounding errors of zero
        to_coefficients = np.linalg.inv(np.vander(place, increasing=True)).T
        self.quartics = np.empty((_TERMS, len(bins), len(kernels)))
        for k, kernel in enumerate(kernels):
            self.quartics[:, :, k] = (of_squares(kernel, squares) @ to_coefficients).T

    def sums(self, rows, columns):
        """Sums of every kernel over the pairs of points, by pairs of bags.

        Parameters
        ----------
        rows, columns : _Rows

        Returns
        -------
        array, shape (n_kernels, bags of the rows, bags of the columns)
        """
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
        # What is left of the fraction becomes a fraction itself: a double in [1, 2).
        bits <<= _MANTISSA - _SHIFT
        bits &= (1 << _MANTISSA) - 1
        bits |= _ONE
        squares -= 1.5
        x, place = squares.ravel(), place.ravel()
        power = np.multiply.outer(rows.weights, columns.weights).ravel()
        here = slice(first - self.first, first - self.first + width)
        total = np.zeros((n_pairs, self.quartics.shape[2]))
        for quartics in self.quartics[:, here]:
            histogram = np.bincount(place, power, minlength=n_pairs * width)
            total += histogram.reshape(n_pairs, width) @ quartics
            power *= x
        return total.T.reshape(-1, rows.n_bags, columns.n_bags)


def _bin(squares):
    """Number of the bin of each square, from the bits of the doubles."""
    return squares.view(np.int64) >> _SHIFT


_ONE = int(np.array([1.0]).view(np.int64)[0])
