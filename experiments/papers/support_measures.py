"""Support measure machines: classes and outliers among distributions, known by bags of points.

The support vector machines of scikit-learn on the inner products of the bags' kernel means, which
may be shrunk, or on a kernel of the distances between them, such as a Gaussian one.
"""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, OutlierMixin
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.multiclass import check_classification_targets

from bdr_stan.bags import Bags, BagsLike, as_bags, values_of_bags
from bdr_stan.estimators.validation import check_positive
from bdr_stan.kernel_means.set_kernels import (
    BagMeans,
    between,
    check_outer,
    resolved_outer,
)
from bdr_stan.kernel_means.shrinkage import check_estimator, kernel_mean_weights
from bdr_stan.kernels import Kernel, Stationary, check_kernel_and_bandwidth, resolve_kernel
from bdr_stan.parameters import estimator
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike, Seed, is_number
from experiments.papers.on_bags import OnBags, scored


@estimator
class MeasureMachine(OnBags):
    """Base of the machines: kernel means of bags, and the kernel between these.

    A fit keeps only the support bags and the weights of their points.

    Parameters
    ----------
    kernel : str or Kernel, default "rbf"
        Kernel of points.
    bandwidth : float, array of shape (p,), "scaled", "ard" or "median", default "scaled"
        Of a kernel given by name, in the units of the points; see `Stationary`.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        How kernel means are estimated, see `bdr_stan.kernel_means.shrinkage`.
    outer : "linear", "gaussian", str or Kernel, default "linear"
        Kernel of kernel means: their inner product, exp(-distance^2 / (2 bandwidth^2)), or another
        kernel of the distance between them, as an object of one bandwidth, in the units of RKHS
        distances, or by name, with the bandwidth sqrt(median squared distance / 2) of the training
        bags.
    random_state : int, optional
        Seed of the points from which the median bandwidth comes, where there are many.

    Attributes
    ----------
    shrinkage_ : array, shape (n,)
        lambda of each training bag.
    kernel_ : Kernel, with its bandwidth as a number
    outer_ : Kernel, with its bandwidth as a number, or None for "linear"
    machine_ : sklearn.svm.SVC or OneClassSVM, on the kernel between the training bags
    """

    kernel: str | Kernel = "rbf"
    bandwidth: ArrayLike | str = "scaled"
    _: KW_ONLY
    estimator: str = "kme"
    outer: str | Stationary = "linear"
    random_state: int | None = None

    def fit_machine(self, bags: Bags, machine: Any, y: Array, seed: Seed) -> Self:
        """Fit scikit-learn's machine on the kernel matrix of the bags."""
        kernel = resolve_kernel(self.kernel, self.bandwidth, bags, seed=seed)
        weights, shrinkage = bag_weights(bags, kernel, self.estimator)
        products = BagMeans(bags, kernel, weights).products()
        squares = products.diagonal()
        outer = resolved_outer(self.outer, products)
        machine.fit(between(outer, products, squares, squares), y)
        self.kernel_, self.outer_, self.machine_ = kernel, outer, machine
        self.shrinkage_, support = shrinkage, machine.support_
        self.support_bags_, self.support_squares_ = bags.take(support), squares[support]
        self.support_weights_ = np.concatenate(
            [weights[bags.offsets[i] : bags.offsets[i + 1]] for i in support]
        )
        self.keep_record(bags)
        return self

    def gram(self, bags: BagsLike) -> Array:
        """Kernel between bags and the training bags, (m, n): 0 but for the support bags."""
        bags = self.like_training(bags)
        weights, _ = bag_weights(bags, self.kernel_, self.estimator)
        means = BagMeans(bags, self.kernel_, weights)
        support_means = BagMeans(self.support_bags_, self.kernel_, self.support_weights_)
        products = means.products(support_means)
        squares = None if self.outer_ is None else means.squared_norms()
        gram = np.zeros((len(bags), len(self.shrinkage_)))
        support = self.machine_.support_
        gram[:, support] = between(self.outer_, products, squares, self.support_squares_)
        return gram

    def decision_function(self, bags: BagsLike) -> Array:
        """Signed distance of bags from the margin, shape (m,); one column per class for several."""
        gram = self.gram(bags)
        return self.machine_.decision_function(gram)

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for an invalid parameter."""
        check_kernel_and_bandwidth(self.kernel, self.bandwidth)
        check_estimator(self.estimator)
        check_outer(self.outer)


@estimator
class SupportMeasureMachine(ClassifierMixin, MeasureMachine):
    """Support vector classification of bags by their kernel means.

    Parameters
    ----------
    C : float, > 0, default 1
        Weight of points on the wrong side of the margin.

    Attributes
    ----------
    classes_ : array, the labels, sorted

    Notes
    -----
    The kernel values between points are taken by blocks: memory grows with the square of the
    number of bags, time with the square of the number of points. Source: Muandet et al. (2012),
    "Learning from distributions via support measure machines"; shrunk, Muandet et al. (2014),
    section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.papers import SupportMeasureMachine
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["narrow", "wide"] * 15)
    >>> bags = [rng.normal(scale={"narrow": 1, "wide": 3}[label], size=(30, 1)) for label in y]
    >>> model = SupportMeasureMachine().fit(bags, y, seed=1)
    >>> model.predict([np.linspace(-1, 1, 30)[:, None], np.linspace(-6, 6, 30)[:, None]])
    array(['narrow', 'wide'], dtype='<U6')
    """

    _: KW_ONLY
    C: float = 1.0

    def fit(self, bags: BagsLike, y: ArrayLike, *, seed: Seed = None) -> Self:
        """Fit to bags and their classes, (n,), two or more; `seed` replaces `random_state`.

        Unusable arguments raise ValueError or TypeError before any work starts.
        """
        bags = as_bags(bags)
        y = np.asarray(values_of_bags(bags, y, "y"))
        if y.shape != (len(bags),):
            raise ValueError(f"y has shape {y.shape}, expected ({len(bags)},): one label per bag")
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes[0]!r}, but a classifier needs two")
        self.check_parameters()
        machine = SVC(C=self.C, kernel="precomputed")
        self.fit_machine(bags, machine, numbers, self.seed_of(seed))
        self.classes_ = classes
        return self

    def predict(self, bags: BagsLike) -> Array:
        """Classes of bags; array, shape (m,)."""
        gram = self.gram(bags)
        return self.classes_[self.machine_.predict(gram)]

    def score(
        self, bags: BagsLike, y: ArrayLike | str, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy of the predicted classes; labels and weights are matched to the ids of bags."""
        return super().score(*scored(self, bags, y, sample_weight))

    def check_parameters(self) -> None:
        super().check_parameters()
        check_positive(C=self.C)


