"""The logit link: rates that are probabilities, averaged over the points of a bag."""

from scipy.special import expit, logit

from bdr_stan.aggregate.links.base import FunctionPrior, Link, Means
from bdr_stan.aggregate.rows import AggregateRows, bag_means
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array

_LARGEST_SHARE = 1 - 1e-6  # of the overall rate, so that its log odds are finite


class Logit(Link):
    """rate = 1 / (1 + exp(-f)), and a bag's mean is lambda_a / sum_j p_j, a probability."""

    name = "logit"
    program = "aggregate_binomial"
    rate = expit
    can_thin = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        p = expit(f)
        slope = p * (1 - p)
        return p, slope, slope * (1 - 2 * p)

    def function_prior(self, overall: float) -> FunctionPrior:
        return FunctionPrior(logit(min(overall, _LARGEST_SHARE)), 1.5, 1.0)

    def shares(self, rows: AggregateRows) -> Array:
        return rows.row_weights / rows.total[rows.bag]

    def mean_function(self, rows: AggregateRows, rho: float = 0.0) -> Means:
        totals_at, total = super().mean_function(rows, rho), rows.total

        def means(theta):
            totals, by_theta, second = totals_at(theta)
            return totals / total, by_theta / total[:, None], lambda c: second(c / total)

        return means

    def means(
        self,
        rows: AggregateRows,
        theta: Array,
        effects: Array | None = None,
        *,
        rho: float | Array = 0.0,
    ) -> Array:
        return rows.means(theta, self.rate, effects) / rows.total

    def means_of_bags(
        self,
        bags: Bags,
        features: FeatureMap,
        theta: Array,
        effects: Array | None = None,
        *,
        rho: float | Array = 0.0,
    ) -> Array:
        if effects is not None:
            return super().means_of_bags(bags, features, theta, effects, rho=rho)
        # Points are many, and their rows need not be kept.
        return bag_means(bags, features, theta, self.rate) / bags.totals


LOGIT = Logit()
