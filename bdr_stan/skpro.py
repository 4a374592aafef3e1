"""Regressors on bags as probabilistic regressors of skpro, on tables with one row per bag.

Needs the extra "skpro": ``pip install 'bdr-stan[skpro]'``.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.checks import plain
from bdr_stan.bags.matching import check_same_rows, match_to_ids
from bdr_stan.extras import require
from bdr_stan.predictive.distributions import distance_to, distance_within, even_quantiles
from bdr_stan.types import Array, is_integer

require("bdr_stan.skpro needs skpro: pip install 'bdr-stan[skpro]'", "skpro")

from skpro.distributions.base import BaseDistribution  # noqa: E402
from skpro.regression.base import BaseProbaRegressor  # noqa: E402

__all__ = ["SkproDistribution", "SkproRegressor"]

_SHOWN = 3  # ids or columns in messages


class SkproRegressor(BaseProbaRegressor):
    """A regressor on bags as a probabilistic regressor of skpro.

    skpro's regressors need a table with one row per label. Here a row has the id of its bag, and
    `bags` has the points of all bags, for `fit` and for predictions. A bag may have several rows,
    for example in a bootstrap.

    Parameters
    ----------
    estimator : regressor of bdr_stan with `predictive`
        For example BDR, BLR, Shrinkage, InverseBDR, Stacked, MERR or AggregateRegressor. `fit` fits
        a copy.
    bags : Bags, or any other bags that the estimator's `fit` accepts
        Bags without ids are named 0 to n - 1.
    bag : column of X with the ids, or level of its index of this name; default ``bags.id_name``
        skpro refuses columns of text: text ids are the index, or of dtype category. Other columns
        of X are columns of the bags' metadata for the estimator's `covariates`, `groups` and
        `smooths`, and replace columns of the same name in ``bags.metadata``.
    fit_options : dict, optional
        Arguments of the estimator's `fit` by name, for example ``{"draws": 500, "trials":
        "tested"}``; `trials`, `exposure`, `offset` and `label_sd` are names of columns.

    Attributes
    ----------
    estimator_
        The fitted copy, with its `report()` and all else.

    Raises
    ------
    TypeError
        By `fit`: an estimator without a predictive distribution of numbers; labels of several
        columns; columns of text.
    ValueError
        By `fit` and the predictions: X has no such column, or an id that no bag has; labels with an
        index that is neither X's nor ids; all errors of the estimator's own `fit`.

    Notes
    -----
    The scores of skpro use the exact density, distribution function and quantiles of the
    predictive distribution, and for CRPS 200 even quantiles as `bdr_stan.metrics.crps` does. Counts
    have `pmf` and `log_pmf`, and by skpro's convention a density of 0.

    Source: the interface of skpro's ``BaseProbaRegressor``.

    Examples
    --------
    >>> import pandas as pd
    >>> from bdr_stan import BLR, Bags
    >>> from bdr_stan.datasets import county_table
    >>> from bdr_stan.skpro import SkproRegressor
    >>> bags = Bags.from_dataframe(county_table(40), "county", metadata=["vote"])
    >>> X, y = pd.DataFrame(index=bags.ids).rename_axis("county"), bags.metadata[["vote"]]
    >>> model = SkproRegressor(BLR(8, method="exact"), bags, fit_options={"seed": 1})
    >>> list(model.fit(X[:30], y[:30]).predict_interval(X[30:], coverage=0.9).columns)
    [('vote', 0.9, 'lower'), ('vote', 0.9, 'upper')]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "capability:multioutput": False,
        "capability:missing": False,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
    }

    def __init__(
        self,
        estimator: Any,
        bags: BagsLike,
        bag: str | None = None,
        fit_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.estimator, self.bags, self.bag, self.fit_options = estimator, bags, bag, fit_options
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> "SkproRegressor":
        self._check_estimator()
        if y.shape[1] != 1:
            raise TypeError(f"y has {y.shape[1]} columns, expected one: fit a model to each")
        bags, ids = self._bags_of(X)
        same_rows = X.index.isin(y.index).all()
        if X.index.dtype.kind in "iu" and not same_rows and not np.isin(ids, y.index).all():
            check_same_rows(X, y, ("X", "y"))
        labels = match_to_ids(y, X.index if same_rows else ids, "y")
        options = self.fit_options or {}
        self.estimator_ = clone(self.estimator).fit(bags, labels.iloc[:, 0].to_numpy(), **options)
        return self

    def _predict_proba(self, X: pd.DataFrame) -> "SkproDistribution":
        if not hasattr(self, "estimator_"):
            raise NotFittedError("this SkproRegressor is not fitted: call fit(X, y) first")
        bags, _ = self._bags_of(X)
        return SkproDistribution(self.estimator_.predictive, bags, X.index, self._get_columns())

    def _check_X(self, X: Any, return_metadata: bool = False) -> Any:
        text = X.select_dtypes(object).columns if isinstance(X, pd.DataFrame) else []
        if len(text):
            raise TypeError(
                f"column {text[0]!r} of X has the dtype object, which skpro refuses: pass "
                f"X.astype({{{text[0]!r}: 'category'}}), or ids of bags as the index of X"
            )
        return super()._check_X(X, return_metadata)

    def _check_estimator(self) -> None:
        name = type(self.estimator).__name__
        if not hasattr(self.estimator, "predictive") or hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"estimator must be a regressor of bdr_stan with a predictive distribution, found "
                f"{name}: pass one such as BDR()"
            )
        if is_classifier(self.estimator):
            raise TypeError(
                "skpro's labels are numbers, but family='ordinal' has categories: use "
                f"{name} itself"
            )
        if not isinstance(self.fit_options, Mapping | None):
            raise TypeError(
                f"fit_options must be a dict of arguments of {name}.fit, found {self.fit_options!r}"
            )

    def _bags_of(self, X: pd.DataFrame) -> tuple[Any, Array]:
        """Bags of the rows of X, with its columns as their metadata, and their ids."""
        bags = as_bags(self.bags, in_parts=True, samples=True)
        ids = _ids(X, bags.id_name if self.bag is None else self.bag)
        index = pd.Index(bags.index)
        rows = index.get_indexer(ids)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            shown = ", ".join(repr(plain(name)) for name in index[:_SHOWN])
            raise ValueError(
                f"row {unknown[0]} of X names the bag {plain(ids[unknown[0]])!r} "
                f"({len(unknown)} such rows), but bags has {len(index)} others, such as {shown}: "
                "pass the bags of all rows, of fits and predictions, as bags"
            )
        chosen = bags.take(rows)
        metadata = X.set_axis(pd.Index(ids), axis=0)
        if chosen.metadata is not None:
            rest = chosen.metadata.drop(columns=metadata.columns, errors="ignore")
            metadata = pd.concat([metadata, rest.set_axis(metadata.index, axis=0)], axis=1)
        chosen.metadata = metadata
        return chosen, ids


