"""Baselines for aggregate outputs, where the label of a bag is a total over its points.

Bag a has the mean total lambda_a = sum_j p_j rate(x_aj), p_j the weights of the bags, 1 without.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.base import RegressorMixin
from threadpoolctl import threadpool_limits

from bdr_stan.results.inference_data import dataset
from bdr_stan.aggregate.labels import check_aggregate_labels
from bdr_stan.bags import Bags, as_bags
from bdr_stan.embedding.mean_embedding import embed, point_chunks
from bdr_stan.kernels import (
    Linear,
    check_bandwidth,
    draw_frequencies,
    fourier_basis,
    fourier_features,
    median_bandwidth,
)
from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.base import BagEstimator

_CHUNK_POINTS = 1 << 14
_SAMPLE_POINTS = 20_000
_PATIENCE = 25  # steps of L-BFGS without a better deviance of the validation bags
_LARGEST_EXPONENT = 50.0  # e^50 times the common rate is no rate, but a step that went too far


# ---------------------------------------------------------------- sums over points


def _chunks(bags):
    """Pieces of the stacked points: their rows, the points, their weights, the bag of each."""
    for start, stop, first, last in point_chunks(bags.offsets, _CHUNK_POINTS):
        points = bags.read_checked(start, stop)
        weights = np.ones(stop - start) if bags.weights is None else bags.weights[start:stop]
        cuts = np.clip(bags.offsets[first : last + 1], start, stop)
        yield slice(start, stop), points, weights, np.repeat(np.arange(first, last), np.diff(cuts))
        bags.release()


def _weight_sums(bags, power=1):
    """sum_j p_j^power of each bag, shape (n,)."""
    if bags.weights is None:
        return bags.sizes.astype(float)
    return np.add.reduceat(bags.weights**power, bags.offsets[:-1])


def _sample_points(bags, rng):
    """At most `_SAMPLE_POINTS` of the points that have weight, float64."""
    if bags.weights is None:
        return bags.sample_points(_SAMPLE_POINTS, rng)
    rows = np.flatnonzero(bags.weights)
    if len(rows) > _SAMPLE_POINTS:
        rows = np.sort(rng.choice(rows, _SAMPLE_POINTS, replace=False))
    return bags.read_rows(rows).astype(float)


def _noise(bags, y, totals):
    """Mean squared residual of a point of weight 1; 1 where nothing is left over."""
    return np.mean((y - totals) ** 2 / _weight_sums(bags, 2)) or 1.0


# ---------------------------------------------------------------- estimators


class _RateModel(RegressorMixin, BagEstimator):
    """Base of the baselines: totals of bags from the rates of their points, and files."""

    def predict(self, bags):
        """Mean total of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n,), units of y
        """
        bags = self._like_training(bags)
        totals = np.zeros(len(bags))
        for _, points, weights, which in _chunks(bags):
            totals += np.bincount(which, weights * self._rates(points), minlength=len(bags))
        return totals

    def predict_points(self, points):
        """Rate at each point.

        Parameters
        ----------
        points : array, shape (m, p); a memory map is read in chunks

        Returns
        -------
        array, shape (m,), units of y for a weight of 1
        """
        together = self._like_training(Bags.from_points(points, sizes=[len(points)]))
        return np.concatenate([self._rates(chunk) for _, chunk, *_ in _chunks(together)])

    # ------------------------------------------------------------ state and files

    def _adopt(self, n_features, names, state):
        """Take the state of a fit: an attribute of each of these numbers and arrays."""
        dims = {name: [f"{name}_dim_{k}" for k in range(np.ndim(v))] for name, v in state.items()}
        self._groups = {"constant_data": dataset(state, dims, sample=False)}
        self._idata = None
        self.n_features_in_ = n_features
        self._set_feature_names(names)
        for name, value in state.items():
            setattr(self, f"{name}_", value)
        return self

    def _config(self):
        return {**super()._config(), "n_features": self.n_features_in_}

    def _restore(self, groups, config):
        super()._restore(groups, config)
        state = {name: array.values[()] for name, array in groups["constant_data"].items()}
        return self._adopt(config["n_features"], config["feature_names"], state)


class ConstantRate(_RateModel):
    """One rate for all points of a training bag, and the pooled rate for all others.

    Parameters
    ----------
    likelihood : one of `bdr_stan.aggregate.labels.LIKELIHOODS`, default "poisson"
        Says which labels are of use; the rates do not depend on it.

    Attributes
    ----------
    rate_ : float
        sum_a y_a / sum_a sum_j p_j, units of y for a weight of 1.
    training_rates_ : array, shape (n,)
        y_a / sum_j p_j of each training bag.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, the baseline "constant".
    """

    def __init__(self, likelihood="poisson"):
        self.likelihood = likelihood

    def fit(self, bags, y):
        """Fit to bags and their totals.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags or labels.
        """
        bags = as_bags(bags)
        y = check_aggregate_labels(bags, y, self.likelihood)
        totals = _weight_sums(bags)
        state = {"rate": y.sum() / totals.sum(), "training_rates": y / totals}
        return self._adopt(bags.n_features, bags.features, state)

    def _rates(self, points):
        return np.full(len(points), float(self.rate_))


def mean_points(bags):
    """One point for each bag: its weighted mean, which has all the weight of the bag.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)

    Returns
    -------
    Bags, n of them with one point each
    """
    bags = as_bags(bags)
    columns = np.eye(bags.n_features)  # the linear kernel at these is the point itself
    return Bags(
        embed(bags, columns, None, kernel=Linear()).mean,
        np.arange(len(bags) + 1),
        weights=_weight_sums(bags),
        ids=bags.ids,
        metadata=bags.metadata,
        features=bags.features,
    )


class BagPixel(AggregateRegressor):
    """`AggregateRegressor` that takes each bag for one point: its mean, with the bag's weight.

    Parameters, attributes and methods are those of `AggregateRegressor`; new bags, too, are
    predicted from their mean points. Rates that are not linear in the covariates make it biased.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, the baseline "bag-pixel".
    """

    def training_features(self, bags, y, *, trials=None, seed=None):
        """As for `AggregateRegressor`, of the bags' mean points."""
        return super().training_features(mean_points(bags), y, trials=trials, seed=seed)

    def predictive(self, bags, *, trials=None):
        """As for `AggregateRegressor`, of the bags' mean points."""
        return super().predictive(mean_points(bags), trials=trials)


