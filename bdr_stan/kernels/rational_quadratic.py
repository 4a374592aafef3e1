"""The rational quadratic kernel."""

from dataclasses import dataclass

import numpy as np

from bdr_stan.kernels.kernel import check_positive
from bdr_stan.kernels.stationary import Stationary
from bdr_stan.types import Array


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
