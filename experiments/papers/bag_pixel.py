"""The regressor of totals that takes each bag for one point."""

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.aggregate.rows import mean_points
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.record import BagsRecord
from bdr_stan.models.plain import StanData
from bdr_stan.predictive import AggregatePredictive, Contrast, Predictive, ProgramPredictive
from bdr_stan.types import ArrayLike
from experiments.papers.on_bags import check_weights


class BagPixel(AggregateRegressor):
    """`AggregateRegressor` that takes each bag for one point: its mean, with the bag's weight.

    Parameters, attributes and methods are those of `AggregateRegressor`; new bags, too, are
    predicted from their mean points, so `thin` has no use and is refused. Rates that are not
    linear in the covariates make it biased.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, "bag-pixel".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags
    >>> from experiments.papers import BagPixel
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(1000, 1))
    >>> districts = Bags.from_points(rain, bag=(rain[:, 0] * 20).astype(int))
    >>> cases = rng.poisson(districts.sums(5 * districts.points[:, 0]))  # the rate is 5 x rain
    >>> model = BagPixel(n_landmarks=6, method="optimize").fit(districts, cases, seed=1)
    >>> bool(np.abs(model.predict_points([[0.2], [0.8]]).mean - [1, 4]).max() < 0.5)
    True
    """

    takes_parts = False  # it needs the mean point of each bag

    def check_parameters(self) -> None:
        if self.thin is not None:
            raise ValueError(
                f"BagPixel takes each bag for one point, which leaves nothing to thin: leave out "
                f"thin={self.thin!r}"
            )
        super().check_parameters()

    def _training_features(self, bags, labels, seed):
        """Of the bags' mean points."""
        features = super()._training_features(mean_points(bags), labels, seed)
        return replace(features, record=BagsRecord.from_bags(bags))

    def stan_data(self, bags: BagsLike, y: ArrayLike, **given: Any) -> StanData:
        """As `AggregateRegressor.stan_data`, of the bags' mean points."""
        return super().stan_data(mean_points(bags), y, **given)

    def predictive(
        self, bags: BagsLike, **given: Any
    ) -> AggregatePredictive | Predictive | ProgramPredictive:
        """As `AggregateRegressor.predictive`, of the bags' mean points."""
        return super().predictive(self.new_mean_points(bags), **given)

    def contrast(self, bags_a: BagsLike, bags_b: BagsLike, **given: Any) -> Contrast:
        """As `AggregateRegressor.contrast`, of the bags' mean points."""
        first, second = (self.new_mean_points(bags) for bags in (bags_a, bags_b))
        return super().contrast(first, second, **given)

    def new_mean_points(self, bags: BagsLike) -> Bags:
        """Mean points of new bags, which have weights if those of the fit had."""
        check_is_fitted(self, "result_")
        bags = as_bags(bags)
        check_weights(bags, self.result_.settings["weighted"])
        return mean_points(bags)
