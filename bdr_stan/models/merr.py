"""Mean embedding ridge regression: kernel ridge regression on the kernel means of bags.

The kernel of two bags is the mean of k over their pairs of points, or a second kernel of the
distance between their kernel means. `MERR` is one such regression, `MERRCV` chooses kernels and
penalty by labels held out, and averages several.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from bdr_stan.bags import Bags, as_bags, check_labels
from bdr_stan.embedding import embed
from bdr_stan.kernel_means import bag_squared_norms, resolve_kernel
from bdr_stan.kernels import (
    KERNELS,
    RBF,
    Kernel,
    Stationary,
    check_bandwidth,
    kernel_config,
    kernel_named,
    kernel_of_config,
    median_bandwidth,
)
from bdr_stan.landmarks import choose_landmarks
from bdr_stan.models.base import BagEstimator
from bdr_stan.models.groups import named_groups
from bdr_stan.predictive import Predictive
from bdr_stan.set_kernels import of_squares, point_weights, set_kernels

# Penalties tried by default, times the number of bags as parts of the largest eigenvalue.
_PENALTIES = np.geomspace(1e-12, 1, 49)
# Bandwidths tried by default by `MERRCV`, as parts of the median rule.
_SCALES = 2.0 ** np.arange(-2, 3)


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
            validation = _held_out(validation, bags)
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
        _check_outer(self.outer)
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
            _check_alphas(self.alpha, "alpha", "'loo'")

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


class MERRCV(RegressorMixin, BaseEstimator):
    """Mean embedding ridge regression with kernels and penalty chosen by labels held out.

    Parameters
    ----------
    kernels : list of Kernel, or dict of name -> list of Kernel, optional
        Kernels of points to try, their bandwidths numbers; a dict groups them by family. Default
        Gaussian kernels of 1/4, 1/2, 1, 2 and 4 times the median rule.
    outers : sequence of "linear", str or Kernel, default ("linear",)
        Kernels of kernel means to try; a name stands for that kernel at `outer_scales` times
        the median rule on the distances of the training bags.
    outer_scales : sequence of float, default (0.5, 1, 2)
    alphas : sequence of float, optional
        Penalties to try, see `MERR`; default 49 from 10^-12 to 1 times the largest eigenvalue of
        each kernel matrix divided by the number of bags.
    cv : int or scikit-learn splitter, default 5
        Folds by which to choose where `fit` gets no validation bags.
    average : bool, default False
        Predict by a weighted average of the best regression of every family of `kernels` with
        every entry of `outers`, instead of by the best of all.
    random_state : int, optional
        Seed of the sample of points behind the default kernels.

    Attributes
    ----------
    best_ : MERR
        Fitted with the kernels and penalty of the lowest held-out error.
    members_ : list of MERR
        Those averaged; ``[best_]`` unless `average`. Each can be saved.
    weights_ : array, shape (len(members_),), of sum 1
    table_ : pandas.DataFrame
        One row for each pair of kernels, best first: family, kernel, outer, alpha, rmse.

    Notes
    -----
    The kernels between all bags are computed once, whatever the number of folds. With validation
    bags the regressions are fitted to the training bags; after folds to all bags.

    The weights of an average are those on the simplex with the least squared error on the
    held-out labels (stacking). Members err much alike: weights by each member's own error would
    all but equal each other, and let a poor member in, while these leave out what adds nothing.
    Source: Breiman (1996), "Stacked regressions"; for the kernels and grids Szabo et al. (2016).
    """

    def __init__(
        self,
        kernels=None,
        *,
        outers=("linear",),
        outer_scales=(0.5, 1.0, 2.0),
        alphas=None,
        cv=5,
        average=False,
        random_state=None,
    ):
        self.kernels = kernels
        self.outers = outers
        self.outer_scales = outer_scales
        self.alphas = alphas
        self.cv = cv
        self.average = average
        self.random_state = random_state

    def fit(self, bags, y, *, validation=None, seed=None):
        """Choose kernels and penalty, and fit with these.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
        validation : (bags, y), optional
            Held-out bags and labels; default the folds of `cv`.
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
        y = check_labels(bags, y)
        self._check_parameters()
        seed = self.random_state if seed is None else seed
        families = self._families(bags, seed)
        if validation is None:
            together, labels = bags, y
            splits = list(check_cv(self.cv, y).split(np.arange(len(y)), y))
        else:
            held, held_y = _held_out(validation, bags)
            together, labels = _stack(bags, held), np.concatenate([y, held_y])
            splits = [(np.arange(len(y)), np.arange(len(y), len(labels)))]
        named = [(name, kernel) for name, kernels in families.items() for kernel in kernels]
        products = set_kernels(together, [kernel for _, kernel in named])
        self._choose(bags, y, named, products, labels, splits)
        return self

    def predict(self, bags):
        """Predicted label of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n,), units of y
        """
        check_is_fitted(self, "members_")
        bags = self.best_._like_training(bags)
        kernels = [member.kernel_ for member in self.members_]
        crosses = set_kernels(bags, kernels, self.best_._training)
        total = np.zeros(len(bags))
        for weight, member, products in zip(self.weights_, self.members_, crosses, strict=True):
            squares = None
            if member.outer_ is not None:
                squares = bag_squared_norms(bags, point_weights(bags), member.kernel_)
            total += weight * member._mean(member._between(products, squares)[0])
        return total

    def _choose(self, bags, y, named, products, labels, splits):
        """Score all candidates, and fit the best, or the best of each kind."""
        import pandas as pd

        n = len(y)
        candidates = [
            _Candidate(family, kernel, kind, outer, of_k)
            for (family, kernel), of_k in zip(named, products, strict=True)
            for kind, outer in self._outer_grid(of_k[:n, :n])
        ]
        with threadpool_limits(1, user_api="blas"):
            threads = Parallel(-1, require="sharedmem")
            score = delayed(_Candidate.held_out)
            scores = threads(score(each, labels, splits, self.alphas) for each in candidates)
        scores = [scores[c] for c in np.argsort([score.rmse for score in scores], kind="stable")]
        rows = [
            (s.of.family, repr(s.of.kernel), repr(s.of.outer or "linear"), s.alpha, s.rmse)
            for s in scores
        ]
        self.table_ = pd.DataFrame(rows, columns=["family", "kernel", "outer", "alpha", "rmse"])

        kinds = {}  # the best score of each, best first
        for score in scores if self.average else scores[:1]:
            kinds.setdefault((score.of.family, score.of.kind), score)
        held = np.concatenate([test for _, test in splits])
        weights = stacking_weights(
            np.column_stack([score.predictions for score in kinds.values()]), labels[held]
        )
        used = {m: score for m, score in enumerate(kinds.values()) if weights[m] > 0}
        fits = {m: score.fitted(bags, y) for m, score in {0: scores[0], **used}.items()}
        self.best_, self.members_ = fits[0], [fits[m] for m in used]
        self.weights_ = weights[list(used)]
        self.n_features_in_ = bags.n_features

    def _families(self, bags, seed):
        """Kernels by the name of their family, ready for these bags."""
        families = self.kernels
        if families is None:
            bandwidth = median_bandwidth(bags, seed=seed)
            families = [RBF(scale * bandwidth) for scale in _SCALES]
        if not isinstance(families, dict):
            families = {"all": families}
        return {
            name: [resolve_kernel(kernel, "median", bags, seed=seed) for kernel in kernels]
            for name, kernels in families.items()
        }

    def _outer_grid(self, products):
        """Pairs of the number of an entry of `outers` and a kernel of kernel means to try."""
        for kind, outer in enumerate(self.outers):
            kernel = outer_at_median(outer, "median", products)
            if not isinstance(outer, str) or kernel is None:
                yield kind, kernel
            else:
                for scale in self.outer_scales:
                    yield kind, replace(kernel, bandwidth=scale * kernel.bandwidth)

    def _check_parameters(self):
        kernels = self.kernels
        if kernels is not None:
            lists = kernels.values() if isinstance(kernels, dict) else [kernels]
            if not lists or not all(isinstance(k, (list, tuple)) and len(k) for k in lists):
                raise ValueError(
                    "kernels must be a list of kernels, or a dict of such lists by family, none of "
                    "them empty"
                )
            for kernel in (kernel for own in lists for kernel in own):
                if not isinstance(kernel, Kernel):
                    raise TypeError(f"kernels must hold kernels such as RBF(2.0), found {kernel!r}")
        if isinstance(self.outers, str) or not len(self.outers):
            raise ValueError(f"outers must be a sequence such as ('linear',), found {self.outers!r}")
        for outer in self.outers:
            _check_outer(outer)
        for scale in self.outer_scales:
            check_bandwidth(scale, "outer_scales")
        if self.alphas is not None:
            _check_alphas(self.alphas, "alphas", "None")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class _Candidate(NamedTuple):
    """Kernels to try."""

    family: str
    kernel: Kernel
    kind: int  # which entry of `outers`
    outer: Kernel | None
    products: np.ndarray  # inner products of the kernel means of all bags

    def held_out(self, y, splits, alphas):
        squares = self.products.diagonal()
        gram = between(self.outer, self.products, squares, squares)
        alphas, errors, predictions = held_out(gram, y, splits, alphas)
        best = int(np.argmin(errors))
        rmse = float(np.sqrt(errors[best]))
        return _Score(self, float(alphas[best]), rmse, predictions[:, best])


