"""Distribution regression, linear in the embedding but for a curve of its leading coordinates.

Given a draw of the parameters, and the leading coordinates u of bag i, its label is normal with

    mean  intercept + w_1' u + sum_{k > q} w_k s_ik z_ik + x_i' gamma + g(u)
    variance  sigma^2 + sum_{k > q} w_k^2 (1 - s_ik),      s_ik = 1 / (1 + lambda_k / N_i)

u is integrated out by M points of its posterior N(s_i z_i, 1 - s_i). Three scales are held where
they are most probable: that of the embeddings, eta, by the linear model, and it is part of R here;
the curve's sd kappa in units of rho, and its length ell.
"""

from collections.abc import Mapping
from dataclasses import replace
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
from bdr_stan.models.bdr_probit import rows_by_size
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
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import weight_priors, with_user_values
from bdr_stan.posterior.sampling import most_probable_scales
from bdr_stan.predictive.nested import NestedPredictive
from bdr_stan.types import Array

_OF_CURVE = ("kappa", "ell")
_LEAST_WEIGHT = 1e-4  # of a basis function that is kept, in units of the largest


def nonlinear_data(
    rows: Rows,
    at: CurvedCoordinates,
    curve: Mapping[str, float],
    whitened: Mapping[str, Any],
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/nonlinear.stan``.

    Parameters
    ----------
    rows : Rows
        One row [z, x, 1, y] a bag, x the covariates, in groups of equal size.
    at : CurvedCoordinates
    curve : dict
        kappa and ell.
    whitened : dict
        From `whitened_coordinates`, of the weights of the embedding and of the curve.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    points = normal_points(at.frequencies.shape[1])
    return {
        "N": len(rows.rows),
        "D": len(at.lam),
        "Q": rows.rows.shape[1] - len(at.lam) - 2,
        "G": len(rows.length),
        "K": points.shape[1],
        "M": len(points),
        "B": len(at.frequencies),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "rows": rows.rows,
        "lambda": at.lam,
        "prior_factor": at.prior_factor,
        "points": points,
        "frequencies": at.frequencies,
        "half_width": HALF_WIDTH,
        **curve,
        **whitened,
        "gamma_scale": 1.0,  # where there are no covariates
        **{name: value for name, value in priors.items() if not name.startswith(_OF_CURVE)},
        "use_likelihood": int(use_likelihood),
    }


def nonlinear_likelihood(
    rows: Rows,
    at: CurvedCoordinates,
    *,
    sigma: float,
    kappa: float,
    ell: float,
    level: float = 0.0,
) -> LogLikelihood:
    """The likelihood of ``stan/nonlinear.stan`` in theta = [w; v; gamma; intercept].

    Parameters
    ----------
    rows : Rows
        One row [z, x, 1, y] a bag.
    at : CurvedCoordinates
    sigma, kappa, ell : float, > 0
        Noise sd, the curve's sd in units of rho, its length scale.
    level : float, default 0
        Where the intercept counts from.

    Returns
    -------
    callable
        As `find_mode` takes it. The weights of the basis functions are
        c = kappa spectral_sd(ell) v. The Fisher information is that of normal labels of the same
        mean and variance; the curvature is exact.
    """
    d, points = len(at.lam), normal_points(at.frequencies.shape[1])
    q, B, M, n = points.shape[1], len(at.frequencies), len(points), len(rows.rows)
    sizes = np.repeat(rows.bag_size, rows.n_bags)
    z, beside, y = rows.rows[:, :d], rows.rows[:, d:-1], rows.rows[:, -1]
    y = y - level * rows.rows[:, -2]
    D = rows.rows.shape[1] - 1 + B
    # Columns that the points move, and those that they leave alone.
    moving = np.r_[:q, d : d + B]
    still = np.setdiff1d(np.arange(D), moving)
    u = leading_points(z, sizes, at.lam, points)
    amplitude = kappa * spectral_sd(at.frequencies, ell)
    of_points = np.concatenate([u, amplitude * basis_functions(u, at.frequencies)], axis=2)
    flat = of_points.reshape(n * M, q + B)
    s = shrinkage_factors(sizes, at.lam, 1.0)
    of_bags = np.column_stack([(s * z)[:, q:], beside])
    lost = np.zeros((n, D))
    lost[:, q:d] = 1 - s[:, q:]

    def averaged(weights):
        """Sum over the points of a bag of weights times rows of the design, shape (n, D)."""
        out = np.empty((n, D))
        out[:, still] = of_bags * weights.sum(axis=1)[:, None]
        out[:, moving] = (weights[:, None] @ of_points)[:, 0]
        return out

    def gram(weights):
        """Sum over all points of weights times outer products of the design's rows."""
        out = np.empty((D, D))
        out[np.ix_(still, still)] = (of_bags * weights.sum(axis=1)[:, None]).T @ of_bags
        out[np.ix_(still, moving)] = of_bags.T @ (weights[:, None] @ of_points)[:, 0]
        out[np.ix_(moving, still)] = out[np.ix_(still, moving)].T
        out[np.ix_(moving, moving)] = (flat * weights.reshape(-1, 1)).T @ flat
        return out

    middle = averaged(np.full((n, M), 1 / M))

    def likelihood(theta):
        e = (of_bags @ theta[still] - y)[:, None] + (flat @ theta[moving]).reshape(n, M)
        nu = lost @ theta**2 + sigma**2
        slope_of_nu = 2 * lost * theta
        exponent = -0.5 * e**2 / nu[:, None]
        highest = exponent.max(axis=1)
        share = np.exp(exponent - highest[:, None])  # of each point in the bag's density
        total = share.sum(axis=1)
        share /= total[:, None]
        value = np.sum(highest + np.log(total / M) - 0.5 * np.log(2 * np.pi * nu))

        # By a point's mean and by the variance: first derivatives of its log density.
        by_mean = -e / nu[:, None]
        by_nu = 0.5 * (by_mean**2 - 1 / nu[:, None])
        of_each = averaged(share * by_mean)
        of_each += np.sum(share * by_nu, axis=1)[:, None] * slope_of_nu

        # Minus the second derivative: its average over the points, less their slopes' covariance.
        curvature = gram(share * (1 / nu[:, None] - by_mean**2))
        crossed = averaged(share * by_mean * (1 / nu[:, None] - by_nu)).T @ slope_of_nu
        curvature += crossed + crossed.T
        squares = np.sum(share * e**2, axis=1)
        own = squares / nu**3 - 0.5 / nu**2 - np.sum(share * by_nu**2, axis=1)
        curvature += (slope_of_nu * own[:, None]).T @ slope_of_nu
        curvature[np.diag_indices(D)] += (1 / nu - squares / nu**2) @ lost
        curvature += of_each.T @ of_each

        away = e - e.mean(axis=1, keepdims=True)
        variance = nu + np.mean(away**2, axis=1)
        slope_of_variance = slope_of_nu + 2 / M * averaged(away)
        information = (middle / variance[:, None]).T @ middle
        information += 0.5 * (slope_of_variance / variance[:, None] ** 2).T @ slope_of_variance
        return value, of_each.sum(axis=0), information, curvature

    return likelihood


def nonlinear_model(
    training: TrainingFeatures,
    y: Array,
    *,
    n_curved: int = 1,
    n_functions: int = 20,
    jitter: float = 1e-4,
    prior: Mapping[str, float] | None = None,
) -> Model:
    """The model of ``stan/nonlinear.stan`` with its data.

    Parameters
    ----------
    training : TrainingFeatures
        With the within-bag covariance.
    y : array, shape (n,)
    n_curved, n_functions : int
        q and B.
    jitter : float
        See `landmark_matrices`.
    prior : dict, optional
        Numbers that replace the data-scaled defaults.
    """
    mean, sizes, x = training.embedding.mean, training.embedding.sizes, training.embedding.x
    straight = most_probable_scales(bdr_model(training, y, jitter=jitter))[0]
    eta = straight.pop("eta")
    K, R, Sigma = landmark_matrices(training, jitter=jitter)
    linear = joint_coordinates(mean, Sigma, eta * R, K)
    at = CurvedCoordinates(
        **vars(linear), frequencies=basis_frequencies(min(n_curved, len(K)), n_functions)
    )
    z = at.of(mean)
    rows = rows_by_size(np.column_stack([z, x]), y, sizes)
    spread = float(np.sqrt(np.mean(at.prior_variance(z))))
    defaults = {
        **weight_priors(y, at.prior_variance(z), x.shape[1]),
        "kappa_median": spread / 2,  # half as much of the labels as the linear part
        "kappa_log_sd": 1.0,
        "ell_median": 1.5,
        "ell_log_sd": 0.5,
    }
    model = Model(
        program="nonlinear",
        scales=("sigma", "rho", *_OF_CURVE),
        priors=with_user_values(defaults, prior),
        prior_factor=block_diag(at.prior_factor, np.eye(len(at.frequencies))),
        weight_basis=at.basis,
        likelihood=partial(nonlinear_likelihood, rows, at),
        stan_data=partial(nonlinear_data, rows, at, {}),
        n_covariates=x.shape[1],
        level=float(np.mean(y)),
        predicting=("c",),
        sampler_only=("t", "precision", "weights"),
    )
    scales = most_probable_scales(model, start=straight)[0]
    curve = {name: scales[name] for name in _OF_CURVE}
    at = replace(at, frequencies=at.frequencies[_of_weight(at.frequencies, curve["ell"])])
    return replace(
        model,
        scales=("sigma", "rho"),
        prior_factor=block_diag(at.prior_factor, np.eye(len(at.frequencies))),
        likelihood=partial(nonlinear_likelihood, rows, at, **curve),
        stan_data=partial(nonlinear_data, rows, at, curve),
        constants=at.constants()
        | {name: (value, []) for name, value in (curve | {"eta": eta}).items()},
    )


def _of_weight(frequencies, ell):
    """Which basis functions have weights that matter: few, where the curve is long."""
    sd = spectral_sd(frequencies, ell)
    return sd > _LEAST_WEIGHT * sd.max(initial=0.0)


def nonlinear_predictive(
    at: CurvedCoordinates,
    embedding: Embedding,
    *,
    intercept: Array,
    w: Array,
    c: Array,
    sigma: Array,
    gamma: Array | None = None,
) -> NestedPredictive:
    """Predictive distribution of labels: given a draw a mixture of normals over the points.

    Parameters
    ----------
    at : CurvedCoordinates
    embedding : Embedding, of n bags
    intercept, sigma : arrays, shape (S,), units of y
    w : array, shape (S, d)
    c : array, shape (S, B), units of y
        Weights of the basis functions.
    gamma : array, shape (S, Q), optional
        Weights of the covariates, as the model takes these.
    """
    z, points = at.of(embedding.mean), normal_points(at.frequencies.shape[1])
    S, (M, q) = len(sigma), points.shape
    tail = w.copy()
    tail[:, :q] = 0

    def components(i):
        mean, variance = latent_moments(
            i,
            z=z,
            sizes=embedding.sizes,
            lam=at.lam,
            intercept=intercept,
            w=tail,
            x=embedding.x,
            gamma=gamma,
        )
        u = leading_points(z[i], embedding.sizes[i], at.lam, points)
        curve = np.concatenate([u, basis_functions(u, at.frequencies)], axis=2)
        of_points = np.column_stack([w[:, :q], c]) @ curve.reshape(len(i) * M, -1).T
        means = mean[:, None] + of_points.reshape(S, len(i), M).swapaxes(1, 2)
        sds = np.sqrt(variance + sigma[:, None] ** 2)
        each = (S, M, len(i))
        return means.reshape(S * M, -1), np.broadcast_to(sds[:, None], each).reshape(S * M, -1)

    return NestedPredictive(components, len(z), S, M)
