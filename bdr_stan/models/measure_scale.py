"""The length of the convolution prior's measure, profiled: that of highest evidence."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.posterior.model import Model
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.posterior.sampling import most_probable_scales
from bdr_stan.types import Array

# Range of the search, in logarithms of the ratio to the landmarks' spread.
_LOG_RATIO = (-2.0, 3.0)


def with_measure_scale(
    model_at: Callable[[float | None], Model],
    training: TrainingFeatures,
    *,
    embedding_prior: str,
    measure_scale: float | str,
) -> Model:
    """Model with a given or, for "evidence", the most probable measure scale.

    Only the convolution prior has one, which the fit then keeps among its constants.

    Parameters
    ----------
    model_at : callable
        Model with a given measure scale.
    training : TrainingFeatures
        The columns of its landmarks that the kernel looks at set the range of the search.
    embedding_prior : str
    measure_scale : float or "evidence"
    """
    if embedding_prior != "convolution":
        return model_at(None)
    if isinstance(measure_scale, str):
        kernel: Any = training.kernel
        seen = kernel.in_units(training.landmarks)
        measure_scale = profiled_measure_scale(model_at, seen)
    model = model_at(measure_scale)
    return replace(model, constants={**model.constants, "measure_scale": (measure_scale, [])})


def profiled_measure_scale(model_at: Callable[[float], Model], landmarks: Array) -> float:
    """Measure scale whose model has the highest evidence, to about a twentieth.

    Parameters
    ----------
    model_at : callable
        Model with a given measure scale.
    landmarks : array, shape (d, p)
        As the kernel sees them: their spread is the unit of the search.
    """
    spread = np.sqrt(landmarks.var(axis=0).mean())

    def objective(log_ratio):
        model = model_at(spread * np.exp(log_ratio))
        scales, mode, _ = most_probable_scales(model)
        return -mode.log_evidence - log_prior_of_scales(model.priors)(**scales)

    found = minimize_scalar(objective, bounds=_LOG_RATIO, method="bounded", options={"xatol": 0.05})
    return float(spread * np.exp(found.x))
