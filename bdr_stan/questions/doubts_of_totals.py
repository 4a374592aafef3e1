"""Reasons to doubt the rate of a subset of points."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.predictive.distributions import interval_ends
from bdr_stan.questions.doubts import Doubt, Doubts, sampling
from bdr_stan.questions.ecological import SubsetRates, bounded_rates
from bdr_stan.questions.protocol import Fit
from bdr_stan.types import Array, ArrayLike

_SHARES = (0.25, 0.5)  # of the district's own rate, in the answer
_INSIDE = 0.025  # posterior probability between the bounds, below which these contradict it


@dataclass(frozen=True)
class Question:
    """Rates of a subset of the points of some bags, and of all their points."""

    model: Any
    subsets: SubsetRates
    lowest: Array  # of the rate of each subset, shape (m,)
    highest: Array
    level: float

    def over_bags(self, rates: Array) -> Array:
        """Rate of the subset in all bags, from that in each, shape (..., m)."""
        return np.average(rates, axis=-1, weights=self.subsets.subset.totals)

    @cached_property
    def draws(self) -> Array:
        """Rate of the subset under each draw, shape (S,)."""
        return self.over_bags(self.subsets.rates)

    @cached_property
    def overall(self) -> float:
        """Rate of all points."""
        return float(self.subsets.totals.sum() / self.subsets.weights.sum())

    @property
    def above(self) -> bool:
        """Whether the subset has the higher rate."""
        return bool(self.draws.mean() > self.overall)

    @property
    def conclusion(self) -> str:
        """The conclusion as a sentence."""
        side = "above" if self.above else "below"
        probability = np.mean((self.draws > self.overall) == self.above)
        certainty = f", with a posterior probability of {probability:.3g}"
        return (
            f"the rate of the subset ({self.draws.mean():.3g}) is {side} that of all points of its "
            f"bags ({self.overall:.3g}){certainty if len(self.draws) > 1 else ''}."
        )


class DoubtedRates(Fit):
    """What could make the rate of a subset of points wrong, of a model of totals."""

    def doubts(
        self: Any,
        bags: BagsLike,
        y: ArrayLike | str,
        subset: BagsLike,
        *,
        highest_rate: float | None = None,
        trials: ArrayLike | str | None = None,
        level: float = 0.95,
    ) -> Doubts:
        """What could make the rate of a subset of the points wrong, and how strong it must be.

        The conclusion is whether the subset has a higher or lower rate, over all its bags, than all
        points of the bags. Collects the bounds implied by the totals only, rates that also depend
        on the bag, effects of bags correlated with the means of columns, and poor diagnostics.

        Parameters
        ----------
        bags, y, subset, highest_rate, trials : as for `bounds`

        Returns
        -------
        Doubts
            A table of reasons with the answer under each: ``print`` it, or `to_dataframe()`.

        Raises
        ------
        ValueError
            As for `bounds`.
        """
        interval_ends(level)
        subsets, lowest, highest, _ = bounded_rates(
            self, bags, y, subset, highest_rate, trials=trials
        )
        question = Question(self, subsets, lowest, highest, level)
        reasons = (sampling, totals_alone, context, effects)
        return Doubts(question.conclusion, [reason(question) for reason in reasons])


def totals_alone(question: Question) -> Doubt:
    """What the totals imply without the model."""
    low, high = question.over_bags(question.lowest), question.over_bags(question.highest)
    answer = f"Without the model the totals allow a rate of the subset from {low:.3g} to {high:.3g}"
    inside = np.mean((question.draws >= low) & (question.draws <= high))
    answer += (
        "." if inside >= _INSIDE else ": the posterior lies outside, so the data contradict it."
    )
    implied = low > question.overall if question.above else high < question.overall
    limit = (
        "It does not: the totals imply the conclusion without the model."
        if implied
        else "The totals do not decide: the conclusion rests on the model."
    )
    return Doubt("Only the totals of bags", answer, limit)


def context(question: Question) -> Doubt:
    """Rates that depend on the bag around a point."""
    bag_rate = question.over_bags(question.subsets.totals / question.subsets.weights)
    model = question.draws.mean()
    parts = []
    for share in _SHARES:
        rates = (1 - share) * question.draws + share * bag_rate
        lower, upper = np.quantile(rates, interval_ends(question.level))
        parts.append(f"{rates.mean():.3g} ({lower:.3g} to {upper:.3g}) at k = {share:g}")
    answer = f"Rates that depend on the bag by a share k: {', '.join(parts)}; totals do not show k."
    if (bag_rate > question.overall) == question.above:
        limit = "No share changes the sign; the difference shrinks."
    else:
        share = (model - question.overall) / (model - bag_rate)
        limit = f"A share of k = {share:.2f}."
    return Doubt("Rates that depend on the bag as well (context)", answer, limit)


def effects(question: Question) -> Doubt | None:
    """Effects of the bags that go with the means of columns."""
    try:
        slopes = question.model.check_context(level=question.level)
    except ValueError:  # a model without effects, or of few bags
        return None
    clear = slopes[(slopes["lower"] > 0) | (slopes["upper"] < 0)]
    if not len(clear):
        return None
    named = ", ".join(f"{name} ({row['mean']:+.2g})" for name, row in clear.iterrows())
    return Doubt(
        "Effects of bags that go with the means of their columns",
        f"Effects on the log rate per standard deviation of the bags' means: {named}.",
        "Not known: these contradict that rates depend only on the columns of a point.",
    )
