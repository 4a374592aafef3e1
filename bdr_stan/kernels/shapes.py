"""Shapes of the kernels with a bandwidth, and their names."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma

from bdr_stan.kernels.kernel import check_positive
from bdr_stan.kernels.stationary import (
    BandwidthKernel,
    PreparedLandmarks,
    Stationary,
    minus_half_squares,
)
from bdr_stan.types import Array, ArrayLike, is_number

__all__ = [
    "RBF",
    "Cauchy",
    "Exponential",
    "InverseMultiquadric",
    "Laplace",
    "Matern32",
    "Matern52",
    "RationalQuadratic",
    "StudentT",
]

# exp is up to 100 times slower if it underflows; below this, 1e-304, nothing is lost.
SMALLEST_EXPONENT = -700.0


class RBF(Stationary):
    """Gaussian kernel exp(-r^2 / 2); parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import RBF
    >>> RBF(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.607, 0.135]])
    >>> RBF(bandwidth=[2.0, 50.0])([[0.0, 0.0]], [[2.0, 50.0]]).round(3)
    array([[0.368]])
    """

    has_spectral_density = True

    def profile(self, out: Array) -> Array:
        return np.exp(np.maximum(out, SMALLEST_EXPONENT, out=out), out=out)

    def spectral_density(self, squared_frequency: Array, n_columns: int) -> Array:
        return (2 * np.pi) ** (n_columns / 2) * np.exp(-squared_frequency / 2)

    def evaluate(
        self, points: Array, prepared: PreparedLandmarks, out: Array, log_scale: ArrayLike = 0.0
    ) -> Array:
        """As `Kernel.evaluate`, in the fewest passes over the values.

        Factors go into the exponent. If points have their own factors and one meets a landmark,
        rounding may leave its value just above the variance.
        """
        if self.variance != 1:
            log_scale = log_scale + np.log(self.variance)
        farthest = minus_half_squares(self.select(points), prepared, out, log_scale)
        smallest = -0.5 * prepared.precision * farthest**2 + np.min(log_scale, initial=0)
        if np.ndim(log_scale) == 0:
            np.minimum(out, log_scale, out=out)  # rounding can make a squared distance negative
        if smallest < SMALLEST_EXPONENT:
            np.maximum(out, SMALLEST_EXPONENT, out=out)
        return np.exp(out, out=out)


@dataclass(frozen=True, eq=False, repr=False)
class Laplace(BandwidthKernel):
    """exp(-sum_k |x_k - y_k| / bandwidth_k); parameters as for `Stationary`.

    A product of exponential kernels of the columns: rough functions of each column, less sensitive
    to outlying points than kernels of squared distances. "median" and "scaled" here mean exp(-1) at
    the median sum of absolute differences.

    Examples
    --------
    >>> from bdr_stan import Laplace
    >>> Laplace(bandwidth=2.0)([[0.0, 0.0]], [[0.0, 2.0], [2.0, 2.0]]).round(3)
    array([[0.368, 0.135]])
    """

    metric = "cityblock"

    def prepare(self, landmarks: ArrayLike) -> tuple[Array, ArrayLike]:
        """The `landmarks` divided by the lengths, (d, p), and the lengths, (p,) or a number."""
        columns, lengths = self.columns_and_lengths(landmarks)
        return columns / lengths, lengths

    def fill(self, points: Array, prepared: Any, out: Array) -> None:
        landmarks, lengths = prepared
        np.negative(cdist(self.select(points) / lengths, landmarks, self.metric), out=out)
        np.exp(out, out=out)


class Matern(Stationary):
    """Base of the Matern kernels, which differ in their smoothness nu; as `Stationary`."""

    smoothness: ClassVar[float]
    has_spectral_density = True

    def profile(self, out: Array) -> Array:
        s_per_r = np.sqrt(2 * self.smoothness)
        out *= -2 * s_per_r**2
        factor = self.polynomial(np.sqrt(out, out=out))
        np.exp(np.negative(out, out=out), out=out)
        out *= factor
        return out

    def polynomial(self, s: Array) -> Array | float:
        """What exp(-s) is multiplied by at s = sqrt(2 nu) r."""
        return 1.0

    def spectral_density(self, squared_frequency: Array, n_columns: int) -> Array:
        nu, half = self.smoothness, n_columns / 2
        constant = (4 * np.pi) ** half * gamma(nu + half) * (2 * nu) ** nu / gamma(nu)
        return constant * (2 * nu + squared_frequency) ** -(nu + half)


class Exponential(Matern):
    """exp(-r), the Matern kernel of smoothness 1/2; parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Exponential
    >>> Exponential(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.368, 0.135]])
    """

    smoothness = 0.5


class Matern32(Matern):
    """(1 + s) exp(-s), s = sqrt(3) r: Matern of smoothness 3/2; parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Matern32
    >>> kernel = Matern32(bandwidth=50.0, columns=["x", "y"]).on(["x", "y", "rain"], 3)
    >>> kernel([[0.0, 0.0, 7.0]], [[0.0, 0.0, 9.0], [30.0, 40.0, 7.0]]).round(3)
    array([[1.   , 0.483]])
    """

    smoothness = 1.5

    def polynomial(self, s: Array) -> Array:
        return 1 + s


class Matern52(Matern):
    """(1 + s + s^2/3) exp(-s), s = sqrt(5) r: Matern of smoothness 5/2; as `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Matern52
    >>> Matern52(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.524, 0.139]])
    """

    smoothness = 2.5

    def polynomial(self, s: Array) -> Array:
        return 1 + s * (1 + s / 3)


class Cauchy(Stationary):
    """1 / (1 + r^2); parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import Cauchy
    >>> kernel = Cauchy(bandwidth=2.0)
    >>> kernel([[0.0]], [[0.0], [2.0], [4.0]])
    array([[1. , 0.5, 0.2]])
    """

    def profile(self, out: Array) -> Array:
        return np.reciprocal(1 - 2 * out, out=out)


class InverseMultiquadric(Stationary):
    """1 / sqrt(1 + r^2); parameters as for `Stationary`.

    Examples
    --------
    >>> from bdr_stan import InverseMultiquadric
    >>> kernel = InverseMultiquadric(bandwidth=2.0)
    >>> kernel([[0.0]], [[0.0], [2.0], [4.0]]).round(3)
    array([[1.   , 0.707, 0.447]])
    """

    def profile(self, out: Array) -> Array:
        return np.reciprocal(np.sqrt(1 - 2 * out), out=out)


@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(Stationary):
    """(1 + r^2 / (2 alpha))^-alpha; the other parameters are as for `Stationary`.

    A mixture of Gaussian kernels of all bandwidths, with heavier tails the smaller `alpha` > 0,
    default 1, which is the Cauchy kernel of bandwidth sqrt(2) times as large.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Cauchy, RationalQuadratic
    >>> x = np.linspace(0, 10, 5)[:, None]
    >>> kernel = RationalQuadratic(bandwidth=2.0, alpha=1.0)
    >>> bool(np.allclose(kernel(x, x), Cauchy(2.0 * np.sqrt(2))(x, x)))
    True
    """

    alpha: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        check_positive(self, "alpha")

    def profile(self, out: Array) -> Array:
        return np.power(1 - out / self.alpha, -self.alpha, out=out)


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Stationary):
    """1 / (1 + r^degree), the generalised t-student kernel; other parameters as for `Stationary`.

    0 < `degree` <= 2, default 1. Above degree 2 it is not positive definite, and
    raises ValueError.

    Examples
    --------
    >>> from bdr_stan import StudentT
    >>> StudentT(bandwidth=2.0)([[0.0]], [[0.0], [2.0], [6.0]])
    array([[1.  , 0.5 , 0.25]])
    >>> StudentT(bandwidth=2.0, degree=2)([[0.0]], [[0.0], [2.0], [6.0]])
    array([[1. , 0.5, 0.1]])
    """

    degree: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not (is_number(self.degree) and 0 < self.degree <= 2):
            raise ValueError(f"degree of StudentT must be in (0, 2], found {self.degree!r}")

    def profile(self, out: Array) -> Array:
        return np.reciprocal(1 + (-2 * out) ** (self.degree / 2), out=out)


# By the names that estimators accept.
KERNELS: dict[str, type[BandwidthKernel]] = {
    "rbf": RBF,
    "laplace": Laplace,
    "exponential": Exponential,
    "matern12": Exponential,
    "matern32": Matern32,
    "matern52": Matern52,
    "cauchy": Cauchy,
    "rational quadratic": RationalQuadratic,
    "inverse multiquadric": InverseMultiquadric,
    "student t": StudentT,
}
