"""The most probable curves of some bags, in coordinates ordered by what they identify of the label.

All that is learned from labels is learned here from the labels of the same bags: their
distribution, the functions of the label, the coordinates and the curves. A fit to a part of the
bags uses no label of the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logsumexp

from bdr_stan.embedding.label_functions import functions_of_classes, functions_of_numbers
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.bayes_rule import InverseCoordinates
from bdr_stan.models.embedding_curves import (
    Curves,
    CurveSums,
    most_probable_curves,
    residual_coordinates,
    rows_without_blur,
)
from bdr_stan.models.label_distribution import LabelDistribution
from bdr_stan.models.label_errors import true_labels
from bdr_stan.predictive.grid import trapezoid_weights
from bdr_stan.types import Array, ArrayLike

# Labels of the grid: so many within a standard deviation of the sharpest prediction; bounds.
_LABELS_PER_SD = 4
_LABELS = 100, 2000


@dataclass(frozen=True)
class TrainingLabels:
    """Labels of bags, and what is assumed of them.

    y : array, shape (n,), of classes their codes 0, 1, ..
    distribution : callable from true labels to their `LabelDistribution`; None of classes
    error_variance : array, shape (n,), of the labels' errors; None where there are none
    bounds : (lower, upper), of the true labels
    """

    y: Array
    distribution: Callable[[Array], LabelDistribution] | None = None
    error_variance: Array | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def take(self, bags: ArrayLike) -> Self:
        """Those of the bags with these indices."""
        variance = None if self.error_variance is None else self.error_variance[bags]
        return replace(self, y=self.y[bags], error_variance=variance)


@dataclass(frozen=True)
class FittedCurves:
    """The most probable curves of some bags.

    at : InverseCoordinates, the one that identifies most of the label first
    sums : CurveSums
    modes : dict, most probable tau, amplitude and bend
    curves : Curves, at the modes
    """

    at: InverseCoordinates
    sums: CurveSums
    modes: dict[str, Array]
    curves: Curves

    def leading(self, n: int, priors: Mapping[str, float]) -> Self:
        """The curves of the first n coordinates alone."""
        if n == len(self.at.lam):
            return self
        at, sums = self.at.take(slice(n)), self.sums.take(slice(n))
        modes, curves = most_probable_curves(sums, at.lam, at.functions, priors)
        return type(self)(at, sums, modes, curves)


def fitted_curves(
    training: TrainingFeatures,
    labels: TrainingLabels,
    priors: Mapping[str, float],
    *,
    jitter: float,
) -> FittedCurves:
    """Learn coordinates and curves of bags from their labels, and the distribution of the labels.

    Parameters
    ----------
    training : TrainingFeatures
    labels : TrainingLabels, of the same bags
    priors : dict, numbers of the priors by their names in ``stan/inverse.stan``
    jitter : float, as for `landmark_matrices`
    """
    y, true, prior = labels.y, None, None
    if labels.distribution is None:
        counts = np.bincount(y)
        functions, grid = functions_of_classes(len(counts)), np.arange(float(len(counts)))
        log_prior = np.log(counts / counts.sum())
    else:
        if labels.error_variance is not None:
            true = true_labels(y, labels.error_variance, labels.bounds)
        likely = y if true is None else true.plausible
        functions, prior = functions_of_numbers(likely), labels.distribution(likely)
        grid, log_prior = _grid(prior, _LABELS[0])
    B, blur = (functions(y), None) if true is None else true.moments(functions)
    m0, basis, lam = residual_coordinates(training, B, jitter=jitter)
    at = InverseCoordinates(m0, basis, lam, functions, grid, log_prior, power=1.0)
    z, sizes = at.of(training.embedding.mean), training.embedding.sizes
    sums = CurveSums.of(B, z, sizes)
    modes, curves = most_probable_curves(sums, lam, functions, priors)
    if blur is not None:
        rows = rows_without_blur(z, sizes, lam, B, blur, modes["tau"], curves.mean)
        sums = CurveSums.of(*rows, sizes)
        modes, curves = most_probable_curves(sums, lam, functions, priors)
    order = np.argsort(-_information(sums, lam, modes["tau"], curves.mean), kind="stable")
    at, sums, curves = at.take(order), sums.take(order), curves.take(order)
    modes = {name: value[order] if np.ndim(value) else value for name, value in modes.items()}
    if prior is not None:
        grid, log_prior = _grid(prior, _n_labels(at, prior, sums, modes["tau"], curves.mean))
        at = replace(at, labels=grid, log_prior=log_prior)
    return FittedCurves(at, sums, modes, curves)


def _information(sums, lam, tau, curve):
    """Of each coordinate on the label, summed over the bags: squared movement over variance."""
    moved = np.sum(curve[:, 1:] ** 2, axis=1)
    return moved * (sums.n_bags @ (1 / (tau**2 + lam / sums.size[:, None])))


def _grid(prior, n):
    """n labels of the distribution's range and some beyond, and their log density."""
    grid = prior.grid(n)
    log_density = prior.log_density(grid)
    return grid, log_density - logsumexp(log_density, b=trapezoid_weights(grid))


def _n_labels(at, prior, sums, tau, curve):
    """Labels of a grid fine enough for the sharpest prediction, of the largest bags."""
    path = curve @ at.functions(at.labels).T
    slopes = np.gradient(path, at.labels, axis=1)
    information = np.sum(slopes**2 / (tau**2 + at.lam / sums.size.max())[:, None], axis=0)
    wanted = _LABELS_PER_SD * (prior.most - prior.least) * np.sqrt(information.max())
    return int(np.clip(wanted, *_LABELS))
