"""Mean embedding ridge regression: kernel ridge regression on the kernel means of bags.

The kernel of two bags is the mean of k over their pairs of points, or a second kernel of the
distance between their kernel means. The regression is `bdr_stan.kernel_means.ridge_path`.
"""

from dataclasses import KW_ONLY
from functools import cached_property
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import Bags, BagsLike, as_bags, check_outputs, output_names
from bdr_stan.bags.checks import offsets_of_sizes
from bdr_stan.estimators.base import ProbabilisticRegressor
from bdr_stan.estimators.validation import check_alpha
from bdr_stan.kernel_means.ridge_path import KernelRidgePath
from bdr_stan.kernel_means.set_kernels import BagMeans, between, check_outer, resolved_outer
from bdr_stan.kernels import Kernel, Stationary, check_kernel_and_bandwidth, resolve_kernel
from bdr_stan.parameters import estimator
from bdr_stan.predictive import Predictive
from bdr_stan.results.arviz_groups import estimate_groups
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike, Seed


@estimator
class MERR(ProbabilisticRegressor):
    """Mean embedding ridge regression: kernel ridge regression on the kernel means of bags.

    Parameters
    ----------
    outer : "linear", str or Kernel, default "linear"
        Kernel of kernel means: their inner product, or a kernel of the distance between them, as
        an object of one bandwidth, in the units of RKHS distances, or by name, with the bandwidth
        sqrt(median squared distance / 2) of the training bags.
    alpha : "loo", float or sequence of float, default "loo"
        Penalty on the squared RKHS norm of the regression function, > 0, added to the *mean*
        squared error. From several the one with the lowest squared error of leave-one-out
        cross-validation, in sum over the outputs. "loo": 49 from 10^-12 to 1 times the largest
        eigenvalue of the kernel matrix divided by the number of bags.

    Attributes
    ----------
    alpha_ : float
        Penalty chosen.
    kernel_ : Kernel, with its bandwidth as a number
    outer_ : Kernel, with its bandwidth as a number, or None for "linear"
    means_ : BagMeans
        Kernel means of the training bags.
    idata : InferenceData or DataTree
        posterior: intercept, dual (bag) and the scale and noise sd sigma of the predictive
        distribution, a single draw that is the estimate; inference_method is "ridge".

    Notes
    -----
    With K the kernel between bags, l their number and level the average label, the prediction
    for a bag B is

        level + (y - level)' (K + l alpha I)^-1 [K(B_1, B), ..., K(B_l, B)]'

    which is also the posterior mean of a Gaussian process: y_i = level + f(B_i) + e_i, f ~
    GP(0, s^2 K), e_i ~ normal(0, s^2 l alpha). `predict(return_std=True)` and `predictive` report
    its predictive distribution of the *label*, noise included, with the s^2 of largest evidence
    given alpha: s^2 = (y - level)' (K + l alpha I)^-1 (y - level) / l. Every kernel mean is treated
    as exact, however few the points of its bag: use `BDR` if this matters. With landmarks, f varies
    only in their span.

    Several outputs, y of shape (n, k), have kernels and alpha in common, so standardise them if
    their units differ; otherwise each has a regression of its own, as for y of shape (n,).

    Exact kernel means keep the training points; time grows with the pairs of points, memory
    with the square of the number of bags. Source: Szabo et al. (2016), "Learning theory for
    distribution regression".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import MERR
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(50, 1)) for mean in y]
    >>> model = MERR(outer="rbf").fit(bags[:30], y[:30], seed=1)
    >>> bool(model.score(bags[30:], y[30:]) > 0.9)
    True
    """

    takes_outputs = True

    kernel: str | Kernel = "rbf"
    bandwidth: ArrayLike | str = "scaled"
    _: KW_ONLY
    outer: str | Stationary = "linear"
    alpha: str | ArrayLike = "loo"
    random_state: int | None = None

    def fit(self, bags: BagsLike, y: ArrayLike, *, seed: Seed = None) -> Self:
        """Fit to bags and their labels.

        Parameters
        ----------
        """
        bags = as_bags(bags)
        outputs = output_names(y)
        y = check_outputs(bags, y, outputs)
        self.check_parameters()
        seed = self.checked_seed(seed)
        kernel = resolve_kernel(self.kernel, self.bandwidth, bags, seed=seed)
        self._forget()

        products = _means(bags, kernel).products()
        squares = products.diagonal()
        outer = resolved_outer(self.outer, products)
        path = KernelRidgePath(between(outer, products, squares, squares), y)
        alphas = path.alphas(self.alpha)
        dual = path.dual(alphas)
        best = path.best(alphas)
        alpha, scale = float(alphas[best]), path.scale(alphas[best])
        estimate = {
            "intercept": path.level,
            "dual": dual[:, best],
            "scale": scale,
            "sigma": scale * np.sqrt(len(y) * alpha),
        }
        groups = estimate_groups(
            estimate,
            "ridge",
            {
                "alpha": (alpha, []),
                "bag_size": (bags.sizes, ["bag"]),
                "products": (products, ["bag", "other_bag"]),
                "points": (bags.points, ["point", "feature"]),
                **({} if bags.weights is None else {"point_weight": (bags.weights, ["point"])}),
            },
            bags.index,
            y,
            outputs,
        )
        settings = {"kernel": kernel, "outer": outer, "outputs": outputs}
        self._keep(Result(groups, settings), bags)
        self._path = path  # for `predictive`, at the cost of an eigendecomposition
        return self

    def predict(self, bags: BagsLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        means = _means(self.like_training(bags), self.kernel_)
        squares = means.squared_norms() if return_std or self.outer_ is not None else None
        cross = between(self.outer_, means.products(self.means_), squares, self._squares)
        mean = self.result_.draws("intercept")[0] + cross @ self.result_.draws("dual")[0]
        if not return_std:  # which needs no eigendecomposition
            return mean
        variance = squares if self.outer_ is None else np.full(len(mean), self.outer_.variance)
        return mean, self._path.label_sd(cross, variance, self.alpha_)

    def predictive(self, bags: BagsLike) -> Predictive:
        """Predictive distribution of the labels, (n,), of new bags, by the Gaussian process.

        Returns
        -------
        Predictive
        """
        check_is_fitted(self, "result_")
        if self.result_.settings.get("outputs"):
            raise TypeError(
                "a predictive distribution is of one label per bag, but the model has several "
                "outputs: use predict(bags, return_std=True), or fit a model to each"
            )
        mean, sd = self.predict(bags, return_std=True)
        return Predictive(lambda i: (mean[None, i], sd[None, i]), len(mean), 1)

    # ------------------------------------------------------------ parts of a fit

    def _set_fitted(self, result):
        constants = result.constants
        self.kernel_, self.outer_ = result.settings["kernel"], result.settings["outer"]
        self.alpha_ = float(constants["alpha"])
        offsets = offsets_of_sizes(constants["bag_size"])
        weights = constants.get("point_weight")
        bags = Bags(constants["points"], offsets, weights=weights, copy=False)
        self.means_ = BagMeans(bags, self.kernel_)
        self._squares = constants["products"].diagonal()
        vars(self).pop("_path", None)

    @cached_property
    def _path(self):
        products = self.result_.constants["products"]
        gram = between(self.outer_, products, self._squares, self._squares)
        return KernelRidgePath(gram, self.result_.labels)

    def check_parameters(self) -> None:
        check_kernel_and_bandwidth(self.kernel, self.bandwidth)
        check_outer(self.outer)
        check_alpha(self.alpha)


def _means(bags, kernel):
    """Kernel means of bags."""
    if bags.is_memory_map:
        bags.check_values()
    return BagMeans(bags, kernel)
