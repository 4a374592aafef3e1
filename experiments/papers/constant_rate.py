"""One rate for all points, learned from totals of bags."""

from typing import Self

import numpy as np

from bdr_stan.aggregate.likelihoods import likelihood_named
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.parameters import estimator
from bdr_stan.types import Array, ArrayLike
from experiments.papers.rate_model import RateModel


@estimator
class ConstantRate(RateModel):
    """One rate for all points of a training bag, and the pooled rate for all others.

    Parameters
    ----------
    likelihood : one of `bdr_stan.aggregate.likelihoods.LIKELIHOODS`, default "poisson"
        Determines which labels are valid; the rates do not depend on it.

    Attributes
    ----------
    rate_ : float
        sum_a y_a / sum_a sum_j p_j, units of y for a weight of 1.
    training_rates_ : array, shape (n,)
        y_a / sum_j p_j of each training bag.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, the baseline "constant".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags
    >>> from experiments.papers import ConstantRate
    >>> districts = Bags.from_points(np.zeros((6, 1)), sizes=[2, 4])
    >>> model = ConstantRate().fit(districts, [1, 8])
    >>> model.training_rates_
    array([0.5, 2. ])
    >>> float(model.rate_)
    1.5
    >>> model.predict(districts)
    array([3., 6.])
    >>> model.predict_points([[0.0]])
    array([1.5])
    """

    likelihood: str = "poisson"

    def fit(self, bags: BagsLike, y: ArrayLike) -> Self:
        """Fit to bags and their totals, (n,); ValueError or TypeError for unusable ones."""
        bags = as_bags(bags)
        y = likelihood_named(self.likelihood).check_labels(bags, y)
        self.rate_, self.training_rates_ = y.sum() / bags.totals.sum(), y / bags.totals
        self.keep_record(bags)
        return self

    def rates_at(self, points: Array) -> Array:
        return np.full(len(points), float(self.rate_))
