"""Bayesian distribution regression and its mode, shrinkage (Law et al. 2018, section 3)."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from bdr_stan.compression import compress
from bdr_stan.kernels import check_bandwidth, rbf, rbf_convolution
from bdr_stan.models.base import Coordinates, DistributionRegressor
from bdr_stan.models.priors import embedding_prior, weight_priors
from bdr_stan.moments import joint_basis


def bdr_data(rows, lam, prior_factor, mode, priors, *, use_likelihood=True):
    """Data of ``stan/bdr.stan``.

    Parameters
    ----------
    rows : CompressedRows
    lam : array, shape (d,)
        Within-bag variances of the joint basis.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    mode : Mode
        Centre and whitening of the coordinates.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    return {
        "D": len(lam),
        "G": len(rows.n_bags),
        "T": len(rows.rows),
        "bag_size": rows.bag_size,
        "n_bags": rows.n_bags,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "rows": rows.rows,
        "lambda": lam,
        "prior_factor": prior_factor,
        "centre": mode.theta,
        "whitening": mode.whitening,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


class BDR(DistributionRegressor):
    """Bayesian distribution regression: weights and mean embeddings both uncertain.

    A bag's label depends on its true mean embedding, of which its points are a sample. Small
    bags shrink towards the average embedding, and what they leave open widens their predictions.

    Parameters
    ----------
    n_landmarks : int, default 60
    kernel : {"rbf"}
    bandwidth : float or "median", default "median"
        In the units of the points; "median" is sqrt(median squared distance / 2).
    covariance : {"average", "pooled", "identity"}, default "average"
        Within-bag covariance of the kernel features: mean over bags of more than one point,
        weighted by N_i - 1, or tau^2 I.
    prior_kernel : {"same", "convolution"}, default "same"
        Kernel r of the embeddings' prior: k itself, or the integral of k(x, z) k(z, y) over z
        with weight exp(-|z|^2 / (2 l^2)), l = `measure_scale`.
    measure_scale : float, optional
        l, in the units of the points; needed by "convolution".
    tau : float, default 1
        Standard deviation for covariance "identity".
    jitter : float, default 1e-4
        Added to the diagonals of the kernel matrix and of the within-bag covariance.
    bandwidth_scale : float, default 1
        Factor on the bandwidth.
    landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    prior : dict, optional
        Numbers that replace the data-scaled defaults; `priors()` shows them after a fit.
    method : {"nuts", "optimize", "laplace", "pathfinder"}
        Default "nuts" for BDR, "optimize" for Shrinkage. All but NUTS hold rho at its marginal
        mode.
    stan_file : path, optional
        Your variant of ``bdr.stan`` (``bdr-stan eject bdr my_bdr.stan``).
    compress : bool, default True
        False gives the program one row for each bag: for likelihoods that are not normal.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), eta, w (component), beta (landmark).
    landmarks_ : array, shape (d, p)
    bandwidth_ : float

    Notes
    -----
    The model stands at the head of ``stan/bdr.stan``. Source: Law et al. (2018), sections 3.2
    and 3.3, in the joint basis of Sigma and R; eta, which the paper fixes, is inferred.
    """

    _program = "bdr"

    def __init__(
        self,
        n_landmarks=60,
        kernel="rbf",
        bandwidth="median",
        covariance="average",
        *,
        prior_kernel="same",
        measure_scale=None,
        tau=1.0,
        jitter=1e-4,
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
        self.covariance = covariance
        self.prior_kernel = prior_kernel
        self.measure_scale = measure_scale
        self.tau = tau
        self.jitter = jitter
        self.bandwidth_scale = bandwidth_scale
        self.landmarks = landmarks
        self.prior = prior
        self.method = method
        self.stan_file = stan_file
        self.compress = compress
        self.random_state = random_state

    def _check_parameters(self):
        super()._check_parameters()
        if self.covariance not in ("average", "pooled", "identity"):
            raise ValueError(
                "covariance must be 'average', 'pooled' or 'identity', "
                f"found {self.covariance!r}"
            )
        if self.prior_kernel not in ("same", "convolution"):
            raise ValueError(
                f"prior_kernel must be 'same' or 'convolution', found {self.prior_kernel!r}"
            )
        if self.prior_kernel == "convolution":
            if self.measure_scale is None:
                raise ValueError("prior_kernel='convolution' needs measure_scale: give its length")
            check_bandwidth(self.measure_scale, "measure_scale")
        if not self.jitter >= 0:
            raise ValueError(f"jitter must be a number >= 0, found {self.jitter!r}")

    def _covariance(self):
        return self.covariance

    def _grams(self, features):
        """Kernel matrices K and R of the landmarks, and the within-bag covariance, with jitter."""
        u, ridge = features.landmarks, self.jitter * np.eye(len(features.landmarks))
        K = R = rbf(u, u, features.bandwidth) + ridge
        if self.prior_kernel == "convolution":
            R = rbf_convolution(u, u, features.bandwidth, self.measure_scale)
            R = R + ridge * np.trace(R) / len(R)
        return K, R, features.embedding.covariance + ridge

    def _coordinates(self, features):
        K, R, covariance = self._grams(features)
        lam, V = joint_basis(covariance, R)
        same = self.prior_kernel == "same"
        # alpha = V w ~ N(0, rho^2 K^-1) is w ~ N(0, rho^2 (V' K V)^-1); V' K V = I if r = k
        factor = np.eye(len(lam)) if same else cholesky(V.T @ K @ V)
        return Coordinates(features.embedding.mean.mean(axis=0), V, lam, factor)

    def _default_priors(self, features, z, y):
        at = self.coordinates_
        _, R, covariance = self._grams(features)
        in_prior = solve_triangular(at.prior_factor, z.T, trans="T")
        mean, sizes = features.embedding.mean, features.embedding.sizes
        return {
            **weight_priors(y, np.sum(in_prior**2, axis=0)),
            **embedding_prior(mean - at.m0, sizes, covariance, R),
        }

    def _compressed(self, z, y, sizes):
        return compress(z, y, sizes, lossless=self.compress)

    def _stan_data(self, rows, mode, priors):
        at = self.coordinates_
        return bdr_data(rows, at.lam, at.prior_factor, mode, priors)


class Shrinkage(BDR):
    """Shrinkage estimator: the mode of the BDR model, in fractions of a second.

    Parameters and attributes are those of `BDR`, with method "optimize" by default: weights,
    intercept, sigma and eta at their joint mode, rho at its marginal mode. The embedding's
    uncertainty still widens the predictions of small bags; that of the weights is left out.

    Notes
    -----
    Source: Law et al. (2018), section 3.2.
    """

    def __init__(
        self,
        n_landmarks=60,
        kernel="rbf",
        bandwidth="median",
        covariance="average",
        *,
        prior_kernel="same",
        measure_scale=None,
        tau=1.0,
        jitter=1e-4,
        bandwidth_scale=1.0,
        landmarks="kmeans",
        prior=None,
        method="optimize",
        stan_file=None,
        compress=True,
        random_state=None,
    ):
        super().__init__(
            n_landmarks,
            kernel,
            bandwidth,
            covariance,
            prior_kernel=prior_kernel,
            measure_scale=measure_scale,
            tau=tau,
            jitter=jitter,
            bandwidth_scale=bandwidth_scale,
            landmarks=landmarks,
            prior=prior,
            method=method,
            stan_file=stan_file,
            compress=compress,
            random_state=random_state,
        )
