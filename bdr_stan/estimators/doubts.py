"""Reasons to doubt predictions; see `PosteriorEstimator.doubts`.

A reason is a function of a `Question` that gives a row of the table, or None where it does not
apply to the fit or finds nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.bags import Bags, Samples
from bdr_stan.predictive.distributions import check_level
from bdr_stan.predictive.doubts import Doubt, Doubts
from bdr_stan.results.advice import checks
from bdr_stan.types import Array

_FACTOR = 1.5  # of selection, in the answer
_MOST_BAGS = 200  # of which selection is found, evenly spaced by their predictions
_N_DRAWS = 400
_RELIABLE = 0.95  # share of the variance between bags, above which attenuation is no matter


@dataclass(frozen=True)
class Question:
    """Predictions of bags, and the conclusion that the label of bag a is above that of bag b."""

    model: Any
    bags: Any
    mean: Array  # predicted labels, or probabilities of the second class, shape (n,)
    a: int
    b: int
    level: float

    def name(self, i: int) -> str:
        """Name of a bag in the table."""
        return f"{self.bags.id_name} {self.bags.index[i]}"

    @property
    def what(self) -> str:
        """What is predicted."""
        classes = getattr(self.model, "classes_", None)
        return "label" if classes is None else f"probability of {classes[1]!s}"

    @property
    def conclusion(self) -> str:
        """The conclusion as a sentence."""
        return (
            f"the {self.what} of {self.name(self.a)} ({self.mean[self.a]:.3g}) is above that of "
            f"{self.name(self.b)} ({self.mean[self.b]:.3g})."
        )


def doubts(model: Any, bags: Any, above: Any, level: float) -> Doubts:
    """The reasons that apply to the predictions of bags; `above` are two ids, or None."""
    check_level(level)
    bags = model._like_training(bags)
    if len(bags) < 2:
        raise ValueError("doubts are about the order of bags: pass two bags or more")
    found = model.predictive(bags)
    mean = getattr(found, "mean", None)
    if mean is None or np.ndim(mean) != 1:
        raise TypeError("doubts are about numbers and two classes: the labels have no single mean")
    a, b = _order(bags, mean, above)
    question = Question(model, bags, mean, a, b, level)
    rows = [reason(question) for reason in REASONS]
    return Doubts(question.conclusion, [row for row in rows if row is not None])


def _order(bags, mean, above):
    """Numbers of the two bags of the conclusion, by default those of extreme predictions."""
    if above is None:
        return int(np.argmax(mean)), int(np.argmin(mean))
    if isinstance(above, str) or np.shape(above) != (2,):
        raise ValueError(f"above must be the ids of two bags, found {above!r}")
    names = [str(each) for each in bags.index]
    for each in above:
        if str(each) not in names:
            raise ValueError(f"above names the bag {each!r}, which is none of the bags")
    return tuple(names.index(str(each)) for each in above)


def sampling(question: Any) -> Doubt | None:
    """Poor diagnostics of the sampler, of the model of a question."""
    bad = [check for check in checks(question.model.diagnostics()) if check.bad]
    if not bad:
        return None
    trouble = " ".join(check.trouble for check in bad)
    advice = " ".join(dict.fromkeys(check.advice for check in bad))
    return Doubt("Draws of the posterior", trouble, f"Not known. {advice}")


def selection(question: Question) -> Doubt | None:
    """Points that were seen with unequal probabilities."""
    model, bags = question.model, question.bags
    points = bags.samples.values() if isinstance(bags, Samples) else [bags]
    if not hasattr(model, "sensitivity") or not all(isinstance(each, Bags) for each in points):
        return None
    some = np.unique([*_evenly_by(question.mean), question.a, question.b])
    bounds = model.sensitivity(
        bags.take(some), selection=(1, _FACTOR), level=question.level, n_draws=_N_DRAWS
    )
    moves = np.maximum(bounds.lowest[0] - bounds.lowest[1], bounds.highest[1] - bounds.highest[0])
    fails = bounds.fails_at(*(bounds.ids[some == each][0] for each in (question.a, question.b)))
    width = np.mean(bounds.upper - bounds.lower, axis=1)
    answer = (
        f"If weights are wrong by up to a factor of {_FACTOR:g}, the expected {question.what} of a "
        f"bag moves by up to {moves.mean():.2g} on average, and {question.level:.0%} intervals "
        f"widen from {width[0]:.2g} to {width[1]:.2g}."
    )
    return Doubt("Points seen with unequal probabilities (selection)", answer, _limit(fails))


def _limit(fails):
    if fails == 1:
        return "None: the conclusion is not certain without selection either."
    if np.isinf(fails):
        return "No selection of these points changes it."
    return f"Weights wrong by a factor of {fails:.2f}."


def _evenly_by(mean):
    """Numbers of at most so many bags, evenly spaced by their predictions."""
    places = np.linspace(0, len(mean) - 1, min(_MOST_BAGS, len(mean))).round().astype(int)
    return np.argsort(mean, kind="stable")[places]


def attenuation(question: Question) -> Doubt | None:
    """Means of small bags that a model takes as exact."""
    model, bags = question.model, question.bags
    is_linear = hasattr(model, "influence") and isinstance(bags, Bags)
    if not is_linear or np.any(model.coordinates_.lam):
        return None
    several = np.flatnonzero(bags.sizes > 1)
    if len(several) < 10:
        return None
    f = model.influence(bags, n_draws=_N_DRAWS).mean
    shares = bags.point_shares
    means = bags.sums(shares * f)
    within = bags.sums(shares * (f - np.repeat(means, bags.sizes)) ** 2)[several]
    sizes = bags.effective_sizes
    # Of a point, by bags of several, then of the mean of a bag.
    variance = np.average(within * sizes[several] / (sizes[several] - 1)) * np.mean(1 / sizes)
    reliability = max(1 - variance / np.var(means), 0.0)
    if reliability > _RELIABLE:
        return None
    return Doubt(
        "Means of few points are measured with error (attenuation)",
        f"Slopes of {type(model).__name__} are about {reliability:.2f} times the true ones; "
        "intervals do not include it.",
        "Differences between bags are too small rather than wrong in sign: use BDR, which models "
        "the error.",
    )


REASONS = (sampling, selection, attenuation)
