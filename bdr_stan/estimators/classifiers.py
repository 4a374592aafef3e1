"""Classes of bags: logistic regression on mean embeddings, and probit BDR (Law et al. 2018)."""

import numpy as np
from scipy.special import log_expit

from bdr_stan.embedding.compression import CompressedRows, compress
from bdr_stan.models.likelihoods import logit_likelihood, probit_likelihood
from bdr_stan.estimators.bayesian import DistributionClassifier
from bdr_stan.estimators.bdr import UncertainEmbeddings
from bdr_stan.estimators.blr import principal_axes
from bdr_stan.posterior.priors import class_priors
from bdr_stan.embedding.shrinkage import shrinkage_factors

# Prior sd of the latent function over the training bags: most bags' classes are then open, some
# all but sure.
_PROBIT_SPREAD, _LOGIT_SPREAD = 1.5, 2.5


def blr_logit_data(rows, whitened, priors, *, use_likelihood=True):
    """Data of ``stan/blr_logit.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One row [z, 1, y] a bag, in any groups; y is 0 or 1.
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
    z, y = _embeddings_and_labels(rows)
    return {
        "N": len(y),
        "D": z.shape[1],
        "z": z,
        "y": y,
        **whitened,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def bdr_probit_data(rows, lam, prior_factor, whitened, priors, *, use_likelihood=True):
    """Data of ``stan/bdr_probit.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One row [z, 1, y] a bag, in groups of equal size; y is 0 or 1.
    lam : array, shape (d,)
        Within-bag variances of the joint basis.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    whitened : dict
        From `follow_latent_scale`.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    z, y = _embeddings_and_labels(rows)
    return {
        "N": len(y),
        "D": z.shape[1],
        "G": len(rows.length),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "z": z,
        "y": y,
        "lambda": lam,
        "prior_factor": prior_factor,
        **whitened,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def rows_by_size(z, y, sizes):
    """Rows [z_i, 1, y_i] of all bags, uncompressed, in groups of equal size.

    Parameters
    ----------
    z : array, shape (n, d)
        Coordinates of the embeddings.
    y : array, shape (n,)
        Labels.
    sizes : array, shape (n,)
        Points per bag.

    Returns
    -------
    CompressedRows
    """
    order = _order_of_rows(sizes)
    rows = np.column_stack([z, np.ones(len(y)), y])[order]
    bag_size, start, n_bags = np.unique(
        np.asarray(sizes, float)[order], return_index=True, return_counts=True
    )
    return CompressedRows(rows, start, n_bags, n_bags, bag_size)


def follow_latent_scale(whitened, nu, rho):
    """Whitened coordinates whose unit grows with rho as the latent function's own does.

    Labels tell the latent function in units of sqrt(1 + nu_i), and nu_i grows with rho^2. Where
    embeddings leave much open the labels thus hardly say how large weights and rho are together;
    with the unit of t fixed, chains would cross that long tail in ever smaller steps.

    Parameters
    ----------
    whitened : dict
        From `whitened_coordinates` at the mode.
    nu : array, shape (n,)
        Variance of the latent function that each bag's embedding leaves open, at the mode.
    rho : float, > 0
        Scale of the weights at the mode.

    Returns
    -------
    dict
        `whitened` for a unit of 1, and latent_spread: the unit is sqrt(1 + latent_spread rho^2),
        at the mode the geometric mean of sqrt(1 + nu_i).
    """
    total = np.exp(np.mean(np.log1p(nu)))
    unit = np.sqrt(total)
    return {
        **whitened,
        "latent_spread": (total - 1) / rho**2,
        "information": whitened["information"] * total,
        "pull": whitened["pull"] * unit,
        "intercept_centre": whitened["intercept_centre"] / unit,
        "intercept_unit": whitened["intercept_unit"] / unit,
    }


def _order_of_rows(sizes):
    """The bags in the order of `rows_by_size`."""
    return np.argsort(sizes, kind="stable")


def _embeddings_and_labels(rows):
    """Embeddings z and whole-number labels y of the rows [z, 1, y]."""
    return rows.rows[:, :-2], rows.rows[:, -1].astype(int)


class BLRClassifier(DistributionClassifier):
    """Bayesian logistic regression on the empirical mean embeddings of bags of two classes.

    Takes each bag's mean embedding as exact, however few its points. Use `BDRClassifier` where
    bag sizes differ.

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
        Numbers that replace the defaults; `priors()` shows them after a fit.
    method : {"nuts", "optimize", "laplace", "pathfinder"}, default "nuts"
        All but NUTS hold rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``blr_logit.stan`` (``bdr-stan eject blr_logit my_blr_logit.stan``).
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels, sorted; the model is of the probability of the second.
    idata : InferenceData or DataTree
        posterior: intercept, rho, w (component), beta (landmark), on the scale of log odds;
        observed labels as 0 and 1.
    landmarks_ : array, shape (d, p)
    bandwidth_ : float or array, shape (p,)

    Notes
    -----
    The model stands at the head of ``stan/blr_logit.stan``.
    """

    _program = "blr_logit"
    _scales = ("rho",)
    _log_cdf = staticmethod(log_expit)

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
        self.random_state = random_state

    def _coordinates(self, features):
        return principal_axes(features.embedding.mean)

    def _default_priors(self, features, z, y):
        return class_priors(_LOGIT_SPREAD, np.sum(z**2, axis=1))

    def _compressed(self, z, y, sizes):
        return compress(z, y, sizes, lossless=False)

    def _likelihood(self, rows, **scales):
        return logit_likelihood(rows)

    def _stan_data(self, rows, whitened, priors):
        return blr_logit_data(rows, whitened, priors)


class BDRClassifier(UncertainEmbeddings, DistributionClassifier):
    """Bayesian distribution regression of two classes: weights and embeddings both uncertain.

    A bag's class depends on its true mean embedding, of which its points are a sample. What the
    points of a small bag leave open of it draws the bag's probabilities towards the middle.

    Parameters
    ----------
    n_landmarks : int, default 60
    kernel : str, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, such as "matern32" or "cauchy".
    bandwidth : float, array, shape (p,), or "median", default "median"
        In the units of the points; "median" is sqrt(median squared distance / 2).
    covariance : {"average", "pooled", "identity"}, default "average"
        Within-bag covariance of the kernel features, as in `BDR`.
    embedding_prior : {"empirical", "kernel", "convolution"}, default "empirical"
        Prior covariance of the embeddings, as in `BDR`.
    measure_scale : float or "evidence", default "evidence"
        For embedding_prior "convolution", as in `BDR`.
    tau : float, default 1
        Standard deviation for covariance "identity".
    jitter : float, default 1e-4
        Added to the diagonals of the kernel matrix and of the within-bag covariance.
    bandwidth_scale : float, default 1
        Factor on the bandwidth.
    landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    prior : dict, optional
        Numbers that replace the defaults; `priors()` shows them after a fit.
    method : {"nuts", "optimize", "laplace", "pathfinder"}
        Default "nuts" for BDRClassifier, "optimize" for ShrinkageClassifier. All but NUTS hold
        rho at its marginal mode.
    stan_file : path, optional
        Your variant of ``bdr_probit.stan`` (``bdr-stan eject bdr_probit my_bdr_probit.stan``).
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels, sorted; the model is of the probability of the second.
    idata : InferenceData or DataTree
        posterior: intercept, rho, w (component), beta (landmark), in sds of the latent noise, and
        eta; observed labels as 0 and 1.
    landmarks_ : array, shape (d, p)
    bandwidth_ : float or array, shape (p,)

    Notes
    -----
    The model stands at the head of ``stan/bdr_probit.stan``. Source: Law et al. (2018), appendix
    B, in the joint basis of Sigma and R; the paper fixes eta.
    """

    _program = "bdr_probit"
    _scales = ("rho", "eta")
    _whitened = ("t", "precision", "unit")

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
        self.random_state = random_state

    def _default_priors(self, features, z, y):
        return {
            **class_priors(_PROBIT_SPREAD, self._prior_variance(z)),
            **self._eta_prior(features),
        }

    def _compressed(self, z, y, sizes):
        return rows_by_size(z, y, sizes)

    def _in_order_of_bags(self, values, features):
        return values[..., np.argsort(_order_of_rows(features.embedding.sizes))]

    def _likelihood(self, rows, **scales):
        return probit_likelihood(rows, self.coordinates_.lam, **scales)

    def _whitening(self, rows, scales, mode):
        whitened = super()._whitening(rows, scales, mode)
        s = shrinkage_factors(rows.bag_size, self.coordinates_.lam, scales["eta"])
        nu = scales["eta"] * (1 - s) @ mode.theta[:-1] ** 2
        return follow_latent_scale(whitened, np.repeat(nu, rows.n_bags), scales["rho"])

    def _stan_data(self, rows, whitened, priors):
        at = self.coordinates_
        return bdr_probit_data(rows, at.lam, at.prior_factor, whitened, priors)


class ShrinkageClassifier(BDRClassifier):
    """Shrinkage estimator of two classes: the mode of the model of `BDRClassifier`.

    Parameters and attributes are those of `BDRClassifier`, with method "optimize" by default:
    weights, intercept and eta at their joint mode, rho at its marginal mode. The embedding's
    uncertainty still counts; that of the weights is left out.

    Notes
    -----
    Source: Law et al. (2018), section 3.2 and appendix B.
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
            random_state=random_state,
        )
