"""Totals of normal outcomes at points: a linear regression on weighted sums of features.

Bag a's label has the mean sum_j p_j f_j and the variance sigma^2 sum_j p_j^2, to which the known
variance of its error adds and, if rates also differ by bag, G_a' Sigma G_a of their coefficients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.aggregate.densities import Totals
from bdr_stan.aggregate.likelihoods.numbers import NORMAL
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.embedding.compression import Rows, compress
from bdr_stan.models.bdr import blr_data
from bdr_stan.models.label_errors import spread_of_true_labels
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.laplace import normal_posterior
from bdr_stan.posterior.latent_gaussian import (
    PREDICTION,
    SAMPLER,
    SCALE,
    LatentGaussianModel,
    Role,
    Variable,
    Variables,
    most_probable_scales,
)
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import predictor_priors
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.predictive import Predictive
from bdr_stan.types import Array, ArrayLike


@dataclass
class RateModel(LatentGaussianModel):
    """A model of totals of rates at points with its data."""

    rows: AggregateRows
    totals: Totals

    def __post_init__(self) -> None:
        self.prior_factor = np.eye(self.rows.rows.shape[1] - 1)
        super().__post_init__()

    @property
    def y(self) -> Array:
        """The totals, shape (n,)."""
        return self.totals.y

    def prediction_constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        return {"total_weight": (self.rows.total, ["bag"])}


class TotalsModel(RateModel):
    """The model of ``stan/blr.stan`` with the data of normal totals; rows from `weighted_sums`."""

    program = "blr"
    has_terms = True  # none, but the program has them

    def __post_init__(self) -> None:
        super().__post_init__()
        self.level = _level(self.rows, self.y)

    @cached_property
    def compressed(self) -> Rows:
        """The rows in units of the labels' noise, compressed."""
        return compressed_totals(self.rows, self.y)

    def variational_fit(self, *, draws: int, seed: int | None = None) -> Posterior:
        """Draws from the closed-form posterior at the most probable scales; bound: the evidence."""
        scales, mode, _ = most_probable_scales(self)
        attrs = {"inference_method": "vb", "bound": mode.log_evidence}
        return normal_posterior(
            self, scales, mode.theta, mode.whitening, attrs, draws=draws, seed=seed
        )

    def default_priors(self) -> dict[str, float]:
        """With s the standard deviation of the bags' averages y / sum p, in units of a point.

        intercept_location = sum y / sum p, intercept_scale = 2.5 s; rho_median such that these
        averages have the prior standard deviation s; sigma_scale such that noise would fully
        explain s. For labels with known errors s is for the true averages. ValueError if all
        averages are the same, or errors explain all their differences.
        """
        rows, averages, level = self.rows, self.y / self.rows.total, _level(self.rows, self.y)
        spread = float(np.std(averages))
        if spread <= 1e-12 * abs(level):
            raise ValueError(
                f"every label is {level:.6g} times its bag's total weight: there is nothing to "
                "explain"
            )
        if np.any(rows.known_variance):
            error_variance = rows.known_variance / rows.total**2
            spread = float(np.sqrt(spread_of_true_labels(averages, error_variance)))
        norms = np.sum((rows.rows[:, :-1] / rows.total[:, None]) ** 2, axis=1)
        return predictor_priors(level, spread, norms) | NORMAL.default_priors(rows, self.y)

    def variables(self) -> Variables:
        return {"sigma": SCALE, "rho": SCALE, "sigma_point": Variable(Role.SPLIT)}

    def likelihood(self, *, level: float = 0.0, **scales: Any) -> LogLikelihood:
        no_variance = np.zeros(len(self.prior_factor))
        return normal_likelihood(self.compressed, no_variance, level=level, **scales)

    def program_data(self) -> dict[str, Any]:
        return blr_data(self.compressed, self.priors)