@estimator
class OneClassSMM(OutlierMixin, MeasureMachine):
    """One-class support measure machine: bags that are unlike the training bags.

    Parameters
    ----------
    nu : float in (0, 1], default 0.1
        Upper bound on the share of training bags outside.

    Notes
    -----
    Source: Muandet and Schoelkopf (2013), "One-class support measure machines for group anomaly
    detection"; shrunk, Muandet et al. (2014), section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from experiments.papers import OneClassSMM
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(30, 1)) for _ in range(30)]
    >>> model = OneClassSMM(nu=0.1).fit(bags, seed=1)
    >>> usual = norm.ppf((np.arange(30)[:, None] + 0.5) / 30)
    >>> model.predict([usual, usual + 3])
    array([ 1, -1])
    """

    _: KW_ONLY
    nu: float = 0.1

    def fit(self, bags: BagsLike, y: None = None, *, seed: Seed = None) -> Self:
        """Fit to bags; `y` is not used, `seed` replaces `random_state`; raises as above."""
        bags = as_bags(bags)
        self.check_parameters()
        machine = OneClassSVM(nu=self.nu, kernel="precomputed")
        return self.fit_machine(bags, machine, np.ones(len(bags), int), self.seed_of(seed))

    def predict(self, bags: BagsLike) -> Array:
        """1 for each bag like the training bags, -1 for outliers; array, shape (n,)."""
        return np.where(self.decision_function(bags) > 0, 1, -1)

    def check_parameters(self) -> None:
        super().check_parameters()
        if not is_number(self.nu) or not 0 < self.nu <= 1:
            raise ValueError(f"nu must be in (0, 1], found {self.nu!r}")


def bag_weights(bags: Bags, kernel: Kernel, estimator: str) -> tuple[Array, Array]:
    """Weights of all points of bags in the estimates of the bags' kernel means.

    Parameters
    ----------
    bags : Bags
        With weights of their own for "kme" alone.
    kernel : Kernel, as from `bdr_stan.kernels.resolve_kernel`
    estimator : {"kme", "s-kmse", "f-kmse"}
        See `bdr_stan.KernelMean`.

    Returns
    -------
    weights : array, shape (N_points,)
    shrinkage : array, shape (n,)
        lambda of each bag.

    Raises
    ------
    ValueError : no such estimator, weighted bags that are to be shrunk, or unusable values in a
        memory map.
    """
    check_estimator(estimator)
    if bags.weights is not None and estimator != "kme":
        raise ValueError(
            f"{estimator!r} counts points equally, but the bags have weights: leave them out, "
            "or use 'kme'"
        )
    if bags.is_memory_map:
        bags.check_values()
    if estimator == "kme":
        return bags.point_shares, np.zeros(len(bags))

    def weigh(i):
        return kernel_mean_weights(bags[i], kernel, estimator)

    weights, shrinkage = zip(*map_in_threads(weigh, range(len(bags)), None), strict=True)
    bags.release()
    return np.concatenate(weights), np.array(shrinkage)
