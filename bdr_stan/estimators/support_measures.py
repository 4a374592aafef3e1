"""Support measure machines: classes and outliers among distributions, known by bags of points.

The support vector machines of scikit-learn on the inner products of the bags' kernel means, which
may be shrunk, or on a Gaussian kernel of the distances between them.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import as_bags
from bdr_stan.kernel_means.kernel_mean import (
    bag_inner_products,
    bag_squared_norms,
    bag_weights,
    check_estimator,
    resolve_kernel,
)
from bdr_stan.kernels import check_bandwidth


class _MeasureMachine(BaseEstimator):
    """What both machines share: kernel means of bags, and the kernel between these."""

    def _fit_machine(self, bags, machine, y, seed):
        """Fit a support vector machine on the kernel matrix of the bags."""
        self._check_parameters()
        kernel = resolve_kernel(self.kernel, self.bandwidth, bags, seed=seed)
        weights, shrinkage = bag_weights(bags, kernel, self.estimator)
        products = bag_inner_products(bags, weights, kernel)
        squares = products.diagonal()
        if self.outer == "gaussian":
            self.outer_bandwidth_ = self._distance_bandwidth(products)
        machine.fit(self._outer_kernel(products, squares, squares), y)
        self.kernel_, self.shrinkage_, self.machine_ = kernel, shrinkage, machine
        self.n_features_in_, self._features = bags.n_features, bags.features
        # Prediction needs the bags at the margin alone.
        support = machine.support_
        starts, stops = bags.offsets[support], bags.offsets[support + 1]
        self._support_bags, self._support_squares = bags[support], squares[support]
        self._support_weights = np.concatenate([weights[a:b] for a, b in zip(starts, stops)])
        return self

    def _gram(self, bags):
        """Kernel between bags and the training bags, 0 at those that do not matter."""
        check_is_fitted(self)
        bags = as_bags(bags)
        if bags.n_features != self.n_features_in_:
            raise ValueError(
                f"the bags have {bags.n_features} features a point, but the model was fitted to "
                f"{self.n_features_in_}: pass the same columns in the same order"
            )
        if None not in (bags.features, self._features) and bags.features != self._features:
            raise ValueError(
                f"the bags have the columns {bags.features}, but the model was fitted to "
                f"{self._features}: pass the same columns in the same order"
            )
        kernel = self.kernel_
        weights, _ = bag_weights(bags, kernel, self.estimator)
        products = bag_inner_products(
            bags, weights, kernel, self._support_bags, self._support_weights
        )
        squares = bag_squared_norms(bags, weights, kernel) if self.outer == "gaussian" else None
        gram = np.zeros((len(bags), len(self.shrinkage_)))
        gram[:, self.machine_.support_] = self._outer_kernel(
            products, squares, self._support_squares
        )
        return gram

    def _outer_kernel(self, products, squares, other_squares):
        if self.outer == "linear":
            return products
        distances = np.maximum(squares[:, None] + other_squares - 2 * products, 0)
        return np.exp(-distances / (2 * self.outer_bandwidth_**2))

    def _distance_bandwidth(self, products):
        if not isinstance(self.outer_bandwidth, str):
            return float(self.outer_bandwidth)
        squares = products.diagonal()
        distances = (squares[:, None] + squares - 2 * products)[np.triu_indices(len(products), 1)]
        median = np.median(distances) if len(distances) else 0.0
        if not median > 0:
            raise ValueError(
                "most bags have the same kernel mean, so the median distance between them is 0: "
                "give outer_bandwidth as a number"
            )
        return float(np.sqrt(median / 2))

    def _check_parameters(self):
        check_estimator(self.estimator)
        if self.outer not in ("linear", "gaussian"):
            raise ValueError(f"outer must be 'linear' or 'gaussian', found {self.outer!r}")
        if not isinstance(self.outer_bandwidth, str):
            check_bandwidth(self.outer_bandwidth, "outer_bandwidth")
        elif self.outer_bandwidth != "median":
            raise ValueError(
                "outer_bandwidth must be 'median' or a positive number, found "
                f"{self.outer_bandwidth!r}"
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class SupportMeasureMachine(ClassifierMixin, _MeasureMachine):
    """Support vector classification of bags by their kernel means.

    Parameters
    ----------
    kernel : str or Kernel, default "rbf"
        Kernel of points.
    bandwidth : float, array of shape (p,), or "median", default "median"
        Of a kernel given by name, in the units of the points.
    estimator : {"kme", "s-kmse", "f-kmse"}, default "kme"
        How kernel means are estimated, see `bdr_stan.kernel_means.kernel_mean.KernelMean`.
    outer : {"linear", "gaussian"}, default "linear"
        Kernel of kernel means: their inner product, or exp(-distance^2 / (2 outer_bandwidth^2)).
    outer_bandwidth : float or "median", default "median"
        In the units of RKHS distances; "median" is sqrt(median squared distance / 2) of the
        training bags.
    C : float, > 0, default 1
        Weight of points on the wrong side of the margin.
    random_state : int, optional
        Seed of the points from which the median bandwidth comes, where there are many.

    Attributes
    ----------
    classes_ : array, the labels, sorted
    shrinkage_ : array, shape (n,)
        lambda of each training bag.
    kernel_ : Kernel, with its bandwidth as a number
    outer_bandwidth_ : float, where ``outer="gaussian"``
    machine_ : sklearn.svm.SVC

    Notes
    -----
    The kernel values between points are taken by blocks: memory grows with the square of the
    number of bags, time with the square of the number of points. Source: Muandet et al. (2012),
    "Learning from distributions via support measure machines"; shrunk, Muandet et al. (2014),
    section 4.2.
    """

    def __init__(
        self,
        kernel="rbf",
        bandwidth="median",
        *,
        estimator="kme",
        outer="linear",
        outer_bandwidth="median",
        C=1.0,
        random_state=None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.estimator = estimator
        self.outer = outer
        self.outer_bandwidth = outer_bandwidth
        self.C = C
        self.random_state = random_state

    def fit(self, bags, y, *, seed=None):
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
        bags, y = as_bags(bags), np.asarray(y)
        if y.shape != (len(bags),):
            raise ValueError(f"y has shape {y.shape}, expected ({len(bags)},): one label a bag")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}, but a classifier needs two")
        if not self.C > 0:
            raise ValueError(f"C must be a positive number, found {self.C!r}")
        seed = self.random_state if seed is None else seed
        return self._fit_machine(bags, SVC(C=self.C, kernel="precomputed"), y, seed)

    def predict(self, bags):
        """Class of each bag; array, shape (n,)."""
        gram = self._gram(bags)
        return self.machine_.predict(gram)

    def decision_function(self, bags):
        """Signed distance from the margin, shape (n,), or one column a class for several."""
        gram = self._gram(bags)
        return self.machine_.decision_function(gram)


class OneClassSMM(OutlierMixin, _MeasureMachine):
    """One-class support measure machine: bags that are unlike the training bags.

    Parameters
    ----------
    kernel, bandwidth, estimator, outer, outer_bandwidth, random_state
        As for `SupportMeasureMachine`.
    nu : float in (0, 1], default 0.1
        Upper bound on the share of training bags outside.

    Attributes
    ----------
    shrinkage_, kernel_, outer_bandwidth_ : as for `SupportMeasureMachine`
    machine_ : sklearn.svm.OneClassSVM

    Notes
    -----
    Source: Muandet and Schoelkopf (2013), "One-class support measure machines for group anomaly
    detection"; shrunk, Muandet et al. (2014), section 4.2.
    """

    def __init__(
        self,
        kernel="rbf",
        bandwidth="median",
        *,
        estimator="kme",
        outer="linear",
        outer_bandwidth="median",
        nu=0.1,
        random_state=None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.estimator = estimator
        self.outer = outer
        self.outer_bandwidth = outer_bandwidth
        self.nu = nu
        self.random_state = random_state

    def fit(self, bags, y=None, *, seed=None):
        """Fit to bags, shapes (n_points, p); `y` is not used. Returns self.

        Raises
        ------
        ValueError, TypeError
            Unusable bags or parameters; raised before any work starts.
        """
        bags = as_bags(bags)
        if not 0 < self.nu <= 1:
            raise ValueError(f"nu must be in (0, 1], found {self.nu!r}")
        seed = self.random_state if seed is None else seed
        return self._fit_machine(bags, OneClassSVM(nu=self.nu, kernel="precomputed"), None, seed)

    def predict(self, bags):
        """1 for each bag like the training bags, -1 for outliers; array, shape (n,)."""
        gram = self._gram(bags)
        return self.machine_.predict(gram)

    def decision_function(self, bags):
        """Signed distance from the margin, negative outside; array, shape (n,)."""
        gram = self._gram(bags)
        return self.machine_.decision_function(gram)
