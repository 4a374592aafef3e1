"""Classes of bags, weights and mean embeddings both uncertain (Law et al. 2018, appendix B)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import CompressedRows
from bdr_stan.embedding.coordinates import joint_coordinates
from bdr_stan.embedding.prior import eta_prior, landmark_matrices
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.likelihoods import probit_likelihood
from bdr_stan.models.measure_scale import with_measure_scale
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import class_priors, with_user_values
from bdr_stan.types import Array

# Prior sd of the latent function over the training bags: most bags' classes are then open, some
# all but sure.
_SPREAD = 1.5


def bdr_probit_data(
    rows: CompressedRows,
    lam: Array,
    prior_factor: Array,
    whitened: Mapping[str, Any],
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/bdr_probit.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One row [z, x, 1, y] a bag, x the covariates, in groups of equal size; y is 0 or 1.
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
    D, y = len(lam), rows.rows[:, -1].astype(int)
    return {
        "N": len(y),
        "D": D,
        "Q": rows.rows.shape[1] - D - 2,
        "G": len(rows.length),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "z": rows.rows[:, :D],
        "x": rows.rows[:, D:-2],
        "y": y,
        "lambda": lam,
        "prior_factor": prior_factor,
        **whitened,
        "gamma_scale": 1.0,  # where there are no covariates
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def rows_by_size(z: Array, y: Array, sizes: Array) -> CompressedRows:
    """Rows [z_i, 1, y_i] of all bags, uncompressed, in groups of equal size.

    Parameters
    ----------
    z : array, shape (n, d)
        Coordinates of the embeddings, or with further columns.
    y : array, shape (n,)
        Labels.
    sizes : array, shape (n,)
        Points per bag.

    Returns
    -------
    CompressedRows
    """
    order = np.argsort(sizes, kind="stable")
    rows = np.column_stack([z, np.ones(len(y)), y])[order]
    bag_size, start, n_bags = np.unique(
        np.asarray(sizes, float)[order], return_index=True, return_counts=True
    )
    return CompressedRows(rows, start, n_bags, n_bags, bag_size, np.zeros(len(start)))


def follow_latent_scale(whitened: Mapping[str, Any], nu: Array, rho: float) -> dict[str, Any]:
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
        "linear_term": whitened["linear_term"] * unit,
        "intercept_centre": whitened["intercept_centre"] / unit,
        "intercept_unit": whitened["intercept_unit"] / unit,
        "gamma_centre": whitened["gamma_centre"] / unit,
        "gamma_unit": whitened["gamma_unit"] / unit,
    }


def bdr_probit_model(
    training: TrainingFeatures,
    y: Array,
    *,
    embedding_prior: str = "empirical",
    measure_scale: float | str = "evidence",
    jitter: float = 1e-4,
    prior: Mapping[str, float] | None = None,
) -> Model:
    """The model of ``stan/bdr_probit.stan`` with its data.

    Parameters
    ----------
    training : TrainingFeatures
        With the within-bag covariance.
    y : int array, shape (n,), of 0 and 1
    embedding_prior, measure_scale, jitter
        See `landmark_matrices`; the measure scale "evidence" is that of highest evidence.
    prior : dict, optional
        Numbers that replace the defaults.
    """
    mean, sizes, x = training.embedding.mean, training.embedding.sizes, training.embedding.x
    in_order_of_bags = np.argsort(np.argsort(sizes, kind="stable"))

    def by_bag(drawn):
        """What a user's program wrote for each of its rows, in the order of the bags."""
        own = {name: drawn[name] for name in ("log_lik", "y_rep") if name in drawn}
        return {**drawn, **{name: v[..., in_order_of_bags] for name, v in own.items()}}

    def model_at(measure_scale):
        K, R, Sigma = landmark_matrices(
            training, embedding_prior=embedding_prior, measure_scale=measure_scale, jitter=jitter
        )
        at = joint_coordinates(mean, Sigma, R, K)
        z = at.of(mean)
        rows = rows_by_size(np.column_stack([z, x]), y, sizes)
        defaults = {
            **class_priors(_SPREAD, at.prior_variance(z), x.shape[1]),
            **eta_prior(mean - at.m0, sizes, Sigma, R, embedding_prior=embedding_prior),
        }

        def rescaled(whitened, scales, mode):
            s = shrinkage_factors(rows.bag_size, at.lam, scales["eta"])
            nu = scales["eta"] * (1 - s) @ mode.theta[: len(at.lam)] ** 2
            return follow_latent_scale(whitened, np.repeat(nu, rows.n_bags), scales["rho"])

        return Model(
            program="bdr_probit",
            scales=("rho", "eta"),
            priors=with_user_values(defaults, prior),
            prior_factor=at.prior_factor,
            weight_basis=at.basis,
            likelihood=partial(probit_likelihood, rows, at.lam),
            stan_data=partial(bdr_probit_data, rows, at.lam, at.prior_factor),
            n_covariates=x.shape[1],
            constants=at.constants(),
            rescaled=rescaled,
            draws=by_bag,
            sampler_only=("t", "precision", "unit"),
        )

    return with_measure_scale(
        model_at, training, embedding_prior=embedding_prior, measure_scale=measure_scale
    )
