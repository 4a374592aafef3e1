"""The length scale of the convolution prior's measure, by highest evidence."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.types import Array

# Range of the search, in logarithms of the ratio to the landmarks' spread: from a seventh to twenty
# times that. The evidence hardly changes within a twentieth.
_LOG_RATIO_RANGE = (-2.0, 3.0)
_LOG_RATIO_TOLERANCE = 0.05


def with_measure_scale(
    model_at: Callable[[float | None], LatentGaussianModel],
    training: TrainingFeatures,
    *,
    embedding_prior: str,
    measure_scale: float | str,
) -> LatentGaussianModel:
    """Model with a given measure scale or, for "evidence", with that of highest evidence.

    Only the convolution prior has one, which becomes a constant of the model. `model_at` is a
    function of the measure scale.
    """
    if embedding_prior != "convolution":
        return model_at(None)
    if isinstance(measure_scale, str):
        kernel: Any = training.kernel
        measure_scale = profiled_measure_scale(model_at, kernel.in_units(training.landmarks))
    model = model_at(measure_scale)
    return replace(model, constants={**model.constants, "measure_scale": (measure_scale, [])})


def profiled_measure_scale(
    model_at: Callable[[float], LatentGaussianModel], landmarks: Array
) -> float:
    """Measure scale of highest evidence; landmarks, in units of the kernel, of shape (d, p)."""
    spread = np.sqrt(landmarks.var(axis=0).mean())

    def objective(log_ratio):
        model = model_at(spread * np.exp(log_ratio))
        scales, mode, _ = most_probable_scales(model)
        return -mode.log_evidence - log_prior_of_scales(model.priors)(**scales)

    found = minimize_scalar(
        objective,
        bounds=_LOG_RATIO_RANGE,
        method="bounded",
        options={"xatol": _LOG_RATIO_TOLERANCE},
    )
    return float(spread * np.exp(found.x))
