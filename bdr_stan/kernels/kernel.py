"""What a kernel of points is, and how kernels are added and multiplied.

``RBF(2.0)`` and ``Matern32(columns=["lon", "lat"])`` are kernels, as are their sums and products.
Kernels of the distance are in `shapes`, those of inner products in `inner_products`.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.types import Array, ArrayLike, Seed


class Kernel:
    """Base of the kernels: k(x, y) of points, sums and products, parameters that can be learned.

    ``k(x, y)`` returns the values between two stacks of points, shape (n, m), in float64;
    ``k.diagonal(x)`` the value of each point with itself. ``k1 + k2`` and ``k1 * k2`` are kernels.

    A kernel of your own has `prepare`, `fill`, `diagonal`, `on` and `columns_seen`; with numbers
    that fit bags `resolved` and `scaled`, with parameters that are learned `learnable` and
    `with_log_parameters`. One of the distance between points needs only the `profile` of
    `Stationary`.

    Raises
    ------
    TypeError : a sum or product with an object that is not a kernel.
    ValueError : points of different numbers of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import RBF, Linear, Matern32
    >>> kernel = RBF(2.0, columns=[0]) * Matern32(1.0, columns=[1]) + Linear()
    >>> x = np.array([[1.0, 0.0], [3.0, 1.0]])
    >>> kernel(x, x).round(2)
    array([[ 2.  ,  3.29],
           [ 3.29, 11.  ]])
    >>> kernel.diagonal(x)
    array([ 2., 11.])
    >>> kernel.parameter_names
    ['first.first.bandwidth', 'first.second.bandwidth', 'second.variance']
    >>> Matern32(columns=["lon", "lat"]) + Linear()
    Matern32(columns=['lon', 'lat']) + Polynomial(degree=1, constant=0.0)
    """

    variance: float

    def __post_init__(self):
        check_positive(self, "variance")

    def __call__(self, x: ArrayLike, y: ArrayLike) -> Array:
        x = np.asarray(x)
        if x.ndim != 2 or np.ndim(y) != 2 or x.shape[1] != np.shape(y)[1]:
            raise ValueError(
                f"points have shapes {x.shape} and {np.shape(y)}, expected (n, p) and (d, p): "
                "give both the same features"
            )
        return self.evaluate(x, self.prepare(y), np.empty((len(x), len(y))))

    def __repr__(self) -> str:
        """As it is written in Python, without parameters that have their defaults."""
        values = {field: getattr(self, field.name) for field in fields(cast(Any, self))}
        changed = [
            f"{field.name}={value!r}"
            for field, value in values.items()
            if field.repr and not _is_default(value, field.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum(self, other)

    def __mul__(self, other: "Kernel") -> "Product":
        return Product(self, other)

    def prepare(self, landmarks: ArrayLike) -> Any:
        """What `evaluate` needs of landmarks, shape (d, p), computed once."""
        raise NotImplementedError

    def evaluate(
        self, points: Array, prepared: Any, out: Array, log_scale: ArrayLike = 0.0
    ) -> Array:
        """Values of points, shape (n, p), at landmarks, written to `out`, shape (n, d).

        `prepared` is the result of `prepare` for the landmarks; the values of point j are
        multiplied by exp(log_scale[j]). Computed in float64 whatever the points' type.
        """
        self.fill(points, prepared, out)
        one_factor = np.ndim(log_scale) == 0
        out *= self.variance if one_factor else self.variance * np.exp(log_scale)[:, None]
        return out

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        """Write the values at variance 1 to `out`; for parameters see `Kernel.evaluate`."""
        raise NotImplementedError

    def diagonal(self, x: ArrayLike) -> Array:
        """k(x_i, x_i) of each point of `x`, shape (n, p); array, shape (n,)."""
        raise NotImplementedError

    @property
    def parts(self) -> dict[str, "Kernel"]:
        """The kernels that it is made of, by the names of their parameters."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Kernel)}

    def with_parts(self, change: Callable[["Kernel"], "Kernel"]) -> Self:
        """The kernel with `change` made to each of its parts; itself if it has none."""
        changed: dict[str, Any] = {name: change(part) for name, part in self.parts.items()}
        return replace(cast(Any, self), **changed) if changed else self

    def on(self, names: Sequence[str] | None, n_columns: int) -> Self:
        """The same kernel with its columns as indices.

        Parameters
        ----------
        names : list of str, or None
            Names of the points' columns.
        n_columns : int
            Number of the points' columns.

        Raises
        ------
        ValueError : a column that the points lack.
        """
        return self.with_parts(lambda part: part.on(names, n_columns))

    def columns_seen(self, n_columns: int) -> tuple[int, ...]:
        """Indices of the columns that the kernel depends on, ascending, once it is `on` them."""
        return tuple(sorted({c for p in self.parts.values() for c in p.columns_seen(n_columns)}))

    def resolved(self, bags: BagsLike, *, seed: Seed = None) -> Self:
        """The kernel with numbers for these bags instead of "scaled", "ard" or "median".

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        seed : int or numpy Generator, optional
            Seed of the sample of points for the numbers, if there are many points.

        Raises
        ------
        ValueError : columns that are constant but may not be, or points that coincide.
        """
        return self.with_parts(lambda part: part.resolved(bags, seed=seed))

    def scaled(self, factor: float) -> Self:
        """The kernel with all its bandwidths times `factor`."""
        return self.with_parts(lambda part: part.scaled(factor))

    def learnable(self) -> list[tuple[str, float]]:
        """Names and values of learnable parameters: bandwidths, variances in sums; default none."""
        return []

    def with_log_parameters(self, values: ArrayLike) -> Self:
        """The kernel with these `values` instead of its `log_parameters`, same shape."""
        return self

    @property
    def parameter_names(self) -> list[str]:
        """Names of the entries of `log_parameters`."""
        return [name for name, _ in self.learnable()]

    @property
    def log_parameters(self) -> Array:
        """Logarithms of learnable parameters, a float array: bandwidths, variances in sums."""
        return np.log([value for _, value in self.learnable()])


