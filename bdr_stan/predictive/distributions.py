"""What all predictive distributions share: quantiles, intervals, tables, the ids of bags."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from bdr_stan.arguments import unknown_attribute
from bdr_stan.types import Array, ArrayLike, DataFrame, is_integer, is_number, numbers_or_nan

_N_EVEN_LEVELS = 200  # of the quantiles that represent a distribution


class Distributions(ABC):
    """A distribution for each of n bags or points, with mean, sd, quantiles and intervals."""

    ids: Array | None = None
    id_name = "bag"
    is_count: bool = False  # whether the labels are counts

    # What a distribution answers, in its text.
    _answers = "mean, sd, quantile(q), interval(level), cdf(y), log_prob(y), sample(size)"

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._described}; {self._answers})"

    @property
    def _described(self) -> str:
        """What the distribution is of, in its text."""
        return f"{len(self)} bags"

    def __getattr__(self, name: str) -> Any:
        return unknown_attribute(self, name)

    def with_ids_of(self, bags: Any) -> Self:
        """This distribution with the ids of bags."""
        self.ids, self.id_name = bags.ids, bags.id_name
        return self

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of each distribution.

        Parameters
        ----------
        q : float or array, shape (k,), probabilities, 0 < q < 1

        Returns
        -------
        array, shape (n,) or (k, n), in the units of `mean`
            For classes, quantiles of the probability of the second (of each one, shape (n, C) or
            (k, n, C), if there are more). For counts and ordered categories, the smallest label
            with `cdf` >= q, so an `interval` has at least its level.

        Raises
        ------
        ValueError : if a q is not strictly between 0 and 1.
        """
        values = self._quantiles_at(quantile_levels(q))
        return values[0] if np.ndim(q) == 0 else values

    @abstractmethod
    def _quantiles_at(self, levels: Array) -> Array:
        """Quantiles at levels of shape (k,), shape (k, n)."""

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central (equal-tailed) intervals, between two values of `quantile`.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95

        Returns
        -------
        lower, upper : arrays, shape (n,), in the units of `mean`

        Raises
        ------
        ValueError : if the level is not strictly between 0 and 1.
        """
        lower, upper = self.quantile(interval_ends(level))
        return lower, upper

    def to_dataframe(self, level: float = 0.95) -> "DataFrame":
        """The distributions in a table with one row per bag or point.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95
            Probability of the intervals.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids
            mean, sd, lower, upper; of classes predicted, and probability, lower, upper of the
            predicted class; of ordered categories lower and upper are categories.
        """
        return table_of_bags(self, self._columns(level))

    def _columns(self, level: float) -> dict[str, Array]:
        """Columns of the table by their names, each of shape (n,)."""
        lower, upper = self.interval(level)
        return {"mean": self.mean, "sd": self.sd, "lower": lower, "upper": upper}


def table_of_bags(bags: Any, columns: Mapping[str, Any]) -> "DataFrame":
    """Columns, each of shape (n,), in a table indexed by the ids of `bags`, or of their results."""
    import pandas as pd

    ids = np.arange(len(bags)) if bags.ids is None else bags.ids
    return pd.DataFrame(dict(columns), index=pd.Index(ids, name=bags.id_name))


def draw_quantiles(
    values: Array, levels: Array, weights: Array | None, *, axis: int = 0, overwrite: bool = False
) -> Array:
    """Quantiles, shape (k, ...), of draws along an axis, with their weights (None: equal ones)."""
    method: dict[str, Any] = {} if weights is None else {"method": "inverted_cdf"}
    return np.quantile(
        values, levels, axis=axis, weights=weights, overwrite_input=overwrite, **method
    )


def check_level(level: float) -> None:
    """Raise ValueError unless 0 < level < 1."""
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level must be a probability between 0 and 1, found {level!r}")


def interval_ends(level: float) -> list[float]:
    """Probabilities below the two ends of a central interval; ValueError unless 0 < level < 1."""
    check_level(level)
    return [(1 - level) / 2, (1 + level) / 2]


def quantile_levels(q: ArrayLike) -> Array:
    """Probabilities of quantiles, shape (k,); ValueError unless 0 < q < 1."""
    levels = numbers_or_nan(q)
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"quantiles need 0 < q < 1, found q = {q}")
    return levels


def check_sample_size(size: int | None) -> None:
    """Raise ValueError unless the number of labels to draw is None or an integer from 1."""
    if size is not None and not (is_integer(size) and size >= 1):
        raise ValueError(f"size must be None or an integer >= 1, found {size!r}")


def even_quantiles(predictive: Any) -> Array:
    """Quantiles that represent each of n distributions, ascending, shape (200, n)."""
    return predictive.quantile((np.arange(_N_EVEN_LEVELS) + 0.5) / _N_EVEN_LEVELS)


def distance_to(y: Array, quantiles: Array) -> Array:
    """E|Y - y|, shape (n,), of labels Y with these even quantiles, shape (k, n)."""
    return np.abs(quantiles - y).mean(axis=0)


def distance_within(quantiles: Array) -> Array:
    """E|Y - Y'|, shape (n,), of independent labels with these even quantiles, shape (k, n)."""
    k = len(quantiles)
    share = (2 * np.arange(k) + 1 - k) / k  # the quantiles ascend
    return 2 * np.mean(share[:, None] * quantiles, axis=0)
