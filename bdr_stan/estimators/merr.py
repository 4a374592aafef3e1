"""Mean embedding ridge regression: kernel ridge regression on the kernel means of bags.

The kernel of two bags is the mean of k over their pairs of points, or a second kernel of the
distance between their kernel means.
"""

from dataclasses import replace

import numpy as np
from sklearn.base import RegressorMixin

from bdr_stan.bags import Bags, as_bags, check_labels
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.kernel_mean import bag_squared_norms, resolve_kernel
from bdr_stan.kernels import (
    KERNELS,
    Kernel,
    Stationary,
    check_bandwidth,
    kernel_config,
    kernel_named,
    kernel_of_config,
)
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.results.groups import named_groups
from bdr_stan.predictive.mixtures import Predictive
from bdr_stan.kernel_means.set_kernels import of_squares, point_weights, set_kernels

# Penalties tried by default, times the number of bags as parts of the largest eigenvalue.
_PENALTIES = np.geomspace(1e-12, 1, 49)


class KernelRidgePath:
    """Kernel ridge regression of y for any penalty, from one eigendecomposition.

    f = level + sum_i c_i K(B_i, .),  c = (K + n alpha I)^-1 (y - level),  level the average of y

    minimises (1/n) sum_i (y_i - f(B_i))^2 + alpha |f - level|^2 in the RKHS of K.

    Parameters
    ----------
    gram : array, shape (n, n)
        K between the training bags; directions whose eigenvalues are rounding errors are taken
        for zero.
    y : array, shape (n,)

    Attributes
    ----------
    level : float
    largest : float, largest eigenvalue of K

    Source: Szabo et al. (2016), section 3.
    """

    def __init__(self, gram, y):
        self.level = float(np.mean(y))
        eigenvalues, vectors = np.linalg.eigh(gram)
        self.largest = float(eigenvalues[-1])
        kept = eigenvalues > self.largest * len(y) * np.finfo(float).eps
        self._eigenvalues, self._vectors = eigenvalues[kept], vectors[:, kept]
        self._pull = self._vectors.T @ (y - self.level)
        self._rest = y - self.level - self._vectors @ self._pull

    def alphas(self, alpha):
        """Penalties asked for: numbers as they are, of "loo" or None 49 that fit the kernel."""
        if alpha is None or isinstance(alpha, str):
            return _PENALTIES * (self.largest if self.largest > 0 else 1.0) / len(self._rest)
        return np.atleast_1d(np.asarray(alpha, float))

    def dual(self, alphas):
        """c for each of the penalties, shape (l,) and > 0; array, shape (n, l)."""
        return self._vectors @ (self._pull[:, None] / self._spread(alphas))

    def leave_one_out(self, alphas):
        """Mean squared error for each bag predicted from the others, the level held; shape (l,)."""
        left = len(self._rest) * alphas / self._spread(alphas)
        residual = self._rest[:, None] + self._vectors @ (left * self._pull[:, None])
        outside = np.maximum(1 - np.sum(self._vectors**2, axis=1), 0)[:, None]
        return np.mean((residual / (outside + self._vectors**2 @ left)) ** 2, axis=0)

    def scale(self, alpha):
        """Standard deviation s for which y ~ normal(level, s^2 (K + n alpha I)) is likeliest."""
        n = len(self._rest)
        fitted = np.sum(self._pull**2 / self._spread(alpha)[:, 0])
        return float(np.sqrt((fitted + np.sum(self._rest**2) / (n * alpha)) / n))

    def explained(self, cross, alpha):
        """k' (K + n alpha I)^-1 k for each row k of `cross`, shape (m, n); array, shape (m,)."""
        return (cross @ self._vectors) ** 2 @ (1 / self._spread(alpha)[:, 0])

    def _spread(self, alphas):
        return self._eigenvalues[:, None] + len(self._rest) * np.atleast_1d(alphas)


def between(outer, products, squares, other_squares):
    """Kernel of kernel means from their inner products and squared norms.

    Parameters
    ----------
    outer : None for the inner product itself, or a kernel of the distance, of one bandwidth
    products : array, shape (n, m)
    squares, other_squares : arrays, shapes (n,) and (m,)
    """
    if outer is None:
        return products
    return of_squares(outer, squared_distances(products, squares, other_squares))


def squared_distances(products, squares, other_squares):
    """Squared RKHS distances, shape (n, m), from inner products and squared norms."""
    return np.maximum(squares[:, None] + other_squares - 2 * products, 0)


