"""Posterior of the rate at points, from passes over chunks of the points in threads."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array
from scipy.special import ndtri

from bdr_stan.aggregate.links import Link
from bdr_stan.kernels import FeatureMap
from bdr_stan.predictive.distributions import Distributions, draw_quantiles
from bdr_stan.threads import map_in_threads
from bdr_stan.types import Array, ArrayLike

# Features and rates of the points of a chunk: small enough for caches.
CHUNK_BYTES = 1 << 21


class PointPredictive(Distributions):
    """Posterior distribution of the rate at each of n points.

    Under draw s, with weights w_s and intercept c_s, the rate at a point x is

        rate_s(x) = link.rate(psi(x)' w_s + c_s).

    The rate at a point of a bag with a known effect includes that effect. With rho, a normal number
    of variance rho_s^2 (k(x, x) - |psi(x)|^2) is added for the part of the Gaussian process outside
    the basis; see `Link.with_residual_variance`.

    Parameters
    ----------
    read : callable
        ``read(start, stop)`` returns these points, shape (stop - start, p); called from threads.
    n_points : int
        n.
    features : FeatureMap
        psi of points, shape (k, d), for example `bdr_stan.kernels.NystromFeatures`.
    theta : array, shape (S, d + 1)
        Posterior draws of the weights, and the intercept as the last column.
    link : Link
        One of `bdr_stan.aggregate.links.LINKS`.
    rho : array, shape (S,), optional
        Scale of the weights under each draw; `features` must then have `residual_variance`.
    weights : array, shape (S,), optional
        Weight of each draw, of sum 1; default equal weights.
    effects : array, shape (S, k), optional
        Effects of k bags on the log rate (with the link "logit" on the log odds), under each draw.
    bag : array of integers, shape (n,), optional
        Index of each point's bag; -1 for none.
    effect_columns : callable, optional
        ``effect_columns(points)`` returns K columns, shape (n, K), with coefficients `effects`,
        then of shape (S, k, K).

    Attributes
    ----------
    mean, sd : arrays, shape (n,), units of the rate
        Moments of the posterior, both computed at first use. The residual variance adds to the sd
        and, with the square link, to the mean, as for bags: the weighted mean over the points of a
        bag is the prediction of the bag.

    Notes
    -----
    Each method is a pass over the points of n S (d + 1) multiplications in float64. Several
    quantiles in one call share a pass.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Linear, PointPredictive
    >>> from bdr_stan.aggregate.links import LINKS
    >>> from bdr_stan.kernels import LandmarkFeatures
    >>> rain = np.array([[0.0], [1.0], [2.0]])
    >>> psi = LandmarkFeatures(Linear(), [[1.0]])  # rain itself
    >>> theta = np.log([[2.0, 10.0], [4.0, 10.0]])  # weight of rain, intercept; two draws
    >>> rate = PointPredictive(lambda a, b: rain[a:b], 3, psi, theta, LINKS["exp"])
    >>> rate.mean.round(2)
    array([ 10.,  30., 100.])
    >>> rate.exceedance(50)
    array([0. , 0. , 0.5])
    """

    def __init__(
        self,
        read: Callable[[int, int], Array],
        n_points: int,
        features: FeatureMap,
        theta: Array,
        link: Link,
        rho: Array | None = None,
        weights: Array | None = None,
        *,
        effects: Array | None = None,
        bag: Array | None = None,
        effect_columns: Callable[[Array], Array] | None = None,
    ) -> None:
        self._read, self._features = read, features
        self.n_points, self.theta, self.link, self.weights = n_points, theta, link, weights
        self.rho, self.effects, self.bag = rho, effects, bag
        self.effect_columns = effect_columns

    def __len__(self) -> int:
        return self.n_points

    def __repr__(self) -> str:
        return (
            f"PointPredictive({len(self)} points, {len(self.theta)} draws, link {self.link.name}; "
            "mean, sd, quantile(q), interval(level), exceedance(threshold), cdf(rate), draws(rows))"
        )

    @property
    def mean(self) -> Array:
        """Posterior mean of the rate at each point, shape (n,)."""
        return self._moments[0]

    @property
    def sd(self) -> Array:
        """Posterior standard deviation of the rate at each point, shape (n,)."""
        return self._moments[1]

    @cached_property
    def _moments(self):
        weights = self._weights

        def moments(points, rows):
            f, residual_variance = self._function(points, rows)
            mean = self.link.mean_rate(f, residual_variance) @ weights
            rates = self._rates(f, residual_variance)
            rates -= mean[:, None]
            np.square(rates, out=rates)
            return mean, np.sqrt(rates @ weights)

        return self._pass(moments, 2)

    def _quantiles_at(self, levels):
        def quantiles(points, rows):
            rates = self._rates(*self._function(points, rows))
            return draw_quantiles(rates, levels, self.weights, axis=1, overwrite=True)

        return self._pass(quantiles, len(levels))

    def exceedance(self, threshold: ArrayLike) -> Array:
        """Posterior probability that the rate exceeds a threshold.

        Parameters
        ----------
        threshold : float, or array, shape (n,), units of the rate
            One for all points, or one per point.

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError : NaN, or another number of thresholds than points.
        """
        threshold, weights = np.asarray(threshold, float), self._weights
        if threshold.shape not in ((), (len(self),)):
            raise ValueError(
                f"threshold has shape {threshold.shape}: pass one number, or one for each of the "
                f"{len(self)} points"
            )
        if np.isnan(threshold).any():
            raise ValueError("the threshold is NaN: pass a rate to compare with")
        thresholds = np.broadcast_to(threshold, len(self))

        def exceeding(points, rows):
            rates = self._rates(*self._function(points, rows))
            return np.greater(rates, thresholds[rows, None], out=rates) @ weights

        # The sum of the weights may exceed 1 by rounding.
        return np.minimum(self._pass(exceeding, 1)[0], 1.0)

    def cdf(self, rate: ArrayLike) -> Array:
        """Posterior probability of a rate not above each of `rate`, shape (n,).

        1 - `exceedance(rate)`. At the true rates it is uniform on (0, 1) if the posterior is
        calibrated.
        """
        return 1 - self.exceedance(rate)

    def draws(self, rows: ArrayLike) -> Array:
        """The rate at some points under each draw.

        Parameters
        ----------
        rows : array of integers, shape (k,)
            Numbers of the points, from 0.

        Returns
        -------
        array, shape (S, k), units of the rate

        Raises
        ------
        ValueError : `rows` are not numbers of points.
        """
        return self._rates(*self._function(*self._some(rows))).T

    def mean_of(self, rows: ArrayLike) -> Array:
        """Posterior mean of the rate at some points, shape (k,); `rows` as in `draws`."""
        return self.link.mean_rate(*self._function(*self._some(rows))) @ self._weights

    def weighted_sums(self, coefficients: csc_array, threshold: float) -> tuple[Array, Array]:
        """Weighted sums of the rate, and of its indicator above a threshold, under each draw.

        The part of the Gaussian process outside the basis is independent between points.

        Parameters
        ----------
        coefficients : csc_array, shape (k, n)
            Weight of each point in each of k sums.
        threshold : float, units of the rate

        Returns
        -------
        rates, exceeding : arrays, shape (S, k)
        """

        def sums(points, rows):
            f, residual_variance = self._function(points, rows)
            rates = drawn_rates = self.link.mean_rate(f, residual_variance)
            if residual_variance is not None:
                noise = np.random.default_rng(rows.start).normal(size=f.shape)
                drawn_rates = self._rates(f, residual_variance, noise)
            some = coefficients[:, rows]
            groups = np.unique(some.indices)  # few, as neighbouring points are in one bag
            weights = some.tocsr()[groups].toarray()
            return groups, weights @ rates, weights @ (drawn_rates > threshold).astype(float)

        out = np.zeros((2, coefficients.shape[0], len(self.theta)))
        for groups, rates, exceeding in self._chunks(sums):
            out[:, groups] += rates, exceeding
        return out[0].T, out[1].T

    def _some(self, rows):
        """The points with these numbers, shape (k, p), and the numbers as an array."""
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) == 0:
            raise ValueError(
                f"rows must list numbers of points, found {rows.dtype} of shape {rows.shape}"
            )
        unknown = (rows < 0) | (rows >= len(self))
        if unknown.any():
            raise ValueError(
                f"there is no point {rows[unknown][0]}: the points are 0 to {len(self) - 1}"
            )
        return np.concatenate([self._read(row, row + 1) for row in rows]), rows

    @property
    def _weights(self):
        S = len(self.theta)
        return np.full(S, 1 / S) if self.weights is None else self.weights

    @cached_property
    def _noise(self):
        """A standard normal number for each draw, (S,), that points share: even quantiles."""
        S = len(self.theta)
        return ndtri((np.random.default_rng(0).permutation(S) + 0.5) / S)

    def _function(self, points, rows):
        """f at points of numbers `rows`, and residual variance, (n, S), with bags' effects."""
        phi = np.empty((len(points), self.theta.shape[1]))  # [psi', 1]
        self._features(points, out=phi[:, :-1])
        phi[:, -1] = 1
        f = phi @ self.theta.T
        residual_variance = None
        if self.rho is not None:
            residual_variance = self._features.residual_variance(points, phi[:, :-1])
            residual_variance = np.multiply.outer(residual_variance, self.rho**2)
        if self.effects is None:
            return f, residual_variance
        bag = self.bag[rows]
        effect = self.effects[:, bag]
        if self.effect_columns is not None:
            effect = np.einsum("snk,nk->sn", effect, self.effect_columns(points))
        effect = np.where(bag[:, None] < 0, 0.0, effect.T)
        return self.link.with_effect(f, residual_variance, effect)

    def _rates(self, f, residual_variance, noise=None):
        """Rates at points under all draws; may write to f. `noise` is (n, S), or all points'."""
        if residual_variance is not None:
            noise = self._noise if noise is None else noise
            f = self.link.with_residual_variance(f, residual_variance, noise)
        return self.link.rate(f, out=f)

    def _pass(self, reduce, n_values):
        """``reduce(points, rows)`` of the points with numbers `rows`, shape (n_values, n)."""
        out = np.empty((n_values, len(self)))

        def run(points, rows):
            out[:, rows] = reduce(points, rows)

        list(self._chunks(run))
        return out

    def _chunks(self, function):
        """Yield ``function(points, rows)`` of all chunks of points, in order."""
        size = max(16, CHUNK_BYTES // (8 * sum(self.theta.shape)))

        def run(start):
            rows = slice(start, min(start + size, len(self)))
            return function(self._read(rows.start, rows.stop), rows)

        return map_in_threads(run, range(0, len(self), size))