class AggregateNN(_RateModel):
    """Rate at a point by a network with one hidden layer, fitted to the totals of bags.

    Parameters
    ----------
    n_hidden : int, default 50
        Rectified linear units.
    likelihood : {"poisson", "normal", "exponential"}, default "poisson"
        Of the total y_a of mean lambda_a: a count, a normal number of variance
        sigma^2 sum_j p_j^2, or an exponential one.
    link : {"exp", "square", "identity"}, default "exp"
        rate = exp(f), f^2 or f, f the output of the network. "identity" is for the normal
        likelihood alone.
    manifold : float, >= 0, default 0
        Weight of the penalty on f differing between points that are near each other,
        mean over pairs j, k of W_jk (f_j - f_k)^2 / 2, W the Gaussian kernel.
    bag_manifold : float, >= 0, default 0
        Weight of the same for bags: f averaged in each, W the inner products of the mean
        embeddings.
    l2 : float, >= 0, default 0.01
        Weight of half the squared weights of the network; its biases are free.
    bandwidth : float or "median", default "median"
        Of that kernel, in units of the standardised points.
    n_frequencies : int, default 200
        Random Fourier features that stand for that kernel, a cosine and a sine each.
    n_restarts : int, default 3
        Fits from different random weights, of which the best is kept.
    max_iter : int, default 500
        Steps of L-BFGS in each.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    loss_ : float
        Penalised loss.
    validation_loss_ : float
        Half the mean deviance of the validation bags; NaN where there were none.
    sigma_ : float
        Under the normal likelihood the noise sd of a point of weight 1, units of y; else NaN.

    Notes
    -----
    Minimises half the mean deviance of the bags plus the penalties. The deviance of the normal
    likelihood counts in units of the noise that one common rate leaves. Points are standardised;
    this and the penalty of points use a sample of at most 20,000 of them. A penalty that the
    noise of the random features brings below zero counts as zero: more frequencies mend it.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, the baseline "NN" with manifold regularisation.
    """

    def __init__(
        self,
        n_hidden=50,
        likelihood="poisson",
        link="exp",
        *,
        manifold=0.0,
        bag_manifold=0.0,
        l2=0.01,
        bandwidth="median",
        n_frequencies=200,
        n_restarts=3,
        max_iter=500,
        random_state=None,
    ):
        self.n_hidden = n_hidden
        self.likelihood = likelihood
        self.link = link
        self.manifold = manifold
        self.bag_manifold = bag_manifold
        self.l2 = l2
        self.bandwidth = bandwidth
        self.n_frequencies = n_frequencies
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, bags, y, *, validation=None, seed=None):
        """Fit to bags and their totals.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            Points of weight 0 play no part. Those of a memory map are read in chunks.
        y : array, shape (n,)
        validation : (bags, y), optional
            Bags and totals whose deviance chooses the step to stop at and the restart.
        seed : int, optional
            Seed of weights and random features; default `random_state`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
        """
        bags = as_bags(bags)
        self._check_parameters()
        y = check_aggregate_labels(bags, y, self.likelihood)
        origin, unit = self._scale_of_rates(bags, y)
        if validation is not None:
            held = as_bags(validation[0])
            held_y = check_aggregate_labels(held, validation[1], self.likelihood)
            if held.n_features != bags.n_features:
                raise ValueError(
                    f"the validation bags have {held.n_features} features a point, but the "
                    f"training bags {bags.n_features}: pass the same columns in the same order"
                )
        rng = np.random.default_rng(self.random_state if seed is None else seed)
        sample = _sample_points(bags, rng)
        spread = sample.std(axis=0)
        spread[spread == 0] = 1
        rates = Rates(sample.mean(axis=0), spread, origin, unit, self.link)
        noise = _noise(bags, y, y.sum() * _weight_sums(bags) / _weight_sums(bags).sum())
        penalties = self._penalties(bags, rates.inputs(sample), spread, rng)
        loss = Loss(bags, y, rates, self.likelihood, noise, penalties)
        check = None
        if validation is not None:
            check = Loss(held, held_y, rates, self.likelihood, noise)
        fits = [self._descend(loss, check, rng) for _ in range(self.n_restarts)]
        loss_value, deviance, theta = min(fits, key=lambda f: f[0 if check is None else 1])
        sigma = np.nan
        if self.likelihood == "normal":
            sigma = np.sqrt(_noise(bags, y, loss.mean_totals(theta)))
        state = {"loss": loss_value, "validation_loss": deviance, "sigma": sigma, "theta": theta}
        state |= {name: value for name, value in rates._asdict().items() if name != "link"}
        return self._adopt(bags.n_features, bags.features, state)

    # ------------------------------------------------------------ parts of a fit

    def _check_parameters(self):
        if self.likelihood not in DEVIANCES:
            names = ", ".join(map(repr, DEVIANCES))
            raise ValueError(f"likelihood must be one of {names}, found {self.likelihood!r}")
        if self.link not in LINKS:
            names = ", ".join(map(repr, LINKS))
            raise ValueError(f"link must be one of {names}, found {self.link!r}")
        if self.link == "identity" and self.likelihood != "normal":
            raise ValueError(
                f"link='identity' lets rates be negative, which the {self.likelihood} likelihood "
                "cannot have: use 'exp' or 'square'"
            )
        for name in ("n_hidden", "n_frequencies", "n_restarts", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, found {value!r}")
        for name in ("manifold", "bag_manifold", "l2"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float, np.number)) and 0 <= value < np.inf):
                raise ValueError(f"{name} must be a number >= 0, found {value!r}")
        if self.bandwidth != "median":
            if not np.isscalar(self.bandwidth) or isinstance(self.bandwidth, str):
                raise ValueError(
                    f"bandwidth must be 'median' or a positive number, found {self.bandwidth!r}"
                )
            check_bandwidth(self.bandwidth)

    def _scale_of_rates(self, bags, y):
        """What rates are counted from, and in: the common rate, or the spread of the bags'."""
        totals = _weight_sums(bags)
        common = y.sum() / totals.sum()
        if self.link == "identity":
            return common, np.std(y / totals) or 1.0
        if not common > 0:
            raise ValueError(
                f"link={self.link!r} has positive rates, but the labels sum to {y.sum():g}: use "
                "link='identity'"
            )
        return 0.0, common

    def _penalties(self, bags, sample, spread, rng):
        if not self.manifold and not self.bag_manifold:
            return Penalties(self.l2)
        bandwidth = self.bandwidth
        if bandwidth == "median":
            bandwidth = median_bandwidth([sample], seed=rng)
        frequencies = draw_frequencies(self.n_frequencies, bags.n_features, seed=rng)
        features = bag_features = None
        if self.manifold:
            basis = fourier_basis(frequencies, bandwidth)
            features = np.empty((len(sample), basis.n_columns))
            fourier_features(sample, basis, features)
        if self.bag_manifold:
            lengths = bandwidth * spread
            bag_features = embed(bags, frequencies, lengths, kernel="fourier").mean
        return Penalties(self.l2, self.manifold, sample, features, self.bag_manifold, bag_features)

    def _descend(self, loss, check, rng):
        """Fit from random weights: loss, validation loss and parameters."""
        theta = first_parameters(loss.bags.n_features, self.n_hidden, LINKS[self.link].start, rng)
        seen, kept = [], theta

        def watch(theta):
            nonlocal kept
            seen.append(check.deviance(theta))
            if seen[-1] == min(seen):
                kept = theta.copy()
            elif len(seen) - np.argmin(seen) > _PATIENCE:
                raise StopIteration

        with threadpool_limits(1, user_api="blas"):  # products so small gain nothing from more
            found = minimize(
                loss,
                theta,
                jac=True,
                method="L-BFGS-B",
                callback=None if check is None else watch,
                options={"maxiter": self.max_iter},
            )
        if check is None:
            return found.fun, np.nan, found.x
        return loss(kept)[0], check.deviance(kept), kept

    def _rates(self, points):
        rates = Rates(self.centre_, self.spread_, self.origin_, self.unit_, self.link)
        network = Network.of(self.theta_, self.n_features_in_)
        return rates.of(network.output(network.activations(rates.inputs(points))))


