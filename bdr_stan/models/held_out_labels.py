"""The most probable curves of some bags, and held-out labels to choose models.

`fitted_curves` learns everything from the labels of the same bags. The log density of the labels of
each fifth under the fit to the other bags determines the power of the likelihood, the share of the
kernel matrix in the residual spread, and offsets of classes; see ``docs/explanation/inverse.md``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from bdr_stan.embedding.label_functions import functions_of_classes, functions_of_numbers
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.bayes_rule import InverseCoordinates, informativeness, log_likelihoods
from bdr_stan.models.embedding_curves import (
    Curves,
    CurveSums,
    most_probable_curves,
    residual_coordinates,
    rows_without_blur,
)
from bdr_stan.models.label_distribution import LabelDistribution
from bdr_stan.models.label_errors import TrueLabels, true_labels
from bdr_stan.predictive.grid import trapezoid_weights, weights_at
from bdr_stan.types import Array, ArrayLike

# The powers that held-out bags choose from, and how many folds hold them out.
_POWERS = 0.05, 1.0
# Few bags are uninformative about the power: prior mean and precision of its logarithm.
_USUAL_POWER, _POWER_LOG_SD = 0.6, 0.5
_OFFSET_SD = 1.0  # prior sd of the classes' offsets
_KERNEL_SHARES = 0.0, 0.1, 1.0  # that held-out bags choose from
_POWER_FOLDS = 5
_FEWEST_BAGS = 10  # needed to learn a power
_MAX_HELD_OUT = 1_000  # bags held out of a fold; more add nothing on two numbers
# Noise of one point that held-out bags choose from, in units of its prior's scale; how many values.
_POINT_NOISES = 0.03, 1.5
_NOISES_TRIED, _NOISES_TRIED_CLOSELY = 9, 5
_NO_LABEL = -600.0  # log density of impossible labels
# Labels of the grid: this number within a standard deviation of the sharpest prediction; bounds.
_LABELS_PER_SD = 4
_LABELS = 100, 2000


@dataclass(frozen=True)
class TrainingLabels:
    """Labels of bags, and assumptions on them."""

    y: Array  # shape (n,), for classes their codes 0, 1, ...
    # of true labels; None of classes
    distribution: Callable[[Array], LabelDistribution] | None = None
    error_variance: Array | None = None  # of the labels, shape (n,); None if they have no errors
    bounds: tuple[float, float] = (-np.inf, np.inf)  # of the true labels

    def take(self, bags: ArrayLike) -> Self:
        """Those of the bags with these indices."""
        variance = None if self.error_variance is None else self.error_variance[bags]
        return replace(self, y=self.y[bags], error_variance=variance)

    @cached_property
    def true(self) -> TrueLabels | None:
        """Distribution of the true labels given the observed ones; None without errors."""
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
    """Coordinates and curves of bags; for `kernel_share` see `residual_coordinates`."""
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


@dataclass(frozen=True)
class Fold:
    """Held-out bags, and the fit to the other bags."""

    held_out: Array  # indices of bags
    fitted: FittedCurves  # to the others
    error_sd: Array | None = None  # of the held-out labels


@dataclass(frozen=True)
class HeldOut:
    """What held-out labels choose, and their log density."""

    power: float  # of the likelihood
    offsets: Array  # of the classes' log odds, shape (C,); (0,) for numbers
    kernel_share: float  # see `residual_coordinates`
    log_density: Array  # shape (n,), NaN for bags that no fold held out


def held_out_labels(
    training: TrainingFeatures,
    labels: TrainingLabels,
    priors: Mapping[str, float],
    *,
    kernel_shares: Sequence[float] = _KERNEL_SHARES,
) -> HeldOut:
    """The power, offsets and share of the kernel with the highest density of held-out labels."""
    embedding, y = training.embedding, labels.y
    folds_by_share = folds_by_kernel_share(training, labels, priors, kernel_shares=kernel_shares)
    chosen = {share: learned_power(folds, embedding, y) for share, folds in folds_by_share.items()}
    share = min(chosen, key=lambda share: chosen[share][2])
    power, offsets, _ = chosen[share]
    log_density = held_out_log_density(folds_by_share[share], embedding, y, power, offsets)
    return HeldOut(power, offsets, share, log_density)


def folds_by_kernel_share(
    training: TrainingFeatures,
    labels: TrainingLabels,
    priors: Mapping[str, float],
    *,
    kernel_shares: Sequence[float] = (0.0,),
) -> dict[float, list[Fold]]:
    """Five folds of held-out bags for each share of the kernel; none if there are too few bags."""
    n, n_classes, variance = len(labels.y), len(np.unique(labels.y)), labels.error_variance
    # At random, as bags may be sorted by size or label; but the same folds in whatever order.
    in_order = np.lexsort((training.embedding.mean[:, 0], labels.y))
    order = in_order[np.random.default_rng(0).permutation(n)]
    folds: dict[float, list[Fold]] = {share: [] for share in kernel_shares}
    for held_out in np.array_split(order, _POWER_FOLDS) if n >= _FEWEST_BAGS else []:
        training_bags = np.setdiff1d(order, held_out)
        fewest = n_classes if labels.distribution is None else 2
        if len(np.unique(labels.y[training_bags])) < fewest:
            continue  # nothing to learn a curve from, or a class that is held out whole
        error_sd = None if variance is None else np.sqrt(variance[held_out])
        others = training.take(training_bags), labels.take(training_bags), priors
        for share, folds_of_share in folds.items():
            fitted = fitted_curves(*others, kernel_share=share)
            folds_of_share.append(Fold(held_out, fitted, error_sd))
    return folds


def learned_power(folds: list[Fold], embedding: Embedding, y: Array) -> tuple[float, Array, float]:
    """Power, 0.05 to 1, and offsets of classes with the highest density of labels, and the loss.

    Weak priors are lognormal about 0.6, the power without folds, and normal about 0.
    """
    parts = [_log_density(fold, fold.held_out[:_MAX_HELD_OUT], embedding, y) for fold in folds]
    of_classes = [each.fitted.coordinates for each in folds[:1]]
    n_offsets = sum(len(each.labels) for each in of_classes if each.functions.has_classes)

    def loss(x):
        deviation = (x[0] - np.log(_USUAL_POWER)) / _POWER_LOG_SD
        penalty = 0.5 * deviation**2 + 0.5 * np.sum((x[1:] / _OFFSET_SD) ** 2)
        return penalty - sum(part(np.exp(x[0]), x[1:]).sum() for part in parts)

    start = np.append(np.log(_USUAL_POWER), np.zeros(n_offsets))
    if not folds:
        return _USUAL_POWER, start[1:], float(loss(start))
    bounds = [np.log(_POWERS), *[(None, None)] * n_offsets]
    optimum = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(optimum.x[0])), optimum.x[1:], float(optimum.fun)


def learned_point_noise(held_out: Callable[[float], float], scale: float, most: float) -> float:
    """Noise of one point with the highest density of held-out labels, or 0.

    `held_out` maps sigma_point to the sum of log densities; `scale` is of the half-normal prior.
    """

    least, wanted = (share * scale for share in _POINT_NOISES)
    if most <= least:
        return 0.0

    def loss(log_sigma_point):
        sigma_point = float(np.exp(log_sigma_point))
        return 0.5 * (sigma_point / scale) ** 2 - held_out(sigma_point)

    # There may be two peaks, one at no noise: look everywhere, then closely about the best.
    tried = np.linspace(np.log(least), np.log(min(wanted, most)), _NOISES_TRIED)
    best = int(np.argmin([loss(x) for x in tried]))
    optimum = minimize_scalar(
        loss,
        bounds=tried[[max(best - 1, 0), min(best + 1, _NOISES_TRIED - 1)]],
        method="bounded",
        options={"maxiter": _NOISES_TRIED_CLOSELY},
    )
    return float(np.exp(optimum.x)) if optimum.fun < -held_out(0.0) else 0.0


def held_out_log_density(
    folds: list[Fold], embedding: Embedding, y: Array, power: float, offsets: Array
) -> Array:
    """Log density of each label given its bag under the fold that held it out, NaN if none did."""
    value = np.full(len(y), np.nan)
    for fold in folds:
        for bags in np.array_split(fold.held_out, -(-len(fold.held_out) // _MAX_HELD_OUT)):
            value[bags] = _log_density(fold, bags, embedding, y)(power, offsets)
    return value


def _log_density(fold, bags, embedding, y):
    """The log density of some held-out labels as a function of the power and the offsets."""
    coordinates, embedding, y = fold.fitted.coordinates, embedding.take(bags), y[bags]
    tau, curve = fold.fitted.modes["tau"], fold.fitted.curves.mean
    z, sizes = coordinates.transform(embedding.mean), embedding.sizes
    on_grid = log_likelihoods(
        coordinates, z, sizes, tau, curve, coordinates.functions(coordinates.labels)
    )
    path = coordinates.functions(y) @ curve.T
    at_label = np.sum((z - path / 2) * path / (tau**2 + coordinates.lam / sizes[:, None]), axis=1)
    label_prior = np.interp(y, coordinates.labels, coordinates.log_prior, _NO_LABEL, _NO_LABEL)
    label_prior += coordinates.repeated.log_unit(y, coordinates.labels)
    informed = informativeness(coordinates, sizes, tau, curve)
    errors = None
    if fold.error_sd is not None:
        errors = _errors_at(y, coordinates.labels, fold.error_sd[np.isin(fold.held_out, bags)])

    def log_density(power, offsets):
        values = power * on_grid + coordinates.log_prior
        label_value = power * at_label + label_prior
        if len(offsets):
            values = values + np.outer(informed, offsets)
            label_value = label_value + informed * offsets[y]
        if errors is not None:
            log_weights, wide = errors  # of narrow ones the density at the label is better
            label_value = np.where(wide, logsumexp(values + log_weights, axis=1), label_value)
        return label_value - logsumexp(values, b=coordinates.widths, axis=1)

    return log_density


def _errors_at(y, grid, error_sd):
    """Log weights of the grid for labels with errors, and which errors exceed its spacing."""
    log_weights = np.log(np.maximum(weights_at(y, grid, error_sd), np.exp(_NO_LABEL)))
    interval = np.clip(np.searchsorted(grid, y) - 1, 0, len(grid) - 2)
    return log_weights, error_sd > np.diff(grid)[interval]
