"""Inverse distribution regression: embeddings given the label, and labels by Bayes' rule.

    z_k | y  ~  N(c_k' B(y), tau_k^2 + lambda_k / N)        independent over k
    p(y | z)  is in proportion to  p(y) prod_k p(z_k | y)^power

See "Embeddings given the label" in ``docs/explanation/inverse.md``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bdr_stan.embedding.label_functions import LabelFunctions
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.embedding_curves import Curves, CurveSums, coefficient_scales, curves_given
from bdr_stan.models.held_out_labels import (
    FittedCurves,
    TrainingLabels,
    fitted_curves,
    held_out_labels,
    learned_point_noise,
)
from bdr_stan.models.label_distribution import LabelDistribution
from bdr_stan.models.label_errors import most_point_noise, size_noise_prior
from bdr_stan.posterior.model import Draws, Model, StanInput, without_arrays
from bdr_stan.posterior.priors import with_user_values
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.types import Array

PRIORS = {
    "level_scale": 10.0,
    "tau_scale": 1.0,
    "amplitude_median": 1.0,
    "amplitude_log_sd": 1.5,
    "curvature_median": 0.4,
    "curvature_log_sd": 1.0,
}
# On the log scale: the sd of chains' initial values about the mode; the distance of a search's
# start from the mode; and approximate posterior sds, NUTS's first metric.
_INITIAL_LOG_SD = 0.3
_INITIAL_LOG_DISTANCE = 0.05
POSTERIOR_LOG_SDS = {"tau": 0.1, "amplitude": 0.4, "curvature": 0.3}


@dataclass(kw_only=True)
class InverseModel(Model):
    """The model of ``stan/inverse.stan`` with its data."""

    priors: dict[str, float]
    fitted: FittedCurves  # the most probable curves and the coordinates of the embeddings
    held_out: Array  # log density of each held-out label, shape (n,)

    program = "inverse"

    def __post_init__(self) -> None:
        coordinates, sums = self.fitted.coordinates, self.fitted.sums
        self.data = inverse_data(sums, coordinates.lam, coordinates.functions, self.priors)
        self.constants = {**coordinates.constants(), "held_out": (self.held_out, ["bag"])}

    def stan_input(self, settings: SamplerSettings) -> StanInput:
        """Chains that start near the most probable scales of the curves.

        "optimize" is the mode of the logarithms of tau, amplitude and curvature: with the Jacobian,
        so no tau is lost at 0.
        """
        return StanInput(
            self.data,
            starts(self.fitted.modes, settings),
            log_sds=POSTERIOR_LOG_SDS,
            options={"jacobian": True} if settings.method == "optimize" else {},
        )

    def read(self, draws: Draws, settings: SamplerSettings) -> Draws:
        """Draws with the share of each coordinate's variance that the label explains.

        The program draws curves at random even at its mode: their average replaces them there.
        Curves of a user's variant are its draws.
        """
        draws = without_arrays(draws, {"curvature": ["curvature"]})
        if settings.stan_file is not None:
            return draws
        if settings.method == "optimize":
            modes = {name: draws[name][0, 0] for name in POSTERIOR_LOG_SDS if name in draws}
            draws["curve"] = self.curves_at(**modes)[1].mean[None, None]
        by_label = np.sum(draws["curve"][..., 1:] ** 2, axis=-1)
        return {**draws, "explained": by_label / (by_label + draws["tau"] ** 2)}

    def curves_at(
        self, tau: Array, amplitude: Array, curvature: float = 1.0
    ) -> tuple[Array, Curves]:
        """Prior sds of the curves' coefficients, (K, J), and the curves given these scales."""
        coordinates, level_scale = self.fitted.coordinates, self.priors["level_scale"]
        sds = coefficient_scales(coordinates.functions, amplitude, curvature, level_scale)
        return sds, curves_given(self.fitted.sums, coordinates.lam, tau, sds)


def inverse_data(
    sums: CurveSums,
    lam: Array,
    functions: LabelFunctions,
    priors: Mapping[str, float],
) -> dict[str, Any]:
    """Data of ``stan/inverse.stan``."""
    G, J, K = sums.cross.shape
    return {
        "K": K,
        "J": J,
        "S": functions.n_straight,
        "G": G,
        "bag_size": sums.size,
        "n_bags": sums.n_bags,
        "gram": sums.gram.reshape(G, J * J).T,
        "cross": np.swapaxes(sums.cross, 0, 1),
        "squares": sums.squares,
        "lambda": lam,
        "smooth": functions.smooth,
        **{name: priors[name] for name in PRIORS},
        "use_likelihood": 1,
    }


def inverse_model(
    training: TrainingFeatures,
    y: Array,
    *,
    distribution: Callable[[Array], LabelDistribution] | None = None,
    prior: Mapping[str, float] | None = None,
    label_noise: str = "constant",
    label_sd: Array | None = None,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> InverseModel:
    """The model of ``stan/inverse.stan``; held-out labels choose its power and offsets of classes.

    `distribution` maps true labels to theirs, None for classes; `bounds` are of the true labels.
    """
    embedding, error_variance = training.embedding, 0.0 if label_sd is None else label_sd**2
    by_size = label_noise == "size"
    sizes = embedding.weighted_sizes
    defaults = {**PRIORS, **(size_noise_prior(float(np.std(y)), *sizes) if by_size else {})}
    priors = with_user_values(defaults, prior)

    def labels_with(sigma_point):
        variance = error_variance + (sigma_point or 0.0) ** 2 / embedding.sizes
        return TrainingLabels(y, distribution, variance if np.any(variance) else None, bounds)

    choose = partial(held_out_labels, training, priors=priors)
    sigma_point, chosen = None, choose(labels_with(None))
    if by_size:
        choose = partial(choose, kernel_shares=(chosen.kernel_share,))
        sigma_point = learned_point_noise(
            lambda noise: float(np.nansum(choose(labels_with(noise)).log_density)),
            priors["sigma_point_scale"],
            most_point_noise(y, embedding.sizes, error_variance),
        )
        chosen = choose(labels_with(sigma_point))
    fitted = fitted_curves(
        training, labels_with(sigma_point), priors, kernel_share=chosen.kernel_share
    )
    coordinates = replace(fitted.coordinates, power=chosen.power, sigma_point=sigma_point)
    if len(chosen.offsets):
        coordinates = replace(coordinates, offsets=chosen.offsets)
    return InverseModel(
        priors=priors,
        fitted=replace(fitted, coordinates=coordinates),
        held_out=chosen.log_density,
    )


def starts(modes: dict[str, Array], settings: SamplerSettings) -> list[dict[str, Array]]:
    """Initial values about the mode; one near it for a search, which rounding might end there."""
    modes = {name: np.atleast_1d(v) for name, v in ({"curvature": np.zeros(0)} | modes).items()}
    if settings.method != "nuts":
        return [{name: v * np.exp(_INITIAL_LOG_DISTANCE) for name, v in modes.items()}]
    rng = np.random.default_rng(settings.seed)
    return [
        {
            name: v * np.exp(_INITIAL_LOG_SD * rng.standard_normal(np.size(v)))
            for name, v in modes.items()
        }
        for _ in range(settings.chains)
    ]
