"""What changing bags changes: the difference of expected labels, draw by draw."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from bdr_stan.bags.groups import weights_of_bags
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.predictive.distributions import draw_quantiles, interval_ends
from bdr_stan.predictive.mixture import LabelMixture, Mixture
from bdr_stan.predictive.robustness import Regression, Robustness
from bdr_stan.types import Array, ArrayLike

# Spread of the contrast, relative to its size, below which draws differ only by rounding.
_ROUNDING = 1e-12


class Contrast(Mixture):
    """Posterior of the difference of each bag's expected label between two versions of the bags.

    Both versions are predicted under the same draws of the parameters, so the uncertainty that they
    have in common cancels. The noise of labels is not included.

    If bags are so small that their averages differ mostly by chance, the fit cannot separate the
    columns, and its effects are too small (attenuated). `reliability` is the share of the variance
    of the average influence of the training bags that is not sampling error: below 0.5 contrasts
    are 5% too small or more, at 0.2 by a third.

    Parameters
    ----------
    differences : callable
        ``differences(i)`` returns the difference of the bags with integer indices `i` under each
        draw, shape (S, len(i)).
    n_bags, n_draws, weights
        As for `Predictive`.
    regression : Regression, optional
        Regression with a linear contrast, for `robustness`.
    exact : Contrast, optional
        Without errors of the points as a sample, for `robustness`; default this one.
    reliability : float, optional
        Reliability of the fit, see above.

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of y
        Moments of the posterior.
    reliability : float, at most 1, or None if the fit treats embeddings as exact

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> model = BLR(5, method="exact").fit(bags, y, seed=1)
    >>> contrast = model.contrast(bags[:1], bags[1:2])  # were its images those of the second bag
    >>> contrast
    Contrast(1 bags, 1000 draws; mean, sd, quantile(q), interval(level), draws, robustness())
    >>> contrast.draws.shape
    (1000, 1)
    """

    def __init__(
        self,
        differences: Callable[[Array], Array],
        n_bags: int,
        n_draws: int,
        weights: Array | None = None,
        *,
        regression: Regression | None = None,
        exact: "Contrast | None" = None,
        reliability: float | None = None,
    ) -> None:
        super().__init__(differences, n_bags, n_draws, weights)
        self.regression, self.exact, self.reliability = regression, exact or self, reliability

    _answers = "mean, sd, quantile(q), interval(level), draws, robustness()"

    @classmethod
    def between(cls, first: LabelMixture, second: LabelMixture, **options: Any) -> Self:
        """The difference in expected label between two versions of the bags.

        `first` minus `second`, with the same number of bags and the same draws; for classes the
        difference of probabilities of the second class. `options` are arguments of `Contrast`.
        """

        def differences(i):
            return first.expected(i) - second.expected(i)

        return cls(differences, len(first), first.n_draws, first.weights, **options)

    @property
    def draws(self) -> Array:
        """The difference of each bag under each draw, shape (S, n), units of y."""
        return np.concatenate([difference for _, difference in self._chunks()], axis=1)

    def robustness(self, weights: ArrayLike | None = None, *, level: float = 0.95) -> Robustness:
        """How strong a cause that the model omits must be to change the average contrast.

        Parameters
        ----------
        weights : array, shape (n,), or Series by the bags' ids, optional
            Weight of each bag in the average, >= 0; default equal weights.
        level : float, 0 < level < 1, default 0.95
            Level of the interval.

        Returns
        -------
        Robustness
            With `value`, `interval_value`, `bias(c_y, c_d)`, `bounds(c_y, c_d)` and
            `benchmarks()`; `print` writes a sentence, `bdr_stan.plots.robustness` draws it.

        Raises
        ------
        TypeError
            The contrast is not linear in a regression: it is of another model than BLR, BDR and
            Shrinkage with normal labels.
        ValueError
            Unusable weights; the versions do not differ; or the posterior has one draw.

        Notes
        -----
        The formulas are in `Robustness`. They are inexact if `prior` keeps sigma, rho or eta far
        from values that suit the data.
        """
        if self.regression is None:
            raise TypeError(
                "robustness needs a contrast that is linear in the coefficients of a regression: "
                "fit BLR, BDR or Shrinkage with family='normal' and without stan_file to the same "
                "bags"
            )
        ends = interval_ends(level)
        shares = self._shares(weights)
        lower, upper = draw_quantiles(self.draws @ shares, np.array(ends), self.weights)
        theta = self.exact.draws @ shares
        spread, size = np.std(theta), np.max(np.abs(theta))
        if size == 0:
            raise ValueError("the two versions of the bags do not differ: pass bags that do")
        if not spread > _ROUNDING * size:
            raise ValueError(
                "the contrast has the same value in all draws, so its robustness is unknown: "
                "fit with method='nuts' or 'laplace'"
            )
        return Robustness.of_draws(theta, self.regression, (lower, upper), level)

    def _shares(self, weights):
        """Weights of the bags in their average, shape (n,), of sum 1."""
        if weights is None:
            return np.full(len(self), 1 / len(self))
        in_order = match_to_ids(weights, self.ids, "weights")
        weights = weights_of_bags(in_order, self)
        if not weights.any():
            raise ValueError("all weights are zero: give a bag a positive one")
        return weights / weights.sum()

    def _moments(self, difference, i):
        return difference, 0.0

    def _quantiles(self, difference, i, levels):
        return draw_quantiles(difference, levels, self.weights)