# ---------------------------------------------------------------- the network and its loss


class Network(NamedTuple):
    """One hidden layer of h rectified linear units on p inputs, one output.

    The same shape holds the gradient by its parameters.
    """

    hidden: np.ndarray  # (p, h)
    hidden_bias: np.ndarray  # (h,)
    weights: np.ndarray  # (h,)
    bias: np.ndarray  # (1,)

    @classmethod
    def of(cls, theta, p):
        """Views of a vector of parameters, shape (h (p + 2) + 1,)."""
        h = (len(theta) - 1) // (p + 2)
        hidden, hidden_bias, weights, bias = np.split(theta, [p * h, p * h + h, p * h + 2 * h])
        return cls(hidden.reshape(p, h), hidden_bias, weights, bias)

    def activations(self, inputs):
        """Of the hidden units, shape (n, h)."""
        values = inputs @ self.hidden
        values += self.hidden_bias
        return np.maximum(values, 0, out=values)

    def output(self, activations):
        """f, shape (n,)."""
        return activations @ self.weights + self.bias

    def add_gradient(self, inputs, activations, slopes, gradient):
        """Add sum_i slopes_i df_i/dtheta to the network `gradient`."""
        gradient.weights[:] += activations.T @ slopes
        gradient.bias[:] += slopes.sum()
        back = np.multiply.outer(slopes, self.weights)
        back *= activations > 0
        gradient.hidden[:] += inputs.T @ back
        gradient.hidden_bias[:] += back.sum(axis=0)