class _Score(NamedTuple):
    """A candidate with its best penalty."""

    of: _Candidate
    alpha: float
    rmse: float
    predictions: np.ndarray  # of the labels held out

    def fitted(self, bags, y):
        """The regression on all training bags, the first of the candidate's."""
        model = MERR(self.of.kernel, outer=self.of.outer or "linear", alpha=self.alpha)
        model.kernel_, model.landmarks_, model._training = self.of.kernel, None, bags
        return model._fit_products(self.of.products[: len(y), : len(y)].copy(), y)


def held_out(gram, y, splits, alphas=None):
    """Errors and predictions of kernel ridge regression on bags held out.

    Parameters
    ----------
    gram : array, shape (n, n)
        Kernel between all bags.
    y : array, shape (n,)
    splits : list of (training indices, held-out indices)
    alphas : sequence of l floats, optional
        Default those of `MERR` for the kernel between the first split's training bags.

    Returns
    -------
    alphas : array, shape (l,)
    errors : array, shape (l,), mean squared error over the bags held out in all splits
    predictions : array, shape (bags held out, l), split after split
    """
    predictions = []
    for train, test in splits:
        path = KernelRidgePath(gram[np.ix_(train, train)], y[train])
        alphas = path.alphas(alphas)
        predictions.append(path.level + gram[np.ix_(test, train)] @ path.dual(alphas))
    predictions = np.concatenate(predictions)
    truth = y[np.concatenate([test for _, test in splits])]
    return alphas, np.mean((predictions - truth[:, None]) ** 2, axis=0), predictions


