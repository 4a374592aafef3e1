"""Hilbert-space basis functions: sines that make a Gaussian process in space or time.

On a box of half-widths L around the points, the functions

    psi_j(x) = sqrt(S(w_j)) prod_k sin(w_jk (x_k - c_k + L_k)) / sqrt(L_k),   w_jk = pi j_k / 2 L_k

with S the kernel's spectral density make psi(x)'psi(y) nearly k(x, y). Of the products of two such
kernels' features those of the largest prior variance are used.

Source: Solin and Sarkka (2020), "Hilbert space methods for reduced-rank Gaussian process
regression"; Riutort-Mayol, Burkner, Andersen, Solin, Vehtari (2023), "Practical Hilbert space
approximate Bayesian Gaussian processes for probabilistic programming".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernels.feature_maps import FeatureMap, scale_rows
from bdr_stan.kernels.kernel import Kernel, Product, store_arrays
from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array, ArrayLike, Seed, is_integer

_POINTS_FOR_RANGE = 20_000  # whose middle and half-widths are centre and reach
# Half-width of the box: at least 1.2 times the points' half-width, and 4.5 lengths. Riutort-Mayol
# et al. (2023), section 4, for Matern 3/2; smoother kernels need less.
_BOX_PER_REACH, _BOX_PER_LENGTH = 1.2, 4.5
# At the edge of the box the sines are 0. Points of the range are at least this number of lengths
# away: the minimum is at the length for which both rules above give the same box.
_LENGTHS_TO_EDGE = _BOX_PER_LENGTH * (1 - 1 / _BOX_PER_REACH)
_MOST_COLUMNS = 3
_MOST_FUNCTIONS = 10_000  # a matrix of their products is 800 MB
_N_PAIRS = 500


@dataclass(frozen=True, eq=False, repr=False)
class HilbertSpace(Kernel):
    """A kernel of the distance in one to three columns, with sines instead of landmarks.

    It has the values of the base kernel; as a field of `AggregateRegressor` it needs no landmarks.

    Parameters
    ----------
    base : RBF, Exponential, Matern32 or Matern52
        A kernel with columns, for example ``Matern32(columns=["lon", "lat"])``.
    n_functions : int, default 300
        Number of sines, of the lowest frequencies. About (3.4 L / length)^k, k the number of
        columns, represent nearly all of the kernel; the rest enters the intervals of points.
    variance : float, > 0, default 1
        Factor on the values.
    centre, reach : arrays of shape (k,), optional, in the units of the points
        Middle and half-widths of the points' range; estimators set them. The box of the sines is
        1.2 times as wide, or 4.5 lengths to each side, whichever is more. Points outside are moved
        to its edge: their features are 0.
    horizon : float, >= 0, default 0, in the units of the points
        For one column, for example the month: forecast horizon beyond its largest value, which
        extends the range.

    Raises
    ------
    TypeError : a base of another kind.
    ValueError : a variance or number of functions that is not positive; a negative horizon, or one
        of several columns; a centre without a reach; at evaluation, a column that is constant or
        more than three columns.

    Source: Solin and Sarkka (2020), "Hilbert space methods for reduced-rank Gaussian process
    regression".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Matern32
    >>> from bdr_stan.kernels import FieldFeatures, HilbertSpace
    >>> x = np.linspace(0, 10, 50)[:, None]
    >>> field = HilbertSpace(Matern32(2.0, columns=[0]), n_functions=60)
    >>> field = field.resolved([x])
    >>> phi = FieldFeatures(field, np.empty((0, 1)))(x)
    >>> phi.shape
    (50, 60)
    >>> bool(np.allclose(phi @ phi.T, Matern32(2.0)(x, x), atol=0.02))
    True
    """

    base: Stationary
    n_functions: int = 300
    variance: float = 1.0
    centre: ArrayLike | None = field(default=None, repr=False)
    reach: ArrayLike | None = field(default=None, repr=False)
    horizon: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.base, Stationary) or not self.base.has_spectral_density:
            raise TypeError(
                f"HilbertSpace takes RBF, Exponential, Matern32 or Matern52, found {self.base!r}"
            )
        if not is_integer(self.n_functions) or not 1 <= self.n_functions <= _MOST_FUNCTIONS:
            raise ValueError(
                f"n_functions of HilbertSpace must be an integer from 1 to {_MOST_FUNCTIONS}, "
                f"found {self.n_functions!r}"
            )
        if not (isinstance(self.horizon, Real) and 0 <= float(self.horizon) < np.inf):
            raise ValueError(
                f"horizon of HilbertSpace must be a number >= 0, found {self.horizon!r}"
            )
        if (self.centre is None) != (self.reach is None):
            raise ValueError("HilbertSpace takes centre and reach together: give both, or neither")
        store_arrays(self, "centre", "reach")

    def __mul__(self, other: Kernel) -> Product:
        if not isinstance(other, HilbertSpace):
            return super().__mul__(other)
        return HilbertProduct(self, other)

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        bags = as_bags(bags, in_parts=True)
        base = self.base.resolved(bags, seed=seed)
        if self.reach is not None:
            return replace(self, base=base)
        points = base.select(bags.sample_points(_POINTS_FOR_RANGE, np.random.default_rng(seed)))
        if points.shape[1] > _MOST_COLUMNS:
            raise ValueError(
                f"HilbertSpace depends on {points.shape[1]} columns, of which it would need sines "
                f"in all directions: name at most {_MOST_COLUMNS} as columns of its base"
            )
        if self.horizon and points.shape[1] > 1:
            raise ValueError(
                f"horizon is of one column, such as the month, but HilbertSpace depends on "
                f"{points.shape[1]}: give the month a HilbertSpace of its own, as a factor"
            )
        low, high = points.min(axis=0), points.max(axis=0)
        if not np.all(high > low):
            k = int(np.flatnonzero(high == low)[0])
            column = k if base.columns is None else base.columns[k]
            raise ValueError(f"column {column} is constant: leave it out of HilbertSpace")
        high = high + self.horizon
        return replace(self, base=base, centre=(low + high) / 2, reach=(high - low) / 2)

    def box(self) -> tuple[Array, Array, Array]:
        """Middle and half-widths of the box of the sines, and the kernel's lengths, each (k,)."""
        if self.reach is None or self.centre is None:
            raise ValueError("HilbertSpace has no numbers yet: call resolved(bags)")
        reach = np.asarray(self.reach)
        lengths = np.broadcast_to(np.asarray(self.base.lengths, float), reach.shape)
        half = np.maximum(_BOX_PER_REACH * reach, _BOX_PER_LENGTH * lengths)
        return np.asarray(self.centre), half, lengths

    def limits(self) -> Array:
        """Lowest and highest values, shape (2, k), between which the sines have the variance.

        It is less near the edge of the box; the points' range, with the horizon, is always between.
        """
        centre, half, lengths = self.box()
        inner = half - _LENGTHS_TO_EDGE * lengths
        return np.array([centre - inner, centre + inner])

    def prepare(self, landmarks: ArrayLike) -> Any:
        return self.base.prepare(landmarks)

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        self.base.evaluate(points, prepared, out)

    def diagonal(self, x: ArrayLike) -> Array:
        return self.variance * self.base.diagonal(x)

    def learnable(self) -> list[tuple[str, float]]:
        return self.base.learnable()

    def with_log_parameters(self, values: ArrayLike) -> Self:
        return replace(self, base=self.base.with_log_parameters(values))


