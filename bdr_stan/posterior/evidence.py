"""The evidence of the scales: the density of the labels with the weights integrated out."""

import numpy as np

from bdr_stan.types import Array


def laplace_log_evidence(log_density: float, precision: Array, prior_precision: Array) -> float:
    """Log evidence by Laplace's method at the mode of the weights theta; exact for BLR.

        log p(y) = log p(y | mode) - (mode - m)' P (mode - m) / 2 + (log |P| - log |H|) / 2

    with N(m, P^-1) the prior of theta and H the posterior precision. `log_density` is the sum of
    the first two terms; the powers of 2 pi in the prior and in the Gaussian integral cancel.
    """
    _, log_det = np.linalg.slogdet(precision)
    _, log_det_prior = np.linalg.slogdet(prior_precision)
    return log_density + 0.5 * (log_det_prior - log_det)
