"""Distribution regression, linear in the embedding but for a curve of its leading coordinates.

Given a draw of the parameters, and the leading coordinates u of bag i, its label is normal with

    mean  intercept + w_1' u + sum_{k > q} w_k s_ik z_ik + x_i' gamma + g(u)
    variance  sigma^2 + sum_{k > q} w_k^2 (1 - s_ik),      s_ik = 1 / (1 + lambda_k / N_i)

u is integrated out by M points of its posterior N(s_i z_i, 1 - s_i). Three scales are fixed where
they are most probable: that of the embeddings, eta, by the linear model, as a factor of R here; the
curve's sd kappa in units of rho; and its length scale ell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.coordinates import joint_coordinates
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.bdr import bdr_model
from bdr_stan.models.bdr_probit import row_of_bag, rows_by_size
from bdr_stan.models.curve import (
    HALF_WIDTH,
    CurvedCoordinates,
    basis_frequencies,
    basis_functions,
    leading_points,
    normal_points,
    spectral_sd,
)
from bdr_stan.models.latent import latent_moments
from bdr_stan.models.linear_variance import precision_for
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import weight_priors, with_user_values
from bdr_stan.predictive.nested import NestedPredictive
from bdr_stan.types import Array

_CURVE_SCALES = ("kappa", "ell")
# Prior sd, in units of the largest, below which the weight of a basis function is left at 0: it has
# less than 1e-8 of that one's prior variance.
_LEAST_PRIOR_SD = 1e-4


def nonlinear_data(
    rows: Rows,
    coordinates: CurvedCoordinates,
    curve: Mapping[str, float],
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/nonlinear.stan`` from one row per bag, but for `whitened_coordinates`."""
    points = normal_points(coordinates.frequencies.shape[1])
    return {
        "N": len(rows.rows),
        "D": len(coordinates.lam),
        "Q": rows.rows.shape[1] - len(coordinates.lam) - 2,
        "G": len(rows.length),
        "K": points.shape[1],
        "M": len(points),
        "B": len(coordinates.frequencies),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "rows": rows.rows,
        "lambda": coordinates.lam,
        "prior_factor": coordinates.prior_factor,
        "points": points,
        "frequencies": coordinates.frequencies,
        "half_width": HALF_WIDTH,
        **curve,
        "gamma_scale": 1.0,  # unused without covariates
        **{name: value for name, value in priors.items() if not name.startswith(_CURVE_SCALES)},
        "use_likelihood": int(use_likelihood),
    }


def nonlinear_likelihood(
    rows: Rows,
    coordinates: CurvedCoordinates,
    *,
    sigma: float,
    kappa: float,
    ell: float,
    level: float = 0.0,
) -> LogLikelihood:
    """The likelihood of ``stan/nonlinear.stan`` in theta = [w; v; gamma; intercept].

    `rows` has one row [z, x, 1, y] per bag. The weights of the basis functions are
    c = kappa spectral_sd(ell) v; the intercept counts from `level`. The Fisher information is that
    of normal labels of the same mean and variance; the curvature is exact.
    """
    design = _Design.from_rows(rows, coordinates, kappa, ell)
    y = rows.rows[:, -1] - level * rows.rows[:, -2]
    n, M = len(y), design.n_points
    mean_design = design.averaged(np.full((n, M), 1 / M))

    def likelihood(theta):
        e = design.residuals(theta, y)
        nu = design.lost @ theta**2 + sigma**2
        dnu = 2 * design.lost * theta
        # p(y_i) = 1/M sum_m normal(e_im | 0, nu_i), by its largest term; r_im is the share of point
        # m in that sum.
        exponent = -0.5 * e**2 / nu[:, None]
        highest = exponent.max(axis=1)
        r = np.exp(exponent - highest[:, None])
        total = r.sum(axis=1)
        r /= total[:, None]
        value = np.sum(highest + np.log(total / M) - 0.5 * np.log(2 * np.pi * nu))
        slope, curvature = _slope_and_curvature(design, r, e, nu, dnu)
        information = _fisher_information(design, mean_design, e, nu, dnu)
        return value, slope, information, curvature

    return likelihood


