"""Kernels, the features that embeddings average, and the convolution kernel r of the prior.

A kernel is an object: ``RBF(2.0)``, ``Matern32(columns=["lon", "lat"])``, sums and products of such.
`rbf` and `rbf_features` are the Gaussian kernel as plain functions, for the innermost loops. What
embeddings average are features of points: a kernel at landmarks, or random Fourier features
(`FEATURES`). A bandwidth is one length, or an array (p,) with one for each feature.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bdr_stan.bags import as_bags

# exp is up to 100 times slower where it underflows; below this, 1e-304, nothing is lost.
SMALLEST_EXPONENT = -700.0


def rbf(x, y, bandwidth):
    """Gaussian kernel k(x, y) = exp(-sum_k (x_k - y_k)^2 / (2 bandwidth_k^2)).

    Parameters
    ----------
    x : array, shape (n, p)
    y : array, shape (m, p), in the units of x
    bandwidth : float or array, shape (p,), > 0, in the units of x
        One length for all features, or one for each.

    Returns
    -------
    float64 array, shape (n, m), values in [0, 1]

    Notes
    -----
    Squared distances come from one matrix product, after moving the origin to the mean of `y`.
    The relative error is about 1e-16 (R / bandwidth)^2, R the distance of points from there.
    """
    x = np.asarray(x)
    values = rbf_features(x, rbf_basis(y, bandwidth), np.empty((len(x), len(y))))
    return np.minimum(values, 1, out=values)  # rounding can make a squared distance negative


class RBFBasis(NamedTuple):
    """Landmarks prepared for `minus_half_squares`; s is 1 where there is one bandwidth b for all."""

    centre: np.ndarray  # (p,), mean of the landmarks
    scale: np.ndarray | None  # s, (p,), what points are divided by; None saves dividing by 1
    precision: float  # 1 / b^2; 1 where s is given
    matrix: np.ndarray  # (p + 2, d), rows [v / b^2, 1, -|v|^2 / 2b^2], v = (u - centre) / s
    radius: float  # largest |v|

    @property
    def n_columns(self):
        return self.matrix.shape[1]


def rbf_basis(landmarks, bandwidth):
    """Prepare landmarks, shape (d, p), for repeated calls of `rbf_features`."""
    landmarks = np.asarray(landmarks, np.float64)
    check_bandwidth(bandwidth, n_features=landmarks.shape[1])
    centre = landmarks.mean(axis=0)
    moved = landmarks - centre
    if np.ndim(bandwidth) == 0:
        scale, precision = None, float(bandwidth) ** -2.0
    else:
        scale, precision = np.asarray(bandwidth, np.float64), 1.0
        moved /= scale
    norms = np.einsum("ij,ij->i", moved, moved)
    matrix = np.vstack([precision * moved.T, np.ones(len(moved)), -0.5 * precision * norms])
    return RBFBasis(centre, scale, precision, matrix, np.sqrt(norms.max()))


def rbf_features(points, basis, out, scratch=None, log_scale=0.0):
    """Kernel of points, shape (n, p), at the landmarks of `basis`, written to `out` (n, d).

    `scratch`, shape (at least n, p + 2), saves an allocation; the values of point j come times
    exp(log_scale[j]). Computed in float64 whatever the points' type. Where a point meets a
    landmark, rounding may leave a value just above 1.
    """
    farthest = minus_half_squares(points, basis, out, scratch, log_scale)
    if -0.5 * basis.precision * farthest**2 + np.min(log_scale, initial=0) < SMALLEST_EXPONENT:
        np.maximum(out, SMALLEST_EXPONENT, out=out)
    return np.exp(out, out=out)


def minus_half_squares(points, basis, out, scratch=None, log_scale=0.0):
    """Write -|x - u|^2 / 2 b^2, plus log_scale, to `out`; returns a bound of the distances."""
    n, p = points.shape
    rows = np.empty((n, p + 2)) if scratch is None else scratch[:n, : p + 2]
    moved, norms = rows[:, :p], rows[:, p]
    np.subtract(points, basis.centre, out=moved)
    if basis.scale is not None:
        moved /= basis.scale
    np.einsum("ij,ij->i", moved, moved, out=norms)
    farthest = np.sqrt(norms.max(initial=0)) + basis.radius
    # x.u - |x|^2/2 - |u|^2/2 = -|x - u|^2/2 as one product: the norms are two more columns.
    norms *= -0.5 * basis.precision
    norms += log_scale
    rows[:, p + 1] = 1
    np.matmul(rows, basis.matrix, out=out)
    return farthest


def _distance(out, factor):
    """-r^2 / 2 to factor * r, in place."""
    out *= -2 * factor**2
    np.sqrt(out, out=out)


def _row_factors(variance, log_scale):
    """What the values of each point are multiplied by."""
    return variance if np.ndim(log_scale) == 0 else variance * np.exp(log_scale)[:, None]


def _in_place(join, a, b):
    return join(a, b, out=a)


def _check_positive(kernel, name):
    value = getattr(kernel, name)
    if not (np.isscalar(value) and not isinstance(value, str) and 0 < value < np.inf):
        raise ValueError(
            f"{name} of {type(kernel).__name__} must be a positive number, found {value!r}"
        )


class Kernel:
    """Base of the kernels: k(x, y) of points, sums and products, parameters that can be learned.

    ``k(x, y)`` gives the values between two stacks of points, shape (n, m), in float64;
    ``k.diagonal(x)`` those of each point with itself. ``k1 + k2`` and ``k1 * k2`` are kernels.
    """

    def __call__(self, x, y):
        x = np.asarray(x)
        return self.evaluate(x, self.prepare(y), np.empty((len(x), len(y))))

    def __add__(self, other):
        return Sum(self, other)

    def __mul__(self, other):
        return Product(self, other)

    @property
    def parameter_names(self):
        """Names of the entries of `log_parameters`."""
        return [name for name, _ in self._learnable()]

    @property
    def log_parameters(self):
        """Logarithms of what can be learned, a float array: bandwidths, variances in sums."""
        return np.log([value for _, value in self._learnable()])


class Prepared(NamedTuple):
    """Landmarks prepared for `Kernel.evaluate`."""

    parts: tuple
    n_columns: int


@dataclass(frozen=True, eq=False)
class _Simple(Kernel):
    """What kernels that are no sums or products share: a factor and columns to look at."""

    def _check(self):
        _check_positive(self, "variance")
        if self.columns is None:
            return
        columns = list(self.columns)
        twice = [c for k, c in enumerate(columns) if c in columns[:k]]
        if twice:
            raise ValueError(
                f"{type(self).__name__} names the column {twice[0]!r} twice: name each once"
            )
        if not columns:
            raise ValueError(f"{type(self).__name__} has no columns: name some, or None for all")

    def on(self, names, n_features):
        """The same kernel with its columns as indices.

        Parameters
        ----------
        names : list of str, or None
            Names of the points' columns.
        n_features : int
            Columns there are.

        Raises
        ------
        ValueError : a column that is not there.
        """
        if self.columns is None:
            return self
        index = {name: k for k, name in enumerate(names or [])}
        found = [index.get(c, c) for c in self.columns]
        for column, k in zip(self.columns, found, strict=True):
            if not isinstance(k, (int, np.integer)) or not 0 <= k < n_features:
                known = ", ".join(map(str, names)) if names else f"0 to {n_features - 1}"
                raise ValueError(
                    f"{type(self).__name__} looks at the column {column!r}, which the points do not "
                    f"have; they have {known}"
                )
        return replace(self, columns=tuple(int(k) for k in found))

    def _seen(self, points):
        return points if self.columns is None else points[:, list(self.columns)]

    def _width(self, n_features):
        return n_features if self.columns is None else len(self.columns)


@dataclass(frozen=True, eq=False)
class Stationary(_Simple):
    """Kernels of the distance r = |(x - y) / bandwidth|.

    Parameters
    ----------
    bandwidth : float, array of shape (p,), "median" or "ard", default "median"
        In the units of the points; an array gives each column its own length scale. "median"
        is the rule of `median_bandwidth`, "ard" (automatic relevance determination) the same
        rule on columns divided by their standard deviations, as one length for each column.
    columns : sequence of names or indices, optional
        The columns that the kernel looks at; default all.
    variance : float, > 0, default 1
        k(x, x).
    """

    bandwidth: float | np.ndarray | str = "median"
    columns: tuple | None = None
    variance: float = 1.0

    def __post_init__(self):
        self._check()
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in ("median", "ard"):
                raise ValueError(
                    f"bandwidth of {type(self).__name__} must be a positive number, an array of "
                    f"such, 'median' or 'ard', found {self.bandwidth!r}"
                )
        else:
            check_bandwidth(self.bandwidth)

    def at_median(self, bags, *, seed=None):
        """The kernel with "median" or "ard" replaced by numbers for these bags."""
        if not isinstance(self.bandwidth, str):
            return self
        points = self._seen(as_bags(bags).sample_points(2000, np.random.default_rng(seed)))
        if self.bandwidth == "median":
            return replace(self, bandwidth=median_bandwidth([points]))
        scale = points.std(axis=0)
        if not scale.all():
            k = int(np.flatnonzero(scale == 0)[0])
            column = k if self.columns is None else self.columns[k]
            raise ValueError(f"column {column} is constant: leave it out of bandwidth='ard'")
        return replace(self, bandwidth=scale * median_bandwidth([points / scale]))

    def prepare(self, landmarks):
        landmarks = np.asarray(landmarks, np.float64)
        waiting = isinstance(self.bandwidth, str)
        if waiting:
            raise ValueError(
                f"bandwidth={self.bandwidth!r} waits for data: give a number, or call at_median(bags)"
            )
        return rbf_basis(self._seen(landmarks), self.bandwidth)

    def evaluate(self, points, basis, out, scratch=None, log_scale=0.0):
        points = self._seen(points)
        minus_half_squares(points, basis, out, scratch)
        np.minimum(out, 0, out=out)  # rounding can make a squared distance negative
        self.profile(out)
        out *= _row_factors(self.variance, log_scale)
        return out

    def diagonal(self, x):
        return np.full(len(x), float(self.variance))

    def _learnable(self):
        lengths = np.atleast_1d(self.bandwidth)
        if len(lengths) == 1:
            return [("bandwidth", lengths[0])]
        columns = self.columns or range(len(lengths))
        return [(f"bandwidth[{c}]", b) for c, b in zip(columns, lengths, strict=True)]

    def with_log_parameters(self, values):
        """The kernel with these in place of its `log_parameters`."""
        new = np.exp(values)
        return replace(self, bandwidth=new if np.ndim(self.bandwidth) else float(new[0]))


class RBF(Stationary):
    """Gaussian kernel exp(-r^2 / 2); parameters as for `Stationary`."""

    def profile(self, out):
        np.exp(np.maximum(out, SMALLEST_EXPONENT, out=out), out=out)


class Exponential(Stationary):
    """exp(-r), the Matern kernel of smoothness 1/2; parameters as for `Stationary`."""

    def profile(self, out):
        _distance(out, 1.0)
        np.exp(np.negative(out, out=out), out=out)


class Matern32(Stationary):
    """(1 + s) exp(-s), s = sqrt(3) r: Matern of smoothness 3/2; parameters as for `Stationary`."""

    def profile(self, out):
        _distance(out, np.sqrt(3))
        factor = 1 + out
        np.exp(np.negative(out, out=out), out=out)
        out *= factor


class Matern52(Stationary):
    """(1 + s + s^2/3) exp(-s), s = sqrt(5) r: Matern of smoothness 5/2; as `Stationary`."""

    def profile(self, out):
        _distance(out, np.sqrt(5))
        factor = 1 + out * (1 + out / 3)
        np.exp(np.negative(out, out=out), out=out)
        out *= factor


class Cauchy(Stationary):
    """1 / (1 + r^2); parameters as for `Stationary`."""

    def profile(self, out):
        np.reciprocal(1 - 2 * out, out=out)


class InverseMultiquadric(Stationary):
    """1 / sqrt(1 + r^2); parameters as for `Stationary`."""

    def profile(self, out):
        np.reciprocal(np.sqrt(1 - 2 * out), out=out)


@dataclass(frozen=True, eq=False)
class RationalQuadratic(Stationary):
    """(1 + r^2 / (2 alpha))^-alpha; alpha > 0, default 1, the other parameters as for `Stationary`.

    A mixture of Gaussian kernels of all bandwidths; alpha = 1 is the Cauchy kernel of bandwidth
    sqrt(2) times as large.
    """

    alpha: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        _check_positive(self, "alpha")

    def profile(self, out):
        np.power(1 - out / self.alpha, -self.alpha, out=out)


@dataclass(frozen=True, eq=False)
class StudentT(Stationary):
    """1 / (1 + r^degree), the generalised t-student kernel; 0 < degree <= 2, default 1.

    The other parameters are as for `Stationary`. Above degree 2 it is not positive definite.
    """

    degree: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not (np.isscalar(self.degree) and 0 < self.degree <= 2):
            raise ValueError(f"degree of StudentT must be in (0, 2], found {self.degree!r}")

    def profile(self, out):
        np.reciprocal(1 + (-2 * out) ** (self.degree / 2), out=out)


@dataclass(frozen=True, eq=False)
class Polynomial(_Simple):
    """(x'y + constant)^degree; degree 2 and constant 1 by default.

    Parameters
    ----------
    degree : int, >= 1
    constant : float, >= 0, in the squared units of the points
    columns : sequence of names or indices, optional
        The columns that the kernel looks at; default all.
    variance : float, > 0, default 1
        Factor on the values.
    """

    degree: int = 2
    constant: float = 1.0
    columns: tuple | None = None
    variance: float = 1.0

    def __post_init__(self):
        self._check()
        if not isinstance(self.degree, (int, np.integer)) or self.degree < 1:
            raise ValueError(f"degree of Polynomial must be an integer >= 1, found {self.degree!r}")
        if not (np.isscalar(self.constant) and 0 <= self.constant < np.inf):
            raise ValueError(
                f"constant of Polynomial must be a number >= 0, found {self.constant!r}"
            )

    def at_median(self, bags, *, seed=None):
        """The kernel itself: it has no bandwidth."""
        return self

    def prepare(self, landmarks):
        landmarks = self._seen(np.asarray(landmarks, np.float64))
        return Prepared((np.ascontiguousarray(landmarks.T),), len(landmarks))

    def evaluate(self, points, basis, out, scratch=None, log_scale=0.0):
        np.matmul(np.asarray(self._seen(points), np.float64), basis.parts[0], out=out)
        out += self.constant
        base = out.copy() if self.degree > 1 else None
        for _ in range(self.degree - 1):
            out *= base
        out *= _row_factors(self.variance, log_scale)
        return out

    def diagonal(self, x):
        x = np.asarray(self._seen(np.asarray(x)), np.float64)
        return self.variance * (np.einsum("ij,ij->i", x, x) + self.constant) ** self.degree

    def _learnable(self):
        return []

    def with_log_parameters(self, values):
        """The kernel itself: nothing of it is learned."""
        return self


def Linear(columns=None, variance=1.0):
    """x'y: `Polynomial` of degree 1 and constant 0."""
    return Polynomial(1, 0.0, columns, variance)


@dataclass(frozen=True, eq=False)
class _Pair(Kernel):
    """Two kernels, joined entry by entry, times `variance`."""

    first: Kernel
    second: Kernel
    variance: float = 1.0

    def __post_init__(self):
        for part in (self.first, self.second):
            if not isinstance(part, Kernel):
                raise TypeError(f"only kernels can be added or multiplied, found {part!r}")

    def on(self, names, n_features):
        """The same kernel with columns as indices; see `Stationary.on`."""
        return self._each(lambda part: part.on(names, n_features))

    def at_median(self, bags, *, seed=None):
        """The same kernel with numbers as bandwidths; see `Stationary.at_median`."""
        return self._each(lambda part: part.at_median(bags, seed=seed))

    def _each(self, change):
        return replace(self, first=change(self.first), second=change(self.second))

    def prepare(self, landmarks):
        parts = self.first.prepare(landmarks), self.second.prepare(landmarks)
        return Prepared(parts, len(landmarks))

    def evaluate(self, points, basis, out, scratch=None, log_scale=0.0):
        self.first.evaluate(points, basis.parts[0], out, scratch)
        self._join(out, self.second.evaluate(points, basis.parts[1], np.empty_like(out), scratch))
        out *= _row_factors(self.variance, log_scale)
        return out

    def diagonal(self, x):
        return self.variance * self._join(self.first.diagonal(x), self.second.diagonal(x))

    def _learnable(self):
        parts = (self.first._learnable(), self._learnable_of_second())
        return [
            (f"{side}.{name}", value)
            for side, part in zip(("first", "second"), parts, strict=True)
            for name, value in part
        ]

    def _learnable_of_second(self):
        return self.second._learnable()

    def with_log_parameters(self, values):
        """The kernel with these in place of its `log_parameters`."""
        n = len(self.first.log_parameters)
        return replace(
            self,
            first=self.first.with_log_parameters(values[:n]),
            second=self._second_with(values[n:]),
        )

    def _second_with(self, values):
        return self.second.with_log_parameters(values)


@dataclass(frozen=True, eq=False)
class Sum(_Pair):
    """first + second, as ``first + second`` makes it; the second's variance can be learned."""

    _join = staticmethod(partial(_in_place, np.add))

    def _learnable_of_second(self):
        return [*self.second._learnable(), ("variance", self.second.variance)]

    def _second_with(self, values):
        changed = self.second.with_log_parameters(values[:-1])
        return replace(changed, variance=float(np.exp(values[-1])))


@dataclass(frozen=True, eq=False)
class Product(_Pair):
    """first * second, as ``first * second`` makes it."""

    _join = staticmethod(partial(_in_place, np.multiply))


# Kernels of one bandwidth, by the names that estimators take.
KERNELS = {
    "rbf": RBF,
    "exponential": Exponential,
    "matern12": Exponential,
    "matern32": Matern32,
    "matern52": Matern52,
    "cauchy": Cauchy,
    "rational quadratic": RationalQuadratic,
    "inverse multiquadric": InverseMultiquadric,
    "student t": StudentT,
}


def kernel_named(name, bandwidth):
    """Kernel of this name and bandwidth.

    Parameters
    ----------
    name : str, of `KERNELS`
    bandwidth : float, array of shape (p,), "median" or "ard"

    Raises
    ------
    ValueError : there is none of this name.
    """
    check_kernel(name)
    return KERNELS[name](bandwidth)


def check_kernel(name):
    """Raise unless there is a kernel of this name."""
    if not isinstance(name, str) or name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(map(repr, KERNELS))}, found {name!r}")


