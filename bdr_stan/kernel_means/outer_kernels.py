"""Kernels of kernel means: the second level, on the distance between bags in the RKHS.

    K(A, B) = outer(|mu_A - mu_B|),  |mu_A - mu_B|^2 = <mu_A, mu_A> + <mu_B, mu_B> - 2 <mu_A, mu_B>

The kernel "linear" is the inner product itself; None represents it if bandwidths are numbers.

Source: Christmann and Steinwart (2010), "Universal kernels on non-standard input spaces"; Szabo et
al. (2016), "Learning theory for distribution regression".
"""

from dataclasses import replace
from typing import Any

import numpy as np

from bdr_stan.kernels import KERNELS, RBF, Kernel, Stationary
from bdr_stan.types import Array

# By name; papers on support measure machines use "gaussian" for "rbf".
OUTER_KERNELS: dict[str, type[Stationary]] = {
    **{name: kernel for name, kernel in KERNELS.items() if issubclass(kernel, Stationary)},
    "gaussian": RBF,
}


def values_at_squares(kernel: Stationary, squares: Array) -> Array:
    """Values of a kernel of the distance, of one bandwidth, at squared distances >= 0."""
    values = squares / (-2 * float(kernel.bandwidth) ** 2)
    kernel.profile(values)
    values *= kernel.variance
    return values


def squared_distances(products: Array, squares: Array, other_squares: Array) -> Array:
    """Squared RKHS distances, (n, m), from inner products and squared norms, (n,) and (m,)."""
    return np.maximum(squares[:, None] + other_squares - 2 * products, 0)


def between(outer: Stationary | None, products: Array, squares: Any, other_squares: Any) -> Array:
    """Kernel of kernel means, (n, m), from inner products and squared norms, (n,) and (m,).

    `outer` is None for the inner product itself, which needs no norms, or a kernel of the distance
    with one bandwidth.
    """
    if outer is None:
        return products
    return values_at_squares(outer, squared_distances(products, squares, other_squares))


def resolved_outer(outer: str | Stationary, products: Array) -> Stationary | None:
    """Kernel of kernel means with a number as bandwidth, None for "linear".

    `products`, (n, n), are for the training bags. The bandwidth "median", used for a kernel given
    by name, is sqrt(median squared distance / 2); a median of 0 raises ValueError.
    """
    if isinstance(outer, str) and outer == "linear":
        return None
    kernel = OUTER_KERNELS[outer]("median") if isinstance(outer, str) else outer
    if not isinstance(kernel.bandwidth, str):
        return kernel
    squares = products.diagonal()
    distances = squared_distances(products, squares, squares)[np.triu_indices(len(products), 1)]
    median = np.median(distances) if len(distances) else 0.0
    # Relative to the norms, smaller distances are rounding errors.
    if not median > 1e-14 * squares.max():
        raise ValueError(
            "most bags have the same kernel mean, so the median distance between them is 0: "
            "give outer as a kernel with a number as bandwidth"
        )
    return replace(kernel, bandwidth=float(np.sqrt(median / 2)))


def check_outer(outer: str | Kernel) -> None:
    """Raise ValueError unless this is "linear", or a kernel of the distance or the name of one."""
    if isinstance(outer, Kernel):
        if (
            isinstance(outer, Stationary)
            and not outer.columns
            and np.ndim(outer.lengths) == 0
            and outer.bandwidth != "ard"
        ):
            return
        raise ValueError(
            "outer must be a kernel of the distance between kernel means, with one bandwidth and "
            f"no columns, found {outer!r}"
        )
    if not isinstance(outer, str) or outer not in ("linear", *OUTER_KERNELS):
        names = ", ".join(map(repr, ("linear", *OUTER_KERNELS)))
        raise ValueError(f"outer must be a kernel or one of {names}, found {outer!r}")