@dataclass(frozen=True, eq=False, repr=False)
class HilbertProduct(Product):
    """first * second of two `HilbertSpace` kernels of different columns, as ``*`` makes it.

    As a field of `AggregateRegressor` it needs no landmarks: its features are products of a basis
    function of each factor.

    Parameters
    ----------
    first, second : HilbertSpace
        For example one in space and one in time.
    variance : float, > 0, default 1
        Factor on the values.
    n_functions : int, default 500
        Number of pairs of basis functions: the pairs of largest prior variance at the factors'
        initial lengths. They stay fixed while lengths are learned; the rest of the variance enters
        the intervals of points.
    pairs : integers, shape (n_functions, 2), optional
        The pairs, from 0 in each factor; estimators set them.

    Raises
    ------
    TypeError : a factor is not a `HilbertSpace`.
    ValueError : a number of functions that is not positive; at evaluation, factors
        that share a column or have more than three columns in total.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Matern32
    >>> from bdr_stan.kernels import FieldFeatures, HilbertProduct, HilbertSpace
    >>> x = np.random.default_rng(0).uniform(0, 10, size=(50, 2))
    >>> space = HilbertSpace(Matern32(5.0, columns=[0]), n_functions=30)
    >>> time = HilbertSpace(Matern32(4.0, columns=[1]), n_functions=30)
    >>> field = HilbertProduct(space, time, n_functions=300).resolved([x])
    >>> phi = FieldFeatures(field, np.empty((0, 2)))(x)
    >>> phi.shape
    (50, 300)
    >>> bool(np.allclose(phi @ phi.T, field(x, x), atol=0.05))
    True
    """

    n_functions: int = _N_PAIRS
    pairs: ArrayLike | None = field(default=None, repr=False)

    def __post_init__(self):
        super().__post_init__()
        for part in (self.first, self.second):
            if not isinstance(part, HilbertSpace):
                raise TypeError(
                    f"a product of HilbertSpace kernels has two of them, found {part!r}: a "
                    "HilbertSpace takes up to three columns"
                )
        if not is_integer(self.n_functions) or self.n_functions < 1:
            raise ValueError(
                f"n_functions of HilbertProduct must be an integer >= 1, found {self.n_functions!r}"
            )
        if self.pairs is not None:
            object.__setattr__(self, "pairs", np.asarray(self.pairs, int))

    def __repr__(self) -> str:
        return super().__repr__() if self.n_functions == _N_PAIRS else Kernel.__repr__(self)

    def __mul__(self, other: Kernel) -> Product:
        if isinstance(other, (HilbertSpace, HilbertProduct)):
            return HilbertProduct(self, other)
        return super().__mul__(other)

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        resolved = super().resolved(bags, seed=seed)
        if resolved.pairs is not None:
            return resolved
        products = np.multiply.outer(*(f.amplitude for f in factors_features(resolved, 0)))
        order = np.argsort(-products, axis=None, kind="stable")[: self.n_functions]
        pairs = np.column_stack(np.unravel_index(order, products.shape))  # of largest amplitude
        return replace(resolved, pairs=pairs)

    def on(self, names: Sequence[str] | None, n_columns: int) -> Self:
        with_indices = super().on(names, n_columns)
        columns = [part.columns_seen(n_columns) for part in with_indices.parts.values()]
        shared = sorted(set(columns[0]) & set(columns[1]))
        if shared:
            column = repr(names[shared[0]]) if names else shared[0]
            raise ValueError(
                f"both factors of a product of HilbertSpace kernels depend on the column {column}: "
                "name the columns of each, such as the place in one and the month in the other"
            )
        if len(columns[0]) + len(columns[1]) > _MOST_COLUMNS:
            raise ValueError(
                f"a product of HilbertSpace kernels depends on {sum(map(len, columns))} columns, "
                f"of which it would need pairs in all directions: name at most {_MOST_COLUMNS}"
            )
        return with_indices


