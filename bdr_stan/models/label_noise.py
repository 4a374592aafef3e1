"""Noise of labels beyond sigma: that of averages over few points, and known errors.

A label that is an average over the N_i points of its bag has noise of variance

    sigma^2 + sigma_point^2 / N_i + v_i,

sigma_point what one point adds, v_i the known variance of the label's error, 0 where none is.
"""

from typing import Any

import numpy as np

from bdr_stan.types import Array

LABEL_NOISE = ("constant", "size")


def size_noise_prior(y: Array, sizes: Array) -> dict[str, float]:
    """Default prior of the noise of one point.

    Parameters
    ----------
    y : array, shape (n,)
        Training labels.
    sizes : array, shape (n,)
        Points per bag.

    Returns
    -------
    dict
        sigma_point_scale such that this noise alone would explain the labels' spread.
    """
    return {"sigma_point_scale": float(np.std(y) / np.sqrt(np.mean(1 / sizes)))}


def size_noise_inits(start: dict[str, Any]) -> dict[str, Any]:
    """Initial values as the programs take them: sigma_point a vector, empty where there is none."""
    return {**start, "sigma_point": [start["sigma_point"]] if "sigma_point" in start else []}


def size_noise_draws(drawn: dict[str, Array]) -> dict[str, Array]:
    """Draws as users see them: sigma_point a number, where there is one."""
    if "sigma_point" not in drawn:
        return drawn
    return {**drawn, "sigma_point": drawn["sigma_point"].reshape(drawn["sigma"].shape)}
