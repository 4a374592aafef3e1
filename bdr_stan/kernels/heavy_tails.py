"""Kernels of the distance that fall as a power of it, not exponentially."""

from dataclasses import dataclass

import numpy as np

from bdr_stan.kernels.kernel import check_positive
from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array, is_number


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