def _ids(X, bag):
    """Ids of the bags of the rows of a table, from its column or a level of its index."""
    if bag in X.columns:
        return X[bag].to_numpy()
    if bag in X.index.names:
        return X.index.get_level_values(bag).to_numpy()
    shown = ", ".join(repr(plain(name)) for name in X.columns[:_SHOWN])
    raise ValueError(
        f"X has no column and no level of its index {bag!r} with the bag of each row; its first "
        f"columns are {shown}: add it, or name another with bag="
    )


class SkproDistribution(BaseDistribution):
    """Predictive distribution of a fitted regressor on bags, as a distribution of skpro.

    Parameters
    ----------
    predict : callable
        ``predict(bags)`` returns the predictive distribution of bags: `predictive` of a fit.
    bags : n Bags, or any other bags that `predict` accepts
    index : pandas.Index, n rows, optional
        Without it and `columns`, for a single bag, the distribution is a scalar of skpro.
    columns : pandas.Index of one name, optional

    Notes
    -----
    `predict_proba` of `SkproRegressor` returns it.

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> from bdr_stan.skpro import SkproDistribution
    >>> bags, y = digits_bags(40, seed=1)
    >>> model = BLR(5, method="exact").fit(bags, y, seed=1)
    >>> predicted = SkproDistribution(model.predictive, bags[:3], ["a", "b", "c"], ["y"])
    >>> predicted.shape, predicted.iloc[[0, 2]].shape
    ((3, 1), (2, 1))
    """

    _tags: ClassVar[dict[str, Any]] = {
        "capabilities:exact": ["mean", "var", "pdf", "log_pdf", "pmf", "log_pmf", "cdf", "ppf"],
        "capabilities:approx": ["energy", "pdfnorm"],
        "distr:measuretype": "continuous",
        "distr:paramtype": "nonparametric",
    }

    def __init__(
        self,
        predict: Callable[[Any], Any],
        bags: BagsLike,
        index: Any = None,
        columns: Any = None,
    ) -> None:
        self.predict, self.bags = predict, bags
        super().__init__(index=index, columns=columns)
        self._predictive = predict(bags)
        if self._predictive.is_count:
            self.set_tags(**{"distr:measuretype": "discrete"})

    def _iloc(self, rowidx: Any = None, colidx: Any = None) -> "SkproDistribution":
        if is_integer(rowidx) and is_integer(colidx):
            return self._iat(rowidx, colidx)
        every = np.arange(len(self.index))
        rows = every if rowidx is None else np.atleast_1d(every[rowidx])
        columns = self.columns if colidx is None else self.columns[np.atleast_1d(colidx)]
        if np.array_equal(rows, every):
            return self
        return type(self)(self.predict, self._take(rows), self.index[rows], columns)

    def _iat(self, rowidx: int | None = None, colidx: int | None = None) -> "SkproDistribution":
        return type(self)(self.predict, self._take([rowidx]))

    def _take(self, rows):
        return as_bags(self.bags, in_parts=True, samples=True).take(rows)

    def _shaped(self, values):
        """Values of the bags, shape (n,), in the shape of the distribution, (n, 1) or ()."""
        return np.asarray(values, float).reshape(self.shape)

    def _mean(self):
        return self._shaped(self._predictive.mean)

    def _var(self):
        return self._shaped(self._predictive.sd**2)

    def _log_pdf(self, x):
        return self._shaped(self._predictive.log_prob(np.ravel(x)))

    def _pdf(self, x):
        return np.exp(self._log_pdf(x))

    _log_pmf, _pmf = _log_pdf, _pdf  # skpro requires those that fit the tag "distr:measuretype"

    def _cdf(self, x):
        return self._shaped(self._predictive.cdf(np.ravel(x)))

    def _ppf(self, p):
        levels, place = np.unique(np.ravel(p), return_inverse=True)
        return self._shaped(self._predictive.quantile(levels)[place, np.arange(len(place))])

    def _energy_self(self):
        return self._shaped(distance_within(even_quantiles(self._predictive)))

    def _energy_x(self, x):
        return self._shaped(distance_to(np.ravel(x), even_quantiles(self._predictive)))

    def _sample(self, n_samples=None):
        labels = self._predictive.sample(1 if n_samples is None else n_samples)
        if self.ndim == 0:
            return labels[0, 0] if n_samples is None else pd.DataFrame(labels)
        rows = self.index
        if n_samples is not None:
            rows = pd.concat([rows.to_frame()] * n_samples, keys=range(n_samples)).index
        return pd.DataFrame(labels.reshape(-1, 1), index=rows, columns=self.columns)
