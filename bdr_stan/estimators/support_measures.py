"""Support measure machines: classes and outliers among distributions, known by bags of points.

The support vector machines of scikit-learn on the inner products of the bags' kernel means, which
may be shrunk, or on a kernel of the distances between them, such as a Gaussian one.
"""

from dataclasses import KW_ONLY
from typing import Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.multiclass import check_classification_targets

from bdr_stan.bags import Bags, BagsLike, as_bags, values_of_bags
from bdr_stan.bags.checks import offsets_of_sizes
from bdr_stan.estimators.base import BagClassifier, BagEstimator
from bdr_stan.estimators.parameters import estimator
from bdr_stan.estimators.validation import check_positive
from bdr_stan.kernel_means.bag_means import BagMeans
from bdr_stan.kernel_means.outer_kernels import (
    between,
    check_outer,
    resolved_outer,
)
from bdr_stan.kernel_means.set_kernels import bag_weights
from bdr_stan.kernel_means.shrinkage import check_estimator
from bdr_stan.kernel_means.support_vectors import class_decisions, pair_decisions
from bdr_stan.kernels import Kernel, Stationary, check_kernel_and_bandwidth, resolve_kernel
from bdr_stan.results.arviz_groups import estimate_groups
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike, Seed, is_number


@estimator
class _MeasureMachine(BagEstimator):
    """Kernel means of bags, and the kernel between these.

    A fit keeps only the support bags, their weights and dual coefficients, from which predictions
    are computed, before and after saving alike.

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
    outer_bandwidth_ : float, where `outer` is not "linear"
    """

    kernel: str | Kernel = "rbf"
    bandwidth: ArrayLike | str = "scaled"
    _: KW_ONLY
    estimator: str = "kme"
    outer: str | Stationary = "linear"
    random_state: int | None = None

    def _fit_machine(self, bags, machine, y, seed, **settings):
        """Fit scikit-learn's machine on the kernel matrix of the bags; `settings` are kept too."""
        kernel = resolve_kernel(self.kernel, self.bandwidth, bags, seed=seed)
        self._forget()
        weights, shrinkage = bag_weights(bags, kernel, self.estimator)
        means = BagMeans(bags, weights, kernel)
        products = means.products()
        squares = products.diagonal()
        outer = resolved_outer(self.outer, products)
        machine.fit(between(outer, products, squares, squares), y)
        support = means.take(machine.support_)
        groups = estimate_groups(
            {"intercept": machine.intercept_, "dual_coef": machine.dual_coef_},
            "support vectors",
            {
                "bag_size": (bags.sizes, ["bag"]),
                "shrinkage": (shrinkage, ["bag"]),
                "support": (machine.support_, ["support_bag"]),
                "n_support": (machine.n_support_, ["class"]),
                "support_size": (support.bags.sizes, ["support_bag"]),
                "squared_norm": (squares[machine.support_], ["support_bag"]),
                "points": (support.bags.points, ["point", "feature"]),
                "weights": (support.weights, ["point"]),
            },
            bags.index,
            y,
        )
        return self._keep(Result(groups, {"kernel": kernel, "outer": outer, **settings}), bags)

    def _set_fitted(self, result):
        constants = result.constants
        self.kernel_, self.outer_ = result.settings["kernel"], result.settings["outer"]
        if self.outer_ is not None:
            self.outer_bandwidth_ = self.outer_.bandwidth
        self.shrinkage_ = constants["shrinkage"]
        self.support_, self.n_support_ = constants["support"], constants["n_support"]
        self.dual_coef_ = result.draws("dual_coef")[0]
        self.intercept_ = result.draws("intercept")[0]
        offsets = offsets_of_sizes(constants["support_size"])
        bags = Bags(constants["points"], offsets, copy=False)
        self._support = BagMeans(bags, constants["weights"], self.kernel_)

    def _gram(self, bags):
        """Kernel between bags and the support bags."""
        means = BagMeans.estimated(self._like_training(bags), self.kernel_, self.estimator)
        squares = None if self.outer_ is None else means.squared_norms()
        known = self.result_.constants["squared_norm"]
        return between(self.outer_, means.products(self._support), squares, known)

    def check_parameters(self) -> None:
        check_kernel_and_bandwidth(self.kernel, self.bandwidth)
        check_estimator(self.estimator)
        check_outer(self.outer)