class HilbertSpaceFeatures(FeatureMap):
    """psi of a `HilbertSpace` kernel, from `resolve_kernel`, for points of `n_inputs` columns."""

    def __init__(self, kernel: HilbertSpace, n_inputs: int):
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

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
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
    # A ball of this radius has at least n frequencies in its positive part.
    most = np.ceil(2 * (n * 2**k) ** (1 / k) * reach / np.exp(np.mean(np.log(reach)))).astype(int)
    most = np.minimum(most, n)
    grid = np.stack(np.meshgrid(*(np.arange(1, m + 1) for m in most), indexing="ij"), axis=-1)
    orders = grid.reshape(-1, k)
    varies = np.sum((orders / reach) ** 2, axis=1)
    return orders[np.argsort(varies, kind="stable")[:n]]


class HilbertProductFeatures(FeatureMap):
    """Products of features of the factors of a `HilbertProduct`, from `resolve_kernel`."""

    def __init__(self, kernel: HilbertProduct, n_inputs: int):
        if kernel.pairs is None:
            raise ValueError("HilbertProduct has no numbers yet: call resolved(bags)")
        self._pairs = np.asarray(kernel.pairs)
        self.kernel, self.n_inputs, self.n_columns = kernel, n_inputs, len(self._pairs)
        self._factors = factors_features(kernel, n_inputs)

    def fill(self, points: Array, out: Array, log_scale: ArrayLike) -> None:
        first, second = (factor(points) for factor in self._factors)
        np.take(first, self._pairs[:, 0], axis=1, out=out)
        out *= second[:, self._pairs[:, 1]]
        out *= np.sqrt(self.kernel.variance)
        scale_rows(out, log_scale)


def factors_features(kernel: Any, n_inputs: int) -> list[HilbertSpaceFeatures]:
    """Features of the two factors of a product."""
    return [HilbertSpaceFeatures(part, n_inputs) for part in (kernel.first, kernel.second)]
