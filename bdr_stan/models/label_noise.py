"""Noise of labels that are averages over the N_i points of a bag, or have known errors.

Its variance is sigma^2 + sigma_point^2 / N_i + v_i, with sigma_point the noise sd of one point and
v_i the known variance of the label's error.
"""

import numpy as np

from bdr_stan.types import Array

LABEL_NOISE = ("constant", "size")


def size_noise_prior(y: Array, sizes: Array) -> dict[str, float]:
    """Default prior of sigma_point, such that it alone would explain the variance of the labels."""
    return {"sigma_point_scale": float(np.std(y) / np.sqrt(np.mean(1 / sizes)))}