def _is_default(value, default):
    """Whether a parameter is its default, a single value; arrays are never one."""
    return value is default or (np.ndim(value) == 0 and default is not MISSING and value == default)


class ColumnKernel(Kernel):
    """Kernels other than sums and products: a subclass has the fields `columns` and `variance`."""

    columns: Sequence[str | int] | None

    def __post_init__(self):
        super().__post_init__()
        if self.columns is None:
            return
        if isinstance(self.columns, str) or not np.iterable(self.columns):
            raise TypeError(
                f"columns of {type(self).__name__} must be a list of names or numbers, found "
                f"{self.columns!r}"
            )
        columns = list(self.columns)
        twice = [c for k, c in enumerate(columns) if c in columns[:k]]
        if twice:
            raise ValueError(
                f"{type(self).__name__} names the column {twice[0]!r} twice: name each once"
            )
        if not columns:
            raise ValueError(f"{type(self).__name__} has no columns: name some, or None for all")

    def on(self, names: Sequence[str] | None, n_columns: int) -> Self:
        if self.columns is None:
            return self
        index: dict[Any, int] = {name: k for k, name in enumerate(names or [])}
        indices: list[int] = []
        for column in self.columns:
            levels = [k for name, k in index.items() if name.startswith(f"{column}=")]
            if column not in index and levels:  # a category, one column per level
                indices += levels
                continue
            k = index.get(column, column)
            if not isinstance(k, (int, np.integer)) or not 0 <= k < n_columns:
                columns = ", ".join(map(str, names)) if names else f"0 to {n_columns - 1}"
                raise ValueError(
                    f"{type(self).__name__} depends on the column {column!r}, which the points do "
                    f"not have; they have {columns}"
                )
            indices.append(int(k))
        return replace(cast(Any, self), columns=tuple(indices))

    def columns_seen(self, n_columns: int) -> tuple[int, ...]:
        seen: Any = range(n_columns) if self.columns is None else sorted(cast(Any, self.columns))
        return tuple(seen)

    def select(self, points: Array) -> Array:
        """The columns of points that the kernel depends on."""
        return points if self.columns is None else points[:, np.asarray(self.columns)]


@dataclass(frozen=True, eq=False, repr=False)
class Pair(Kernel):
    """Two kernels, joined entry by entry, times `variance`: base of sums and products."""

    first: Kernel
    second: Kernel
    variance: float = 1.0

    _join: ClassVar[np.ufunc]
    learns_variance: ClassVar[bool] = False  # of the second kernel, relative to the first
    sign: ClassVar[str]  # in Python

    def __post_init__(self):
        for part in (self.first, self.second):
            if not isinstance(part, Kernel):
                raise TypeError(f"only kernels can be added or multiplied, found {part!r}")
        super().__post_init__()

    def __repr__(self) -> str:
        if self.variance != 1:
            return super().__repr__()
        first, second = (
            f"({part!r})" if isinstance(part, Sum) and self.sign == "*" else repr(part)
            for part in (self.first, self.second)
        )
        return f"{first} {self.sign} {second}"

    def prepare(self, landmarks: ArrayLike) -> tuple[Any, Any]:
        return self.first.prepare(landmarks), self.second.prepare(landmarks)

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        self.first.evaluate(points, prepared[0], out)
        second = self.second.evaluate(points, prepared[1], np.empty_like(out))
        self._join(out, second, out=out)

    def diagonal(self, x: ArrayLike) -> Array:
        return self.variance * self._join(self.first.diagonal(x), self.second.diagonal(x))

    def learnable(self) -> list[tuple[str, float]]:
        parts = {"first": self.first.learnable(), "second": self.second.learnable()}
        if self.learns_variance:
            parts["second"] = [*parts["second"], ("variance", self.second.variance)]
        return [(f"{side}.{name}", value) for side, part in parts.items() for name, value in part]

    def with_log_parameters(self, values: ArrayLike) -> Self:
        n = self._n_of_first
        first, of_second = self.first.with_log_parameters(values[:n]), values[n:]
        if not self.learns_variance:
            return replace(self, first=first, second=self.second.with_log_parameters(of_second))
        second: Any = self.second.with_log_parameters(of_second[:-1])
        variance = float(np.exp(of_second[-1]))
        return replace(self, first=first, second=replace(second, variance=variance))

    @cached_property
    def _n_of_first(self):
        """Cached: learning the parameters of a sum of many kernels needs it thousands of times."""
        return len(self.first.learnable())


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Pair):
    """first + second: the variance of the second can be learned, the first is the unit."""

    _join = np.add
    learns_variance = True
    sign = "+"


@dataclass(frozen=True, eq=False, repr=False)
class Product(Pair):
    """first * second."""

    _join = np.multiply
    sign = "*"


def store_arrays(kernel: Kernel, *names: str) -> None:
    """Store the parameters of these names, unless they are None, as arrays of floats."""
    for name in names:
        if getattr(kernel, name) is not None:
            object.__setattr__(kernel, name, np.asarray(getattr(kernel, name), np.float64))


def check_positive(kernel: Kernel, name: str) -> None:
    """Raise unless the parameter of this name is a positive number."""
    value = getattr(kernel, name)
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise ValueError(
            f"{name} of {type(kernel).__name__} must be a positive number, found {value!r}"
        )
