"""Predictive distributions of labels, and of rates, that a Stan program draws."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bdr_stan.aggregate.links import IDENTITY
from bdr_stan.predictive.classes import ClassPredictive, MulticlassPredictive, OrdinalPredictive
from bdr_stan.predictive.distributions import draw_quantiles
from bdr_stan.predictive.mixture import NumericMixture
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.types import Array

# Log densities of labels, shape (m,), of the bags with indices of shape (m,), under each draw:
# shape (S, m).
LogDensity = Callable[[Array, Array], Array]


class ProgramPredictive(NumericMixture):
    """Predictive distribution of the labels of n bags, by draws of a user's Stan program.

    ``components(i)`` returns ``y_new`` of the bags with indices `i`, and ``log_density(i, labels)``
    their ``log_lik`` at labels, shapes (S, len(i)). Quantiles are counts if `is_count`.
    """

    def __init__(
        self,
        components: Callable[[Array], Any],
        n_bags: int,
        n_draws: int,
        weights: Array | None = None,
        *,
        log_density: LogDensity,
        is_count: bool = False,
    ) -> None:
        self.log_density, self.is_count = log_density, is_count
        super().__init__(components, n_bags, n_draws, weights)

    @property
    def _described(self):
        return f"{super()._described} of a Stan program"

    @classmethod
    def _pooled_settings(cls, predictives):
        def log_density(i, labels):
            return np.concatenate([part.log_density(i, labels) for part in predictives])

        return {"log_density": log_density, "is_count": predictives[0].is_count}

    def of_classes(self, classes: Array, first: int) -> Any:
        """The same if labels are codes of `classes`, (C,), from the number `first` on."""
        every, shape = np.arange(len(self)), (len(self), self.n_draws)
        log_p = np.stack(
            [self.log_density(every, np.full(len(self), first + k)) for k in range(len(classes))]
        )
        if len(classes) == 2:
            return ClassPredictive(lambda i: tuple(log_p[:, :, i]), *shape, classes)
        by_class = np.moveaxis(log_p, 0, -1)
        several = OrdinalPredictive if first == 1 else MulticlassPredictive
        return several(lambda i: by_class[:, i], *shape, classes)

    def log_density_function(self, i: Array) -> Callable[[Array], Array]:
        return lambda labels: self.log_density(i, labels)

    def _moments(self, components, i):
        return components, 0.0

    def _cdf(self, components, i, labels):
        return self._average(components <= labels)

    def _quantiles(self, components, i, levels):
        weights = self._draw_weights if self.is_count else self.weights
        return draw_quantiles(components, levels, weights)

    def _log_density(self, components, i, labels):
        return self.log_density(i, labels)

    def _labels(self, components, i, draws, rng):
        return components[draws]


class ProgramRates(PointPredictive):
    """Posterior distribution of the rate at points: `rate_new` of a user's program, (S, n)."""

    def __init__(self, rates: Array) -> None:
        features: Any = None  # the points are passed as their rates
        n_draws, n = rates.shape
        no_weights = np.empty((n_draws, 0))

        def read(start, stop):
            return rates[:, start:stop].T

        super().__init__(read, n, features, no_weights, IDENTITY)

    def __repr__(self) -> str:
        return super().__repr__().replace(f"link {IDENTITY.name}", "of a Stan program")

    def _function(self, points, rows):
        return points.copy(), None
