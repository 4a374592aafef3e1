"""What unknown selection of the points of bags can do to their expected labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from bdr_stan.arguments import unknown_attribute
from bdr_stan.predictive.classes import ClassPredictive
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.predictive.mixture import bags_at_once
from bdr_stan.types import Array, DataFrame, is_number

_LARGEST_FACTOR = 1000.0  # beyond it selection does not change a statement
_RATIO = 1.01  # relative accuracy of the factor at which a statement fails


class SelectionBounds:
    """Bounds of the expected labels of n bags with unknown selection probabilities of points.

    The correct weights of the points differ from the given ones by at most a factor G: each lies
    between w_j / G and G w_j. Under each posterior draw the expected label of a bag is then between
    the bounds for the worst weights within the factor.

    Parameters
    ----------
    predictives : callable
        ``predictives(i, factors)`` returns, for each factor, the predictive distributions of the
        bags with integer indices `i` under the weights that make their expected labels smallest,
        and largest: a list of pairs.
    n_bags, n_draws : int
        n, and the draws S of the posterior.
    selection : array, shape (K,)
        The factors G, at least 1.
    level : float, default 0.95
        Probability of the intervals.
    ids : array, shape (n,), optional
        Ids of the bags; default 0, 1, ...
    id_name : str, default "bag"
        What the ids name.

    Attributes
    ----------
    selection : array, shape (K,)
    lowest, highest : arrays, shape (K, n), units of y
        Least and largest expected labels, averaged over the posterior; of classes probabilities of
        the second. At G = 1 both are the prediction.
    lower, upper : arrays, shape (K, n), units of y
        Lower end of the predictive interval under the weights of `lowest`, and upper end of that
        under the weights of `highest`.

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> model = BLR(5, method="exact").fit(bags, y, seed=1)
    >>> bounds = model.sensitivity(bags[:2], selection=[1, 1.5])
    >>> bounds
    SelectionBounds(2 bags, selection 1, 1.5; lowest, highest, lower, upper, fails_at(a, b))
    >>> bool(bounds.lowest[1, 0] < bounds.lowest[0, 0] == bounds.highest[0, 0])
    True
    >>> bounds.fails_at(0, 1)  # that the first bag is above the second, which is not certain
    1.0
    """

    def __init__(
        self,
        predictives: Callable[[Array, Array], list[tuple[Any, Any]]],
        n_bags: int,
        n_draws: int,
        selection: Array,
        level: float = 0.95,
        ids: Array | None = None,
        id_name: str = "bag",
    ) -> None:
        ends = interval_ends(level)
        self._predictives, self.selection, self.level = predictives, selection, level
        self.ids, self.id_name = np.arange(n_bags) if ids is None else ids, id_name
        self.lowest, self.highest, self.lower, self.upper = np.empty((4, len(selection), n_bags))
        for i in bags_at_once(n_bags, n_draws * 2 * len(selection)):
            for k, (low, high) in enumerate(predictives(i, selection)):
                self.lowest[k, i], self.highest[k, i] = low.mean, high.mean
                self.lower[k, i], self.upper[k, i] = low.quantile(ends[0]), high.quantile(ends[1])

    def __len__(self) -> int:
        return self.lowest.shape[1]

    def __repr__(self) -> str:
        factors = ", ".join(f"{factor:g}" for factor in self.selection)
        return (
            f"SelectionBounds({len(self)} bags, selection {factors}; lowest, highest, lower, "
            "upper, fails_at(a, b))"
        )

    def __getattr__(self, name: str) -> Any:
        return unknown_attribute(self, name)

    def fails_at(self, a: Any, b: Any = None, *, value: float | None = None) -> float:
        """Factor G at which "bag a has a higher label than bag b" is no longer certain.

        The statement is certain within a factor if its probability is at least `level` under the
        weights that make the expected label of bag a smallest and of bag b largest. Given a draw,
        numeric labels are treated as normal with their predictive variances; for classes the
        statement is on the probabilities of the second class.

        Parameters
        ----------
        a, b : ids of bags, numbers from 0 if bags have no ids
        value : float, optional
            Instead of `b`, a threshold for the label of bag a; for classes a probability.

        Returns
        -------
        float
            To 1%; 1 if the statement is uncertain even without selection, infinity if it is certain
            for all factors up to 1000.

        Raises
        ------
        ValueError
            The bag does not exist, or neither or both of `b` and `value` are given.
        """
        if (b is None) == (value is None):
            raise ValueError("give one of b, a bag, and value, a number: fails_at(a, b)")
        if value is not None and not (is_number(value) and np.isfinite(value)):
            raise ValueError(f"value must be a finite number, found {value!r}")
        first = self._number(a)
        i = np.array([first] if b is None else [first, self._number(b)])

        def holds(factor):
            ((low, high),) = self._predictives(i, np.array([factor]))
            return _above(low, None if b is None else high, value) >= self.level

        low, high = 1.0, _LARGEST_FACTOR
        if not holds(low):
            return low
        if holds(high):
            return np.inf
        while high > _RATIO * low:
            middle = np.sqrt(low * high)
            low, high = (middle, high) if holds(middle) else (low, middle)
        return float(low)

    def _number(self, bag):
        found = np.flatnonzero([str(each) == str(bag) for each in self.ids])
        if not len(found):
            raise ValueError(f"there is no bag {bag!r}: bags are named by {self._names()}")
        return int(found[0])

    def _names(self):
        some = ", ".join(str(each) for each in self.ids[:3])
        return f"their {self.id_name}, such as {some}"

    def to_dataframe(self) -> "DataFrame":
        """The bounds in a table with a row for each bag and factor.

        Returns
        -------
        pandas DataFrame of n K rows
            Indexed by the bags' ids and `selection`; columns lowest, highest, lower, upper.
        """
        import pandas as pd

        names = ("lowest", "highest", "lower", "upper")
        index = pd.MultiIndex.from_product(
            [self.ids, self.selection], names=[self.id_name, "selection"]
        )
        return pd.DataFrame({name: getattr(self, name).T.ravel() for name in names}, index=index)


def _above(first, second, value):
    """Probability that the first label of a distribution is above the second of another."""
    mean, variance = _moments(first, 0)
    if second is not None:
        value, other = _moments(second, 1)
        variance = variance + other
    difference = mean - value
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = difference / np.sqrt(variance)
    return np.mean(ndtr(np.where(variance > 0, scaled, np.where(difference > 0, np.inf, -np.inf))))


def _moments(predictive, bag):
    """Mean and variance of a label under each draw, shape (S,); of classes of the probability."""
    i = np.array([bag])
    if isinstance(predictive, ClassPredictive):
        return predictive.expected(i)[:, 0], 0.0
    mean, variance = predictive.label_moments(i)
    return mean[:, 0], variance[:, 0]
