"""Bayesian distribution regression and its mode, shrinkage (Law et al. 2018, section 3)."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize_scalar

from bdr_stan.kernels import check_bandwidth, kernel_named, rbf_convolution
from bdr_stan.estimators.bayesian import Coordinates, DistributionRegressor
from bdr_stan.posterior.priors import eta_prior, log_prior_of_scales, weight_priors
from bdr_stan.embedding.shrinkage import between_bag_covariance, joint_basis

# Range of the search for the measure scale, in logarithms of its ratio to the landmarks' spread.
_LOG_MEASURE_RATIO = (-2.0, 3.0)
# Share of K in the empirical prior covariance: keeps it positive definite where bags are few.
_KERNEL_SHARE = 0.01


def bdr_data(rows, lam, prior_factor, whitened, priors, *, use_likelihood=True):
    """Data of ``stan/bdr.stan``.

    Parameters
    ----------
    rows : CompressedRows
    lam : array, shape (d,)
        Within-bag variances of the joint basis.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
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
        **whitened,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


class UncertainEmbeddings:
    """Part of the estimators whose embeddings are uncertain: their parameters' joint basis.

    Uses the parameters covariance, embedding_prior, measure_scale and jitter; see `BDR`.
    """

    def _check_parameters(self):
        super()._check_parameters()
        if self.covariance not in ("average", "pooled", "identity"):
            raise ValueError(
                "covariance must be 'average', 'pooled' or 'identity', "
                f"found {self.covariance!r}"
            )
        if self.embedding_prior not in ("empirical", "kernel", "convolution"):
            raise ValueError(
                "embedding_prior must be 'empirical', 'kernel' or 'convolution', "
                f"found {self.embedding_prior!r}"
            )
        if self.embedding_prior == "convolution":
            if self.kernel != "rbf":
                raise ValueError(
                    "embedding_prior='convolution' is known for kernel='rbf' only, found "
                    f"{self.kernel!r}"
                )
            if not isinstance(self.measure_scale, str):
                check_bandwidth(self.measure_scale, "measure_scale")
            elif self.measure_scale != "evidence":
                raise ValueError(
                    "measure_scale must be 'evidence' or a positive number, "
                    f"found {self.measure_scale!r}"
                )
        if not self.jitter >= 0:
            raise ValueError(f"jitter must be a number >= 0, found {self.jitter!r}")

    def _covariance(self):
        return self.covariance

    def _matrices(self, features):
        """Kernel matrix K, prior covariance R and within-bag covariance, with jitter."""
        u, embedding = features.landmarks, features.embedding
        ridge = self.jitter * np.eye(len(u))
        K = kernel_named(self.kernel, features.bandwidth)(u, u) + ridge
        covariance = embedding.covariance + ridge
        if self.embedding_prior == "kernel":
            R = K
        elif self.embedding_prior == "convolution":
            centred = u - u.mean(axis=0)
            R = rbf_convolution(centred, centred, features.bandwidth, self.measure_scale_)
            R = R + ridge * np.trace(R) / len(R)
        else:
            m0 = embedding.mean.mean(axis=0)
            R = between_bag_covariance(
                embedding.mean, embedding.sizes, m0, embedding.covariance
            )
            R = R + _KERNEL_SHARE * np.trace(R) / np.trace(K) * K
        return K, R, covariance

    def _prepare(self, features, y):
        if self.embedding_prior == "convolution":
            self.measure_scale_ = self.measure_scale
            if self.measure_scale == "evidence":
                self.measure_scale_ = self._profiled_measure_scale(features, y)
        return super()._prepare(features, y)

    def _profiled_measure_scale(self, features, y):
        """Measure scale whose model has the highest evidence, to about a twentieth."""
        spread = np.sqrt(features.landmarks.var(axis=0).mean())

        def lack(log_ratio):
            self.measure_scale_ = spread * np.exp(log_ratio)
            _, scales, mode, _ = super(UncertainEmbeddings, self)._prepare(features, y)
            return -mode.log_evidence - log_prior_of_scales(self.priors_)(**scales)

        found = minimize_scalar(
            lack, bounds=_LOG_MEASURE_RATIO, method="bounded", options={"xatol": 0.05}
        )
        return float(spread * np.exp(found.x))

    def _coordinates(self, features):
        K, R, covariance = self._matrices(features)
        lam, V = joint_basis(covariance, R)
        # alpha = V w ~ N(0, rho^2 K^-1) is w ~ N(0, rho^2 (V' K V)^-1); V' K V = I if R = K
        factor = np.eye(len(lam)) if R is K else cholesky(V.T @ K @ V)
        return Coordinates(features.embedding.mean.mean(axis=0), V, lam, factor)

    def _prior_variance(self, z):
        """Prior variance of the regression function at embeddings z, at rho = 1."""
        in_prior = solve_triangular(self.coordinates_.prior_factor, z.T, trans="T")
        return np.sum(in_prior**2, axis=0)

    def _eta_prior(self, features):
        _, R, covariance = self._matrices(features)
        mean, sizes = features.embedding.mean, features.embedding.sizes
        return eta_prior(mean - self.coordinates_.m0, sizes, covariance, R)

    def _constants(self, features, mode):
        constants = super()._constants(features, mode)
        if self.embedding_prior == "convolution":
            constants["measure_scale"] = (self.measure_scale_, [])
        return constants

    def _restore(self, groups, config):
        super()._restore(groups, config)
        if self.embedding_prior == "convolution":
            self.measure_scale_ = float(self._groups["constant_data"]["measure_scale"])
        return self


