"""Features of Hilbert-space kernels: products of sines, and products of those of two kernels.

With features psi_i of one kernel and chi_j of another, the products psi_i(x) chi_j(t) make
k1(x, x') k2(t, t'). There are too many of them; those of the largest prior variance are used.
"""

from typing import Any

import numpy as np

from bdr_stan.kernels.feature_maps import Features, scale_rows
from bdr_stan.types import Array, ArrayLike


class HilbertSpaceFeatures(Features):
    """psi of a `HilbertSpace` kernel, from `resolve_kernel`, for points of `n_inputs` columns."""

    def __init__(self, kernel: Any, n_inputs: int):
        self._centre, self._half, lengths = kernel.box()
        self.kernel, self.n_inputs, self.n_columns = kernel, n_inputs, kernel.n_functions
        # Fixed while lengths are learned, as a changing set would make the evidence jump.
        reach = np.asarray(kernel.reach)
        units = kernel.base.units if np.ndim(kernel.base.bandwidth) == 0 else reach
        self._order = lowest_frequencies(
            kernel.n_functions, reach / (1.0 if units is None else units)
        )
        waves = np.pi * self._order / (2 * self._half)
        density = np.prod(lengths) * kernel.base.spectral_density(
            np.sum((waves * lengths) ** 2, axis=1), len(lengths)
        )
        variance = kernel.variance * kernel.base.variance
        self.amplitude = np.sqrt(variance * density / np.prod(self._half))

    def fill(self, points: Array, out: Array, scratch: Array | None, log_scale: ArrayLike) -> None:
        seen = np.asarray(self.kernel.base.select(points), np.float64)
        place = np.clip((seen - self._centre) / self._half, -1, 1) + 1
        out[:] = self.amplitude
        for k, order in enumerate(self._order.T):
            angles = np.multiply.outer(place[:, k], np.pi / 2 * np.arange(1, order.max() + 1))
            out *= np.sin(angles, out=angles)[:, order - 1]
        scale_rows(out, log_scale)


def lowest_frequencies(n: int, reach: Array) -> Array:
    """Numbers of half-waves per direction, (n, k), of the n products of sines that vary least.

    Products of sines vary by sum_k (j_k / reach_k)^2, reach, shape (k,), the half-widths of the box
    in units of the kernel's lengths.
    """
    k = len(reach)
    # A ball of this radius in frequencies has at least n of them in its positive part.
    most = np.ceil(2 * (n * 2**k) ** (1 / k) * reach / np.exp(np.mean(np.log(reach)))).astype(int)
    most = np.minimum(most, n)
    grid = np.stack(np.meshgrid(*(np.arange(1, m + 1) for m in most), indexing="ij"), axis=-1)
    orders = grid.reshape(-1, k)
    varies = np.sum((orders / reach) ** 2, axis=1)
    return orders[np.argsort(varies, kind="stable")[:n]]


class HilbertProductFeatures(Features):
    """Products of features of the factors of a `HilbertProduct`, from `resolve_kernel`."""

    def __init__(self, kernel: Any, n_inputs: int):
        if kernel.pairs is None:
            raise ValueError("HilbertProduct has no numbers yet: call resolved(bags)")
        self._pairs = np.asarray(kernel.pairs)
        self.kernel, self.n_inputs, self.n_columns = kernel, n_inputs, len(self._pairs)
        self._factors = factors_features(kernel, n_inputs)

    def fill(self, points: Array, out: Array, scratch: Array | None, log_scale: ArrayLike) -> None:
        first, second = (factor(points) for factor in self._factors)
        np.take(first, self._pairs[:, 0], axis=1, out=out)
        out *= second[:, self._pairs[:, 1]]
        out *= np.sqrt(self.kernel.variance)
        scale_rows(out, log_scale)


def factors_features(kernel: Any, n_inputs: int) -> list[HilbertSpaceFeatures]:
    """Features of the two factors of a product."""
    return [HilbertSpaceFeatures(part, n_inputs) for part in (kernel.first, kernel.second)]


def strongest_pairs(first: Array, second: Array, n: int) -> Array:
    """The n pairs of functions with the largest products of their amplitudes, shape (n, 2)."""
    products = np.multiply.outer(first, second)
    order = np.argsort(-products, axis=None, kind="stable")[:n]
    return np.column_stack(np.unravel_index(order, products.shape))
