"""Bounds of the mean of a function over a bag with unknown selection probabilities of points.

If the correct weights are between w_j / G and G w_j, the largest mean t of a function f solves (see
docs/validation/sensitivity.md)

    h(t) = sum_j w_j (f_j - t) + (G^2 - 1) sum_j w_j max(f_j - t, 0) = 0

and the smallest the same with min. h is convex, decreasing and piecewise linear: from the mean
under w, Newton's steps rise to the root and arrive after finitely many, with no sorting, so points
may be read in blocks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from bdr_stan.arguments import unknown_attribute
from bdr_stan.bags import Bags, BagsLike
from bdr_stan.bags.samples import by_name
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.kernels import FeatureMap
from bdr_stan.predictive.classes import ClassPredictive
from bdr_stan.predictive.distributions import check_level, interval_ends
from bdr_stan.predictive.mixture import bags_at_once
from bdr_stan.questions.points import evenly_spaced
from bdr_stan.questions.protocol import Fit
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike, DataFrame, check_counts, is_number, numbers_or_nan

_MOST_STEPS = 100  # some six are usual
_TOLERANCE = 1e-13  # of the means, for the last step
_NUMBERS_PER_BLOCK = 1 << 18  # values of the function, points x draws: small enough for caches
_NUMBERS_KEPT = 1 << 23  # of a bag, between steps; those of larger bags are computed at each step
_LARGEST_FACTOR = 1000.0  # beyond it selection does not change a statement
_RATIO = 1.01  # relative accuracy of the factor at which a statement fails

Blocks = Callable[[], Iterable[tuple[Array, Array]]]


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
        rows = np.flatnonzero([str(name) == str(bag) for name in self.ids])
        if not len(rows):
            some = ", ".join(map(str, self.ids[:3]))
            raise ValueError(
                f"there is no bag {bag!r}: bags are named by their {self.id_name}, such as {some}"
            )
        return int(rows[0])

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


class Sensitivity(Fit):
    """Bounds of labels under unknown selection of points."""

    def sensitivity(
        self: Any,
        bags: BagsLike,
        *,
        selection: ArrayLike = (1, 1.25, 1.5, 2),
        level: float = 0.95,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        n_draws: int = 1000,
    ) -> SelectionBounds:
        """Bounds of each bag's expected label if its points were seen with unequal probabilities.

        Some kinds of people answer surveys less often than others, and their answers are unknown.
        If the correct weights of the points differ from the given ones by at most a factor G, a
        label lies between two bounds, without further assumptions.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            With several samples, points of each may be selected.
        selection : array, shape (K,), default (1, 1.25, 1.5, 2)
            Factors G >= 1. With 2 some points had twice the probability that their weights imply,
            others half of it.

        Returns
        -------
        SelectionBounds
            With `lowest` and `highest`, bounds of the expected label, and `lower` and `upper`, the
            ends of their predictive intervals, each of shape (K, n); ``fails_at(a, b)``, the factor
            at which bag a is no longer certain to be above bag b; and `to_dataframe()`. In units of
            y, also for families: the expected label increases with the linear predictor, and its
            bounds are exact. For classes the probability of the second.

        Raises
        ------
        ValueError
            A factor below 1, or a level outside (0, 1).
        TypeError
            The labels are ordered categories, or the points are in partitions.

        Notes
        -----
        Under each draw the linear predictor is a mean over the bag's points of a function f, for
        `BDR` shrunk as the bag's embedding is. Its extremes over the weights solve a
        linear-fractional programme, by a threshold of f. The bounds describe selection within these
        bags; the parameters of the fit, effects of covariates, groups and smooths, and the
        effective sizes of the bags are as without it. At G = 1 they are the prediction under these
        draws. Sources: Aronow and Lee (2013); Miratrix, Wager and Zubizarreta (2018).
        """
        label_data = {"trials": trials, "exposure": exposure, "offset": offset}
        factors = _factors(selection)
        check_level(level)
        check_counts(n_draws=n_draws)
        bags = self.like_training(bags)
        if self.label_model.has_classes and self.label_model.distribution is not None:
            raise TypeError(
                "ordered categories have no expected label: sensitivity is for numbers and two "
                "classes"
            )
        for points in bags.samples.values():
            if not isinstance(points, Bags):
                raise TypeError(
                    "sensitivity needs the points of each bag in memory, but these are in "
                    "partitions: pass bags.load()"
                )
        labels, embedding = self.labels_of_new(bags, **label_data), self.embedding_of(bags)
        self.warn_of_other_bags(embedding)
        draws = {name: evenly_spaced(values, n_draws) for name, values in self.draws().items()}
        parts = _parts(self, bags, embedding, draws)
        n_draws = len(draws["w"])

        def shifts(i, factors):
            """How far the predictors of bags i move, (2, K, S, m): the sum over their samples."""
            moves = np.zeros((2, len(factors), n_draws, len(i)))
            for rows, part in parts:
                has = np.flatnonzero(rows[i] >= 0)
                of_sample = map_in_threads(partial(part.shifts, factors=factors), rows[i[has]])
                for column, shift in zip(has, of_sample, strict=True):
                    moves[..., column] += shift
            return moves

        def predictives(i, factors):
            """Of each factor the distributions of bags i at their least and largest predictors."""
            some = self.coordinates_, embedding.take(i), labels.take(i)
            return [
                tuple(
                    self.predictive_of_draws(*some, draws | {"shift": shift}) for shift in of_factor
                )
                for of_factor in np.swapaxes(shifts(i, factors), 0, 1)
            ]

        n = len(embedding.mean)
        return SelectionBounds(predictives, n, n_draws, factors, level, bags.ids, bags.id_name)


def _parts(model: Any, bags: Any, embedding: Embedding, draws: dict[str, Array]) -> list[Any]:
    """The points of each sample, and the number there of each of the bags, -1 if it has none."""
    eta, coordinates, parts = draws.get("eta", np.ones(len(draws["w"]))), model.coordinates_, []
    for m, (name, features) in enumerate(by_name(model.feature_map_).items()):
        has, w = bags.has(name), draws["w"][:, coordinates.is_of_sample(m)]
        if has.any():
            sizes, of_sample = embedding.sizes_of(m)[has], coordinates.of_sample(m)
            part_eta = eta if eta.ndim == 1 else eta[:, m]
            part = SelectedPoints(bags.of_sample(name), sizes, features, of_sample, w, part_eta)
            parts.append((np.where(has, np.cumsum(has) - 1, -1), part))
    return parts


def _factors(selection):
    factors = np.unique(numbers_or_nan(selection))
    if np.ndim(selection) > 1 or not len(factors) or not np.all((factors >= 1) & (factors < 1e6)):
        raise ValueError(
            "selection must be factors from 1 by which weights may be wrong, such as "
            f"[1, 1.5, 2], found {selection!r}"
        )
    return factors


def extreme_means(blocks: Blocks, factors: Array) -> tuple[Array, Array]:
    """Mean of f, (S,), and least and largest with weights within K factors, (2, K, S).

    ``blocks()`` yields weights, (m,), and values of f, (m, S), some points at a time.
    """
    sums = [(weights.sum(), weights @ values) for weights, values in blocks()]
    total = sum(weight for weight, _ in sums)
    mean = sum(part_sum for _, part_sum in sums) / total
    extra = factors[:, None] ** 2 - 1
    means = np.broadcast_to(mean, (2, len(factors), len(mean))).copy()
    beyond = ((0, np.minimum), (1, np.maximum))  # parts of f - t for the smallest and largest
    memory = np.empty(0)  # reused: allocating it costs more than the arithmetic on it
    for _ in range(_MOST_STEPS):
        weight, excess = np.zeros((2, *means.shape))
        for weights, values in blocks():
            if memory.size < values.size:
                memory = np.empty(values.size)
            outside = memory[: values.size].reshape(values.shape)
            for side, part in beyond:
                for k in np.flatnonzero(extra):
                    np.subtract(values, means[side, k], out=outside)
                    part(outside, 0, out=outside)
                    excess[side, k] += weights @ outside
                    weight[side, k] += weights @ np.not_equal(outside, 0, out=outside)
        step = (total * (mean - means) + extra * excess) / (total + extra * weight)
        means += step
        if np.all(np.abs(step) <= _TOLERANCE * np.maximum(np.abs(means), np.abs(means - mean))):
            break
    return mean, means


@dataclass(frozen=True)
class SelectedPoints:
    """The part of the linear predictor that is the mean over points of one sample of the bags."""

    bags: Bags
    sizes: Array  # effective numbers of points of the bags, shape (n,)
    features: FeatureMap
    coordinates: Coordinates
    w: Array  # shape (S, d)
    eta: Array  # shape (S,)

    def shifts(self, i: int, factors: Array) -> Array:
        """How far selection within each factor moves the predictor of bag i, (2, K, S)."""
        mean, extremes = extreme_means(self._blocks(i), factors)
        return extremes - mean

    def _blocks(self, i):
        start, stop = self.bags.offsets[i : i + 2]
        shrunk = self.w * shrinkage_factors(self.eta * self.sizes[i], self.coordinates.lam, 1.0)
        rows, point_weights = max(16, _NUMBERS_PER_BLOCK // len(self.w)), self.bags.weights

        def blocks():
            for first in range(start, stop, rows):
                last = min(first + rows, stop)
                z = self.coordinates.transform(self.features(self.bags.read_checked(first, last)))
                self.bags.release()
                yield (
                    np.ones(len(z)) if point_weights is None else point_weights[first:last],
                    z @ shrunk.T,
                )

        if (stop - start) * len(self.w) > _NUMBERS_KEPT:
            return blocks
        stored = list(blocks())
        return lambda: stored


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
