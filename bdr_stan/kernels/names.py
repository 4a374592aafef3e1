"""A kernel from what users give: a name with a bandwidth, or a kernel; and kernels in files."""

from collections.abc import Sequence
from dataclasses import fields
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels.bandwidth import check_bandwidth
from bdr_stan.kernels.bandwidth_kernel import BandwidthKernel
from bdr_stan.kernels.cauchy import Cauchy
from bdr_stan.kernels.hilbert_space import HilbertSpace
from bdr_stan.kernels.inverse_multiquadric import InverseMultiquadric
from bdr_stan.kernels.kernel import Kernel, Product, Sum
from bdr_stan.kernels.laplace import Laplace
from bdr_stan.kernels.linear_effects import LinearEffects
from bdr_stan.kernels.linear_plus import linear_plus
from bdr_stan.kernels.matern import Exponential, Matern32, Matern52
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.polynomial import Polynomial
from bdr_stan.kernels.quadratic_effects import QuadraticEffects
from bdr_stan.kernels.rational_quadratic import RationalQuadratic
from bdr_stan.kernels.rbf import RBF
from bdr_stan.kernels.student_t import StudentT
from bdr_stan.kernels.summands import terms
from bdr_stan.types import ArrayLike, Seed

# Kernels of one bandwidth, by the names that estimators take.
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
# Before the name of a kernel, or by itself: a kernel of the name on each column, added up.
ADDITIVE = "additive"
# Before the name of a kernel: it is added to linear and quadratic effects of each column.
LINEAR_PLUS = "linear + "
# "linear + rbf" for tables; "rbf" for points of many columns, such as images, of which each alone
# has little effect.
AUTO = "auto"
_MOST_COLUMNS_OF_TABLES = 60
_MOST_LENGTHS = 20  # that are shown one by one
_OTHERS = (LinearEffects, QuadraticEffects, Polynomial, NormalScores, HilbertSpace, Sum, Product)
_KINDS = {kind.__name__: kind for kind in (*KERNELS.values(), *_OTHERS)}


def check_kernel(kernel: str | Kernel) -> None:
    """Raise unless this is a kernel, or there is one of this name.

    Parameters
    ----------
    kernel : str or Kernel
        A name of `KERNELS`, also with "additive" or "linear + " before it, or "additive" alone.

    Raises
    ------
    ValueError : neither.

    Examples
    --------
    >>> from bdr_stan.kernels import RBF, check_kernel
    >>> check_kernel("matern32")
    >>> check_kernel(RBF(2.0))
    >>> check_kernel("matern")
    Traceback (most recent call last):
        ...
    ValueError: kernel must be a Kernel, 'auto' or one of 'rbf', ..., found 'matern'
    """
    if isinstance(kernel, Kernel):
        return
    if not isinstance(kernel, str) or _name_per_column(kernel) not in KERNELS:
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(
            f"kernel must be a Kernel, 'auto' or one of {names}, with 'additive' before it where "
            f"each column has a kernel of its own, or 'linear + ' to add linear and quadratic "
            f"effects of each column, found {kernel!r}"
        )


def _name_per_column(name):
    """The name of a kernel without what may stand before it; of "auto" the kernel it ends with."""
    if name == AUTO:
        return "rbf"
    if name.startswith(LINEAR_PLUS):
        return name.removeprefix(LINEAR_PLUS)
    head, _, rest = name.partition(" ")
    return (rest or "rbf") if head == ADDITIVE else name


def name_for(kernel: str | Kernel, n_columns: int) -> str | Kernel:
    """The kernel, or the name that "auto" stands for with points of so many columns."""
    if not isinstance(kernel, str) or kernel != AUTO:
        return kernel
    return f"{LINEAR_PLUS}rbf" if n_columns <= _MOST_COLUMNS_OF_TABLES else "rbf"


def is_additive(kernel: str | Kernel) -> bool:
    """Whether this is the name of a kernel on each column, added up."""
    return isinstance(kernel, str) and kernel.partition(" ")[0] == ADDITIVE


def additive_kernel(name: str, bandwidth: ArrayLike | str, bags: Bags) -> Kernel:
    """Sum of kernels of this name on each column of the points; a category is one column."""
    parts: list[Kernel] = []
    for source in np.unique(bags.sources):
        columns = np.flatnonzero(bags.sources == source)
        own = bandwidth if np.ndim(bandwidth) == 0 else np.asarray(bandwidth)[columns]
        parts.append(KERNELS[name](own, columns=tuple(columns.tolist())))
    return reduce(add, parts)