def outer_at_median(outer, bandwidth, products):
    """Kernel of kernel means with a number as bandwidth, from the training bags' products.

    "median" is sqrt(median squared distance / 2) between kernel means. None for "linear".
    """
    if isinstance(outer, str) and outer == "linear":
        return None
    kernel = outer if isinstance(outer, Kernel) else kernel_named(outer, bandwidth)
    if not isinstance(kernel.bandwidth, str):
        return kernel
    squares = products.diagonal()
    apart = squared_distances(products, squares, squares)[np.triu_indices(len(products), 1)]
    median = np.median(apart)
    # Relative to the norms, smaller distances are rounding errors.
    if not median > 1e-14 * squares.max():
        raise ValueError(
            "most bags have the same kernel mean, so the median distance between them is 0: "
            "give outer_bandwidth as a number"
        )
    return replace(kernel, bandwidth=float(np.sqrt(median / 2)))


class MERR(RegressorMixin, BagEstimator):
    """Mean embedding ridge regression: kernel ridge regression on the kernel means of bags.

    Parameters
    ----------
    kernel : str or Kernel, default "rbf"
        Kernel of points k, a name of `bdr_stan.kernels.KERNELS` or an object.
    bandwidth : float, array of shape (p,), or "median", default "median"
        Of a kernel given by name, in the units of the points.
    outer : "linear", str or Kernel, default "linear"
        Kernel of kernel means: their inner product, or a kernel of the distance between them, by
        name or as an object of one bandwidth.
    outer_bandwidth : float or "median", default "median"
        Of an outer kernel given by name, in the units of RKHS distances; "median" is
        sqrt(median squared distance / 2) of the training bags.
    alpha : "loo", float or sequence of float, default "loo"
        Penalty on the squared RKHS norm of the regression function, > 0, beside the *mean*
        squared error. Of several the one with the lowest squared error on the validation bags of
        `fit`, else of leave-one-out cross-validation. "loo": of 49 from 10^-12 to 1 times the
        largest eigenvalue of the kernel matrix divided by the number of bags.
    landmarks : None, {"kmeans", "random"} or array, shape (d, p), default None
        None takes all pairs of points, exactly. With landmarks the kernel means are projected
        on the span of the kernel at these points (Nystrom), in one pass over the points.
    n_landmarks : int, default 60
        Where `landmarks` is a name.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    alpha_ : float
        Penalty chosen.
    kernel_ : Kernel, with its bandwidth as a number
    outer_ : Kernel, with its bandwidth as a number, or None for "linear"
    landmarks_ : array, shape (d, p), or None
    idata : InferenceData or DataTree
        posterior: intercept, dual (bag) and the scale and noise sd sigma of the predictive
        distribution, a single draw that is the estimate; inference_method is "ridge".

    Notes
    -----
    With K the kernel between bags, l their number and level the average label, the prediction
    for a bag B is

        level + (y - level)' (K + l alpha I)^-1 [K(B_1, B), .., K(B_l, B)]'

    which is also the posterior mean of a Gaussian process: y_i = level + f(B_i) + e_i, f ~
    GP(0, s^2 K), e_i ~ normal(0, s^2 l alpha). `predict(return_std=True)` and `predictive` report
    its predictive distribution of the *label*, noise included, with s^2 where the evidence is
    largest given alpha: s^2 = (y - level)' (K + l alpha I)^-1 (y - level) / l. Every kernel mean
    counts as exact, however few the points of its bag: use `BDR` where that matters. With
    landmarks, f is taken to vary in their span alone.

    Exact kernel means keep the training points; time grows with the pairs of points, memory
    with the square of the number of bags. Source: Szabo et al. (2016), "Learning theory for
    distribution regression".
    """

    def __init__(
        self,
        kernel="rbf",
        bandwidth="median",
        *,
        outer="linear",
        outer_bandwidth="median",
        alpha="loo",
        landmarks=None,
        n_landmarks=60,
        random_state=None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.outer = outer
        self.outer_bandwidth = outer_bandwidth
        self.alpha = alpha
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, bags, y, *, validation=None, seed=None):
        """Fit to bags and their labels.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
            Label of each bag.
        validation : (bags, y), optional
            Bags and labels by whose squared error alpha is chosen.
        seed : int, optional
            Seed of landmarks and of the sample for the median rule; default `random_state`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
        """
        bags = as_bags(bags)
        y = check_labels(bags, y)
        self._check_parameters()
        if validation is not None:
            if np.isscalar(self.alpha) and not isinstance(self.alpha, str):
                raise ValueError(
                    f"validation chooses alpha, but alpha is {self.alpha!r}: leave one of them out"
                )
            validation = checked_validation(validation, bags)
        seed = self.random_state if seed is None else seed
        kernel = resolve_kernel(self.kernel, self.bandwidth, bags, seed=seed)
        landmarks = None
        if self.landmarks is not None:
            by_name = isinstance(self.landmarks, str)
            landmarks = choose_landmarks(
                bags, self.n_landmarks if by_name else None, method=self.landmarks, seed=seed
            )
        vars(self).pop("_groups", None)  # an attempt that fails leaves no fit behind
        self._idata = None
        self.kernel_, self.landmarks_, self._training = kernel, landmarks, bags
        if landmarks is None:
            products = set_kernels(bags, [kernel])[0]
        else:
            self._coordinates = self._project(bags)
            products = self._coordinates @ self._coordinates.T
        return self._fit_products(products, y, validation)

    def _fit_products(self, products, y, validation=None):
        """Fit to the inner products of the kernel means of the training bags."""
        bags = self._training
        self._products, self._squares = products, products.diagonal()
        self.outer_ = outer_at_median(self.outer, self.outer_bandwidth, products)
        gram = between(self.outer_, products, self._squares, self._squares)
        self._path = path = KernelRidgePath(gram, y)
        alphas = path.alphas(self.alpha)
        dual = path.dual(alphas)
        best = 0
        if validation is not None:
            held, held_y = validation
            predicted = path.level + self._cross(held)[0] @ dual
            best = int(np.argmin(np.mean((predicted - held_y[:, None]) ** 2, axis=0)))
        elif len(alphas) > 1:
            best = int(np.argmin(path.leave_one_out(alphas)))
        self.alpha_ = float(alphas[best])
        self.n_features_in_ = bags.n_features
        self._set_feature_names(bags.features)
        scale = path.scale(self.alpha_)
        estimate = {
            "intercept": path.level,
            "dual": dual[:, best],
            "scale": scale,
            "sigma": scale * np.sqrt(len(y) * self.alpha_),
        }
        self._groups = named_groups(
            {name: np.asarray(value)[None, None] for name, value in estimate.items()},
            {},
            {"inference_method": "ridge"},
            self._constants(),
            np.arange(len(bags)) if bags.ids is None else np.asarray(bags.ids),
            y,
        )
        return self

    def predict(self, bags, return_std=False):
        """Predicted label of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        return_std : bool, default False
            Return the standard deviation of the label as well, by the Gaussian process.

        Returns
        -------
        mean : array, shape (n,), units of y
        sd : array, shape (n,), if `return_std`
        """
        if return_std:
            predictive = self.predictive(bags)
            return predictive.mean, predictive.sd
        return self._mean(self._cross(self._like_training(bags))[0])

    def predictive(self, bags):
        """Predictive distribution of the labels of new bags, by the Gaussian process.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        Predictive
        """
        cross, prior = self._cross(self._like_training(bags), norms=True)
        estimate = self._groups["posterior"]
        scale, sigma = (estimate[name].values[0, 0] for name in ("scale", "sigma"))
        left = np.maximum(prior - self._path.explained(cross, self.alpha_), 0)
        mean, sd = self._mean(cross), np.sqrt(scale**2 * left + sigma**2)
        return Predictive(lambda i: (mean[None, i], sd[None, i]), len(mean), 1)

    # ------------------------------------------------------------ parts of a fit

    def _mean(self, cross):
        estimate = self._groups["posterior"]
        return estimate["intercept"].values[0, 0] + cross @ estimate["dual"].values[0, 0]

    def _cross(self, bags, norms=False):
        """Kernel of new bags with the training bags, (m, n), and with themselves if `norms`."""
        if self.landmarks_ is None:
            products = set_kernels(bags, [self.kernel_], self._training)[0]
        else:
            own = self._project(bags)
            products = own @ self._coordinates.T
        squares = None
        if self.landmarks_ is not None:
            squares = np.sum(own**2, axis=1)
        elif norms or self.outer_ is not None:
            squares = bag_squared_norms(bags, point_weights(bags), self.kernel_)
        return self._between(products, squares)

    def _between(self, products, squares):
        if self.outer_ is None:
            return products, squares
        cross = between(self.outer_, products, squares, self._squares)
        return cross, np.full(len(squares), self.outer_.variance)

    def _project(self, bags):
        """Coordinates of kernel means in the span of the kernel at the landmarks, (m, r)."""
        eigenvalues, vectors = np.linalg.eigh(self.kernel_(self.landmarks_, self.landmarks_))
        kept = eigenvalues > eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
        root = vectors[:, kept] / np.sqrt(eigenvalues[kept])
        return embed(bags, self.landmarks_, None, kernel=self.kernel_).mean @ root

    def _check_parameters(self):
        check_outer(self.outer)
        if not isinstance(self.outer_bandwidth, str):
            check_bandwidth(self.outer_bandwidth, "outer_bandwidth")
            if isinstance(self.outer, Kernel) or self.outer == "linear":
                raise ValueError(
                    f"outer_bandwidth={self.outer_bandwidth!r} goes with the name of a kernel of "
                    f"the distance, but outer is {self.outer!r}"
                )
        elif self.outer_bandwidth != "median":
            raise ValueError(
                "outer_bandwidth must be 'median' or a positive number, found "
                f"{self.outer_bandwidth!r}"
            )
        if not (isinstance(self.alpha, str) and self.alpha == "loo"):
            check_alphas(self.alpha, "alpha", "'loo'")

    # ------------------------------------------------------------ files

    def _constants(self):
        constants = {
            "alpha": (self.alpha_, []),
            "bag_size": (self._training.sizes, ["bag"]),
            "products": (self._products, ["bag", "other_bag"]),
        }
        if self.landmarks_ is not None:
            return constants | {
                "landmarks": (self.landmarks_, ["landmark", "feature"]),
                "coordinates": (self._coordinates, ["bag", "coordinate"]),
            }
        constants["points"] = (self._training.points, ["point", "feature"])
        if self._training.weights is not None:
            constants["point_weight"] = (self._training.weights, ["point"])
        return constants

    def _config(self):
        config = super()._config()
        params = config["params"]
        for name in ("kernel", "outer"):
            if isinstance(params[name], Kernel):
                params[name] = kernel_config(params[name])
        if params["landmarks"] is not None and not isinstance(params["landmarks"], str):
            params["landmarks"] = "given"  # the array itself is in constant_data
        config["kernel"] = kernel_config(self.kernel_)
        config["outer"] = None if self.outer_ is None else kernel_config(self.outer_)
        return config

    def _restore(self, groups, config):
        super()._restore(groups, config)
        for name in ("kernel", "outer"):
            if isinstance(getattr(self, name), dict):
                setattr(self, name, kernel_of_config(getattr(self, name)))
        self.kernel_ = kernel_of_config(config["kernel"])
        self.outer_ = None if config["outer"] is None else kernel_of_config(config["outer"])
        if isinstance(self.bandwidth, list):
            self.bandwidth = np.array(self.bandwidth)
        constants = {name: array.values for name, array in groups["constant_data"].items()}
        self.alpha_ = float(constants["alpha"])
        self._products = constants["products"]
        self._squares = self._products.diagonal()
        self.landmarks_ = constants.get("landmarks")
        if self.landmarks_ is not None:
            self._coordinates = constants["coordinates"]
            self.n_features_in_ = self.landmarks_.shape[1]
            if isinstance(self.landmarks, str) and self.landmarks == "given":
                self.landmarks = self.landmarks_
        else:
            self._training = Bags.from_points(
                constants["points"],
                sizes=constants["bag_size"],
                weights=constants.get("point_weight"),
            )
            self.n_features_in_ = self._training.n_features
        gram = between(self.outer_, self._products, self._squares, self._squares)
        self._path = KernelRidgePath(gram, groups["observed_data"]["y"].values)
        return self