@estimator
class SupportMeasureMachine(BagClassifier, _MeasureMachine):
    """Support vector classification of bags by their kernel means.

    Parameters
    ----------
    C : float, > 0, default 1
        Weight of points on the wrong side of the margin.

    Attributes
    ----------
    classes_ : array, the labels, sorted
    support_ : int array, shape (n_sv,)
        Numbers of the training bags at the margin, class after class.
    n_support_, dual_coef_, intercept_ : arrays
        As of `sklearn.svm.SVC`.
    idata : InferenceData or DataTree
        posterior: intercept and dual_coef, a single draw that is the estimate; observed_data the
        classes as numbers.

    Notes
    -----
    The kernel values between points are taken by blocks: memory grows with the square of the
    number of bags, time with the square of the number of points. Source: Muandet et al. (2012),
    "Learning from distributions via support measure machines"; shrunk, Muandet et al. (2014),
    section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import SupportMeasureMachine
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
        """Fit to bags and their classes.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
            Class of each bag, two or more.
        seed : int, optional
            Default `random_state`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
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
        seed = self._seed(seed)
        machine = SVC(C=self.C, kernel="precomputed")
        return self._fit_machine(bags, machine, numbers, seed, classes=classes)

    def predict(self, bags: BagsLike) -> Array:
        """Classes of bags; array, shape (n,)."""
        decisions = self._pairs(bags)
        if len(self.classes_) == 2:
            return self.classes_[(decisions[:, 0] >= 0).astype(int)]
        votes, _ = class_decisions(decisions, len(self.classes_))
        return self.classes_[np.argmax(votes, axis=1)]

    def decision_function(self, bags: BagsLike) -> Array:
        """Signed distance of bags from the margin, shape (n,); one column per class for several."""
        decisions = self._pairs(bags)
        if len(self.classes_) == 2:
            return decisions[:, 0]
        return class_decisions(decisions, len(self.classes_))[1]

    def _pairs(self, bags):
        """Decision for each pair of classes; of two classes, positive for the second."""
        return pair_decisions(self._gram(bags), self.dual_coef_, self.intercept_, self.n_support_)

    def _set_fitted(self, result):
        super()._set_fitted(result)
        self.classes_ = np.asarray(result.settings["classes"])

    def check_parameters(self) -> None:
        super().check_parameters()
        check_positive(C=self.C)


@estimator
class OneClassSMM(OutlierMixin, _MeasureMachine):
    """One-class support measure machine: bags that are unlike the training bags.

    Parameters
    ----------
    nu : float in (0, 1], default 0.1
        Upper bound on the share of training bags outside.

    Attributes
    ----------
    support_ : int array, shape (n_sv,)
        Numbers of the training bags at the margin.
    n_support_, dual_coef_, intercept_ : arrays
        As of `sklearn.svm.OneClassSVM`.
    idata : InferenceData or DataTree
        posterior: intercept and dual_coef, a single draw that is the estimate; observed_data 1 for
        each training bag.

    Notes
    -----
    Source: Muandet and Schoelkopf (2013), "One-class support measure machines for group anomaly
    detection"; shrunk, Muandet et al. (2014), section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from bdr_stan import OneClassSMM
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
        """Fit to bags, shapes (n_points, p); `y` and `seed` are not used. Returns self.

        Raises
        ------
        ValueError, TypeError
            Unusable bags or parameters; raised before any work starts.
        """
        bags = as_bags(bags)
        self.check_parameters()
        seed = self._seed(seed)
        machine = OneClassSVM(nu=self.nu, kernel="precomputed")
        return self._fit_machine(bags, machine, np.ones(len(bags), int), seed)

    def predict(self, bags: BagsLike) -> Array:
        """1 for each bag like the training bags, -1 for outliers; array, shape (n,)."""
        return np.where(self.decision_function(bags) > 0, 1, -1)

    def decision_function(self, bags: BagsLike) -> Array:
        """Signed distance of bags from the margin, negative outside; array, shape (n,)."""
        return self._gram(bags) @ self.dual_coef_[0] + self.intercept_[0]

    def check_parameters(self) -> None:
        super().check_parameters()
        if not is_number(self.nu) or not 0 < self.nu <= 1:
            raise ValueError(f"nu must be in (0, 1], found {self.nu!r}")