def kernel_named(name: str, bandwidth: ArrayLike | str) -> BandwidthKernel:
    """Kernel of this name and bandwidth.

    Parameters
    ----------
    name : str, of `KERNELS`
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median"

    Raises
    ------
    ValueError : there is none of this name.

    Examples
    --------
    >>> from bdr_stan.kernels import kernel_named
    >>> kernel_named("matern32", 2.0)
    Matern32(bandwidth=2.0, columns=None, variance=1.0, units=None)
    >>> kernel_named("rbf", "ard")
    RBF(bandwidth='ard', columns=None, variance=1.0, units=None)
    """
    check_kernel(name)
    return KERNELS[_name_per_column(name)](bandwidth)


def check_kernel_and_bandwidth(kernel: str | Kernel, bandwidth: ArrayLike | str) -> None:
    """Raise unless the two go together: a kernel has a bandwidth of its own.

    Parameters
    ----------
    kernel : str or Kernel
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median"
        A Kernel has its own, and "scaled", the default of the estimators, is ignored.

    Raises
    ------
    ValueError : no such kernel, no valid bandwidth, or one given for a Kernel.

    Examples
    --------
    >>> from bdr_stan.kernels import RBF, check_kernel_and_bandwidth
    >>> check_kernel_and_bandwidth("rbf", 2.0)
    >>> check_kernel_and_bandwidth(RBF(2.0), 3.0)
    Traceback (most recent call last):
        ...
    ValueError: bandwidth=3.0 goes with the name of a kernel: give RBF its own
    """
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
    kernel_named(_name_per_column(kernel), bandwidth)


def resolve_kernel(
    kernel: str | Kernel,
    bandwidth: ArrayLike | str,
    bags: Bags,
    *,
    seed: Seed = None,
    scale: float = 1.0,
) -> Kernel:
    """Kernel to use on the points of `bags`.

    Parameters
    ----------
    kernel : str or Kernel
        A name of `KERNELS`; with "additive" before it, the sum of such kernels of each column;
        with "linear + " before it, the kernel plus linear and quadratic effects of each column.
        "auto" is "linear + rbf" for points of at most 60 columns, else "rbf".
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median"
        Of a kernel given by name; "scaled" if `kernel` is a Kernel, which has its own.
    bags : Bags
    seed : int, optional
        Of the points from which the median distance comes, where there are many.
    scale : float, > 0, default 1
        Factor on all bandwidths.

    Returns
    -------
    Kernel, its columns as indices and its bandwidths numbers

    Raises
    ------
    ValueError : no such kernel or column, no positive bandwidth, or a bandwidth for a Kernel,
        which has its own.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import RBF, Bags
    >>> from bdr_stan.kernels import resolve_kernel
    >>> points = np.array([[20.0, 1.0], [40.0, 2.0], [60.0, 3.0]])
    >>> bags = Bags(points, [0, 3], features=["age", "income"])
    >>> resolve_kernel(RBF(15.0, columns=["age"]), "scaled", bags)
    RBF(bandwidth=15.0, columns=(0,), variance=1.0, units=None)
    >>> resolve_kernel("matern32", [15.0, 2.0], bags, scale=2.0)
    Matern32(bandwidth=array([30.,  4.]), columns=None, variance=1.0, units=None)
    """
    check_kernel_and_bandwidth(kernel, bandwidth)
    kernel = name_for(kernel, bags.n_features)
    if isinstance(kernel, str) and np.ndim(bandwidth):
        check_bandwidth(bandwidth, n_features=bags.n_features)
    if isinstance(kernel, str) and kernel.startswith(LINEAR_PLUS):
        kernel = linear_plus(KERNELS[_name_per_column(kernel)], bandwidth, bags, seed)
    elif is_additive(kernel):
        kernel = additive_kernel(_name_per_column(kernel), bandwidth, bags)
    elif not isinstance(kernel, Kernel):
        kernel = kernel_named(kernel, bandwidth)
    elif (
        isinstance(kernel, BandwidthKernel) and kernel.columns is None and np.ndim(kernel.bandwidth)
    ):
        check_bandwidth(kernel.bandwidth, n_features=bags.n_features)
    return kernel.on(bags.features, bags.n_features).resolved(bags, seed=seed).scaled(scale)