def checked_validation(validation, bags):
    """Validation bags and labels, once they are known to go with the training bags."""
    held = as_bags(validation[0])
    held_y = check_labels(held, validation[1])
    if held.n_features != bags.n_features:
        raise ValueError(
            f"the validation bags have {held.n_features} features a point, but the training bags "
            f"{bags.n_features}: pass the same columns in the same order"
        )
    return held, held_y


def check_outer(outer):
    """Raise unless this is "linear", or a kernel of the distance or the name of one."""
    if isinstance(outer, Kernel):
        number = isinstance(outer, Stationary) and np.ndim(outer.bandwidth) == 0
        if not number or outer.columns or outer.bandwidth == "ard":
            raise ValueError(
                "a kernel of kernel means must be one of the distance, with one bandwidth and no "
                f"columns, found {outer!r}"
            )
    elif not isinstance(outer, str) or outer not in ("linear", *KERNELS):
        names = ", ".join(map(repr, ("linear", *KERNELS)))
        raise ValueError(f"outer must be a kernel or one of {names}, found {outer!r}")


def check_alphas(alphas, name, otherwise):
    """Raise unless these are positive numbers; `otherwise` is what else could have been given."""
    try:
        values = np.atleast_1d(np.asarray(alphas, float))
    except (TypeError, ValueError):
        values = np.array([])
    if values.ndim != 1 or len(values) == 0 or not np.all((values > 0) & (values < np.inf)):
        raise ValueError(
            f"{name} must be {otherwise}, a positive number or several, found {alphas!r}"
        )
