"""A neural network for the rate at a point, learned from totals of bags."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.estimators.validation import checked_validation
from bdr_stan.parameters import estimator
from bdr_stan.types import Array, ArrayLike, Seed, check_counts, is_number
from experiments.papers import network
from experiments.papers.deviances import DEVIANCES
from experiments.papers.network import Loss, Network, Penalties, Rates
from experiments.papers.on_bags import Validation
from experiments.papers.rate_model import RateModel

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
    network_ : Network, on standardised points
    scale_ : Rates, from points to the inputs of the network, and from its outputs to rates

    Notes
    -----
    Minimises half the mean deviance of the bags plus the penalties. The deviance of the normal
    likelihood is in units of the residual variance under one common rate. Points are standardised;
    this and the penalty of points use a sample of at most 20,000 of them. A penalty that is
    negative, by the noise of the random features, counts as zero: use more frequencies.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, "NN" with manifold regularisation.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags
    >>> from experiments.papers import AggregateNN
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
        self, bags: BagsLike, y: ArrayLike, *, validation: Validation = None, seed: Seed = None
    ) -> Self:
        """Fit to bags and their totals, (n,); `seed` replaces `random_state`.

        Points of weight 0 are ignored, those of a memory map read in chunks. The deviance of
        `validation`, bags and totals, determines the last step and the best restart. Unusable
        arguments raise ValueError or TypeError before any work starts.
        """
        bags = as_bags(bags)
        self.check_parameters()
        rng = np.random.default_rng(self.seed_of(seed))
        likelihood, link = LIKELIHOODS[self.likelihood], LINKS[self.link]
        y = likelihood.check_labels(bags, y)
        held_out = None
        if validation is not None:
            held_out = checked_validation(validation, bags, check=likelihood.check_labels)
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
        deviance = DEVIANCES[self.likelihood]
        loss = Loss(bags, y, rates, deviance, noise, penalties)
        check = None if held_out is None else Loss(*held_out, rates, deviance, noise)
        starts = (
            network.first_parameters(bags.n_features, self.n_hidden, rates.common_output, rng)
            for _ in range(self.n_restarts)
        )
        fits = [network.descend(loss, check, theta, self.max_iter) for theta in starts]
        best = min(fits, key=lambda f: f.loss if check is None else f.validation_loss)
        self.loss_, self.validation_loss_, self.sigma_ = best.loss, best.validation_loss, np.nan
        if "sigma" in likelihood.scales:
            variance = network.noise_variance(bags, y, loss.mean_totals(best.theta))
            self.sigma_ = float(np.sqrt(variance))
        self.network_, self.scale_ = Network.from_weights(best.theta, bags.n_features), rates
        self.keep_record(bags)
        return self

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        if self.likelihood not in list(DEVIANCES):
            names = ", ".join(map(repr, DEVIANCES))
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
        for name in ("manifold", "bag_manifold", "l2"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value < np.inf):
                raise ValueError(f"{name} must be a number >= 0, found {value!r}")
        bandwidth: Any = self.bandwidth
        if isinstance(bandwidth, str) and bandwidth == "median":
            return
        if not (is_number(bandwidth) and 0 < bandwidth < np.inf):
            raise ValueError(
                f"bandwidth must be 'median' or a positive number, found {bandwidth!r}"
            )

    def rates_at(self, points: Array) -> Array:
        activations = self.network_.activations(self.scale_.inputs(points))
        return self.scale_.transform(self.network_.output(activations))
