"""Rates at points by a network with one hidden layer, and its loss on the totals of bags.

Bag a has the mean total lambda_a = sum_j p_j rate(x_aj), p_j the weights of its points, with
rate(x) = origin + unit link(f(x)) and f the output of the network at the standardised point.

Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian processes",
section 4, "NN" with manifold regularisation.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from bdr_stan.aggregate.links import Link
from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import median_bandwidth
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array
from experiments.papers.deviances import Deviance
from experiments.papers.fourier_features import FourierFeatures, draw_frequencies

CHUNK_POINTS = 1 << 14
PATIENCE = 25  # steps of L-BFGS without a better deviance of the validation bags
_NONE = np.empty((0, 0))  # of a penalty that is off
LARGEST_OUTPUT = 50.0  # a step to exp(50) times the common rate is too long


def sample_points(bags: Bags, n: int, rng: np.random.Generator) -> Array:
    """At most n of the points with weight, float64, drawn without replacement."""
    if bags.weights is None:
        return bags.sample_points(n, rng)
    rows = np.flatnonzero(bags.weights)
    if len(rows) > n:
        rows = np.sort(rng.choice(rows, n, replace=False))
    return bags.read_rows(rows).astype(float)


class Network(NamedTuple):
    """One hidden layer of h rectified linear units on p inputs, one output; or the gradient by it.

    f(x) = sum_k weights_k max(0, x' hidden_k + hidden_bias_k) + bias.
    """

    hidden: Array  # (p, h)
    hidden_bias: Array  # (h,)
    weights: Array  # (h,)
    bias: Array  # (1,)

    @classmethod
    def from_weights(cls, theta: Array, p: int) -> Self:
        """Views of a vector of parameters, shape (h (p + 2) + 1,)."""
        h = (len(theta) - 1) // (p + 2)
        hidden, hidden_bias, weights, bias = np.split(theta, [p * h, p * h + h, p * h + 2 * h])
        return cls(hidden.reshape(p, h), hidden_bias, weights, bias)

    def activations(self, inputs: Array) -> Array:
        """Of the hidden units at inputs, shape (n, p); shape (n, h)."""
        values = inputs @ self.hidden
        values += self.hidden_bias
        return np.maximum(values, 0, out=values)

    def output(self, activations: Array) -> Array:
        """f, shape (n,)."""
        return activations @ self.weights + self.bias

    def add_gradient(
        self, inputs: Array, activations: Array, slopes: Array, gradient: "Network"
    ) -> None:
        """Add sum_i slopes_i df_i/dtheta to the network `gradient`."""
        gradient.weights[:] += activations.T @ slopes
        gradient.bias[:] += slopes.sum()
        back = np.multiply.outer(slopes, self.weights)
        back *= activations > 0
        gradient.hidden[:] += inputs.T @ back
        gradient.hidden_bias[:] += back.sum(axis=0)


def first_parameters(p: int, h: int, output: float, rng: np.random.Generator) -> Array:
    """Random parameters of a network: He et al. (2015) in the hidden layer, f near `output`."""
    theta = np.zeros(h * (p + 2) + 1)
    network = Network.from_weights(theta, p)
    network.hidden[:] = rng.normal(0, np.sqrt(2 / p), (p, h))
    network.weights[:] = rng.normal(0, 0.1 / np.sqrt(h), h)
    network.bias[:] = output
    return theta


class Rates(NamedTuple):
    """From points to inputs of the network, and from its outputs to rates."""

    centre: Array  # (p,), units of the points
    spread: Array  # (p,), units of the points
    origin: float  # units of y for a weight of 1
    unit: float  # units of y for a weight of 1
    link: Link

    @classmethod
    def from_bags(cls, bags: Bags, y: Array, sample: Array, link: Link) -> Self:
        """Rates in units of the bags' common rate; inputs standardised by points `sample`, (m, p).

        Rates that may be negative are about the common rate, in units of the spread of the bags'.
        """
        spread = sample.std(axis=0)
        spread[spread == 0] = 1
        common = y.sum() / bags.totals.sum()
        if link.is_linear:
            origin, unit = common, float(np.std(y / bags.totals)) or 1.0
        elif common > 0:
            origin, unit = 0.0, common
        else:
            raise ValueError(
                f"link={link.name!r} has positive rates, but the labels sum to {y.sum():g}: use "
                "link='identity'"
            )
        return cls(sample.mean(axis=0), spread, origin, unit, link)

    @property
    def common_output(self) -> float:
        """f at which the rate is the common rate."""
        return 0.0 if self.link.is_linear else self.link.function_prior(1.0).level

    def inputs(self, points: Array) -> Array:
        """Standardised points, float64, shape (n, p)."""
        inputs = points.astype(np.float64)
        inputs -= self.centre
        inputs /= self.spread
        return inputs

    def transform(self, f: Array) -> Array:
        """Rates of outputs, shape (n,)."""
        return self.origin + self.unit * self.link.rate(_clipped(f))

    def slopes(self, f: Array) -> Array:
        """Derivatives of the rates by the outputs, shape (n,)."""
        _, slopes, _ = self.link.derivatives(_clipped(f))
        return self.unit * slopes


def _clipped(f):
    return np.clip(f, -LARGEST_OUTPUT, LARGEST_OUTPUT)


def laplacian_penalty(f: Array, features: Array) -> tuple[float, Array]:
    """Mean over pairs j, k of W_jk (f_j - f_k)^2 / 2 for f, (n,), and its gradient by f, (n,).

    W = features features', (n, d), is never formed: with the Laplacian L = diag(W 1) - W this is
    f' L f / n^2.
    """
    degrees = features @ features.sum(axis=0)
    towards = degrees * f - features @ (features.T @ f)
    return f @ towards / len(f) ** 2, 2 * towards / len(f) ** 2


class Penalties(NamedTuple):
    """Weights of the penalties, and the features and inputs that they need."""

    l2: float = 0.0
    manifold: float = 0.0
    inputs: Array = _NONE  # (m, p), standardised points
    features: Array = _NONE  # (m, d), of these
    bag_manifold: float = 0.0
    bag_features: Array = _NONE  # (n, d)

    @classmethod
    def from_bags(
        cls,
        bags: Bags,
        inputs: Array,
        spread: Array,
        *,
        l2: float,
        manifold: float,
        bag_manifold: float,
        bandwidth: float | str,
        n_frequencies: int,
        rng: np.random.Generator,
    ) -> Self:
        """Penalties of standardised points, (m, p), and of bags of points with this spread, (p,).

        W are inner products of random Fourier features; "median" is the median rule.
        """
        if not manifold and not bag_manifold:
            return cls(l2)
        if isinstance(bandwidth, str):
            bandwidth = median_bandwidth([inputs], seed=rng)
        frequencies = draw_frequencies(n_frequencies, bags.n_features, seed=rng)
        parts: dict[str, Any] = {}
        if manifold:
            features = FourierFeatures(frequencies, bandwidth)(inputs)
            parts |= {"manifold": manifold, "inputs": inputs, "features": features}
        if bag_manifold:
            features = embed(bags, FourierFeatures(frequencies, bandwidth * spread)).mean
            parts |= {"bag_manifold": bag_manifold, "bag_features": features}
        return cls(l2, **parts)


def noise_variance(bags: Bags, y: Array, mean_totals: Array) -> float:
    """Mean squared residual of a point of weight 1; 1 where there are no residuals.

    The noise variance of a total is the sum over its points, sigma^2 sum_j p_j^2.
    """
    squared = (y - mean_totals) ** 2 / bags.sums(bags.point_weights**2)
    return float(np.mean(squared)) or 1.0


class Loss:
    """Half the mean deviance of bags under a network, plus penalties; calls give the gradient too.

    `noise` is the variance of a point of weight 1 under the normal likelihood.
    """

    def __init__(
        self,
        bags: Bags,
        y: Array,
        rates: Rates,
        deviance: Deviance,
        noise: float,
        penalties: Penalties | None = None,
    ) -> None:
        self.bags, self.y, self.rates = bags, y, rates
        self.deviance, self.penalties = deviance, penalties or Penalties()
        self.weights, self.totals = bags.point_weights, bags.totals
        self.variance = noise * bags.sums(self.weights**2)

    def mean_totals(self, theta: Array) -> Array:
        """lambda_a of each bag, shape (n,)."""
        return self._outputs(Network.from_weights(theta, self.bags.n_features))[1]

    def mean_deviance(self, theta: Array) -> float:
        """Half the mean deviance alone."""
        return self._deviances(self.mean_totals(theta))[0].mean()

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Loss at parameters theta, and its gradient."""
        gradient = np.zeros_like(theta)
        network, slopes = (Network.from_weights(v, self.bags.n_features) for v in (theta, gradient))
        f, totals, means = self._outputs(network)
        each, by_total = self._deviances(totals)
        loss = each.mean()
        by_total, by_mean = by_total / len(self.y), np.zeros(len(self.y))
        if self.penalties.bag_manifold:
            loss += self._add_penalty("bag_manifold", means, self.penalties.bag_features, by_mean)
        by_weight = by_mean / self.totals
        # A second pass: the gradient by a point depends on the total of its bag.
        for rows, points, bag in self._chunks():
            inputs = self.rates.inputs(points)
            by_f = self.weights[rows] * (
                by_total[bag] * self.rates.slopes(f[rows]) + by_weight[bag]
            )
            network.add_gradient(inputs, network.activations(inputs), by_f, slopes)
        if self.penalties.manifold:
            inputs = self.penalties.inputs
            activations = network.activations(inputs)
            by_f = np.zeros(len(inputs))
            loss += self._add_penalty(
                "manifold", network.output(activations), self.penalties.features, by_f
            )
            network.add_gradient(inputs, activations, by_f, slopes)
        for part in ("hidden", "weights"):
            values = getattr(network, part)
            loss += self.penalties.l2 * np.sum(values**2) / 2
            getattr(slopes, part)[:] += self.penalties.l2 * values
        return loss, gradient

    def _deviances(self, totals):
        """Half the deviance of each bag, and its slope by the mean total."""
        return self.deviance(self.y, totals, self.variance)

    def _add_penalty(self, name, f, features, by_f):
        """Weighted penalty, its gradient added to `by_f`; 0 where the penalty is negative."""
        value, slope = laplacian_penalty(f, features)
        if value <= 0:
            return 0.0
        by_f += getattr(self.penalties, name) * slope
        return getattr(self.penalties, name) * value

    def _outputs(self, network):
        """Output at each point, and of each bag the mean total and the mean output."""
        f = np.empty(len(self.bags.points))
        totals, sums = np.zeros(len(self.bags)), np.zeros(len(self.bags))
        for rows, points, bag in self._chunks():
            f[rows] = network.output(network.activations(self.rates.inputs(points)))
            weights = self.weights[rows]
            totals += np.bincount(
                bag, weights * self.rates.transform(f[rows]), minlength=len(totals)
            )
            sums += np.bincount(bag, weights * f[rows], minlength=len(totals))
        return f, totals, sums / self.totals

    def _chunks(self) -> Iterator[tuple[slice, Array, Array]]:
        """Pieces of the stacked points: their rows, the points, the bag of each."""
        for chunk in self.bags.chunks(CHUNK_POINTS):
            points = self.bags.read_checked(chunk.start, chunk.stop)
            yield slice(chunk.start, chunk.stop), points, chunk.bag
            self.bags.release()


class Fit(NamedTuple):
    """Result of `descend`."""

    loss: float
    validation_loss: float  # half the mean deviance of the validation bags; NaN without
    theta: Array


def descend(loss: Loss, check: Loss | None, theta: Array, max_iter: int) -> Fit:
    """Minimise a loss by at most `max_iter` steps of L-BFGS from parameters theta.

    With `check`, the loss of validation bags, the step of their smallest deviance is the result,
    and the search ends after 25 steps without a smaller one.
    """
    deviances, best = [], theta

    def watch(theta):
        nonlocal best
        deviances.append(check.mean_deviance(theta))
        if deviances[-1] == min(deviances):
            best = theta.copy()
        elif len(deviances) - np.argmin(deviances) > PATIENCE:
            raise StopIteration

    with limited_blas():  # more threads do not help with products this small
        found = minimize(
            loss,
            theta,
            jac=True,
            method="L-BFGS-B",
            callback=None if check is None else watch,
            options={"maxiter": max_iter},
        )
    if check is None:
        return Fit(found.fun, np.nan, found.x)
    return Fit(loss(best)[0], check.mean_deviance(best), best)
