"""Whether surveys agree with totals: the slope that links the two, and where the places lie."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bdr_stan.types import Array

_UNLIKELY = 0.01  # p-value below which the places are called unlike the points of the bags


@dataclass(frozen=True)
class SurveyAgreement:
    """Posterior of the surveys' slope in the log rate, and the places' percentiles of it."""

    slope: Array  # draws, shape (S,)
    percentiles: Array  # of m places among the points of the bags, see `percentiles_of_places`

    @property
    def interval(self) -> tuple[float, float]:
        """Central 95% interval of the slope."""
        low, high = np.quantile(self.slope, [0.025, 0.975])
        return float(low), float(high)

    @property
    def disagrees(self) -> bool:
        """Whether the slope may be 0 or negative."""
        return self.interval[0] <= 0

    @property
    def p_value(self) -> float:
        """Probability that the percentiles of representative places average as far from 0.5."""
        away = abs(np.mean(self.percentiles) - 0.5) * np.sqrt(12 * len(self.percentiles))
        return float(2 * ndtr(-away))

    @property
    def slope_text(self) -> str:
        """A sentence on the slope."""
        low, high = self.interval
        text = f"slope of the surveys' log odds in the log rate {np.mean(self.slope):.2g}"
        if len(self.slope) > 1:
            text += f" (95% interval {low:.2g} to {high:.2g})"
        if not self.disagrees:
            return f"{text}: surveys and totals agree."
        return (
            f"{text}: surveys and totals disagree, as the interval includes 0 or negative slopes; "
            "check the surveys, and compare the map with that of AggregateRegressor."
        )

    @property
    def places_text(self) -> str:
        """A sentence on how familiar the places are among the points of the bags."""
        average = np.mean(self.percentiles)
        text = f"survey places are on average at percentile {100 * average:.0f} of the log rate"
        if self.p_value > _UNLIKELY:
            return f"{text}, as places drawn like the bags' points would be."
        where = "high" if average > 0.5 else "low"
        return (
            f"{text}, unlike the bags' points (p = {self.p_value:.1g}): they were surveyed where "
            f"rates are {where}, so their share of positives is not that of the whole area."
        )
