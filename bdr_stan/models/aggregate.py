"""Rates at points from totals of bags, by a Gaussian process with Nystrom features.

Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018), "Variational learning on
aggregate outputs with Gaussian processes", with the posterior in addition to its approximation.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from bdr_stan.aggregate.densities import Totals, aggregate_likelihood
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.aggregate.variational import variational_posterior
from bdr_stan.models.totals import RateModel, TotalsModel
from bdr_stan.posterior.laplace import normal_posterior
from bdr_stan.posterior.latent_gaussian import (
    SAMPLER,
    SCALE,
    Role,
    Variable,
    Variables,
    most_probable_scales,
)
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.posterior.priors import held_at
from bdr_stan.posterior.sampling import Posterior

# Bags are cut to about this number of slices, for threads to share.
_SLICES = 16
_FIRST_TAU = 0.1  # where chains start


def aggregate_data(
    rows: AggregateRows, totals: Totals, priors: Mapping[str, float], *, has_effects: bool = False
) -> dict[str, Any]:
    """Data of ``stan/fast/aggregate_*.stan`` (square: `rows` are factors), except for whitening."""
    y, labels, likelihood = totals.y, totals.labels, totals.likelihood
    of_scales = [f"{name}_scale" for name in likelihood.scales]
    # Information of labels on their bags' effects, for the sampler's coordinates.
    target, information = likelihood.label_on_log_scale(labels) if has_effects else ([], [])
    data = {
        "A": len(y),
        "D": rows.rows.shape[1] - 1,
        **likelihood.program_data(labels),
        "error_variance": np.broadcast_to(rows.known_variance, len(y)),
        "has_effects": int(has_effects),
        "scale_location": np.zeros(len(of_scales)),
        "scale_prior": [priors[name] for name in of_scales],
        "tau_scale": 1.0,  # if there are no effects
        **{name: value for name, value in priors.items() if name not in of_scales},
        "use_likelihood": 1,
        "effect_information": information,
        "effect_target": target,
    }
    if rows.weights is None:
        data["residual_variance"] = (
            np.zeros(len(y)) if rows.residual_variance is None else rows.residual_variance
        )
    if rows.packs:
        packed = rows.packed
        empty = np.empty((0, rows.rows.shape[1]))
        return {**data, "P": packed.shape[1], "packed": packed, "T": 0, "rows": empty,
                "start": [], "length": []}  # fmt: skip
    data |= {
        "T": len(rows.rows),
        "rows": rows.rows,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
    }
    if rows.weights is None:
        return {**data, "P": 0, "packed": np.empty((0, 0))}
    return {**data, "weight": rows.weights, "grainsize": max(1, len(y) // _SLICES)}


@dataclass
class AggregateModel(RateModel):
    """The model of a link's program, ``stan/fast/aggregate_*.stan``; rows are from the link."""

    _: KW_ONLY
    bag_effects: bool = False  # a normal effect of each bag on the log rate, or the log odds

    def __post_init__(self) -> None:
        self.program = self.totals.link.program
        self.rho_in_likelihood = self.totals.link.uses_residual_variance
        self.initial = {
            "tau": [_FIRST_TAU] if self.bag_effects else [],
            "t_effect": np.zeros(len(self.y) if self.bag_effects else 0),
        }
        super().__post_init__()

    def default_priors(self) -> dict[str, float]:
        return {
            **rate_priors(self.rows, self.totals),
            **self.totals.likelihood.default_priors(self.rows, self.y),
            **({"tau_scale": 1.0} if self.bag_effects else {}),
        }

    def variables(self) -> Variables:
        return {
            "rho": SCALE,
            "scale": Variable(Role.SPLIT, list(self.totals.likelihood.scales)),
            "tau": Variable(Role.SPLIT, ["tau"] if self.bag_effects else []),
            "t_effect": SAMPLER,
        }

    def likelihood(self, *, level: float = 0.0, **scales: float) -> LogLikelihood:
        exact = self.rows.weights is None
        return aggregate_likelihood(self.rows, self.totals, exact_curvature=exact, **scales)

    def program_data(self) -> dict[str, Any]:
        return aggregate_data(self.rows, self.totals, self.priors, has_effects=self.bag_effects)

    def fixed(self, scales: Mapping[str, float]) -> dict[str, Any]:
        values = [scales[name] for name in self.totals.likelihood.scales]
        return super().fixed(scales) | held_at("scale_location", "scale_prior", values)

    def variational_fit(self, *, draws: int, seed: int | None = None) -> Posterior:
        """VBAgg: independent draws from the variational posterior."""
        scales, mode, _ = most_probable_scales(self)
        rho = scales.pop("rho")
        gaussian = variational_posterior(
            self.rows, self.totals, priors=self.priors, rho=rho, mode=mode, scales=scales
        )
        scales["rho"] = gaussian.rho
        attrs = {"inference_method": "vb", "bound": gaussian.bound}
        return normal_posterior(
            self, scales, gaussian.mean, gaussian.factor, attrs, draws=draws, seed=seed
        )


def aggregate_model(
    rows: AggregateRows, totals: Totals, *, bag_effects: bool = False, **options: Any
) -> AggregateModel | TotalsModel:
    """The model of totals with their link, of "identity" a linear regression."""
    if totals.link.is_linear:
        return TotalsModel(rows, totals, **options)
    return AggregateModel(rows, totals, bag_effects=bag_effects, **options)


def rate_priors(rows: AggregateRows, totals: Totals) -> dict[str, float]:
    """Default priors of level and weights of a model of rates.

    With r the overall rate (for the binomial the share) of all bags, "square": f has the level
    sqrt(r), with a prior sd of a third of it, which also separates f from -f, and a standard
    deviation around half of it; "exp" and "logit": the level log r or logit r, with a prior sd of
    1.5, and a standard deviation around 1. These are over all points together, with their weights.
    """
    trials = totals.labels.trials
    overall = float(np.sum(totals.y) / np.sum(rows.total if trials is None else trials))
    function = totals.link.function_prior(overall)
    squares = rows.row_weights[:, None] * rows.rows[:, :-1] ** 2
    squared_norm = np.sum(squares) / np.sum(rows.total)
    return {
        "intercept_location": float(function.level),
        "intercept_scale": float(function.level_sd),
        "rho_median": float(function.sd / np.sqrt(squared_norm)),
        "rho_log_sd": 1.0,
    }