class BDR(UncertainEmbeddings, DistributionRegressor):
    """Bayesian distribution regression: weights and mean embeddings both uncertain.

    A bag's label depends on its true mean embedding, of which its points are a sample. Small
    bags shrink towards the average embedding, and what they leave open widens their predictions.

    Parameters
    ----------
    n_landmarks : int, default 60
    kernel : str, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, such as "matern32" or "cauchy".
    bandwidth : float, array, shape (p,), or "median", default "median"
        In the units of the points; "median" is sqrt(median squared distance / 2).
    covariance : {"average", "pooled", "identity"}, default "average"
        Within-bag covariance of the kernel features: mean over bags of more than one point,
        weighted by N_i - 1, or tau^2 I.
    embedding_prior : {"empirical", "kernel", "convolution"}, default "empirical"
        Prior covariance R of the embeddings, up to the scale eta. "empirical": their covariance
        between the training bags, estimated by moments, plus a hundredth of it in the shape of
        K. "kernel": K itself, the kernel matrix of the landmarks (r = k in the paper).
        "convolution" (the paper's shrinkageC): r(x, y) the integral of k(x, z) k(z, y) over z
        with weight exp(-|z - c|^2 / (2 l^2)), c the mean of the landmarks, l = `measure_scale`.
    measure_scale : float or "evidence", default "evidence"
        l, in the units of the points, for "convolution". "evidence" profiles it: the l of
        highest evidence. It is no parameter of the Stan program because the joint basis, which
        makes a gradient cheap, depends on it.
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
    bandwidth_ : float or array, shape (p,)
    measure_scale_ : float
        With "convolution": the l that was used.

    Notes
    -----
    The model stands at the head of ``stan/bdr.stan``. Source: Law et al. (2018), sections 3.2
    and 3.3, in the joint basis of Sigma and R. The paper has R = K and fixes eta; here eta is
    inferred, and R estimated by default, which predicts better and is better calibrated.
    """

    _program = "bdr"

    def __init__(
        self,
        n_landmarks=60,
        kernel="rbf",
        bandwidth="median",
        covariance="average",
        *,
        embedding_prior="empirical",
        measure_scale="evidence",
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
        self.embedding_prior = embedding_prior
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

    def _default_priors(self, features, z, y):
        return {**weight_priors(y, self._prior_variance(z)), **self._eta_prior(features)}

    def _stan_data(self, rows, whitened, priors):
        at = self.coordinates_
        return bdr_data(rows, at.lam, at.prior_factor, whitened, priors)


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
        embedding_prior="empirical",
        measure_scale="evidence",
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
            embedding_prior=embedding_prior,
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
