"""Mean embedding ridge regression with kernels and penalty chosen on held-out labels."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import Bags, BagsLike, as_bags, check_outputs, output_names
from bdr_stan.estimators.base import BagRegressor
from bdr_stan.estimators.merr import MERR
from bdr_stan.estimators.validation import check_folds, checked_splits, checked_validation
from bdr_stan.kernel_means.outer_kernels import between, check_outer, resolved_outer
from bdr_stan.kernel_means.ridge_path import held_out
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernels import RBF, Kernel, Stationary, check_kernel, resolve_kernel
from bdr_stan.parameters import estimator
from bdr_stan.results.inference_data import InferenceData
from bdr_stan.results.result import Result
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike, Seed

# Bandwidths tried by default, and for outer kernels by name, as parts of the median rule.
_POINT_SCALES = 2.0 ** np.arange(-2, 3)
_OUTER_SCALES = 0.5, 1.0, 2.0


@estimator
class MERRCV(BagRegressor):
    """Mean embedding ridge regression with kernels and penalty chosen by labels held out.

    Parameters
    ----------
    kernels : list of str or Kernel, optional
        Kernels of points to try, a name that kernel at the median rule. Default Gaussian kernels of
        1/4, 1/2, 1, 2 and 4 times the median rule.
    outers : sequence of "linear", str or Kernel, default ("linear",)
        Kernels of kernel means to try; a name means that kernel at 1/2, 1 and 2 times the median
        rule on the distances of the training bags.
    cv : int or scikit-learn splitter, default 5
        Folds for the choice if `fit` has no validation bags.

    Attributes
    ----------
    best_ : MERR
        Fitted with the kernels and penalty of the lowest held-out error.
    table_ : pandas.DataFrame
        One row for each pair of kernels, best first: kernel, outer, alpha, rmse.

    Notes
    -----
    The kernels between all bags are computed once, whatever the number of folds. With validation
    bags the best regression is fitted to the training bags; after folds to all bags. Source of the
    kernels and grids: Szabo et al. (2016).

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
    (8, 4)
    """

    takes_outputs = True

    kernels: Sequence[str | Kernel] | None = None
    _: KW_ONLY
    outers: Sequence[str | Stationary] = ("linear",)
    cv: int | BaseCrossValidator = 5
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
        outputs = output_names(y)
        labels = check_outputs(bags, y, outputs)
        self.check_parameters()
        seed = self.checked_seed(seed)
        kernels = self._kernels(bags, seed)
        together, n = bags, len(labels)
        if validation is None:
            check_folds(self.cv, n)
            splits = checked_splits(check_cv(self.cv, labels).split(bags, labels), labels)
        else:
            check = partial(check_outputs, outputs=outputs)
            others, of_others = checked_validation(validation, bags, check)
            together, labels = Bags.concatenate([bags, others]), np.concatenate([labels, of_others])
            splits = [(np.arange(n), np.arange(n, len(labels)))]
        self._forget()

        if together.is_memory_map:
            together.check_values()
        grams = ((kernel, BagMeans(together, kernel).products()) for kernel in kernels)
        candidates = [
            (kernel, outer, gram)
            for kernel, gram in grams
            for outer in self._outer_grid(gram[:n, :n])
        ]
        scores = list(map_in_threads(partial(_score, y=labels, splits=splits), candidates, None))
        scores.sort(key=lambda score: score.rmse)
        best = scores[0]
        model = MERR(best.kernel, outer=best.outer or "linear", alpha=best.alpha).fit(bags, y)
        return self._keep(Result({}, {"table": _table(scores), "outputs": outputs}, (model,)), bags)

    @property
    def idata(self) -> InferenceData:
        """The fit of `best_` as an ArviZ object."""
        check_is_fitted(self, "result_")
        return self.best_.idata

    def predict(self, bags: BagsLike) -> Array:
        bags = self.like_training(bags)
        return self.best_.predict(bags)

    # ------------------------------------------------------------ parts of a fit

    def _set_fitted(self, result):
        (self.best_,) = result.members
        self.table_ = result.settings["table"]

    def _kernels(self, bags, seed):
        """Kernels of points to try, ready for these bags."""
        if self.kernels is None:
            return [RBF().resolved(bags, seed=seed).scaled(scale) for scale in _POINT_SCALES]
        return [resolve_kernel(kernel, "scaled", bags, seed=seed) for kernel in self.kernels]

    def _outer_grid(self, products):
        """Kernels of kernel means to try."""
        for outer in self.outers:
            kernel = resolved_outer(outer, products)
            if not isinstance(outer, str) or kernel is None:
                yield kernel
            else:
                yield from (kernel.scaled(scale) for scale in _OUTER_SCALES)

    def check_parameters(self) -> None:
        kernels = self.kernels
        if kernels is not None:
            if not isinstance(kernels, (list, tuple)) or not kernels:
                raise ValueError(f"kernels must be a list of kernels, found {kernels!r}")
            for kernel in kernels:
                check_kernel(kernel)
        if isinstance(self.outers, str) or not isinstance(self.outers, Sequence) or not self.outers:
            raise ValueError(
                f"outers must be a sequence such as ('linear',), found {self.outers!r}"
            )
        for outer in self.outers:
            check_outer(outer)


class _Score(NamedTuple):
    """Kernels that were tried, with their best penalty."""

    kernel: Kernel
    outer: Stationary | None
    alpha: float
    rmse: float


def _score(candidate, y, splits):
    kernel, outer, products = candidate
    squares = products.diagonal()
    alphas, errors, _ = held_out(between(outer, products, squares, squares), y, splits)
    best = int(np.argmin(errors))
    return _Score(kernel, outer, float(alphas[best]), float(np.sqrt(errors[best])))


def _table(scores):
    import pandas as pd

    rows = [(repr(s.kernel), repr(s.outer or "linear"), s.alpha, s.rmse) for s in scores]
    return pd.DataFrame(rows, columns=["kernel", "outer", "alpha", "rmse"])
