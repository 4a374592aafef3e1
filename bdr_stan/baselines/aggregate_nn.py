"""The baseline of a neural network for the rate at a point, learned from totals of bags."""

from dataclasses import KW_ONLY
from typing import Self

import numpy as np

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.baselines import network
from bdr_stan.baselines.network import Loss, Network, Penalties, Rates
from bdr_stan.baselines.rate_model import RateModel
from bdr_stan.estimators.parameters import estimator
from bdr_stan.estimators.validation import (
    check_counts,
    check_not_negative,
    check_one_bandwidth,
    checked_validation,
)
from bdr_stan.results.result import Result
from bdr_stan.types import Array, ArrayLike

SAMPLE_POINTS = 20_000
# Links without an upper bound, as totals have none; the default first.
NETWORK_LINKS = ("exp", "square", "identity")


@estimator
class AggregateNN(RateModel):
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
    likelihood is in units of the residual variance under one common rate. Points are standardised;
    this and the penalty of points use a sample of at most 20,000 of them. A penalty that is
    negative, by the noise of the random features, counts as zero: use more frequencies.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, the baseline "NN" with manifold regularisation.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags
    >>> from bdr_stan.baselines import AggregateNN
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(1000, 1))
    >>> districts = Bags.from_points(rain, bag=(rain[:, 0] * 20).astype(int))
    >>> cases = rng.poisson(districts.sums(5 * districts.points[:, 0]))  # the rate is 5 x rain
    >>> model = AggregateNN(n_hidden=10, n_restarts=1).fit(districts, cases, seed=1)
    >>> bool(np.abs(model.predict_points([[0.2], [0.8]]) - [1, 4]).max() < 0.5)
    True
    """

    n_hidden: int = 50
    likelihood: str = "poisson"
    link: str = "exp"
    _: KW_ONLY
    manifold: float = 0.0
    bag_manifold: float = 0.0
    l2: float = 0.01
    bandwidth: float | str = "median"
    n_frequencies: int = 200
    n_restarts: int = 3
    max_iter: int = 500
    random_state: int | None = None

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        validation: tuple[BagsLike, ArrayLike] | None = None,
        seed: int | None = None,
    ) -> Self:
        """Fit to bags and their totals.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
            Points of weight 0 are ignored. Those of a memory map are read in chunks.
        y : array, shape (n,), total of each bag
        validation : (bags, y), optional
            Bags and totals whose deviance determines the last step and the best restart.
        seed : int, optional
            Seed of weights and random features; default `random_state`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Invalid bags, labels or parameters; raised before any work starts.
        """
        bags = as_bags(bags)
        self.check_parameters()
        seed = self._seed(seed)
        likelihood, link = LIKELIHOODS[self.likelihood], LINKS[self.link]
        y = likelihood.check_labels(bags, y)
        held_out = None
        if validation is not None:
            held_out = checked_validation(validation, bags, check=likelihood.check_labels)
        self._forget()
        rng = np.random.default_rng(seed)
        sample = network.sample_points(bags, SAMPLE_POINTS, rng)
        rates = Rates.from_bags(bags, y, sample, link)
        penalties = Penalties.from_bags(
            bags,
            rates.inputs(sample),
            rates.spread,
            l2=self.l2,
            manifold=self.manifold,
            bag_manifold=self.bag_manifold,
            bandwidth=self.bandwidth,
            n_frequencies=self.n_frequencies,
            rng=rng,
        )
        at_common_rate = y.sum() * bags.totals / bags.totals.sum()
        noise = network.noise_variance(bags, y, at_common_rate)
        loss = Loss(bags, y, rates, likelihood, noise, penalties)
        check = None if held_out is None else Loss(*held_out, rates, likelihood, noise)
        fits = [self._descend(loss, check, rng) for _ in range(self.n_restarts)]
        best = min(fits, key=lambda f: f.loss if check is None else f.validation_loss)
        sigma = np.nan
        if "sigma" in likelihood.scales:
            sigma = np.sqrt(network.noise_variance(bags, y, loss.mean_totals(best.theta)))
        found = {
            "loss": best.loss,
            "validation_loss": best.validation_loss,
            "sigma": sigma,
            "theta": best.theta,
            "centre": rates.centre,
            "spread": rates.spread,
            "origin": rates.origin,
            "unit": rates.unit,
        }
        return self._keep_constants(found, bags, link=self.link)

    def _descend(self, loss, check, rng):
        """Fit from random weights."""
        p, start = loss.bags.n_features, loss.rates.common_output
        theta = network.first_parameters(p, self.n_hidden, start, rng)
        return network.descend(loss, check, theta, self.max_iter)

    def check_parameters(self) -> None:
        usable = [name for name, each in LIKELIHOODS.items() if each.deviance is not None]
        if self.likelihood not in usable:
            names = ", ".join(map(repr, usable))
            raise ValueError(f"likelihood must be one of {names}, found {self.likelihood!r}")
        if self.link not in NETWORK_LINKS:
            names = ", ".join(map(repr, NETWORK_LINKS))
            raise ValueError(f"link must be one of {names}, found {self.link!r}")
        if LINKS[self.link].is_linear and self.link not in LIKELIHOODS[self.likelihood].links:
            raise ValueError(
                f"link={self.link!r} lets rates be negative, which the {self.likelihood} "
                "likelihood cannot have: use 'exp' or 'square'"
            )
        check_counts(
            n_hidden=self.n_hidden,
            n_frequencies=self.n_frequencies,
            n_restarts=self.n_restarts,
            max_iter=self.max_iter,
        )
        check_not_negative(manifold=self.manifold, bag_manifold=self.bag_manifold, l2=self.l2)
        check_one_bandwidth(self.bandwidth, "bandwidth")

    def _set_fitted(self, result: Result) -> None:
        super()._set_fitted(result)
        self._network = Network.from_weights(self.theta_, self.n_features_in_)
        link = LINKS[result.settings["link"]]
        self._scale = Rates(self.centre_, self.spread_, self.origin_, self.unit_, link)

    def _rates(self, points: Array) -> Array:
        activations = self._network.activations(self._scale.inputs(points))
        return self._scale.transform(self._network.output(activations))
