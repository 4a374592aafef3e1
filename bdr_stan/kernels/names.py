"""A kernel from the users' argument: a name with a bandwidth, or a kernel."""

from functools import reduce
from operator import add

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels.bandwidth import check_bandwidth
from bdr_stan.kernels.kernel import Kernel
from bdr_stan.kernels.linear_plus import linear_plus
from bdr_stan.kernels.shapes import KERNELS
from bdr_stan.kernels.stationary import BandwidthKernel
from bdr_stan.types import ArrayLike, Seed

# Before the name of a kernel, or by itself: a kernel of the name on each column, added up.
ADDITIVE = "additive"
# Before the name of a kernel: it is added to linear and quadratic effects of each column.
LINEAR_PLUS = "linear + "
# "linear + rbf" for tables; "rbf" for points of many columns with little effect each, for example
# images.
AUTO = "auto"
_MOST_COLUMNS_OF_TABLES = 60


def check_kernel(kernel: str | Kernel) -> None:
    """Raise ValueError unless this is a kernel, or a name of `KERNELS` with or without a prefix."""
    if isinstance(kernel, Kernel):
        return
    if not isinstance(kernel, str) or _parsed(kernel)[1] not in KERNELS:
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(
            f"kernel must be a Kernel, 'auto' or one of {names}, with 'additive' before it where "
            f"each column has a kernel of its own, or 'linear + ' to add linear and quadratic "
            f"effects of each column, found {kernel!r}"
        )


def _parsed(name):
    """ADDITIVE, LINEAR_PLUS or nothing, and the name of a kernel after it; "rbf" for "auto"."""
    if name.startswith(LINEAR_PLUS):
        return LINEAR_PLUS, name.removeprefix(LINEAR_PLUS)
    head, _, rest = name.partition(" ")
    if head == ADDITIVE:
        return ADDITIVE, rest or "rbf"
    return "", "rbf" if name == AUTO else name


def name_for(kernel: str | Kernel, n_columns: int) -> str | Kernel:
    """The kernel, or the name that "auto" means for points of this number of columns."""
    if not isinstance(kernel, str) or kernel != AUTO:
        return kernel
    return f"{LINEAR_PLUS}rbf" if n_columns <= _MOST_COLUMNS_OF_TABLES else "rbf"


def is_additive(kernel: str | Kernel) -> bool:
    """Whether this is the name of a kernel on each column, added up."""
    return isinstance(kernel, str) and _parsed(kernel)[0] == ADDITIVE


def additive_kernel(kind: type[BandwidthKernel], bandwidth: ArrayLike | str, bags: Bags) -> Kernel:
    """Sum of kernels of this kind on each column of the points; a category is one column."""
    parts: list[Kernel] = []
    for source in np.unique(bags.sources):
        columns = np.flatnonzero(bags.sources == source)
        lengths = bandwidth if np.ndim(bandwidth) == 0 else np.asarray(bandwidth)[columns]
        parts.append(kind(lengths, columns=tuple(columns.tolist())))
    return reduce(add, parts)


def kernel_named(name: str, bandwidth: ArrayLike | str) -> BandwidthKernel:
    """Kernel of a name in `KERNELS` and this bandwidth; ValueError if there is none."""
    check_kernel(name)
    return KERNELS[_parsed(name)[1]](bandwidth)


def check_kernel_and_bandwidth(kernel: str | Kernel, bandwidth: ArrayLike | str) -> None:
    """Raise ValueError unless both go together: a Kernel has its own, which "scaled" leaves."""
    check_kernel(kernel)
    if isinstance(kernel, Kernel):
        if isinstance(bandwidth, str) and bandwidth == "scaled":
            return
        raise ValueError(
            f"bandwidth={bandwidth!r} goes with the name of a kernel: give "
            f"{type(kernel).__name__} its own"
        )
    if isinstance(bandwidth, str) and bandwidth not in ("scaled", "ard", "median"):
        raise ValueError(
            "bandwidth must be 'scaled', 'ard', 'median', a positive number, or one for each "
            f"column, found {bandwidth!r}"
        )
    kernel_named(kernel, bandwidth)


def resolve_kernel(
    kernel: str | Kernel,
    bandwidth: ArrayLike | str,
    bags: Bags,
    *,
    seed: Seed = None,
    scale: float = 1.0,
) -> Kernel:
    """Kernel to use on the points of `bags`: its columns are indices, its bandwidths numbers.

    `kernel` and `bandwidth` are parameters of estimators; all bandwidths are times `scale`, and
    `seed` is of the sample of points for the median distance. ValueError for no such column.
    """
    check_kernel_and_bandwidth(kernel, bandwidth)
    kernel = name_for(kernel, bags.n_features)
    if isinstance(kernel, str):
        if np.ndim(bandwidth):
            check_bandwidth(bandwidth, n_features=bags.n_features)
        prefix, name = _parsed(kernel)
        if prefix == LINEAR_PLUS:
            kernel = linear_plus(KERNELS[name], bandwidth, bags, seed)
        elif prefix == ADDITIVE:
            kernel = additive_kernel(KERNELS[name], bandwidth, bags)
        else:
            kernel = KERNELS[name](bandwidth)
    elif (
        isinstance(kernel, BandwidthKernel) and kernel.columns is None and np.ndim(kernel.bandwidth)
    ):
        check_bandwidth(kernel.bandwidth, n_features=bags.n_features)
    return kernel.on(bags.features, bags.n_features).resolved(bags, seed=seed).scaled(scale)
