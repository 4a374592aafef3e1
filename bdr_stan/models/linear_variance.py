"""The variance of linear effects relative to the rest of the kernel, by highest evidence."""

from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.linalg import cholesky

from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.embedding.prior import JITTER
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import landmark_features
from bdr_stan.kernels.linear_plus import LINEAR_VARIANCE, with_linear_variance
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.types import Array

# A factor of 10 changes predictions little.
_VARIANCES = LINEAR_VARIANCE * 10.0 ** np.arange(4)


def with_best_linear_variance(
    model_of: Callable[[Coordinates], LatentGaussianModel],
    coordinates: Coordinates,
    training: TrainingFeatures,
    model_of_some: Callable[[Coordinates], LatentGaussianModel] | None = None,
) -> LatentGaussianModel:
    """The model with the linear effects' variance chosen, where it is free, as a constant.

    `model_of_some`, of some of many bags, then chooses, and the search for the scales of all begins
    at those of the some.
    """
    trial_of, V, found, start = model_of_some or model_of, coordinates.basis, [], None
    for variance in _VARIANCES if training.free_linear_variance else [None]:
        own, constants = coordinates, dict[str, Any]()
        if variance is not None:
            gram = precision_for(training, variance)
            own = replace(coordinates, prior_factor=cholesky(V.T @ gram @ V))
            constants = {"linear_variance": (variance, [])}
        elif model_of_some is None:
            return model_of(coordinates)
        model = trial_of(own)
        scales, mode, _ = most_probable_scales(model, start=start)
        start = scales if model.terms.names else None  # of many scales the search takes long
        log_evidence = mode.log_evidence + log_prior_of_scales(model.priors)(**scales)
        found.append((log_evidence, own, scales, mode.theta, constants))
    _, own, scales, near, constants = max(found, key=itemgetter(0))
    model = model_of(own)
    constants = {**model.constants, **constants}
    return replace(model, constants=constants, start=scales, near=near)


def precision_for(training: TrainingFeatures, linear_variance: float) -> Array:
    """Prior precision of the landmark weights for this variance of the linear effects, (d, d).

    The features stay as they are: in functions sum_j alpha_j k(x, l_j) of a kernel k whose linear
    effects have the variance v, these have the variance u a priori if the precision of alpha is the
    kernel matrix for the variance v^2 / u.
    """
    kernel = with_linear_variance(training.kernel, LINEAR_VARIANCE**2 / linear_variance)
    gram = landmark_features(kernel, training.landmarks).gram()
    return gram + JITTER * np.eye(len(gram))
