"""Labels of bags held out of the curves of the others: what a model is chosen and compared by.

A fifth of the bags at a time is held out. Its labels enter nothing but the log density that the
other bags' fit gives them: coordinates, curves and the distribution of the labels with its edges
are those of the other bags. Two numbers are chosen by the sum of these densities: the power of the
likelihood, and the share of the kernel matrix in what the label leaves of the embeddings' spread.
Of classes there is also an offset of each one's log odds: with a power below 1 the probabilities
of a rare class would be too low on average. It is in proportion to what a bag of its size can say
of the class, so that the smallest bags keep the shares of the classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.bayes_rule import informativeness, log_likelihoods
from bdr_stan.models.fitted_curves import FittedCurves, TrainingLabels, fitted_curves
from bdr_stan.predictive.grid import trapezoid_weights, weights_at
from bdr_stan.types import Array

# The powers that held-out bags choose from, and how many folds hold them out.
_POWERS = 0.05, 1.0
# Few bags say little of the power: about where its logarithm lies, and how firmly.
_USUAL_POWER, _POWER_LOG_SD = 0.6, 0.5
_OFFSET_SD = 1.0  # prior sd of the classes' offsets
_KERNEL_SHARES = 0.0, 0.1, 1.0  # that held-out bags choose from
_FOLDS = 5
_FEWEST_BAGS = 10  # from which a power can be learned
_MAX_HELD_OUT = 1_000  # bags held out of a fold; more say no more of two numbers
# Noise of one point that held-out bags choose from, in units of its prior's scale; how many values.
_POINT_NOISES = 0.03, 1.5
_NOISES_TRIED, _NOISES_TRIED_CLOSELY = 9, 5
_NO_LABEL = -600.0  # log density of labels that cannot be


@dataclass(frozen=True)
class Fold:
    """Bags held out, and the fit to the others."""

    held_out: Array  # indices of bags
    fitted: FittedCurves  # to the others
    error_sd: Array | None = None  # of the held-out labels


@dataclass(frozen=True)
class HeldOut:
    """What held-out labels choose, and their log density."""

    power: float  # of the likelihood
    offsets: Array  # of the classes' log odds, shape (C,); (0,) for numbers
    kernel_share: float  # see `residual_coordinates`
    log_density: Array  # shape (n,), NaN of bags that no fold held out


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
    for held_out in np.array_split(order, _FOLDS) if n >= _FEWEST_BAGS else []:
        kept = np.setdiff1d(order, held_out)
        fewest = n_classes if labels.distribution is None else 2
        if len(np.unique(labels.y[kept])) < fewest:
            continue  # nothing to learn a curve from, or a class that is held out whole
        error_sd = None if variance is None else np.sqrt(variance[held_out])
        others = training.take(kept), labels.take(kept), priors
        for share, folds_of_share in folds.items():
            fitted = fitted_curves(*others, kernel_share=share)
            folds_of_share.append(Fold(held_out, fitted, error_sd))
    return folds


def learned_power(folds: list[Fold], embedding: Embedding, y: Array) -> tuple[float, Array, float]:
    """Power, 0.05 to 1, and offsets of classes with the highest density of labels, and the loss.

    The weak priors are lognormal about 0.6, which is the power if there are no folds, and normal
    about 0. The loss is the negative log density of labels, power and offsets.
    """
    parts = [_log_density(fold, fold.held_out[:_MAX_HELD_OUT], embedding, y) for fold in folds]
    of_classes = [each.fitted.coordinates for each in folds[:1]]
    n_offsets = sum(len(each.labels) for each in of_classes if each.functions.has_classes)

    def loss(x):
        away = (x[0] - np.log(_USUAL_POWER)) / _POWER_LOG_SD
        penalty = 0.5 * away**2 + 0.5 * np.sum((x[1:] / _OFFSET_SD) ** 2)
        return penalty - sum(part(np.exp(x[0]), x[1:]).sum() for part in parts)

    start = np.append(np.log(_USUAL_POWER), np.zeros(n_offsets))
    if not folds:
        return _USUAL_POWER, start[1:], float(loss(start))
    bounds = [np.log(_POWERS), *[(None, None)] * n_offsets]
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(found.x[0])), found.x[1:], float(found.fun)


def learned_point_noise(held_out: Callable[[float], float], scale: float, most: float) -> float:
    """Noise of one point with the highest density of held-out labels, or 0.

    `held_out` maps sigma_point to the sum of log densities; `scale` is that of the half-normal
    prior, `most` the largest noise that leaves variation to explain. Searched from 0.03 to 1.5
    times the scale.
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
    found = minimize_scalar(
        loss,
        bounds=tried[[max(best - 1, 0), min(best + 1, _NOISES_TRIED - 1)]],
        method="bounded",
        options={"maxiter": _NOISES_TRIED_CLOSELY},
    )
    return float(np.exp(found.x)) if found.fun < -held_out(0.0) else 0.0


def held_out_log_density(
    folds: list[Fold], embedding: Embedding, y: Array, power: float, offsets: Array
) -> Array:
    """Log density of each label given its bag by the fold that held it out, NaN where none did."""
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
    continuous = not coordinates.functions.has_classes
    widths = (
        trapezoid_weights(coordinates.labels) if continuous else np.ones(len(coordinates.labels))
    )
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
            log_weights, wide = errors
            label_value = np.where(wide, logsumexp(values + log_weights, axis=1), label_value)
        return label_value - logsumexp(values, b=widths, axis=1)

    return log_density


def _errors_at(y, grid, error_sd):
    """Log weights of the grid for labels with errors, and which errors exceed its spacing.

    For smaller errors the density at the label itself is more accurate.
    """
    log_weights = np.log(np.maximum(weights_at(y, grid, error_sd), np.exp(_NO_LABEL)))
    interval = np.clip(np.searchsorted(grid, y) - 1, 0, len(grid) - 2)
    return log_weights, error_sd > np.diff(grid)[interval]