def kernel_config(kernel):
    """A kernel as JSON can hold it; `kernel_of_config` reads it back."""
    values = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    for name, value in values.items():
        if isinstance(value, Kernel):
            values[name] = kernel_config(value)
        elif isinstance(value, (np.ndarray, np.generic, tuple)):
            values[name] = np.asarray(value).tolist()
    return {"kernel": type(kernel).__name__, **values}


def kernel_of_config(config):
    """Kernel of what `kernel_config` gave."""
    values = {
        name: kernel_of_config(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name != "kernel"
    }
    kind = next(kind for kind in _KINDS if kind.__name__ == config["kernel"])
    return kind(**values)


_KINDS = {*KERNELS.values(), Polynomial, Sum, Product}


class FourierBasis(NamedTuple):
    """Frequencies prepared for `fourier_features`."""

    matrix: np.ndarray  # (p, d), W' / bandwidth

    @property
    def n_columns(self):
        return 2 * self.matrix.shape[1]


def fourier_basis(frequencies, bandwidth):
    """Prepare frequencies W, shape (d, p), from `draw_frequencies`, for `fourier_features`."""
    frequencies = np.asarray(frequencies, np.float64)
    check_bandwidth(bandwidth, n_features=frequencies.shape[1])
    return FourierBasis((frequencies / bandwidth).T)


def fourier_features(points, basis, out, scratch=None, log_scale=0.0):
    """Random Fourier features of points, shape (n, p), written to `out` (n, 2d).

    sqrt(1/d) [cos(x'W/bandwidth), sin(x'W/bandwidth)], whose inner products are on average the
    Gaussian kernel. Arguments as for `rbf_features`.

    Source: Rahimi and Recht (2007), "Random features for large-scale kernel machines".
    """
    n, p = points.shape
    d = basis.matrix.shape[1]
    rows = np.empty((n, p)) if scratch is None else scratch[:n, :p]
    np.copyto(rows, points)
    angles, sines = out[:, :d], out[:, d:]
    np.matmul(rows, basis.matrix, out=angles)
    np.sin(angles, out=sines)
    np.cos(angles, out=angles)
    out *= np.sqrt(1 / d) * np.exp(np.broadcast_to(log_scale, n))[:, None]
    return out


def draw_frequencies(n_frequencies, n_features, *, seed=None):
    """Frequencies of random Fourier features of the Gaussian kernel with bandwidth 1.

    Parameters
    ----------
    n_frequencies : int, >= 1
        d; there are twice as many features.
    n_features : int, >= 1
        p, the number of features of a point.
    seed : int or numpy Generator, optional

    Returns
    -------
    array, shape (d, p), independent standard normal, the kernel's spectral distribution
    """
    return np.random.default_rng(seed).standard_normal((n_frequencies, n_features))


class Features(NamedTuple):
    """How points become features: ``evaluate(points, prepare(landmarks, bandwidth), out)``."""

    prepare: Callable
    evaluate: Callable


FEATURES = {
    "rbf": Features(rbf_basis, rbf_features),
    "fourier": Features(fourier_basis, fourier_features),
}


def features_of(kernel):
    """How points become features: an entry of `FEATURES`, or a kernel's values at landmarks.

    Parameters
    ----------
    kernel : "rbf", "fourier", another name of `KERNELS`, or a Kernel
        A Kernel has its own bandwidth: the one that `prepare` gets must be None.

    Raises
    ------
    ValueError : there is none of this name.
    """
    if isinstance(kernel, Kernel):

        def prepare(landmarks, bandwidth):
            if bandwidth is not None:
                raise ValueError(f"{kernel} has its own bandwidth: leave out {bandwidth!r}")
            return kernel.prepare(landmarks)

        return Features(prepare, kernel.evaluate)
    if kernel in FEATURES:
        return FEATURES[kernel]
    if kernel not in KERNELS:
        names = ", ".join(map(repr, dict.fromkeys([*FEATURES, *KERNELS])))
        raise ValueError(f"kernel must be a Kernel or one of {names}, found {kernel!r}")
    kind = KERNELS[kernel]
    # What `evaluate` needs of the bandwidth is in the prepared landmarks.
    return Features(lambda landmarks, bandwidth: kind(bandwidth).prepare(landmarks), kind().evaluate)


def rbf_convolution(x, y, bandwidth, measure_scale):
    """Convolution r(x, y) = integral of k(x, z) k(z, y) exp(-|z|^2 / (2 l^2)) dz, k = `rbf`.

    A Gaussian process with this covariance has its draws in the function space of k, which the
    prior of the mean embeddings needs. It is a product over the features; with s and l the
    lengths of a feature, its factor is

        r(x, y) = sqrt(2 pi / (2/s^2 + 1/l^2))
                  exp(-(x - y)^2 / (4 s^2)) exp(-(x + y)^2 / (8 (s^2/2 + l^2)))

    Parameters
    ----------
    x : array, shape (n, p)
    y : array, shape (m, p), in the units of x
    bandwidth : float or array, shape (p,), > 0, s, in the units of x
    measure_scale : float or array, shape (p,), > 0, l, in the units of x
        Scale of the Gaussian measure around the origin: centre the points beforehand.

    Returns
    -------
    float64 array, shape (n, m)

    Source: Flaxman et al. (2016), "Bayesian learning of kernel embeddings", section 4.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    p = x.shape[1]
    check_bandwidth(bandwidth, n_features=p)
    check_bandwidth(measure_scale, "measure_scale", n_features=p)
    s, l = np.asarray(bandwidth), np.asarray(measure_scale)
    height = np.sqrt(np.prod(np.broadcast_to(2 * np.pi / (2 / s**2 + 1 / l**2), p)))
    near = rbf(x, y, np.sqrt(2) * s)
    central = rbf(x, -y, 2 * np.sqrt(s**2 / 2 + l**2))
    return height * near * central


def median_bandwidth(bags, *, sample=2000, seed=None):
    """Bandwidth by the median rule: sqrt(median of |x - x'|^2 / 2) over pairs of points.

    Parameters
    ----------
    bags : Bags, or list of arrays, shapes (n_points, p)
    sample : int, >= 2
        Number of points, drawn without replacement from all points of all bags, whose pairs
        enter the median; all points where there are fewer.
    seed : int or numpy Generator, optional

    Returns
    -------
    float, > 0, in the units of the points

    Raises
    ------
    ValueError : at least half of the sampled pairs coincide, so the rule gives no bandwidth.
    """
    from scipy.spatial.distance import pdist

    if not isinstance(sample, (int, np.integer)) or sample < 2:
        raise ValueError(f"sample must be an integer >= 2, found {sample!r}")
    points = as_bags(bags).sample_points(sample, np.random.default_rng(seed))
    if len(points) < 2:
        raise ValueError("there is only one point: give the bandwidth as a number")
    squared = np.median(pdist(points, "sqeuclidean"))
    if squared == 0:
        what = "all" if np.all(points == points[0]) else "most"
        raise ValueError(
            f"{what} sampled points coincide, so their median distance is 0: "
            "give the bandwidth as a number"
        )
    return float(np.sqrt(squared / 2))


def check_bandwidth(value, name="bandwidth", *, n_features=None):
    """Raise unless `value` is a positive finite number, or an array of such, one a feature.

    The length of an array is held against `n_features` where that is given.
    """
    try:
        lengths = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        lengths = np.array(np.nan)
    if lengths.ndim > 1 or lengths.size == 0:
        raise ValueError(
            f"{name} has shape {lengths.shape}: give a positive number, or one for each feature"
        )
    for k in np.flatnonzero(~((lengths > 0) & (lengths < np.inf))):
        if lengths.ndim == 0:
            raise ValueError(f"{name} must be a positive number, found {value!r}")
        raise ValueError(f"{name} of feature {k} must be a positive number, found {lengths[k]}")
    if lengths.ndim == 1 and n_features is not None and len(lengths) != n_features:
        raise ValueError(
            f"{name} has {len(lengths)} entries, but the points have {n_features} features: "
            "give one number, or one for each feature"
        )