@dataclass(frozen=True)
class _Design:
    """Rows x_im of the design, of point m of bag i: columns that vary over the points, and others.

    by_point : array, shape (n, M, q + B), columns [u_im, amplitude * phi(u_im)]
    by_bag : array, shape (n, D - q - B), columns [s_i z_i of the other coordinates, x_i, 1]
    varying, constant : int arrays, where these columns are in theta
    lost : array, shape (n, D), with which nu = lost theta^2 + sigma^2
    """

    by_point: Array
    by_bag: Array
    varying: Array
    constant: Array
    lost: Array

    @classmethod
    def from_rows(cls, rows, coordinates, kappa, ell):
        d, points = len(coordinates.lam), normal_points(coordinates.frequencies.shape[1])
        q, B = points.shape[1], len(coordinates.frequencies)
        sizes = np.repeat(rows.bag_size, rows.n_bags)
        z, other_columns = rows.rows[:, :d], rows.rows[:, d:-1]
        D = rows.rows.shape[1] - 1 + B
        varying = np.r_[:q, d : d + B]
        u = leading_points(z, sizes, coordinates.lam, points)
        amplitude = kappa * spectral_sd(coordinates.frequencies, ell)
        s = shrinkage_factors(sizes, coordinates.lam, 1.0)
        lost = np.zeros((len(z), D))
        lost[:, q:d] = 1 - s[:, q:]
        return cls(
            np.concatenate([u, amplitude * basis_functions(u, coordinates.frequencies)], axis=2),
            np.column_stack([(s * z)[:, q:], other_columns]),
            varying,
            np.setdiff1d(np.arange(D), varying),
            lost,
        )

    @property
    def n_points(self):
        return self.by_point.shape[1]

    @property
    def flat(self):
        n, M, n_columns = self.by_point.shape
        return self.by_point.reshape(n * M, n_columns)

    def residuals(self, theta, y):
        """Means less labels, e_im = x_im' theta - y_i, shape (n, M)."""
        by_point = (self.flat @ theta[self.varying]).reshape(self.by_point.shape[:2])
        return (self.by_bag @ theta[self.constant] - y)[:, None] + by_point

    def averaged(self, weights):
        """Sums over the points of a bag, sum_m weights_im x_im, shape (n, D)."""
        out = np.empty(self.lost.shape)
        out[:, self.constant] = self.by_bag * weights.sum(axis=1)[:, None]
        out[:, self.varying] = (weights[:, None] @ self.by_point)[:, 0]
        return out

    def gram(self, weights):
        """Sum over all points, sum_im weights_im x_im x_im', shape (D, D)."""
        constant, varying = self.constant, self.varying
        D = self.lost.shape[1]
        out = np.empty((D, D))
        out[np.ix_(constant, constant)] = (
            self.by_bag * weights.sum(axis=1)[:, None]
        ).T @ self.by_bag
        out[np.ix_(constant, varying)] = self.by_bag.T @ (weights[:, None] @ self.by_point)[:, 0]
        out[np.ix_(varying, constant)] = out[np.ix_(constant, varying)].T
        out[np.ix_(varying, varying)] = (self.flat * weights.reshape(-1, 1)).T @ self.flat
        return out


def _slope_and_curvature(design, r, e, nu, dnu):
    """Gradient and exact negative Hessian of log p, shapes (D,) and (D, D).

    A point's log density l = -(log nu + e^2 / nu) / 2 has the gradient
    l_e x + l_nu dnu, with l_e = -e / nu, l_nu = (e^2 / nu^2 - 1 / nu) / 2,
    and the Hessian
    -x x' / nu + e / nu^2 (x dnu' + dnu x') + (1 / (2 nu^2) - e^2 / nu^3) dnu dnu'
    + 2 l_nu diag(lost).
    Of the log of their average, log p = log sum_m r_m exp(l_m), the negative Hessian is

        dlogp dlogp' - sum_m r_m (Hessian of l_m + dl_m dl_m'),   dlogp = sum_m r_m dl_m,

    here collected by x x', x dnu', dnu dnu' and the diagonal, with e / nu^2 = -l_e / nu.
    """
    by_mean = -e / nu[:, None]
    by_nu = 0.5 * (by_mean**2 - 1 / nu[:, None])
    slopes = design.averaged(r * by_mean)
    slopes += np.sum(r * by_nu, axis=1)[:, None] * dnu

    curvature = design.gram(r * (1 / nu[:, None] - by_mean**2))
    crossed = design.averaged(r * by_mean * (1 / nu[:, None] - by_nu)).T @ dnu
    curvature += crossed + crossed.T
    squares = np.sum(r * e**2, axis=1)
    by_dnu = squares / nu**3 - 0.5 / nu**2 - np.sum(r * by_nu**2, axis=1)
    curvature += (dnu * by_dnu[:, None]).T @ dnu
    curvature[np.diag_indices(len(curvature))] += (1 / nu - squares / nu**2) @ design.lost
    curvature += slopes.T @ slopes
    return slopes.sum(axis=0), curvature


def _fisher_information(design, mean_design, e, nu, dnu):
    """That of normal labels with the mean and variance over the points, shape (D, D).

    The variance is V = nu + mean_m a_m^2, a_m = e_m - mean(e), with dV = dnu + 2 mean_m a_m x_m;
    the information is sum_i mean(x) mean(x)' / V + dV dV' / (2 V^2).
    """
    away = e - e.mean(axis=1, keepdims=True)
    variance = nu + np.mean(away**2, axis=1)
    slope_of_variance = dnu + 2 / design.n_points * design.averaged(away)
    information = (mean_design / variance[:, None]).T @ mean_design
    information += 0.5 * (slope_of_variance / variance[:, None] ** 2).T @ slope_of_variance
    return information