def kernel_text(kernel: Kernel, names: Sequence[str] | None) -> str:
    """A kernel in words: the columns it looks at, with its length in the units of each.

    Parameters
    ----------
    kernel : Kernel, from `resolve_kernel`
    names : list of str, or None
        Names of the points' columns.

    Returns
    -------
    str

    Examples
    --------
    >>> from bdr_stan.kernels import RBF, kernel_text
    >>> kernel_text(RBF([15.0, 2.5]), ["age", "income"])
    'RBF, lengths age 15, income 2.5'
    >>> kernel_text(RBF(15.0, columns=[0]) + RBF(2.5, columns=[1]), ["age", "income"])
    'RBF, lengths age 15 + RBF, lengths income 2.5'
    """
    if isinstance(kernel, Sum) and any(isinstance(term, LinearEffects) for term in terms(kernel)):
        return _effects_text(kernel, names)
    if isinstance(kernel, (Sum, Product)):
        sign = " + " if isinstance(kernel, Sum) else " x "
        return sign.join(kernel_text(part, names) for part in (kernel.first, kernel.second))
    if not isinstance(kernel, BandwidthKernel):
        return _other_text(kernel, names)
    lengths = np.atleast_1d(kernel.lengths)
    seen: Sequence[Any] = kernel.columns if kernel.columns is not None else range(len(names or ()))
    called = [names[k] for k in seen] if names else [f"column {k}" for k in kernel.columns or ()]
    if len(lengths) > _MOST_LENGTHS:
        text = f"lengths from {_plain(lengths.min())} to {_plain(lengths.max())}"
    elif len(lengths) == len(called):
        pairs = zip(called, lengths, strict=True)
        text = "lengths " + ", ".join(f"{name} {_plain(length)}" for name, length in pairs)
    else:
        text = f"length {', '.join(map(_plain, lengths))}"
        text += f" for {', '.join(called)}" if 0 < len(called) <= _MOST_LENGTHS else ""
    if kernel.units is not None:
        text += f" ({kernel.bandwidth:.3g} standard deviations of each column)"
    return f"{type(kernel).__name__}, {text}"


def _effects_text(kernel, names):
    """A sum with linear and quadratic effects: their columns, then the other kernels."""
    kinds = {"linear": LinearEffects, "quadratic": QuadraticEffects}
    effects: dict[str, list[str]] = {}
    others = []
    for term in terms(kernel):
        on_scores = isinstance(term, NormalScores)
        effect = term.base if on_scores else term
        kind = next((kind for kind, each in kinds.items() if type(effect) is each), None)
        if kind is None:
            others.append(kernel_text(term, names))
            continue
        columns = term.columns if term.columns is not None else range(len(names or ()))
        for k in columns:
            column = names[k] if names else f"column {k}"
            effects.setdefault(kind, []).append(f"scores of {column}" if on_scores else column)
    return " + ".join([*(_listed(kind, columns) for kind, columns in effects.items()), *others])


def _listed(kind, columns):
    shown = ", ".join(columns) if len(columns) <= _MOST_LENGTHS else f"{len(columns)} columns"
    return f"{kind} in {shown}"


def _other_text(kernel, names):
    """A kernel that has neither bandwidth nor parts."""
    if not isinstance(kernel, NormalScores) or kernel.columns is None:
        return repr(kernel)
    column = names[kernel.columns[0]] if names else f"column {kernel.columns[0]}"
    return f"{kernel_text(kernel.base, None)} for scores of {column}"


def _plain(length):
    """Four digits of a number, without an exponent."""
    return np.format_float_positional(length, 4, unique=False, fractional=False, trim="-")


def kernel_config(kernel: Any) -> dict[str, Any]:
    """A kernel as a dict that JSON can hold; `kernel_of_config` reads it back.

    Examples
    --------
    >>> from bdr_stan.kernels import RBF, kernel_config
    >>> kernel_config(RBF(2.0, columns=["age"]))
    {'kernel': 'RBF', 'bandwidth': 2.0, 'columns': ['age'], 'variance': 1.0, 'units': None}
    """
    values = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    for name, value in values.items():
        if isinstance(value, Kernel):
            values[name] = kernel_config(value)
        elif name == "columns" and value is not None:
            values[name] = [c.item() if isinstance(c, np.generic) else c for c in value]
        elif isinstance(value, (np.ndarray, np.generic)):
            values[name] = value.tolist()
    return {"kernel": type(kernel).__name__, **values}


def kernel_of_config(config: dict[str, Any]) -> Kernel:
    """The kernel of which `kernel_config` gave this dict.

    Examples
    --------
    >>> import json
    >>> from bdr_stan.kernels import RBF, kernel_config, kernel_of_config
    >>> text = json.dumps(kernel_config(RBF(2.0, columns=["age"])))
    >>> kernel_of_config(json.loads(text))
    RBF(bandwidth=2.0, columns=('age',), variance=1.0, units=None)
    """
    values = {name: value for name, value in config.items() if name != "kernel"}
    for name, value in values.items():
        if isinstance(value, dict):
            values[name] = kernel_of_config(value)
        elif name == "columns" and value is not None:
            values[name] = tuple(value)
    return _KINDS[config["kernel"]](**values)
