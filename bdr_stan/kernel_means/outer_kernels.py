"""Kernels of kernel means: the second level, on the distance between bags in the RKHS.

    K(A, B) = outer(|mu_A - mu_B|),  |mu_A - mu_B|^2 = <mu_A, mu_A> + <mu_B, mu_B> - 2 <mu_A, mu_B>

All of it is computed from inner products of kernel means, see `set_kernels`. The kernel "linear"
is the inner product itself, and None stands for it where kernels have numbers as bandwidths.
Source: Christmann and Steinwart (2010), "Universal kernels on non-standard input spaces"; Szabo et
al. (2016), "Learning theory for distribution regression".
"""

from dataclasses import replace
from typing import Any

import numpy as np

from bdr_stan.kernels import KERNELS, Kernel, Stationary, check_bandwidth, kernel_named
from bdr_stan.types import Array


def of_squares(kernel: Stationary, squares: Array) -> Array:
    """Values of a kernel of the distance, of one bandwidth, at squared distances >= 0."""
    values = squares / (-2 * kernel.bandwidth**2)
    kernel.profile(values)
    values *= kernel.variance
    return values


def squared_distances(products: Array, squares: Array, other_squares: Array) -> Array:
    """Squared RKHS distances, shape (n, m), from inner products and squared norms.

    Parameters
    ----------
    products : array, shape (n, m)
    squares, other_squares : arrays, shapes (n,) and (m,)
    """
    return np.maximum(squares[:, None] + other_squares - 2 * products, 0)


def between(outer: Stationary | None, products: Array, squares: Any, other_squares: Any) -> Array:
    """Kernel of kernel means from their inner products and squared norms.

    Parameters
    ----------
    outer : None for the inner product itself, or a kernel of the distance, of one bandwidth
    products : array, shape (n, m)
    squares, other_squares : arrays, shapes (n,) and (m,)
        Not used where `outer` is None.

    Returns
    -------
    array, shape (n, m)
    """
    if outer is None:
        return products
    return of_squares(outer, squared_distances(products, squares, other_squares))


def outer_at_median(
    outer: str | Kernel, bandwidth: float | str, products: Array
) -> Stationary | None:
    """Kernel of kernel means with a number as bandwidth, from the training bags' products.

    Parameters
    ----------
    outer : "linear", a name of `bdr_stan.kernels.KERNELS`, or a kernel of the distance
    bandwidth : float or "median"
        Of a kernel given by name; "median" is sqrt(median squared distance / 2) between kernel
        means.
    products : array, shape (n, n)

    Returns
    -------
    Kernel, or None for "linear"

    Raises
    ------
    ValueError : the median distance is 0.
    """
    if isinstance(outer, str) and outer == "linear":
        return None
    kernel: Any = outer if isinstance(outer, Kernel) else kernel_named(outer, bandwidth)
    if not isinstance(kernel.bandwidth, str):
        return kernel
    squares = products.diagonal()
    distances = squared_distances(products, squares, squares)[np.triu_indices(len(products), 1)]
    median = np.median(distances) if len(distances) else 0.0
    # Relative to the norms, smaller distances are rounding errors.
    if not median > 1e-14 * squares.max():
        raise ValueError(
            "most bags have the same kernel mean, so the median distance between them is 0: "
            "give outer_bandwidth as a number"
        )
    return replace(kernel, bandwidth=float(np.sqrt(median / 2)))


def check_outer(outer: str | Kernel) -> None:
    """Raise ValueError unless this is "linear", or a kernel of the distance or the name of one."""
    if isinstance(outer, Kernel):
        kernel: Any = outer
        number = isinstance(outer, Stationary) and np.ndim(kernel.bandwidth) == 0
        if not number or kernel.columns or kernel.bandwidth == "ard":
            raise ValueError(
                "a kernel of kernel means must be one of the distance, with one bandwidth and no "
                f"columns, found {outer!r}"
            )
    elif not isinstance(outer, str) or outer not in ("linear", *KERNELS):
        names = ", ".join(map(repr, ("linear", *KERNELS)))
        raise ValueError(f"outer must be a kernel or one of {names}, found {outer!r}")


def check_outer_bandwidth(bandwidth: float | str) -> None:
    """Raise ValueError unless this is "median" or a positive number."""
    if not isinstance(bandwidth, str):
        check_bandwidth(bandwidth, "outer_bandwidth")
    elif bandwidth != "median":
        raise ValueError(
            f"outer_bandwidth must be 'median' or a positive number, found {bandwidth!r}"
        )
