"""The logit link: rates that are probabilities, averaged over the points of a bag."""

from scipy.special import expit, logit

from bdr_stan.aggregate.links.base import FunctionPrior, Link, Means
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.types import Array

_LARGEST_SHARE = 1 - 1e-6  # of the overall rate, so that its log odds are finite


class Logit(Link):
    """rate = 1 / (1 + exp(-f)), and a bag's mean is lambda_a / sum_j p_j, a probability."""

    name = "logit"
    program = "aggregate_binomial"
    rate = expit
    can_thin = True
    is_average = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        p = expit(f)
        slope = p * (1 - p)
        return p, slope, slope * (1 - 2 * p)

    def function_prior(self, overall: float) -> FunctionPrior:
        return FunctionPrior(logit(min(overall, _LARGEST_SHARE)), 1.5, 1.0)

    def mean_function(self, rows: AggregateRows, rho: float = 0.0) -> Means:
        totals_at, total = super().mean_function(rows, rho), rows.total

        def means(theta):
            totals, by_theta, second = totals_at(theta)
            return totals / total, by_theta / total[:, None], lambda c: second(c / total)

        return means


LOGIT = Logit()
