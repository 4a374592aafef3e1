"""Kernel means of samples as functions: their values, norms and distances.

`shrinkage` has the weights of the points, `set_kernels` kernel means of many bags at once.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.bags import as_bags
from bdr_stan.kernel_means.set_kernels import kernel_mean_values
from bdr_stan.kernel_means.shrinkage import check_estimator, kernel_mean_weights
from bdr_stan.kernels import Kernel, kernel_config, resolve_kernel
from bdr_stan.types import Array, ArrayLike


class KernelMean:
    """Kernel mean of a sample, sum_j beta_j k(x_j, .), shrunk or not.

    Parameters
    ----------
    points : array, shape (n, p), the sample
    kernel : str or Kernel, default "rbf"
        Name of a kernel, see `bdr_stan.kernels.KERNELS`, or a kernel (``Polynomial(2)``).
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median", default "scaled"
        Bandwidth of a kernel given by name, in the units of the points; see `Stationary`.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        "kme": weights 1/n. "s-kmse": all weights shrunk by one factor, in time n^2 and little
        memory. "f-kmse": each principal direction shrunk by its own factor, in time n^3 and
        memory n^2.
    target : KernelMean, optional
        f*, towards which "s-kmse" and "f-kmse" shrink: f* + sum_j beta_j (k(x_j, .) - f*). Its
        kernel is the same. Default 0.

    Attributes
    ----------
    weights : array, shape (n,)
        beta; with a target followed by the weights of its points.
    shrinkage : float, >= 0
        lambda; 0 for "kme".
    points : array, shape (n, p)
        With a target followed by its points.
    kernel : Kernel
        With its bandwidth as a number.

    Raises
    ------
    ValueError, TypeError : unusable points, kernel, bandwidth or estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import KernelMean
    >>> ann = KernelMean(np.array([[0.0], [1.0]]), bandwidth=1.0)
    >>> ann(np.array([[0.0], [0.5], [5.0]])).round(3)
    array([0.803, 0.882, 0.   ])
    >>> bob = KernelMean(np.array([[3.0], [4.0]]), bandwidth=1.0)
    >>> ann.distance(bob) > ann.distance(ann)
    True
    >>> KernelMean(ann.points, bandwidth=1.0, estimator="s-kmse").norm < ann.norm
    True
    """

    def __init__(
        self,
        points: ArrayLike,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        estimator: str = "kme",
        *,
        target: "KernelMean | None" = None,
    ):
        bags = as_bags([points])
        check_estimator(estimator)
        self.points = bags.points
        self.kernel = resolve_kernel(kernel, bandwidth, bags)
        self.estimator = estimator
        products = self.kernel if target is None else self._around(target)
        self.weights, self.shrinkage = kernel_mean_weights(self.points, products, estimator)
        if target is not None:
            of_target = (1 - self.weights.sum()) * target.weights
            self.points = np.concatenate([self.points, target.points])
            self.weights = np.concatenate([self.weights, of_target])

    def _around(self, target):
        """`kernel_around` of a target; TypeError or ValueError unless the mean can shrink to it."""
        if not isinstance(target, KernelMean):
            raise TypeError(f"target must be a KernelMean, found {target!r}")
        if self.estimator == "kme":
            raise ValueError(
                "estimator 'kme' does not shrink: give 's-kmse' or 'f-kmse', or no target"
            )
        check_same_kernel(self, target)
        return kernel_around(target)

    def __call__(self, x: ArrayLike) -> Array:
        """Value of the mean at points, shape (m, p); array, shape (m,)."""
        x = np.asarray(x, np.float64)
        if x.ndim != 2 or x.shape[1] != self.points.shape[1]:
            raise ValueError(
                f"points have shape {x.shape}, expected (m, {self.points.shape[1]}) like the "
                "points of the mean"
            )
        return kernel_mean_values(self.kernel, self.points, self.weights, x)

    @cached_property
    def norm(self) -> float:
        """RKHS norm."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other: Any) -> float:
        """RKHS distance to `other`, the mean of a sample or distribution.

        For two samples, the norm of their difference; common points cancel exactly. With the
        Gaussian kernel the maximum mean discrepancy.
        """
        check_same_kernel(self, other)
        if not isinstance(other, KernelMean):
            return other.distance(self)
        points = np.concatenate([self.points, other.points])
        points, place = np.unique(points, axis=0, return_inverse=True)
        difference = np.bincount(place.ravel(), np.concatenate([self.weights, -other.weights]))
        differ = difference != 0
        if not differ.any():
            return 0.0
        points, difference = points[differ], difference[differ]
        values = kernel_mean_values(self.kernel, points, difference, points)
        return float(np.sqrt(max(difference @ values, 0.0)))

    def inner(self, other: Any) -> float:
        """Inner product in the RKHS with `other`, the mean of a sample or of a distribution."""
        check_same_kernel(self, other)
        return float(self.weights @ other(self.points))


def kernel_around(target: KernelMean) -> Callable[[Array, Array], Array]:
    """The kernel <k(x, .) - f*, k(y, .) - f*> for k and f* of a target."""
    return lambda x, y: target.kernel(x, y) - target(x)[:, None] - target(y) + target.norm**2


def check_same_kernel(mean: Any, other: Any) -> None:
    """Raise TypeError or ValueError unless the other is a mean with the same kernel."""
    if not isinstance(getattr(other, "kernel", None), Kernel):
        raise TypeError(f"expected another mean, such as a KernelMean, found {other!r}")
    if kernel_config(mean.kernel) != kernel_config(other.kernel):
        raise ValueError(
            f"the means have different kernels, {mean.kernel} and {other.kernel}: give both "
            "the same, with a number for its bandwidth"
        )
