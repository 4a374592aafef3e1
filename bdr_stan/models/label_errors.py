"""Noise of labels, and true labels behind labels with errors, by regression calibration.

A label is seen with an error, y_i = l_i + e_i, e_i ~ N(0, v_i), v_i known. True labels spread
about their mean m with variance s2, so

    l_i | y_i  ~  N(m + r_i (y_i - m), r_i v_i),    r_i = s2 / (s2 + v_i)

Source: Carroll, Ruppert, Stefanski and Crainiceanu (2006), "Measurement error in nonlinear models",
chapter 4; see ``docs/explanation/inverse.md``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from bdr_stan.embedding.label_functions import LabelFunctions
from bdr_stan.types import Array, ArrayLike

_QUADRATURE_NODES = 31  # many, as the functions have kinks at the ends of the labels
_MAX_NOISE_SHARE = 0.95  # of the noise that explains the labels, so some variation is left to learn
_MIN_VARIANCE_SHARE = 0.01  # of the variance of labels, if their errors explain all of it
_MIN_LOG_SHARE = -20.0  # of a negligible noise
LABEL_NOISE = ("constant", "size")


def size_noise_prior(spread: float, sizes: Array, weights: Array) -> dict[str, float]:
    """Default prior of sigma_point, wide enough to explain the whole variance of the labels.

    `spread` is their standard deviation; `sizes` and `weights` as `Embedding.weighted_sizes`.
    """
    return {"sigma_point_scale": float(spread / np.sqrt(np.average(1 / sizes, weights=weights)))}


@dataclass(frozen=True)
class TrueLabels:
    """Distributions of the true labels given labels with errors, units of y."""

    mean: Array  # of the true label given the one seen, shape (n,)
    sd: Array  # likewise
    plausible: Array  # labels that together spread as the true ones do, shape (n,)

    def moments(self, functions: LabelFunctions) -> tuple[Array, Array]:
        """Means (n, J) and covariances (n, J, J) of the functions over the true labels."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_NODES)
        weights = weights / weights.sum()
        labels = self.mean + nodes[:, None] * self.sd
        values = functions(labels.ravel()).reshape(*labels.shape, -1)
        average = np.tensordot(weights, values, 1)
        deviations = values - average
        return average, np.einsum("q,qni,qnj->nij", weights, deviations, deviations, optimize=True)


def true_labels(
    y: Array, error_variance: Array, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> TrueLabels:
    """Distributions of the true labels given labels and the variances of their errors, (n,).

    Plausible labels are kept between the bounds. If the errors explain all variation of the labels,
    the true labels' variance is set to a hundredth of theirs.
    """
    if unexplained(y, error_variance) > 0:
        variance = spread_of_true_labels(y, error_variance)
    else:
        variance = _MIN_VARIANCE_SHARE * np.var(y)
    weight = 1 / (variance + error_variance)
    average = np.average(y, weights=weight)
    mean = average + variance * weight * (y - average)
    sd = np.sqrt(variance * weight * error_variance)
    # The scores of a normal distribution, one per bag, the same in each fit.
    scores = norm.ppf((np.random.default_rng(0).permutation(len(y)) + 0.5) / len(y))
    return TrueLabels(mean, sd, np.clip(mean + sd * scores, *bounds))


def spread_of_true_labels(y: Array, error_variance: Array) -> float:
    """Variance s2 of the true labels, by moments; ValueError if errors explain all differences.

    It solves sum (y_i - m)^2 / (s2 + v_i) = n - 1, with m the mean of y under the same weights
    (Paule and Mandel 1982).
    """
    if unexplained(y, error_variance) <= 0:
        raise ValueError(
            "the errors in label_sd explain all differences between the labels, so there is "
            "nothing to learn: give smaller label_sd, or leave it out"
        )
    unit = float(np.var(y))
    share_of_unit = brentq(lambda share: unexplained(y, share * unit + error_variance), 0, 2)
    return unit * share_of_unit


def unexplained(y: Array, variance: Array) -> float:
    """Excess of a chi-square of the labels over its average: > 0 if variances are too small."""
    weight = 1 / variance
    average = np.average(y, weights=weight)
    return float(np.sum(weight * (y - average) ** 2) - (len(y) - 1))


def most_point_noise(y: Array, sizes: Array, known_variance: ArrayLike = 0.0) -> float:
    """The noise of one point that, with the known variance of errors, just explains the labels."""
    widest = float(np.ptp(y) * np.sqrt(sizes.max()))  # explaining more than all variance

    def left(log_share):
        return unexplained(y, known_variance + (np.exp(log_share) * widest) ** 2 / sizes)

    return _MAX_NOISE_SHARE * widest * float(np.exp(brentq(left, _MIN_LOG_SHARE, 0.0)))
