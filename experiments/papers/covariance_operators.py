"""Covariance operators of samples in RKHSs, shrunk like kernel means.

The cross-covariance operator of paired samples is a kernel mean too: the average of c_j (x) d_j,
with c_j = k(x_j, .) - mu and d_j = l(y_j, .) - nu, whose inner products <c_i, c_j> <d_i, d_j> are
the entrywise product of two centred kernel matrices. The estimators of kernel means thus shrink it
(S-COSE and F-COSE of Muandet et al. 2014, section 3.3). So with tensors of more than two samples,
and with the covariance operator, where both samples are the same.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from bdr_stan.estimators.validation import check_positive
from bdr_stan.kernel_means.kernel_mean import KernelMean, check_same_kernel
from bdr_stan.kernel_means.shrinkage import check_estimator, f_kmse, s_kmse
from bdr_stan.kernels import Kernel
from bdr_stan.types import Array, ArrayLike
from experiments.papers.hilbert_mean import HilbertMean


class CrossCovariance(HilbertMean):
    """Cross-covariance of paired samples, sum_j beta_j c_j (x) d_j: an operator, or a tensor.

    Parameters
    ----------
    samples : sequence of arrays, shapes (n, p_1), (n, p_2), ...
        Two for an operator. The rows of the same number belong together.
    kernels : str, Kernel, or sequence of them, one per sample, default "rbf"
    bandwidth : float, "scaled", "ard" or "median", default "scaled"
        Of kernels given by name, in the units of the points; see `Stationary`.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        "kme": the empirical operator, beta = 1/n. "s-kmse" is S-COSE, "f-kmse" F-COSE.
    mean : {"kme", "s-kmse", "f-kmse"}, default "kme"
        Estimator of the kernel means, around which the points are centred.

    Attributes
    ----------
    means : tuple of KernelMean
        mu, nu, ...
    centred : tuple of arrays, shape (n, n)
        <c_i, c_j>, <d_i, d_j>, ...
    weights : array, shape (n,)
        beta.
    shrinkage : float, >= 0
        lambda of the operator; each of the means has its own.

    Raises
    ------
    ValueError : samples of different length, or fewer than two.

    Notes
    -----
    `inner`, `norm` and `distance` are Hilbert-Schmidt's; without shrinkage the squared norm
    is HSIC. Leave-one-out scores take the means as given. Source: Muandet et al. (2014), section
    3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.papers.covariance_operators import CrossCovariance
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 30, 1))
    >>> plain = CrossCovariance([x, x + noise])
    >>> shrunk = CrossCovariance([x, x + noise], estimator="s-kmse")
    >>> bool(shrunk.norm < plain.norm)
    True
    """

    def __init__(
        self,
        samples: Sequence[ArrayLike],
        kernels: str | Kernel | Sequence[str | Kernel] = "rbf",
        bandwidth: float | str = "scaled",
        estimator: str = "kme",
        *,
        mean: str = "kme",
    ):
        check_estimator(estimator)
        if isinstance(kernels, (str, Kernel)):
            kernels = [kernels] * len(samples)
        if len(samples) < 2 or len(kernels) != len(samples):
            raise ValueError(
                f"give two samples or more, and one kernel or one of each, found {len(samples)} "
                f"samples and {len(kernels)} kernels"
            )
        means = tuple(
            KernelMean(
                points, kernel, bandwidth if isinstance(kernel, str) else "scaled", estimator=mean
            )
            for points, kernel in zip(samples, kernels, strict=True)
        )
        if len({len(each.points) for each in means}) > 1:
            lengths = ", ".join(str(len(each.points)) for each in means)
            raise ValueError(f"the samples are pairs, but have {lengths} points")
        self.means, self.centred = means, tuple(map(centred_gram, means))
        self.weights, self.shrinkage = operator_weights(self.centred, estimator)

    def inner(self, other: Any) -> float:
        """Hilbert-Schmidt inner product with the operator of other samples."""
        others = getattr(other, "means", ())
        if len(others) != len(self.means):
            raise TypeError(f"expected an operator of {len(self.means)} samples, found {other!r}")
        products = reduce(np.multiply, map(centred_products, self.means, others))
        return float(self.weights @ products @ other.weights)


class CovarianceOperator(CrossCovariance):
    """Covariance operator of a sample, sum_j beta_j c_j (x) c_j, c_j = k(x_j, .) - mu.

    Parameters
    ----------
    points : array, shape (n, p)
    kernel : str or Kernel, default "rbf"
    bandwidth, estimator, mean : as for `CrossCovariance`
    shrinkage : float, > 0, optional
        lambda of F-COSE; by default chosen by the leave-one-out score.

    Attributes
    ----------
    mean : KernelMean
        mu.
    weights, shrinkage, means, centred : as for `CrossCovariance`
    points, kernel : as for `KernelMean`
    """

    def __init__(
        self,
        points: ArrayLike,
        kernel: str | Kernel = "rbf",
        bandwidth: ArrayLike | str = "scaled",
        estimator: str = "kme",
        *,
        mean: str = "kme",
        shrinkage: float | None = None,
    ):
        check_estimator(estimator)
        if shrinkage is not None:
            check_positive(shrinkage=shrinkage)
            if estimator != "f-kmse":
                raise ValueError(f"shrinkage is for 'f-kmse' alone, but estimator is {estimator!r}")
        self.mean = KernelMean(points, kernel, bandwidth, mean)
        self.points, self.kernel = self.mean.points, self.mean.kernel
        self.means, self.centred = (self.mean,) * 2, (centred_gram(self.mean),) * 2
        self.weights, self.shrinkage = operator_weights(self.centred, estimator, shrinkage)


def operator_weights(
    centred: Sequence[Array], estimator: str, shrinkage: float | None = None
) -> tuple[Array, float]:
    """Weights and lambda of the average of products, from the centred kernel matrices.

    `shrinkage` is the lambda of "f-kmse", None the one of the lowest leave-one-out score.
    """
    n = len(centred[0])
    if estimator == "kme":
        return np.full(n, 1 / n), 0.0
    gram = reduce(np.multiply, centred)
    if shrinkage is not None:
        return np.linalg.solve(gram + n * shrinkage * np.eye(n), gram.mean(axis=1)), shrinkage
    return s_kmse(gram) if estimator == "s-kmse" else f_kmse(gram)


def centred_gram(mean: KernelMean) -> Array:
    """<c_i, c_j> for the points of a mean."""
    centred = centred_products(mean, mean)
    return (centred + centred.T) / 2  # rounding may leave it unsymmetric


def centred_products(mean: KernelMean, other: KernelMean) -> Array:
    """<c_i, c'_j> for the points of two means, each around its own."""
    check_same_kernel(mean, other)
    return (
        mean.kernel(mean.points, other.points)
        - other(mean.points)[:, None]
        - mean(other.points)
        + mean.inner(other)
    )
