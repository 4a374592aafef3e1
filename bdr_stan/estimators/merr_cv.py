"""Mean embedding ridge regression whose kernels and penalty are chosen by labels held out."""

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
from bdr_stan.kernel_means.kernel_mean import bag_squared_norms, resolve_kernel
from bdr_stan.kernels import RBF, Kernel, check_bandwidth, median_bandwidth
from bdr_stan.estimators.merr import (
    MERR,
    KernelRidgePath,
    between,
    check_alphas,
    check_outer,
    checked_validation,
    outer_at_median,
)
from bdr_stan.kernel_means.set_kernels import point_weights, set_kernels

# Bandwidths tried by default, as parts of the median rule.
_SCALES = 2.0 ** np.arange(-2, 3)


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
            held, held_y = checked_validation(validation, bags)
            together, labels = stacked_bags(bags, held), np.concatenate([y, held_y])
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
            check_outer(outer)
        for scale in self.outer_scales:
            check_bandwidth(scale, "outer_scales")
        if self.alphas is not None:
            check_alphas(self.alphas, "alphas", "None")

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


def stacked_bags(bags, others):
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
