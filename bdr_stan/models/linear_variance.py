"""The variance of linear effects relative to the rest of the kernel, by highest evidence."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.linalg import cholesky

from bdr_stan.embedding.coordinates import Coordinates
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
    jitter: float,
) -> LatentGaussianModel:
    """The model with the linear effects' variance chosen, where it is free, as a constant."""
    if not training.free_linear_variance:
        return model_of(coordinates)
    V, found, start = coordinates.basis, [], None
    for variance in _VARIANCES:
        gram = precision_for(training, variance, jitter)
        model = model_of(replace(coordinates, prior_factor=cholesky(V.T @ gram @ V)))
        scales, mode, _ = most_probable_scales(model, start=start)
        start = scales if model.terms.names else None  # of many scales the search takes long
        log_evidence = mode.log_evidence + log_prior_of_scales(model.priors)(**scales)
        constants = {**model.constants, "linear_variance": (variance, [])}
        found.append((log_evidence, replace(model, constants=constants)))
    return max(found, key=lambda pair: pair[0])[1]


def precision_for(training: TrainingFeatures, linear_variance: float, jitter: float) -> Array:
    """Prior precision of the landmark weights for this variance of the linear effects, (d, d).

    The features stay as they are: in functions sum_j alpha_j k(x, l_j) of a kernel k whose linear
    effects have the variance v, these have the variance u a priori if the precision of alpha is the
    kernel matrix for the variance v^2 / u.
    """
    kernel = with_linear_variance(training.kernel, LINEAR_VARIANCE**2 / linear_variance)
    gram = landmark_features(kernel, training.landmarks).gram()
    return gram + jitter * np.eye(len(gram))
