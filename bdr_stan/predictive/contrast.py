"""What changing bags changes: the difference of expected labels, draw by draw."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from bdr_stan.predictive.mixture import Mixture, bags_at_once, interval_ends, quantile_levels
from bdr_stan.predictive.table import Tabular
from bdr_stan.types import Array, ArrayLike


class Contrast(Tabular):
    """Posterior of the difference of each bag's expected label between two versions of the bags.

    Both versions are seen under the same draws of the parameters, so what these leave open of
    either cancels as far as the versions are alike. The noise of labels has no part in it.

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
        self.differences = differences
        self.n_draws, self.weights = n_draws, weights
        self.mean, self.sd = np.empty(n_bags), np.empty(n_bags)
        for i, difference in self._chunks():
            self.mean[i] = np.average(difference, axis=0, weights=self.weights)
            squares = (difference - self.mean[i]) ** 2
            self.sd[i] = np.sqrt(np.average(squares, axis=0, weights=self.weights))

    @classmethod
    def between(cls, first: Mixture, second: Mixture) -> Self:
        """The expected label of one version of the bags less that of another.

        Parameters
        ----------
        first, second : Predictive, ClassPredictive or AggregatePredictive
            Of the same number of bags, under the same draws. Of classes it is the probability of
            the second class that differs.
        """

        def differences(i):
            return first.expected(i) - second.expected(i)

        return cls(differences, len(first), first.n_draws, first.weights)

    @classmethod
    def pooled(cls, contrasts: Sequence[Self], weights: Array) -> Self:
        """The mixture over the draws of all `contrasts`; a weight for each, as `mix` gives them."""

        def differences(i):
            return np.concatenate([each.differences(i) for each in contrasts])

        return cls(differences, len(contrasts[0]), len(weights), weights).of_bags(contrasts[0])

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return (
            f"Contrast({len(self)} bags, {self.n_draws} draws; mean, sd, quantile(q), "
            "interval(level), draws)"
        )

    @property
    def draws(self) -> Array:
        """The difference of each bag under each draw, shape (S, n), units of y."""
        return np.concatenate([difference for _, difference in self._chunks()], axis=1)

    def quantile(self, q: ArrayLike) -> Array:
        """Posterior quantiles of the difference of each bag.

        Parameters
        ----------
        q : float or array, shape (k,), 0 < q < 1

        Returns
        -------
        array, shape (n,) or (k, n), units of y

        Raises
        ------
        ValueError
            If a q is not strictly between 0 and 1.
        """
        levels = quantile_levels(q)
        method: dict[str, Any] = {}
        if self.weights is not None:
            method = {"method": "inverted_cdf", "weights": self.weights}
        values = np.empty((len(levels), len(self)))
        for i, difference in self._chunks():
            values[:, i] = np.quantile(difference, levels, axis=0, **method)
        return values[0] if np.ndim(q) == 0 else values

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central (equal-tailed) posterior intervals, between two values of `quantile`.

        Parameters
        ----------
        level : float, 0 < level < 1, default 0.95

        Returns
        -------
        lower, upper : arrays, shape (n,), units of y

        Raises
        ------
        ValueError
            If the level is not strictly between 0 and 1.
        """
        lower, upper = self.quantile(interval_ends(level))
        return lower, upper

    def _chunks(self) -> Iterator[tuple[Array, Array]]:
        for i in bags_at_once(len(self), self.n_draws):
            yield i, self.differences(i)