def nonlinear_model(
    training: TrainingFeatures,
    y: Array,
    *,
    n_curved: int,
    n_functions: int,
    prior: Mapping[str, float] | None = None,
) -> LatentGaussianModel:
    """The model of ``stan/nonlinear.stan`` with its data; q is n_curved, B at most n_functions."""
    mean, sizes, x = training.embedding.mean, training.embedding.sizes, training.embedding.x
    linear_model = bdr_model(training, y)
    straight = most_probable_scales(linear_model)[0]
    eta = straight.pop("eta")
    K, R, Sigma = landmark_matrices(training)
    if training.free_linear_variance:
        K = precision_for(training, linear_model.constants["linear_variance"][0])
    linear = joint_coordinates(training.embedding.m0, Sigma, eta * R, K)
    coordinates = CurvedCoordinates(
        **vars(linear), frequencies=basis_frequencies(min(n_curved, len(K)), n_functions)
    )
    z = coordinates.transform(mean)
    rows = rows_by_size(np.column_stack([z, x]), y, sizes)
    spread = float(np.sqrt(np.mean(coordinates.prior_variance(z))))
    defaults = {
        **weight_priors(y, coordinates.prior_variance(z), x.shape[1]),
        "kappa_median": spread / 2,  # half as much of the labels as the linear part
        "kappa_log_sd": 1.0,
        "ell_median": 1.5,
        "ell_log_sd": 0.5,
    }
    priors = with_user_values(defaults, prior)
    model = LatentGaussianModel(
        program="nonlinear",
        priors=priors,
        data={"Q": x.shape[1]},  # the program takes the curve's scales as they will be found
        constants={},
        scales=("sigma", "rho", *_CURVE_SCALES),
        prior_factor=block_diag(coordinates.prior_factor, np.eye(len(coordinates.frequencies))),
        weight_basis=coordinates.basis,
        likelihood=partial(nonlinear_likelihood, rows, coordinates),
        level=float(np.mean(y)),
        predicting=("c",),
        sampler_only=("t", "precision", "weights"),
        row_of_bag=row_of_bag(sizes),
    )
    scales = most_probable_scales(model, start=straight)[0]
    curve = {name: scales[name] for name in _CURVE_SCALES}
    sd = spectral_sd(coordinates.frequencies, curve["ell"])
    kept = sd > _LEAST_PRIOR_SD * sd.max(initial=0.0)  # few, where the curve is long
    coordinates = replace(coordinates, frequencies=coordinates.frequencies[kept])
    return replace(
        model,
        scales=("sigma", "rho"),
        prior_factor=block_diag(coordinates.prior_factor, np.eye(len(coordinates.frequencies))),
        likelihood=partial(nonlinear_likelihood, rows, coordinates, **curve),
        data=nonlinear_data(rows, coordinates, curve, priors),
        constants=coordinates.constants()
        | {name: (value, []) for name, value in (curve | {"eta": eta}).items()},
    )


def nonlinear_predictive(
    coordinates: CurvedCoordinates,
    embedding: Embedding,
    *,
    intercept: Array,
    w: Array,
    c: Array,
    sigma: Array,
    gamma: Array | None = None,
) -> NestedPredictive:
    """Labels: given a draw a mixture of normals over the points; w is (S, d), c (S, B)."""
    z, points = (
        coordinates.transform(embedding.mean),
        normal_points(coordinates.frequencies.shape[1]),
    )
    S, (M, q) = len(sigma), points.shape
    tail = w.copy()
    tail[:, :q] = 0

    def components(i):
        mean, variance = latent_moments(
            i,
            z=z,
            sizes=embedding.sizes,
            lam=coordinates.lam,
            intercept=intercept,
            w=tail,
            x=embedding.x,
            gamma=gamma,
        )
        u = leading_points(z[i], embedding.sizes[i], coordinates.lam, points)
        curve = np.concatenate([u, basis_functions(u, coordinates.frequencies)], axis=2)
        by_point = np.column_stack([w[:, :q], c]) @ curve.reshape(len(i) * M, -1).T
        means = mean[:, None] + by_point.reshape(S, len(i), M).swapaxes(1, 2)
        sds = np.sqrt(variance + sigma[:, None] ** 2)
        shape = (S, M, len(i))
        return means.reshape(S * M, -1), np.broadcast_to(sds[:, None], shape).reshape(S * M, -1)

    return NestedPredictive(components, len(z), S, M)
