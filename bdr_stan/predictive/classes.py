"""Predictive distributions of classes: of two, and of more."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bdr_stan.bags.checks import plain
from bdr_stan.predictive.distributions import draw_quantiles
from bdr_stan.predictive.mixture import LabelMixture
from bdr_stan.types import Array, ArrayLike


class _ClassMixture(LabelMixture):
    """Base: labels are `classes`, shape (C,), and moments are of their probabilities."""

    def __init__(
        self,
        log_probabilities: Callable[[Array], Any],
        n_bags: int,
        n_draws: int,
        classes: Array,
        weights: Array | None = None,
    ) -> None:
        self.classes = classes
        super().__init__(log_probabilities, n_bags, n_draws, weights)

    @classmethod
    def _pooled_settings(cls, predictives):
        return {"classes": predictives[0].classes}

    def _moments(self, components, i):
        return self._probabilities(components), 0.0

    def _quantiles(self, components, i, levels):
        return draw_quantiles(self._probabilities(components), levels, self.weights)

    @property
    @abstractmethod
    def probabilities(self) -> Array:
        """Probability of each class, shape (n, C)."""

    @abstractmethod
    def _ends(self, level: float, predicted: Array) -> Iterable[Array]:
        """Ends of the intervals in the table, each of shape (n,), of the predicted classes."""

    def _columns(self, level: float) -> dict[str, Array]:
        probabilities = self.probabilities
        predicted = np.argmax(probabilities, axis=1)
        lower, upper = self._ends(level, predicted)
        return {
            "predicted": self.classes[predicted],
            "probability": probabilities.max(axis=1),
            "lower": lower,
            "upper": upper,
        }

    def _label_values(self, y):
        return class_codes(self.classes, self._in_order(y, np.asarray))


class ClassPredictive(_ClassMixture):
    """Predictive distribution of the classes of n bags, mixtures of Bernoulli distributions.

    ``log_probabilities(i)`` returns the log probabilities of the first and of the second of the two
    `classes`, each of shape (S, len(i)), of the bags with indices `i`. `mean` and `sd`, shape (n,),
    are of the probability of the second class over the posterior.
    """

    @property
    def probabilities(self) -> Array:
        return np.column_stack([1 - self.mean, self.mean])

    def _ends(self, level, predicted):
        lower, upper = self.interval(level)  # of the second class
        return np.where(predicted == 1, (lower, upper), (1 - upper, 1 - lower))

    @property
    def _answers(self):
        of_second = f"probability of {plain(self.classes[1])!r}: mean, sd, quantile(q)"
        return f"{of_second}, interval(level); log_prob(y), sample(size)"

    def label_moments(self, i: Array) -> tuple[Array, Array]:
        """As for numbers, of the bags `i`, with 1 for the second class and 0 for the first."""
        p = self._probabilities(self.components(i))
        return p, p * (1 - p)

    def _probabilities(self, log_probabilities):
        return np.exp(log_probabilities[1])

    def _log_density(self, log_probabilities, i, labels):
        log_q, log_p = log_probabilities
        return np.where(labels == 1, log_p, log_q)

    def _labels(self, log_probabilities, i, draws, rng):
        _, log_p = log_probabilities
        second = np.log(rng.random((len(draws), len(i)))) < log_p[draws]
        return self.classes[second.astype(int)]


class MulticlassPredictive(_ClassMixture):
    """Predictive distribution of more than two classes, for each bag a mixture over the draws.

    ``log_probabilities(i)`` returns the log probabilities of the C `classes`, shape (S, len(i), C),
    of the bags with indices `i`. `mean` and `sd`, (n, C), are of the probabilities over the
    posterior.
    """

    @property
    def probabilities(self) -> Array:
        return self.mean

    def _ends(self, level, predicted):
        return (ends[np.arange(len(self)), predicted] for ends in self.interval(level))

    _answers = "probabilities, sd, quantile(q), interval(level), log_prob(y), sample(size)"

    @property
    def _described(self):
        return f"{super()._described}, {len(self.classes)} classes"

    def label_moments(self, i: Array) -> tuple[Array, Array]:
        raise TypeError(
            f"{type(self).__name__} has no expected label: give category=, one or several of the "
            f"classes {named(self.classes)}, whose probability is meant"
        )

    @property
    def _shape(self):
        return (len(self.classes),)

    @property
    def numbers_per_bag(self) -> int:
        return self.n_draws * len(self.classes)

    def _probabilities(self, log_probabilities):
        return np.exp(log_probabilities)

    def _log_density(self, log_p, i, labels):
        return log_p[:, np.arange(len(i)), labels]

    def _labels(self, log_p, i, draws, rng):
        below = np.cumsum(np.exp(log_p[draws]), axis=2)
        codes = np.sum(rng.random((len(draws), len(i), 1)) > below[..., :-1], axis=2)
        return self.classes[codes]


def of_category(predictive: Any, category: Any) -> Any:
    """Distribution of whether the class is one of `category`, of more than two classes.

    Otherwise the predictive itself. TypeError or ValueError if `category` does not fit.
    """
    if not isinstance(predictive, MulticlassPredictive):
        if category is not None:
            raise ValueError("category= is for labels of more than two classes: leave it out")
        return predictive
    if category is None:
        predictive.expected(np.arange(0))  # raises
    classes = predictive.classes
    chosen = np.isin(classes, np.atleast_1d(np.asarray(category)))
    unknown = np.setdiff1d(np.atleast_1d(np.asarray(category)), classes)
    if len(unknown) or not chosen.any() or chosen.all():
        raise ValueError(
            f"category must be one or several, but not all, of {named(classes)}, found {category!r}"
        )

    def log_probabilities(i):
        log_p = predictive.components(i)
        return tuple(logsumexp(log_p[..., part], axis=-1) for part in (~chosen, chosen))

    two = np.array([False, True])
    n_draws, weights = predictive.n_draws, predictive.weights
    return ClassPredictive(log_probabilities, len(predictive), n_draws, two, weights)


class OrdinalPredictive(MulticlassPredictive):
    """As `MulticlassPredictive`, of ordered categories, from the lowest to the highest."""

    _answers = MulticlassPredictive._answers.replace("log_prob", "cdf(y), log_prob")

    @property
    def _described(self):
        return super()._described.replace("classes", "ordered classes")

    def cdf(self, y: ArrayLike) -> Array:
        """Predictive probability, shape (n,), of a category not above each bag's in `y`."""
        return self._cumulative[np.arange(len(self)), self._label_values(y)]

    @property
    def _cumulative(self):
        """Probability of at most each category, shape (n, C)."""
        return np.minimum(np.cumsum(self.probabilities, axis=1), 1)

    def _quantiles_at(self, levels):
        below = self._cumulative[:, :-1]
        return self.classes[[np.sum(below < level, axis=1) for level in levels]]

    def _ends(self, level, predicted):
        return self.interval(level)  # of the categories themselves


def class_codes(classes: Array, y: ArrayLike) -> Array:
    """Codes 0, 1, ... of labels y, shape (n,); ValueError for a label outside the classes."""
    y = np.asarray(y)
    unknown = ~np.isin(y, classes)
    if unknown.any():
        i = np.flatnonzero(unknown)[0]
        raise ValueError(
            f"the label of bag {i} is {plain(y[i])!r}, but the classes are {named(classes)}"
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]


def named(classes: Array) -> str:
    """Text such as "'a', 'b' and 'c'"."""
    *first, last = (repr(plain(c)) for c in classes)
    return f"{', '.join(first)} and {last}"
