"""What changing bags changes: the difference of expected labels, draw by draw."""

from collections.abc import Callable
from typing import Self

import numpy as np

from bdr_stan.predictive.distributions import draw_quantiles
from bdr_stan.predictive.mixture import LabelMixture, Mixture
from bdr_stan.types import Array


class Contrast(Mixture):
    """Posterior of the difference of each bag's expected label between two versions of the bags.

    Both versions are predicted under the same draws of the parameters, so the uncertainty that they
    have in common cancels. The noise of labels is not included.

    Parameters
    ----------
    differences : callable
        ``differences(i)`` gives the difference of the bags with integer indices `i` under each
        draw, shape (S, len(i)).
    n_bags, n_draws : int
        n and S.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Of the posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(100, 1)) for mean in y]
    >>> model = BLR(5, method="exact").fit(bags, y, seed=1)
    >>> bag = [rng.normal(0, size=(100, 1))]
    >>> contrast = model.contrast([bag[0] + 0.5], bag)  # were all its points higher by 0.5
    >>> contrast
    Contrast(1 bags, 1000 draws; mean, sd, quantile(q), interval(level), draws)
    >>> lower, upper = contrast.interval(0.95)
    >>> bool(lower[0] < 0.5 < upper[0])
    True
    """

    def __init__(
        self,
        differences: Callable[[Array], Array],
        n_bags: int,
        n_draws: int,
        weights: Array | None = None,
    ) -> None:
        super().__init__(differences, n_bags, n_draws, weights)

    @classmethod
    def between(cls, first: LabelMixture, second: LabelMixture) -> Self:
        """The expected label of one version of the bags less that of another.

        Parameters
        ----------
        first, second : Predictive, ClassPredictive or AggregatePredictive
            Of the same number of bags, under the same draws. Of classes, the difference is that of
            the probability of the second class.
        """

        def differences(i):
            return first.expected(i) - second.expected(i)

        return cls(differences, len(first), first.n_draws, first.weights)

    def __repr__(self) -> str:
        return (
            f"Contrast({len(self)} bags, {self.n_draws} draws; mean, sd, quantile(q), "
            "interval(level), draws)"
        )

    @property
    def draws(self) -> Array:
        """The difference of each bag under each draw, shape (S, n), units of y."""
        return np.concatenate([difference for _, difference in self._chunks()], axis=1)

    def _moments(self, difference, i):
        return difference, 0.0

    def _quantiles(self, difference, i, levels):
        return draw_quantiles(difference, levels, self.weights)
