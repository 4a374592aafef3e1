"""Free constants in priors of a regression on uncertain embeddings, by highest evidence.

That is the length scale of the convolution prior's measure, and the variance of linear effects
relative to the rest of the kernel.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import minimize_scalar

from bdr_stan.embedding.coordinates import Coordinates, joint_coordinates
from bdr_stan.embedding.prior import JITTER, eta_prior, landmark_matrices
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import landmark_features
from bdr_stan.kernels.linear_plus import LINEAR_VARIANCE, with_linear_variance
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.types import Array

# Range of the search for the measure scale, in logarithms of the ratio to the landmarks' spread:
# from a seventh to twenty times that. The evidence hardly changes within a twentieth.
_LOG_RATIO_RANGE = (-2.0, 3.0)
_LOG_RATIO_TOLERANCE = 0.05
# Variances of linear effects that are tried. A factor of 10 changes predictions little.
_VARIANCES = LINEAR_VARIANCE * 10.0 ** np.arange(4)


def model_of_best_prior(
    model_in: Callable[..., Callable[[Coordinates], LatentGaussianModel]],
    training: TrainingFeatures,
    *,
    embedding_prior: str = "empirical",
    measure_scale: float | str = "evidence",
    some_bags: Array | None = None,
) -> LatentGaussianModel:
    """The model in the joint basis, with the chosen values among its constants.

    ``model_in(coordinates, eta_prior)`` returns the model as a function of coordinates with any
    `prior_factor`; if `some_bags` of many choose it, a third argument, their indices, selects them.
    For `embedding_prior` and `measure_scale` see `landmark_matrices`; only the convolution prior
    has a measure scale, and "evidence" means the scale of highest evidence.
    """

    def model_at(measure_scale):
        K, R, Sigma = landmark_matrices(
            training, embedding_prior=embedding_prior, measure_scale=measure_scale
        )
        coordinates = joint_coordinates(training.embedding.m0, Sigma, R, K)
        prior = eta_prior(training.embedding, Sigma, R, embedding_prior=embedding_prior)
        some = None if some_bags is None else model_in(coordinates, prior, some_bags)
        return _with_best_linear_variance(model_in(coordinates, prior), some, coordinates, training)

    if embedding_prior != "convolution":
        return model_at(None)
    if isinstance(measure_scale, str):
        kernel: Any = training.kernel
        measure_scale = _profiled_measure_scale(model_at, kernel.in_units(training.landmarks))
    model = model_at(measure_scale)
    return replace(model, constants={**model.constants, "measure_scale": (measure_scale, [])})


def _profiled_measure_scale(model_at, landmarks):
    """Measure scale of highest evidence; landmarks, in units of the kernel, of shape (d, p)."""
    spread = np.sqrt(landmarks.var(axis=0).mean())

    def objective(log_ratio):
        model = model_at(spread * np.exp(log_ratio))
        return -_log_evidence(model, *most_probable_scales(model)[:2])

    found = minimize_scalar(
        objective,
        bounds=_LOG_RATIO_RANGE,
        method="bounded",
        options={"xatol": _LOG_RATIO_TOLERANCE},
    )
    return float(spread * np.exp(found.x))


def _log_evidence(model, scales, mode):
    return mode.log_evidence + log_prior_of_scales(model.priors)(**scales)


def _with_best_linear_variance(model_of, model_of_some, coordinates, training):
    """The model with the chosen variance of linear effects, if it is free, as a constant.

    `model_of_some`, of some of many bags, then chooses, and the search for the scales of all begins
    at its scales.
    """
    trial_of, V, found, start = model_of_some or model_of, coordinates.basis, [], None
    for variance in _VARIANCES if training.free_linear_variance else [None]:
        trial, constants = coordinates, dict[str, Any]()
        if variance is not None:
            gram = precision_for(training, variance)
            trial = replace(coordinates, prior_factor=cholesky(V.T @ gram @ V))
            constants = {"linear_variance": (variance, [])}
        elif model_of_some is None:
            return model_of(coordinates)
        model = trial_of(trial)
        scales, mode, _ = most_probable_scales(model, start=start)
        start = scales if model.terms.names else None  # with many scales the search is slow
        found.append((_log_evidence(model, scales, mode), trial, scales, mode.theta, constants))
    _, best, start_scales, start_weights, constants = max(found, key=itemgetter(0))
    model = model_of(best)
    constants = {**model.constants, **constants}
    return replace(model, constants=constants, start=start_scales, near=start_weights)


def precision_for(training: TrainingFeatures, linear_variance: float) -> Array:
    """Prior precision of the landmark weights for this variance of the linear effects, (d, d).

    The features stay as they are: in functions sum_j alpha_j k(x, l_j) of a kernel k with the
    variance v of linear effects, the effects have the variance u a priori if the precision of alpha
    is the kernel matrix for the variance v^2 / u.
    """
    kernel = with_linear_variance(training.kernel, LINEAR_VARIANCE**2 / linear_variance)
    gram = landmark_features(kernel, training.landmarks).gram()
    return gram + JITTER * np.eye(len(gram))
