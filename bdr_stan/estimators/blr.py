"""Bayesian linear regression on empirical mean embeddings (Law et al. 2018, section 3.1)."""

import numpy as np

from bdr_stan.embedding.compression import compress
from bdr_stan.estimators.bayesian import Coordinates, DistributionRegressor
from bdr_stan.posterior.priors import weight_priors
from bdr_stan.predictive.mixtures import Predictive


def blr_data(rows, whitened, priors, *, use_likelihood=True):
    """Data of ``stan/blr.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One group.
    whitened : dict
        From `whitened_coordinates`.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    T, columns = rows.rows.shape
    return {
        "N": int(rows.n_bags.sum()),
        "D": columns - 2,
        "T": T,
        "rows": rows.rows,
        **whitened,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def principal_axes(mean):
    """Coordinates of exact embeddings, shape (n, d), in which their design is diagonal."""
    m0 = mean.mean(axis=0)
    d = len(m0)
    rotation = np.linalg.svd(np.linalg.qr(mean - m0, mode="r"))[2].T
    return Coordinates(m0, rotation, np.zeros(d), np.eye(d))


class BLR(DistributionRegressor):
    """Bayesian linear regression on the empirical mean embeddings of bags.

    Takes each bag's mean embedding as exact: its uncertainty is that of the weights alone, the
    same for small bags and large. Use `BDR` where bag sizes differ.

    Parameters
    ----------
    n_landmarks : int, default 60
    kernel : str, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, such as "matern32" or "cauchy".
    bandwidth : float, array, shape (p,), or "median", default "median"
        In the units of the points; "median" is sqrt(median squared distance / 2).
    bandwidth_scale : float, default 1
        Factor on the bandwidth.
    landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    prior : dict, optional
        Numbers that replace the data-scaled defaults; `priors()` shows them after a fit.
    method : {"nuts", "exact", "optimize", "laplace", "pathfinder"}, default "nuts"
        "exact" is the closed-form posterior at the sigma and rho of highest evidence;
        "optimize", "laplace" and "pathfinder" hold rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``blr.stan`` (``bdr-stan eject blr my_blr.stan``).
    compress : bool, default True
        False gives the program one row for each bag: for likelihoods that are not normal.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), w (component), beta (landmark).
    landmarks_ : array, shape (d, p)
    bandwidth_ : float or array, shape (p,)

    Notes
    -----
    beta ~ N(0, rho^2 I) on the landmark weights, y_i ~ N(intercept + (mu_i - m0)' beta, sigma^2),
    m0 the average training embedding. Source: Law et al. (2018), section 3.1; an intercept is
    added.
    """

    _program = "blr"
    _methods = ("nuts", "exact", "optimize", "laplace", "pathfinder")
    _own_methods = ("exact",)
    _scales = ("sigma", "rho")

    def __init__(
        self,
        n_landmarks=60,
        kernel="rbf",
        bandwidth="median",
        *,
        bandwidth_scale=1.0,
        landmarks="kmeans",
        prior=None,
        method="nuts",
        stan_file=None,
        compress=True,
        random_state=None,
    ):
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.landmarks = landmarks
        self.prior = prior
        self.method = method
        self.stan_file = stan_file
        self.compress = compress
        self.random_state = random_state

    def _coordinates(self, features):
        return principal_axes(features.embedding.mean)

    def _default_priors(self, features, z, y):
        return weight_priors(y, np.sum(z**2, axis=1))

    def _compressed(self, z, y, sizes):
        return compress(z, y, np.ones(len(y)), lossless=self.compress)

    def _stan_data(self, rows, whitened, priors):
        return blr_data(rows, whitened, priors)

    def _own_draws(self, rows, mode, scales, draws, seed):
        """Independent draws from the closed-form posterior at the scales of highest evidence."""
        rng = np.random.default_rng(seed)
        d = len(mode.theta) - 1
        theta = mode.theta + rng.standard_normal((1, draws, d + 1)) @ mode.whitening.T
        held = {name: np.full((1, draws), scales[name]) for name in ("sigma", "rho")}
        drawn = {"w": theta[..., :d], "intercept": theta[..., d], **held}
        return drawn, {}, {"inference_method": "exact"}

    def _constants(self, features, mode):
        constants = super()._constants(features, mode)
        if self.method == "exact":
            constants["theta"] = (mode.theta, ["theta_row"])
            constants["theta_covariance"] = (mode.covariance, ["theta_row", "theta_column"])
        return constants

    def _training(self, features):
        z, sizes = self._coordinates_of(features.embedding), features.embedding.sizes
        return super()._mixture(z, sizes)  # of the draws, also where the mixture is exact

    def _mixture(self, z, sizes):
        constant = self._groups["constant_data"]
        if "theta" not in constant:
            return super()._mixture(z, sizes)
        sigma = float(self._groups["posterior"]["sigma"][0, 0])
        design = np.column_stack([z, np.ones(len(z))])
        mean = design @ constant["theta"].values
        variance = sigma**2 + np.sum((design @ constant["theta_covariance"].values) * design, axis=1)
        return Predictive(lambda i: (mean[None, i], np.sqrt(variance[None, i])), len(z), 1)