def first_parameters(p, h, start, rng):
    """Random parameters of a network: He et al. (2015) in the hidden layer, output near `start`."""
    theta = np.zeros(h * (p + 2) + 1)
    network = Network.of(theta, p)
    network.hidden[:] = rng.normal(0, np.sqrt(2 / p), (p, h))
    network.weights[:] = rng.normal(0, 0.1 / np.sqrt(h), h)
    network.bias[:] = start
    return theta


class Link(NamedTuple):
    """Rate of an output, in units of the common rate; its slope; the output of the common rate."""

    rate: Callable
    slope: Callable
    start: float


def _exp(f):
    return np.exp(np.clip(f, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))


LINKS = {
    "exp": Link(_exp, _exp, 0.0),
    "square": Link(np.square, lambda f: 2 * f, 1.0),
    "identity": Link(lambda f: f, np.ones_like, 0.0),
}


class Rates(NamedTuple):
    """From points to inputs, and from outputs to rates."""

    centre: np.ndarray  # (p,)
    spread: np.ndarray  # (p,)
    origin: float
    unit: float
    link: str

    def inputs(self, points):
        inputs = points.astype(np.float64)
        inputs -= self.centre
        inputs /= self.spread
        return inputs

    def of(self, f):
        return self.origin + self.unit * LINKS[self.link].rate(f)

    def slopes(self, f):
        return self.unit * LINKS[self.link].slope(f)


