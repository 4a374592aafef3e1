"""Density estimation by kernel mean matching: the mixture whose kernel mean is nearest.

A mixture of isotropic Gaussians is fitted to an estimate of the kernel mean instead of to the
points, so that a better estimate of the mean gives a better density.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from bdr_stan.bags import as_bags
from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernels import RBF, Polynomial
from bdr_stan.threads import limited_blas
from bdr_stan.types import Array, ArrayLike
from data_gen.mixtures import GaussianMixture
from experiments.papers.gaussian_mixtures import with_closed_form

# Bounds of the components' sds, relative to that of the points; beyond them nothing is fitted.
_SMALLEST_SD, _LARGEST_SD = 1e-2, 1e2


def kmeans_mixture(
    points: ArrayLike, n_components: int = 10, *, n_init: int = 50, seed: int | None = None
) -> GaussianMixture:
    """Mixture of isotropic Gaussians from k-means clusters, where `match_mixture` starts.

    Parameters
    ----------
    points : array, shape (n, p)
    n_components : int, default 10
        m.
    n_init : int, default 50
        Random initialisations of k-means, of which the tightest clusters are kept.
    seed : int, optional

    Returns
    -------
    GaussianMixture
        Shares, centres and variances within clusters; a cluster of one point, which has no
        variance, gets the average one.

    Raises
    ------
    ValueError : fewer points than components, or all points coincide.
    """
    from sklearn.cluster import KMeans

    points = as_bags([points]).points
    if not isinstance(n_components, (int, np.integer)) or not 1 <= n_components <= len(points):
        raise ValueError(
            f"n_components must be an integer from 1 to {len(points)}, the number of points, "
            f"found {n_components!r}"
        )
    if np.all(points == points[0]):
        raise ValueError("all points coincide: there is no density to estimate")
    found = KMeans(n_components, n_init=n_init, random_state=seed).fit(points)
    sizes = np.bincount(found.labels_, minlength=n_components)
    squares = np.sum((points - found.cluster_centers_[found.labels_]) ** 2, axis=1)
    within = np.bincount(found.labels_, squares, minlength=n_components)
    floor = _SMALLEST_SD**2 * np.sum(np.var(points, axis=0))
    variances = np.where(sizes > 1, within / sizes, within.sum() / len(points))
    variances = np.maximum(variances, floor) / points.shape[1]
    return GaussianMixture(sizes / len(points), found.cluster_centers_, variances)


def match_mixture(
    mean: KernelMean, start: GaussianMixture, *, max_iterations: int = 1000
) -> GaussianMixture:
    """Mixture of isotropic Gaussians whose kernel mean is nearest to an estimated one.

    Minimises |mean - MixtureMean(mixture)|^2 over weights, means and variances from `start`, by
    L-BFGS with analytic gradients. There are several minima, of which it finds one.

    Parameters
    ----------
    mean : KernelMean
        With an RBF kernel of one bandwidth, or a polynomial one of degree 1 to 3.
    start : GaussianMixture, isotropic, as from `kmeans_mixture`
    max_iterations : int, default 1000

    Returns
    -------
    GaussianMixture

    Raises
    ------
    ValueError : the kernel is another one.

    Notes
    -----
    Standard deviations stay between 1/100 and 100 times that of the points: a polynomial kernel
    identifies a few moments of the distribution, so mixtures with needles match as well.
    Source: Muandet et al. (2014), section 4.2.
    """
    kernel = with_closed_form(mean.kernel)
    if isinstance(kernel, RBF) and np.ndim(kernel.lengths):
        raise ValueError(
            "kernel mean matching needs an RBF with one bandwidth for all columns: give a number, "
            "or bandwidth='median'"
        )
    m, p = start.means.shape
    points, beta = mean.points, mean.weights
    unit = np.sqrt(np.mean(np.var(points, axis=0)))
    scale = mean.norm**2 or 1.0
    zeros = np.zeros(len(points))

    def unpack(parameters):
        weights = softmax(parameters[:m])
        means = parameters[m : m + m * p].reshape(m, p) * unit
        return weights, means, np.exp(2 * parameters[m + m * p :]) * unit**2

    def loss(parameters):
        w, means, variances = unpack(parameters)
        to_points = IsotropicProducts(kernel, means, variances, points, zeros)
        to_selves = IsotropicProducts(kernel, means, variances, means, variances)
        cross, within = to_points.values @ beta, to_selves.values @ w
        value = w @ within - 2 * w @ cross
        by_weight = 2 * (within - cross)
        by_means, by_variances = to_points.gradients(-2 * np.outer(w, beta))
        # Twice: both factors of the mixture's products with itself depend on the parameters.
        within_by_means, within_by_variances = to_selves.gradients(2 * np.outer(w, w))
        gradient = np.concatenate(
            [
                w * (by_weight - w @ by_weight),
                (by_means + within_by_means).ravel() * unit,
                (by_variances + within_by_variances) * 2 * variances,
            ]
        )
        return value / scale, gradient / scale

    # A weight of 0 could never grow again.
    logits = np.log(np.maximum(start.weights, 1e-3 / m))
    parameters = np.concatenate(
        [logits, start.means.ravel() / unit, 0.5 * np.log(start.covariances / unit**2)]
    )
    bounds = [(None, None)] * (m + m * p) + [tuple(np.log([_SMALLEST_SD, _LARGEST_SD]))] * m
    with limited_blas():  # thousands of small products gain nothing from threads
        found = minimize(
            loss,
            parameters,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": 1e-12},
        )
    return GaussianMixture(*unpack(found.x))


class IsotropicProducts:
    """E k(u, v) for u ~ N(x_i, s_i I) and v ~ N(y_j, t_j I), and its gradients in x and s.

    x and y are points, (n, p) and (m, p), s and t variances, (n,) and (m,); `values`, (n, m), have
    the formulas of `gaussian_mixtures.MixtureMean`.
    """

    def __init__(self, kernel: RBF | Polynomial, x: Array, s: Array, y: Array, t: Array):
        self.kernel, self.x, self.y, self.t = kernel, x, y, t
        p = x.shape[1]
        products = x @ y.T
        norms, other_norms = np.sum(x**2, axis=1)[:, None], np.sum(y**2, axis=1)
        if isinstance(kernel, RBF):
            width = float(kernel.bandwidth) ** 2
            self.spread = width + s[:, None] + t
            self.squared = np.maximum(norms + other_norms - 2 * products, 0)
            height = kernel.variance * (width / self.spread) ** (p / 2)
            self.values = height * np.exp(-self.squared / (2 * self.spread))
            return
        a = products + kernel.constant
        q = norms * t + other_norms * s[:, None] + p * np.outer(s, t)
        # Derivatives by x'y, by q, and by s at fixed q.
        if kernel.degree == 1:
            values, by_a, by_q, by_s = a, 1.0, 0.0, 0.0
        elif kernel.degree == 2:
            values, by_a, by_q, by_s = a**2 + q, 2 * a, 1.0, 0.0
        else:
            st = np.outer(s, t)
            values = a**3 + 3 * a * q + 6 * st * products
            by_a, by_q, by_s = 3 * (a**2 + q) + 6 * st, 3 * a, 6 * t * products
        self.values = kernel.variance * values
        self.by_a, self.by_q = by_a, by_q
        self.by_s = by_s + by_q * (other_norms + p * t)

    def gradients(self, factors: Array) -> tuple[Array, Array]:
        """Gradients of sum_ij factors_ij values_ij: by x, shape (n, p), and by s, shape (n,)."""
        x, y = self.x, self.y
        if isinstance(self.kernel, RBF):
            rates = factors * self.values / self.spread
            by_x = rates @ y - rates.sum(axis=1)[:, None] * x
            by_s = np.sum(rates * (self.squared / self.spread - x.shape[1]), axis=1) / 2
            return by_x, by_s
        factors = self.kernel.variance * factors
        by_x = (factors * self.by_a) @ y + 2 * np.sum(factors * self.by_q * self.t, axis=1)[
            :, None
        ] * x
        return by_x, np.sum(factors * self.by_s, axis=1)
