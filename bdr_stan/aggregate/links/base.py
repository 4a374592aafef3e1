"""Links: the rate of f, its derivatives, and summaries of a bag's points for its total."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from bdr_stan.aggregate.rows import AggregateRows, bag_means, point_rows
from bdr_stan.aggregate.thinning import thinned_point_rows
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array

# From theta = [w; f0]: the bags' means lambda, shape (n,), their gradients, shape (n, d + 1), and a
# function of numbers c, shape (n,): sum_a c_a times the second derivative of lambda_a.
Means = Callable[[Array], tuple[Array, Array, Callable[[Array], Array]]]
# From a link's moments of each bag's mean under a Gaussian theta: the sum of a function of them
# over the bags, and its slopes in each moment.
OfMoments = Callable[..., tuple[float, list[Array]]]
# From mean and factor of the Gaussian, and rho: the same sum, and its slopes in mean, factor and
# log rho.
Expectation = Callable[[Array, Array, float], tuple[float, Array, Array, float]]


class FunctionPrior(NamedTuple):
    """Default prior of f: its level is normal(level, level_sd), its standard deviation about sd."""

    level: float
    level_sd: float
    sd: float


class Link:
    """Base of the links; each has one object, in `bdr_stan.aggregate.links.LINKS`.

    The mean of bag a's label is lambda_a = sum_j p_j rate(f_j), f_j = phi_j' theta at its points.
    """

    name: ClassVar[str]
    program: ClassVar[str]  # Stan program of the likelihoods that take this link
    rate: ClassVar[np.ufunc]  # at values of f; accepts `out`
    # Whether the rate is f itself, so a bag's label depends on one weighted sum.
    is_linear: ClassVar[bool] = False
    # Whether points are kept one by one, so fewer may represent all.
    can_thin: ClassVar[bool] = False
    # Whether a bag's mean is the average rate of its points, and effects are on their log odds.
    is_average: ClassVar[bool] = False
    # Whether the bags' means include the residual variance, in closed form.
    uses_residual_variance: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        """Rate at values of f, and its first and second derivative there."""
        raise NotImplementedError

    def function_prior(self, overall: float) -> FunctionPrior:
        """Default prior of f if `overall` is the pooled rate of all bags, > 0.

        The link "identity" has none: the overall rate does not determine how far rates spread.
        """
        raise NotImplementedError

    def residual_mean(self, rows: AggregateRows, rho: float | Array) -> float | Array:
        """Contribution of the residual variance to the bags' means, shape (n,), or (S, n) for S
        rhos.

        For the bags' `rows` and `rho`, the scale of the weights.
        """
        return 0.0

    def mean_rate(self, f: Array, residual_variance: Array | None) -> Array:
        """Mean rate at points of this f, plus normal numbers of variance `residual_variance`.

        With most links the bags' totals identify only their joint mean, so it is the rate of f.
        """
        return self.rate(f)

    def with_residual_variance(self, f: Array, variance: Array, noise: Array) -> Array:
        """f at points, and normal numbers of this variance added; the mean rate is `mean_rate`.

        f and the variance have the shape (n, S), the standard normal noise (S,).
        """
        return f + np.sqrt(variance) * noise

    def with_effect(
        self, f: Array, residual_variance: Array | None, effect: Array
    ) -> tuple[Array, Array | None]:
        """f at points, and its residual variance, with their bag's effect, all of shape (n, S).

        Effects are on the log rate (with "logit" on the log odds).
        """
        return f + effect, residual_variance

    def rows(self, bags: Bags, features: FeatureMap, *, thin: int | None = None) -> AggregateRows:
        """What a fit needs of the bags' points, in one pass over them.

        If the link `can_thin`, at most `thin` weighted points represent a bag.
        """
        if thin is not None:
            return thinned_point_rows(bags, features, thin)
        return point_rows(bags, features)

    def shares(self, rows: AggregateRows) -> Array:
        """What the rate at each of `rows` counts for in its bag's mean, shape (T,)."""
        return rows.row_weights / rows.total[rows.bag] if self.is_average else rows.row_weights

    def mean_function(self, rows: AggregateRows, rho: float = 0.0) -> Means:
        """The means of the bags of `rows` as a function of theta, with its derivatives.

        `rho` is the scale of the weights, for the residual variance.
        """
        X, bag, weights = rows.rows, rows.bag, rows.row_weights
        residual_mean = self.residual_mean(rows, rho)

        def means(theta):
            rates, slopes, curvatures = self.derivatives(X @ theta)
            return (
                np.add.reduceat(weights * rates, rows.start) + residual_mean,
                rows.combined(weights * slopes),
                lambda c: (X * (c[bag] * weights * curvatures)[:, None]).T @ X,
            )

        return means

    def means(
        self,
        rows: AggregateRows,
        theta: Array,
        effects: Array | None = None,
        *,
        rho: float | Array = 0.0,
    ) -> Array:
        """Means of the bags' labels, shape (S, n), for weights and f0 of each draw, (S, d + 1).

        `effects`, (S, n), are effects of the bags on the log rate (with "logit" on the log odds);
        rho, also (S,), is the scale of the weights, for the residual variance.
        """
        if self.is_average:
            return rows.means(theta, self.rate, effects) / rows.total
        means = rows.means(theta, self.rate) + self.residual_mean(rows, rho)
        return means if effects is None else means * np.exp(effects)

    def means_of_bags(
        self,
        bags: Bags,
        features: FeatureMap,
        theta: Array,
        effects: Array | None = None,
        *,
        rho: float | Array = 0.0,
    ) -> Array:
        """As `means`, for bags with all their points, with the rows of `features`."""
        if not self.can_thin or (self.is_average and effects is not None):
            return self.means(self.rows(bags, features), theta, effects, rho=rho)
        # Points are many, and their rows need not be kept.
        means = bag_means(bags, features, theta, self.rate)
        if self.is_average:
            return means / bags.totals
        return means if effects is None else means * np.exp(effects)

    def expectation(self, rows: AggregateRows, of_moments: OfMoments) -> Expectation:
        """Sum over the bags of `rows` of `of_moments` of their means, theta ~ N(m, F F').

        The moments are the arguments of the likelihoods' variational terms; links without terms in
        any likelihood need none. rho, the scale of the weights, is for the residual variance.
        """
        raise NotImplementedError