def _poisson(y, total, variance):
    return total - y - xlogy(y, total) + xlogy(y, y), 1 - y / total


def _normal(y, total, variance):
    return (y - total) ** 2 / (2 * variance), (total - y) / variance


def _exponential(y, total, variance):
    return y / total - 1 - np.log(y / total), (1 - y / total) / total


# Half the deviance of labels and its slope by their mean totals; the variance is the normal's.
DEVIANCES = {"poisson": _poisson, "normal": _normal, "exponential": _exponential}


def laplacian_penalty(f, features):
    """Mean over pairs j, k of W_jk (f_j - f_k)^2 / 2, and its gradient by f.

    W = features features' is never formed: with the Laplacian L = diag(W 1) - W this is
    f' L f / n^2.

    Parameters
    ----------
    f : array, shape (n,)
    features : array, shape (n, d)

    Returns
    -------
    float, and array, shape (n,)
    """
    degrees = features @ features.sum(axis=0)
    towards = degrees * f - features @ (features.T @ f)
    return f @ towards / len(f) ** 2, 2 * towards / len(f) ** 2


class Penalties(NamedTuple):
    """Weights of the penalties, and the features and inputs that they need."""

    l2: float = 0.0
    manifold: float = 0.0
    inputs: np.ndarray | None = None  # (m, p), standardised points
    features: np.ndarray | None = None  # (m, d), of these
    bag_manifold: float = 0.0
    bag_features: np.ndarray | None = None  # (n, d)


class Loss:
    """Half the mean deviance of bags under a network, plus penalties; calls give the gradient too.

    Parameters
    ----------
    bags : Bags, n of them
    y : array, shape (n,)
    rates : Rates
    likelihood : a name of `DEVIANCES`
    noise : float, variance of a point of weight 1 under the normal likelihood
    penalties : Penalties, optional
    """

    def __init__(self, bags, y, rates, likelihood, noise, penalties=None):
        self.bags, self.y, self.rates = bags, y, rates
        self.likelihood, self.penalties = likelihood, penalties or Penalties()
        self.totals = _weight_sums(bags)
        self.variance = noise * _weight_sums(bags, 2)

    def mean_totals(self, theta):
        """lambda_a of each bag, shape (n,)."""
        return self._outputs(Network.of(theta, self.bags.n_features))[1]

    def deviance(self, theta):
        """Half the mean deviance alone."""
        totals = self.mean_totals(theta)
        return np.mean(DEVIANCES[self.likelihood](self.y, totals, self.variance)[0])

    def __call__(self, theta):
        """Loss at parameters theta, and its gradient."""
        gradient = np.zeros_like(theta)
        network, slopes = (Network.of(v, self.bags.n_features) for v in (theta, gradient))
        f, totals, means = self._outputs(network)
        each, by_total = DEVIANCES[self.likelihood](self.y, totals, self.variance)
        loss = each.mean()
        by_total, by_mean = by_total / len(self.y), np.zeros(len(self.y))
        if self.penalties.bag_manifold:
            loss += self._add_penalty("bag_manifold", means, self.penalties.bag_features, by_mean)
        by_weight = by_mean / self.totals
        # A second pass: what a point does to the loss is known once all its bag's points are.
        for rows, points, weights, which in _chunks(self.bags):
            inputs = self.rates.inputs(points)
            by_f = weights * (by_total[which] * self.rates.slopes(f[rows]) + by_weight[which])
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

    def _add_penalty(self, name, f, features, by_f):
        """Weighted penalty, its gradient added to `by_f`; nothing where it is below zero."""
        value, slope = laplacian_penalty(f, features)
        if value <= 0:
            return 0.0
        by_f += getattr(self.penalties, name) * slope
        return getattr(self.penalties, name) * value

    def _outputs(self, network):
        """Output at each point, and of each bag the mean total and the mean output."""
        f = np.empty(len(self.bags.points))
        totals, sums = np.zeros(len(self.bags)), np.zeros(len(self.bags))
        for rows, points, weights, which in _chunks(self.bags):
            f[rows] = network.output(network.activations(self.rates.inputs(points)))
            totals += np.bincount(which, weights * self.rates.of(f[rows]), minlength=len(totals))
            sums += np.bincount(which, weights * f[rows], minlength=len(totals))
        return f, totals, sums / self.totals
