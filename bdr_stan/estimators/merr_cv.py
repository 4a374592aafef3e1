"""Mean embedding ridge regression with kernels and penalty chosen on held-out labels."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from itertools import chain, compress
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.model_selection import BaseCrossValidator, check_cv

from bdr_stan.bags import Bags, BagsLike, as_bags, check_labels
from bdr_stan.estimators.base import BagRegressor
from bdr_stan.estimators.merr import MERR
from bdr_stan.estimators.validation import check_folds, checked_splits, checked_validation
from bdr_stan.kernel_means.outer_kernels import between, check_outer, resolved_outer
from bdr_stan.kernel_means.ridge_path import held_out, stacking_weights
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernels import RBF, Kernel, Stationary, check_kernel, resolve_kernel
from bdr_stan.parameters import estimator
from bdr_stan.results.arviz_groups import estimate_groups
from bdr_stan.results.result import Result
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike, Seed, check_flags

# Bandwidths tried by default, and for outer kernels by name, as parts of the median rule.
_POINT_SCALES = 2.0 ** np.arange(-2, 3)
_OUTER_SCALES = 0.5, 1.0, 2.0

Kernels = Sequence[str | Kernel]


@estimator
class MERRCV(BagRegressor):
    """Mean embedding ridge regression with kernels and penalty chosen by labels held out.

    Parameters
    ----------
    kernels : list of str or Kernel, or dict of name -> such a list, optional
        Kernels of points to try, a name that kernel at the median rule; a dict groups them by
        family. Default Gaussian kernels of 1/4, 1/2, 1, 2 and 4 times the median rule.
    outers : sequence of "linear", str or Kernel, default ("linear",)
        Kernels of kernel means to try; a name means that kernel at 1/2, 1 and 2 times the median
        rule on the distances of the training bags.
    cv : int or scikit-learn splitter, default 5
        Folds for the choice if `fit` has no validation bags.
    average : bool, default False
        Predict by a weighted average of the best regression of every family of `kernels` with
        every entry of `outers`, instead of by the best of all.

    Attributes
    ----------
    best_ : MERR
        Fitted with the kernels and penalty of the lowest held-out error.
    members_ : list of MERR
        Those averaged; ``[best_]`` unless `average`.
    weights_ : array, one number a member, of sum 1
    table_ : pandas.DataFrame
        One row for each pair of kernels, best first: family, kernel, outer, alpha, rmse.
    idata : InferenceData or DataTree
        posterior: weights of the best and the other averaged regressions, a single draw; each has
        its own `idata`.

    Notes
    -----
    Each kernel between all bags is computed once, whatever the number of folds. With validation
    bags the regressions are fitted to the training bags; after folds to all bags.

    The weights of an average are those on the simplex with the least squared error on the
    held-out labels (stacking). Errors of members are similar: weights by each member's own error
    would be nearly equal and include poor members, which stacking excludes. Source: Breiman (1996),
    "Stacked regressions"; for the kernels and grids Szabo et al. (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import MERRCV, RBF
    >>> rng = np.random.default_rng(0)
    >>> sd = rng.uniform(0.5, 2, size=40)
    >>> bags = [rng.normal(scale=scale, size=(50, 1)) for scale in sd]
    >>> model = MERRCV([RBF(1.0), RBF(30.0)], outers=["linear", "rbf"])
    >>> model = model.fit(bags, np.log(sd), seed=1)
    >>> model.best_.kernel_.bandwidth
    1.0
    >>> model.table_.shape
    (8, 5)
    >>> model.predict(bags[:3]).shape
    (3,)
    """

    kernels: Kernels | Mapping[str, Kernels] | None = None
    _: KW_ONLY
    outers: Sequence[str | Stationary] = ("linear",)
    cv: int | BaseCrossValidator = 5
    average: bool = False
    random_state: int | None = None

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        validation: tuple[BagsLike, ArrayLike] | None = None,
        seed: Seed = None,
    ) -> Self:
        """Choose kernels and penalty, and fit with them.

        Parameters
        ----------
        validation : (bags, y), optional
            Held-out bags and labels; default the folds of `cv`.
        """
        bags = as_bags(bags)
        y = check_labels(bags, y)
        self.check_parameters()
        seed = self.checked_seed(seed)
        families = self._families(bags, seed)
        together, labels = bags, y
        if validation is None:
            check_folds(self.cv, len(y))
            splits = checked_splits(check_cv(self.cv, y).split(bags, y), y)
        else:
            others, of_others = checked_validation(validation, bags)
            together, labels = Bags.concatenate([bags, others]), np.concatenate([y, of_others])
            splits = [(np.arange(len(y)), np.arange(len(y), len(labels)))]
        self._forget()

        if together.is_memory_map:
            together.check_values()
        candidates = [
            (family, kernel, kind, outer, products)
            for family, kernels in families.items()
            for kernel in kernels
            for products in [BagMeans(together, kernel).products()]
            for kind, outer in self._outer_grid(products[: len(y), : len(y)])
        ]
        scores = list(map_in_threads(partial(_score, y=labels, splits=splits), candidates, None))
        scores.sort(key=lambda score: score.rmse)
        kinds: dict[Any, _Score] = {}  # the best score of each kind, best first
        for score in scores if self.average else scores[:1]:
            kinds.setdefault((score.family, score.kind), score)
        weights = stacking_weights(
            np.column_stack([score.predictions for score in kinds.values()]),
            labels[np.concatenate([test for _, test in splits])],
        )
        # The best of all is kept even if the average does not use it.
        used = np.array([m == 0 or weight > 0 for m, weight in enumerate(weights)])
        members = tuple(score.fitted(bags, y) for score in compress(kinds.values(), used))
        sizes = {"bag_size": (bags.sizes, ["bag"])}
        groups = estimate_groups({"weight": weights[used]}, "ridge", sizes, bags.index, y)
        return self._keep(Result(groups, {"table": _table(scores)}, members), bags)

    def predict(self, bags: BagsLike) -> Array:
        bags = self.like_training(bags)
        return self.weights_ @ [member.predict(bags) for member in self.members_]

    # ------------------------------------------------------------ parts of a fit

    def _set_fitted(self, result):
        weights = result.draws("weight")[0]
        self.best_ = result.members[0]
        self.members_ = [m for m, w in zip(result.members, weights, strict=True) if w > 0]
        self.weights_ = weights[weights > 0]
        self.table_ = result.settings["table"]

    def _families(self, bags, seed):
        """Kernels by the name of their family, ready for these bags."""
        families = self.kernels
        if families is None:
            families = [RBF().resolved(bags, seed=seed).scaled(scale) for scale in _POINT_SCALES]
        if not isinstance(families, dict):
            families = {"all": families}
        return {
            name: [resolve_kernel(kernel, "scaled", bags, seed=seed) for kernel in kernels]
            for name, kernels in families.items()
        }

    def _outer_grid(self, products):
        """Pairs of the number of an entry of `outers` and a kernel of kernel means to try."""
        for kind, outer in enumerate(self.outers):
            kernel = resolved_outer(outer, products)
            if not isinstance(outer, str) or kernel is None:
                yield kind, kernel
            else:
                for scale in _OUTER_SCALES:
                    yield kind, kernel.scaled(scale)

    def check_parameters(self) -> None:
        kernels = self.kernels
        if kernels is not None:
            lists = kernels.values() if isinstance(kernels, dict) else [kernels]
            if not lists or not all(isinstance(k, (list, tuple)) and len(k) for k in lists):
                raise ValueError(
                    "kernels must be a list of kernels, or a dict of such lists by family, none of "
                    "them empty"
                )
            for kernel in chain.from_iterable(lists):
                check_kernel(kernel)
        if isinstance(self.outers, str) or not isinstance(self.outers, Sequence) or not self.outers:
            raise ValueError(
                f"outers must be a sequence such as ('linear',), found {self.outers!r}"
            )
        for outer in self.outers:
            check_outer(outer)
        check_flags(average=self.average)


class _Score(NamedTuple):
    """Kernels that were tried, with their best penalty."""

    family: str
    kernel: Kernel
    kind: int  # which entry of `outers`
    outer: Stationary | None
    alpha: float
    rmse: float
    predictions: Array  # of the labels held out

    def fitted(self, bags, y):
        """The regression on all training bags."""
        return MERR(self.kernel, outer=self.outer or "linear", alpha=self.alpha).fit(bags, y)


def _score(candidate, y, splits):
    *kernels, outer, products = candidate
    squares = products.diagonal()
    alphas, errors, predictions = held_out(between(outer, products, squares, squares), y, splits)
    best = int(np.argmin(errors))
    rmse = float(np.sqrt(errors[best]))
    return _Score(*kernels, outer, float(alphas[best]), rmse, predictions[:, best])


def _table(scores):
    import pandas as pd

    rows = [(s.family, repr(s.kernel), repr(s.outer or "linear"), s.alpha, s.rmse) for s in scores]
    return pd.DataFrame(rows, columns=["family", "kernel", "outer", "alpha", "rmse"])