def stacking_weights(predictions, y):
    """Weights >= 0 of sum 1 with the least squared error of the weighted average.

    Parameters
    ----------
    predictions : array, shape (n, k), of k models for labels held out
    y : array, shape (n,)

    Returns
    -------
    array, shape (k,)

    Notes
    -----
    Of w = t v with t > 0 and v on the simplex, |E w|^2 + c^2 (t - 1)^2 with E = predictions - y is
    least, over t, at a value that grows with |E v|^2: non-negative least squares finds v.

    Source: Breiman (1996), "Stacked regressions".
    """
    errors = predictions - y[:, None]
    size = np.sqrt(np.mean(errors**2)) or 1.0
    rows = np.vstack([errors / size, np.full(predictions.shape[1], np.sqrt(len(y)))])
    weights, _ = nnls(rows, np.append(np.zeros(len(y)), np.sqrt(len(y))))
    return weights / weights.sum()


def _held_out(validation, bags):
    """Validation bags and labels, once they are known to go with the training bags."""
    held = as_bags(validation[0])
    held_y = check_labels(held, validation[1])
    if held.n_features != bags.n_features:
        raise ValueError(
            f"the validation bags have {held.n_features} features a point, but the training bags "
            f"{bags.n_features}: pass the same columns in the same order"
        )
    return held, held_y


def _stack(bags, others):
    """All bags in one."""
    weights = None
    if bags.weights is not None or others.weights is not None:
        weights = np.concatenate([point_weights(bags), point_weights(others)])
    return Bags.from_points(
        np.concatenate([bags.points, others.points]),
        sizes=np.concatenate([bags.sizes, others.sizes]),
        weights=weights,
        features=bags.features,
    )


def _check_outer(outer):
    if isinstance(outer, Kernel):
        if not isinstance(outer, Stationary) or np.ndim(outer.bandwidth) or outer.columns:
            raise ValueError(
                "a kernel of kernel means must be one of the distance, with one bandwidth and no "
                f"columns, found {outer!r}"
            )
    elif not isinstance(outer, str) or outer not in ("linear", *KERNELS):
        names = ", ".join(map(repr, ("linear", *KERNELS)))
        raise ValueError(f"outer must be a kernel or one of {names}, found {outer!r}")


def _check_alphas(alphas, name, otherwise):
    try:
        values = np.atleast_1d(np.asarray(alphas, float))
    except (TypeError, ValueError):
        values = np.array([])
    if values.ndim != 1 or len(values) == 0 or not np.all((values > 0) & (values < np.inf)):
        raise ValueError(
            f"{name} must be {otherwise}, a positive number or several, found {alphas!r}"
        )
