"""Nystrom regression of totals with manifold regularisation: the mode under one more penalty."""

from typing import Self

import numpy as np

from bdr_stan.aggregate.densities import Totals, aggregate_likelihood
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.kernels import RBF, FieldFeatures, Kernel, median_bandwidth
from bdr_stan.labels import Labels
from bdr_stan.models.aggregate import rate_priors
from bdr_stan.parameters import estimator
from bdr_stan.posterior.mode import find_mode
from bdr_stan.types import Array, ArrayLike, Seed
from experiments.papers.network import sample_points
from experiments.papers.rate_model import RateModel

SAMPLE_POINTS = 2000


@estimator
class NystromManifold(RateModel):
    """The most probable rate, f = f0 + psi(x)' w, of Poisson totals, smooth along their points.

    Parameters
    ----------
    kernel : Kernel, resolved
    landmarks : array, shape (d, p)
        Kernel and landmarks of the Nystrom features psi.
    link : {"square", "exp"}, default "square"
    rho : float, default 1.0
        Prior sd of the weights w.
    manifold : float, >= 0, default 1.0
        Weight of the penalty in units of the mean log likelihood of a bag, as in `AggregateNN`.
    random_state : int, optional
        Seed of the sample of points where `fit` gets none.

    Attributes
    ----------
    theta_ : array, shape (d + 1,)
        Weights and f0.

    Notes
    -----
    Maximises, over n bags,

        sum_a log p(y_a | lambda_a) - |w|^2 / (2 rho^2) - n manifold f'Lf / m^2

    and the default prior of f0, where f'Lf is the sum over pairs j, k of m points of
    W_jk (f_j - f_k)^2 / 2, W the Gaussian kernel of standardised points with the median bandwidth
    and L = diag(W 1) - W its Laplacian. The points are a sample of at most 2000.

    Source: Law et al. (2018), "Variational learning on aggregate outputs with Gaussian
    processes", section 4, "Nystrom", a posterior mode with manifold regularisation.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags
    >>> from bdr_stan.kernels import RBF
    >>> from experiments.papers.nystrom_manifold import NystromManifold
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.uniform(size=(1000, 1))
    >>> districts = Bags.from_points(rain, bag=(rain[:, 0] * 20).astype(int))
    >>> cases = rng.poisson(districts.sums(5 * districts.points[:, 0]))  # the rate is 5 x rain
    >>> model = NystromManifold(RBF(0.5), [[0.1], [0.5], [0.9]]).fit(districts, cases, seed=1)
    >>> bool(np.abs(model.predict_points([[0.2], [0.8]]) - [1, 4]).max() < 0.5)
    True
    """

    kernel: Kernel
    landmarks: ArrayLike
    link: str = "square"
    rho: float = 1.0
    manifold: float = 1.0
    random_state: int | None = None

    def fit(self, bags: BagsLike, y: ArrayLike, *, seed: Seed = None) -> Self:
        """Fit to bags and their counts, (n,); ValueError or TypeError for unusable ones."""
        bags, likelihood, link = as_bags(bags), LIKELIHOODS["poisson"], LINKS[self.link]
        totals = Totals(Labels(likelihood.check_labels(bags, y)), likelihood, link)
        self.feature_map_ = FieldFeatures(self.kernel, np.asarray(self.landmarks, float))
        rng = np.random.default_rng(self.seed_of(seed))
        sample = sample_points(bags, SAMPLE_POINTS, rng)
        penalty = laplacian(sample, self.feature_map_(sample))
        precision = np.eye(len(penalty)) / self.rho**2 + 2 * self.manifold * len(bags) * penalty
        rows = link.rows(bags, self.feature_map_)
        priors = rate_priors(rows, totals)
        mode = find_mode(
            aggregate_likelihood(rows, totals),
            np.linalg.cholesky(precision).T,
            (priors["intercept_location"], priors["intercept_scale"]),
            rho=1.0,
        )
        self.theta_ = mode.theta
        self.keep_record(bags)
        return self

    def rates_at(self, points: Array) -> Array:
        return LINKS[self.link].rate(self.feature_map_(points) @ self.theta_[:-1] + self.theta_[-1])


def laplacian(points: Array, features: Array) -> Array:
    """psi' L psi / m^2, shape (d, d), for features psi, (m, d), of points, (m, p)."""
    spread = points.std(axis=0)
    spread[spread == 0] = 1
    inputs = (points - points.mean(axis=0)) / spread
    weights = RBF(median_bandwidth([inputs], seed=0))(inputs, inputs)
    degrees = weights.sum(axis=1)
    matrix = features.T @ (degrees[:, None] * features - weights @ features)
    return (matrix + matrix.T) / (2 * len(points) ** 2)
