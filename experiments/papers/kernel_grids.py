"""Set kernels of a whole grid of kernels, which share the work, and errors of held-out bags.

Nearly all of the work is in the pairs of points, which the kernels share: kernels of the distance
with histograms of the squared distances (`distance_histograms`), polynomials with the means of the
powers of inner products. It is faster than one kernel after the other from some ten kernels on: the
protocol of Szabo et al. (2016) has 251.

Source: Szabo, Sriperumbudur, Poczos, Gretton (2016), "Learning theory for distribution
regression".
"""

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernel_means.ridge_path import KernelRidgePath, mean_squares
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernels import Kernel, Polynomial, Stationary
from bdr_stan.types import Array
from experiments.papers.distance_histograms import stationary_set_kernels


def set_kernels(
    bags: BagsLike,
    kernels: Sequence[Kernel],
    others: BagsLike | None = None,
    *,
    n_jobs: int | None = None,
) -> Array:
    """Set kernels between bags, for each kernel of a list.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    kernels : list of Kernel
        Their bandwidths numbers, or arrays of shape (p,). Kernels of the distance with one number
        as bandwidth and the same columns and units share their work, and so do polynomials.
    others : Bags, or list of m arrays, optional
        Default `bags` again, with half the work.
    n_jobs : int, optional
        Threads, default all cores.

    Returns
    -------
    array, shape (len(kernels), n, m), or (len(kernels), n, n) and symmetric

    Raises
    ------
    ValueError : a column that the points lack, a bandwidth that is not yet a number, `others` with
        another number of features, or values of a memory map that are not numbers.

    Notes
    -----
    Kernel values of all pairs of points are never in memory at once. Sharing changes the value of
    one pair of points by at most about 1e-11 k(a, a), of two bags of 100 points by 1e-13. Time
    grows with the pairs of points, 15 to 25 ns each for all kernels of the distance together.
    """
    bags = as_bags(bags)
    others = None if others is None else as_bags(others)
    sides = [bags] if others is None else [bags, others]
    sides[-1].check_like(
        bags.n_features, bags.features, bags.columns, whose="the others", source="the bags have"
    )
    kernels = list(kernels)
    if not kernels:
        raise ValueError("kernels is empty: give at least one kernel")
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernels must be a list of kernels, such as RBF(1.0), found {kernel!r}"
            )
    kernels = [kernel.on(bags.features, bags.n_features) for kernel in kernels]
    for kernel in kernels:
        kernel.prepare(bags.read(0, 1))  # raises if the bandwidth is not yet a number
    for side in sides:
        if side.is_memory_map:
            side.check_values()
    groups: dict[Any, list[int]] = {}
    for k, kernel in enumerate(kernels):
        groups.setdefault(_sharing(kernel) or k, []).append(k)
    out = np.empty((len(kernels), len(bags), len(sides[-1])))

    def alone(kernel):
        right = None if others is None else BagMeans(others, kernel)
        return BagMeans(bags, kernel).products(right, n_jobs=n_jobs)

    for share, members in groups.items():
        group: list[Any] = [kernels[k] for k in members]
        parts = [out[k] for k in members]
        if len(group) > 1 and share[0] is Stationary:
            stationary_set_kernels(group, bags, others, parts, n_jobs=n_jobs)
        elif len(group) > 1 and len(group) > max(kernel.degree for kernel in group):
            _polynomial_set_kernels(group, alone, parts)
        else:
            for kernel, part in zip(group, parts, strict=True):
                part[:] = alone(kernel)
    return out


def _sharing(kernel):
    """Key of the kernels that share work; None for a kernel that shares none."""
    if isinstance(kernel, Stationary) and np.ndim(kernel.bandwidth) == 0:
        units = None if kernel.units is None else tuple(kernel.units)
        return Stationary, kernel.columns, units
    if isinstance(kernel, Polynomial):
        return Polynomial, kernel.columns
    return None


def _polynomial_set_kernels(
    kernels: list[Polynomial], alone: Callable[[Kernel], Array], out: list[Array]
) -> None:
    """Write set kernels of polynomials: (g + c)^p = sum_q (p choose q) c^(p - q) g^q."""
    columns = kernels[0].columns
    largest = max(kernel.degree for kernel in kernels)
    powers: list[Any] = [1.0, *(alone(Polynomial(q, 0.0, columns)) for q in range(1, largest + 1))]
    for kernel, part in zip(kernels, out, strict=True):
        p, c = kernel.degree, kernel.constant
        terms = (comb(p, q) * c ** (p - q) * powers[q] for q in range(p + 1))
        part[:] = kernel.variance * sum(terms)


def held_out(
    gram: Array,
    y: Array,
    splits: Sequence[tuple[Array, Array]],
    alphas: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Kernel ridge regression with held-out bags: alphas, (l,), their errors and predictions.

    `gram`, (n, n), is the kernel between all bags with labels y, (n,); `splits` are pairs (training
    indices, held-out indices). Errors, (l,), are mean squares over the held-out bags of all splits,
    predictions, (held-out bags, l), split after split. By default alphas suit the first split.
    """
    tried: Any = alphas
    parts = []
    for train, test in splits:
        path = KernelRidgePath(gram[np.ix_(train, train)], y[train])
        tried = path.alphas(tried)
        parts.append(path.level + np.tensordot(gram[np.ix_(test, train)], path.dual(tried), 1))
    predictions = np.concatenate(parts)
    truth = y[np.concatenate([test for _, test in splits])]
    return tried, mean_squares(predictions - truth[:, None]), predictions
