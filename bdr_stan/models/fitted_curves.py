"""The most probable curves of some bags, and the distribution of their labels.

All that is learned from labels is learned here from the labels of the same bags: their
distribution, the functions of the label, the coordinates and the curves. A fit to a part of the
bags uses no label of the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
from bdr_stan.models.label_errors import TrueLabels, true_labels
from bdr_stan.predictive.grid import trapezoid_weights
from bdr_stan.types import Array, ArrayLike

# Labels of the grid: so many within a standard deviation of the sharpest prediction; bounds.
_LABELS_PER_SD = 4
_LABELS = 100, 2000


@dataclass(frozen=True)
class TrainingLabels:
    """Labels of bags, and what is assumed of them."""

    y: Array  # shape (n,), of classes their codes 0, 1, ..
    # of true labels; None of classes
    distribution: Callable[[Array], LabelDistribution] | None = None
    error_variance: Array | None = None  # of the labels, shape (n,); None where they have no errors
    bounds: tuple[float, float] = (-np.inf, np.inf)  # of the true labels

    def take(self, bags: ArrayLike) -> Self:
        """Those of the bags with these indices."""
        variance = None if self.error_variance is None else self.error_variance[bags]
        return replace(self, y=self.y[bags], error_variance=variance)

    @cached_property
    def true(self) -> TrueLabels | None:
        """Distribution of the true labels given those seen; None where labels have no errors."""
        if self.error_variance is None:
            return None
        return true_labels(self.y, self.error_variance, self.bounds)

    @property
    def plausible(self) -> Array:
        """Labels that together spread as the true ones do, shape (n,)."""
        return self.y if self.true is None else self.true.plausible

    @cached_property
    def prior(self) -> LabelDistribution | None:
        """Distribution of the true labels before a bag is seen; None of classes."""
        return None if self.distribution is None else self.distribution(self.plausible)


@dataclass(frozen=True)
class FittedCurves:
    """The most probable curves of some bags."""

    coordinates: InverseCoordinates  # of power 1
    rows: tuple[Array, Array]  # functions (n, J) and coordinates (n, K) of the bags
    sums: CurveSums
    modes: dict[str, Array]  # most probable tau, amplitude and curvature
    curves: Curves  # at the modes


def fitted_curves(
    training: TrainingFeatures,
    labels: TrainingLabels,
    priors: Mapping[str, float],
    *,
    kernel_share: float = 0.0,
) -> FittedCurves:
    """Coordinates and curves of bags; `kernel_share` as for `residual_coordinates`."""
    y, true, prior = labels.y, labels.true, labels.prior
    if prior is None:
        counts = np.bincount(y)
        functions, grid = functions_of_classes(len(counts)), np.arange(float(len(counts)))
        log_prior = np.log(counts / counts.sum())
    else:
        functions = functions_of_numbers(labels.plausible)
        grid, log_prior = _grid(prior, _LABELS[0])
    B, blur = (functions(y), None) if true is None else true.moments(functions)
    m0, basis, lam = residual_coordinates(training, B, kernel_share=kernel_share)
    coordinates = InverseCoordinates(m0, basis, lam, functions, grid, log_prior, power=1.0)
    z, sizes = coordinates.transform(training.embedding.mean), training.embedding.sizes
    rows = B, z
    sums = CurveSums.from_rows(*rows, sizes)
    modes, curves = most_probable_curves(sums, lam, functions, priors)
    if blur is not None:
        rows = rows_without_blur(z, sizes, lam, B, blur, modes["tau"], curves.mean)
        sums = CurveSums.from_rows(*rows, sizes)
        modes, curves = most_probable_curves(sums, lam, functions, priors)
    if prior is not None:
        grid, log_prior = _grid(
            prior, _n_labels(coordinates, prior, sums, modes["tau"], curves.mean)
        )
        coordinates = replace(
            coordinates, labels=grid, log_prior=log_prior, repeated=prior.repeated
        )
    return FittedCurves(coordinates, rows, sums, modes, curves)


def _grid(prior, n):
    """n labels of the distribution's range and some beyond, and their log density."""
    grid, log_density = prior.on_grid(n)
    return grid, log_density - logsumexp(log_density, b=trapezoid_weights(grid))


def _n_labels(coordinates, prior, sums, tau, curve):
    """Labels of a grid fine enough for the sharpest prediction, of the largest bags."""
    path = curve @ coordinates.functions(coordinates.labels).T
    slopes = np.gradient(path, coordinates.labels, axis=1)
    information = np.sum(slopes**2 / (tau**2 + coordinates.lam / sums.size.max())[:, None], axis=0)
    wanted = _LABELS_PER_SD * (prior.most - prior.least) * np.sqrt(information.max())
    return int(np.clip(wanted, *_LABELS))
