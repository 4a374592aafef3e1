"""Hilbert-space basis functions: sines that make a Gaussian process in space or time.

On a box of half-widths L around the points, the functions

    psi_j(x) = sqrt(S(w_j)) prod_k sin(w_jk (x_k - c_k + L_k)) / sqrt(L_k),   w_jk = pi j_k / 2 L_k

with S the kernel's spectral density make psi(x)'psi(y) nearly k(x, y). A few hundred resolve a
country, and cost less than landmarks: no product of matrices is needed.

Source: Solin and Sarkka (2020), "Hilbert space methods for reduced-rank Gaussian process
regression"; Riutort-Mayol, Burkner, Andersen, Solin, Vehtari (2023), "Practical Hilbert space
approximate Bayesian Gaussian processes for probabilistic programming".
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernels.feature_maps import Features, scale_rows
from bdr_stan.kernels.kernel import Kernel, check_positive, store_arrays
from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array, ArrayLike, Seed, is_integer

_SAMPLE = 20_000  # points from which centre and reach are computed
# Half-width of the box: at least 1.2 times that of the points, and 4.5 lengths. Riutort-Mayol et
# al. (2023), section 4, for Matern 3/2; smoother kernels need less.
_BOX_PER_REACH, _BOX_PER_LENGTH = 1.2, 4.5
_MOST_COLUMNS = 3
_MOST_FUNCTIONS = 10_000  # a matrix of their products is 800 MB


@dataclass(frozen=True, eq=False, repr=False)
class HilbertSpace(Kernel):
    """A kernel of the distance in one to three columns, with sines in place of landmarks.

    Its values are those of the base kernel; as a field of `AggregateRegressor` it needs no
    landmarks.

    Parameters
    ----------
    base : RBF, Exponential, Matern32 or Matern52
        With columns, such as ``Matern32(columns=["lon", "lat"])``.
    n_functions : int, default 300
        Those of the lowest frequencies are used. About (3.4 L / length)^k of them, k the number of
        columns, represent nearly all of the kernel; the rest enters the intervals of points.
    variance : float, > 0, default 1
        Factor on the values.
    centre, reach : arrays of shape (k,), optional, in the units of the points
        Middle and half-widths of the points' range; estimators set them. The box of the sines is
        1.2 times as wide, or 4.5 lengths to each side, whichever is more. Points outside are moved
        to its edge, where the features are 0.

    Raises
    ------
    TypeError : a base of another kind.
    ValueError : a variance or number of functions that is not positive; when the kernel gets
        points, a column that is constant or more than three columns.

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

    def __post_init__(self):
        check_positive(self, "variance")
        if not isinstance(self.base, Stationary) or not self.base.has_spectral_density:
            raise TypeError(
                f"HilbertSpace takes RBF, Exponential, Matern32 or Matern52, found {self.base!r}"
            )
        if not is_integer(self.n_functions) or not 1 <= self.n_functions <= _MOST_FUNCTIONS:
            raise ValueError(
                f"n_functions of HilbertSpace must be an integer from 1 to {_MOST_FUNCTIONS}, "
                f"found {self.n_functions!r}"
            )
        store_arrays(self, "centre", "reach")

    def on(self, names: Any, n_columns: int) -> Self:
        return replace(self, base=self.base.on(names, n_columns))

    def columns_seen(self, n_columns: int) -> tuple[int, ...]:
        return self.base.columns_seen(n_columns)

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        bags = as_bags(bags, in_parts=True)
        base = self.base.resolved(bags, seed=seed)
        if self.reach is not None:
            return replace(self, base=base)
        points = base.select(bags.sample_points(_SAMPLE, np.random.default_rng(seed)))
        if points.shape[1] > _MOST_COLUMNS:
            raise ValueError(
                f"HilbertSpace depends on {points.shape[1]} columns, of which it would need sines "
                f"in all directions: name at most {_MOST_COLUMNS} as columns of its base"
            )
        low, high = points.min(axis=0), points.max(axis=0)
        if not np.all(high > low):
            k = int(np.flatnonzero(high == low)[0])
            column = k if base.columns is None else base.columns[k]
            raise ValueError(f"column {column} is constant: leave it out of HilbertSpace")
        return replace(self, base=base, centre=(low + high) / 2, reach=(high - low) / 2)

    def scaled(self, factor: float) -> Self:
        return replace(self, base=self.base.scaled(factor))

    def prepare(self, landmarks: ArrayLike) -> Any:
        return self.base.prepare(landmarks)

    def fill(self, points: Array, prepared: Any, out: Array, scratch: Array | None) -> None:
        self.base.evaluate(points, prepared, out, scratch)

    def diagonal(self, x: ArrayLike) -> Array:
        return self.variance * self.base.diagonal(x)

    def learnable(self) -> list[tuple[str, float]]:
        return self.base.learnable()

    def with_log_parameters(self, values: ArrayLike) -> Self:
        return replace(self, base=self.base.with_log_parameters(values))


class HilbertSpaceFeatures(Features):
    """psi of a `HilbertSpace` kernel, from `resolve_kernel`, for points of `n_inputs` columns."""

    def __init__(self, kernel: HilbertSpace, n_inputs: int):
        if kernel.reach is None or kernel.centre is None:
            raise ValueError("HilbertSpace has no numbers yet: call resolved(bags)")
        self.kernel, self.n_inputs, self.n_columns = kernel, n_inputs, kernel.n_functions
        self._centre, reach = np.asarray(kernel.centre), np.asarray(kernel.reach)
        lengths = np.broadcast_to(np.asarray(kernel.base.lengths, float), reach.shape)
        self._half = np.maximum(_BOX_PER_REACH * reach, _BOX_PER_LENGTH * lengths)
        # Fixed while lengths are learned, as a changing set would make the evidence jump.
        units = kernel.base.units if np.ndim(kernel.base.bandwidth) == 0 else reach
        self._order = lowest_frequencies(
            kernel.n_functions, reach / (1.0 if units is None else units)
        )
        waves = np.pi * self._order / (2 * self._half)
        density = np.prod(lengths) * kernel.base.spectral_density(
            np.sum((waves * lengths) ** 2, axis=1), len(lengths)
        )
        variance = kernel.variance * kernel.base.variance
        self._amplitude = np.sqrt(variance * density / np.prod(self._half))

    def fill(self, points: Array, out: Array, scratch: Array | None, log_scale: ArrayLike) -> None:
        seen = np.asarray(self.kernel.base.select(points), np.float64)
        place = np.clip((seen - self._centre) / self._half, -1, 1) + 1
        out[:] = self._amplitude
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