@dataclass
class TotalsWithEffects(TotalsModel):
    """The model of ``stan/fast/aggregate_identity.stan``: rates differ by bag in some columns.

    The most probable scales are for independent effects.
    """

    effect_columns: Array  # sums G_a, shape (n, K)
    names: Sequence[str]  # of the columns

    program = "aggregate_identity"
    has_terms = False

    @property
    def effect_sds(self) -> list[str]:
        """Names of the standard deviations of the effects."""
        return [f"effect_sd[{name}]" for name in self.names]

    def default_priors(self) -> dict[str, float]:
        defaults = super().default_priors()
        spread = defaults["intercept_scale"] / 2.5
        return {**defaults, "effect_sd_scale": spread, "effect_correlation_shape": 2.0}

    def variables(self) -> Variables:
        return {
            "sigma": SCALE,
            "rho": SCALE,
            "effect_sd": Variable(Role.ARRAY, self.effect_sds),
            "effect_correlation": PREDICTION,
            "effect_factor": SAMPLER,
        }

    def variance(self, scales: Mapping[str, float]) -> Array:
        """Variances of the labels given the weights, shape (n,)."""
        sds = np.array([scales[name] for name in self.effect_sds])
        noise = (scales["sigma"] * self.rows.noise_factor) ** 2
        return noise + self.rows.known_variance + self.effect_columns**2 @ sds**2

    def noise_of_labels(self) -> Array:
        """Sd of each label, of any cause, per noise of one point, (n,), for learning a kernel."""
        scales = most_probable_scales(self)[0]
        return np.sqrt(self.variance(scales)) / scales["sigma"]

    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        X, nu = self.rows.rows, self.variance(scales)
        constant = -0.5 * np.sum(np.log(2 * np.pi * nu))
        information = (X / nu[:, None]).T @ X
        labels = self.y - level * X[:, -1]

        def likelihood(theta):
            e = labels - X @ theta
            return constant - 0.5 * np.sum(e**2 / nu), X.T @ (e / nu), information, information

        return likelihood

    def program_data(self) -> dict[str, Any]:
        return totals_with_effects_data(self.rows, self.y, self.effect_columns, self.priors)


def totals_with_effects_data(
    rows: AggregateRows,
    y: Array,
    effect_columns: Array,
    priors: Mapping[str, float],
) -> dict[str, Any]:
    """Data of ``stan/fast/aggregate_identity.stan``, except for whitening."""
    n, K = effect_columns.shape
    return {
        "A": n,
        "D": rows.rows.shape[1] - 1,
        "K": K,
        "rows": np.column_stack([rows.rows, y]),
        "effect_columns": effect_columns,
        "squared_weights": rows.noise_factor**2,
        "known_variance": np.broadcast_to(rows.known_variance, n),
        **priors,
        "use_likelihood": 1,
    }


def compressed_totals(rows: AggregateRows, y: Array) -> Rows:
    """Weighted sums and labels, both in units of the label's noise: groups of equal noise."""
    z = rows.rows / rows.noise_factor[:, None]
    return compress(
        z[:, :-1],
        y / rows.noise_factor,
        np.ones(len(y)),
        ones=z[:, -1],
        known_variance=rows.known_variance / rows.noise_factor**2,
    )


def _level(rows, y):
    """Average label of a point of weight 1."""
    return float(np.sum(y) / np.sum(rows.total))


def totals_predictive(
    means: Array, noise_factor: Array, further_variance: ArrayLike = 0.0, *, sigma: Array
) -> Predictive:
    """Totals of means (S, n) and noise sd sigma, (S,), times `noise_factor`, (n,).

    `further_variance`, (S, n) or less, is the variance from unknown effects and errors of labels.
    """
    S, n = means.shape

    further = np.broadcast_to(further_variance, means.shape)

    def components(i):
        return means[:, i], np.hypot(sigma[:, None] * noise_factor[i], np.sqrt(further[:, i]))

    return Predictive(components, n, S)
