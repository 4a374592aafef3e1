"""Labels of bags held out of the curves of the others: what a model is chosen and compared by.

A fifth of the bags at a time is held out. Its labels enter nothing but the log density that the
other bags' fit gives them: coordinates, curves and the distribution of the labels with its edges
are those of the other bags. Two numbers are chosen by the sum of these densities, the power of the
likelihood and the number of coordinates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.bayes_rule import log_likelihoods
from bdr_stan.models.fitted_curves import FittedCurves, TrainingLabels, fitted_curves
from bdr_stan.predictive.grid import trapezoid_weights, weights_at
from bdr_stan.types import Array

# The powers that held-out bags choose from, and how many folds hold them out.
_POWERS = 0.05, 1.0
# Few bags say little of the power: about where its logarithm lies, and how firmly.
_USUAL_POWER, _POWER_LOG_SD = 0.6, 0.5
_POWER_TOLERANCE = 0.01  # on the log scale
_N_COORDINATES = 5, 10, 20, 40  # that may be enough
_FOLDS = 5
_FEWEST_BAGS = 10  # from which a power can be learned
_MOST_HELD = 1_000  # bags held out of a fold; more say no more of two numbers
# Noise of one point that held-out bags choose from, in units of its prior's scale; how many values.
_POINT_NOISES = 0.03, 1.5
_NOISES_TRIED, _NOISES_TRIED_CLOSELY = 9, 5
_NO_LABEL = -600.0  # log density of labels that cannot be


@dataclass(frozen=True)
class Fold:
    """Bags held out, and the fit to the others.

    held : int array
    fitted : FittedCurves, of the others
    error_sd : array, shape (len(held),), of the errors of the held-out labels, or None
    """

    held: Array
    fitted: FittedCurves
    error_sd: Array | None = None


def folds_of(
    training: TrainingFeatures,
    labels: TrainingLabels,
    priors: Mapping[str, float],
    *,
    jitter: float,
) -> list[Fold]:
    """A fifth of the bags at a time, held out; none where the bags are too few.

    Parameters
    ----------
    training, labels, priors, jitter
        As for `fitted_curves`.
    """
    n, n_classes = len(labels.y), len(np.unique(labels.y))
    order = np.random.default_rng(0).permutation(n)  # bags may be sorted by size or label
    folds = []
    for held in np.array_split(order, _FOLDS) if n >= _FEWEST_BAGS else []:
        kept = np.setdiff1d(order, held)
        fewest = n_classes if labels.distribution is None else 2
        if len(np.unique(labels.y[kept])) < fewest:
            continue  # nothing to learn a curve from, or a class that is held out whole
        fitted = fitted_curves(training.take(kept), labels.take(kept), priors, jitter=jitter)
        variance = labels.error_variance
        folds.append(Fold(held, fitted, None if variance is None else np.sqrt(variance[held])))
    return folds


def learned_power(
    folds: list[Fold], embedding: Embedding, y: Array, power: float | None = None
) -> tuple[float, int | None]:
    """Power and number of coordinates under which held-out labels have the highest density.

    The power is from 0.05 to 1. A weak prior counts as well, lognormal about 0.6, which is taken
    where there are no folds.

    Parameters
    ----------
    folds : list of Fold
    embedding : Embedding, of all bags
    y : array, shape (n,)
    power : float, optional
        Where it is given.

    Returns
    -------
    power : float
    n_coordinates : int, or None where there are no folds: all
    """
    if not folds:
        return power or _USUAL_POWER, None
    each = [_HeldOut(fold, fold.held[:_MOST_HELD], embedding, y) for fold in folds]
    found = []
    for n in _numbers_tried(len(folds[0].fitted.at.lam)):
        for one in each:
            one.take_coordinates(n)

        def loss(log_power):
            away = (log_power - np.log(_USUAL_POWER)) / _POWER_LOG_SD
            held_out = sum(one.log_density(np.exp(log_power)).sum() for one in each)
            return 0.5 * away**2 - held_out

        if power is None:
            options = {"xatol": _POWER_TOLERANCE}
            best = minimize_scalar(loss, bounds=np.log(_POWERS), method="bounded", options=options)
            found.append((best.fun, float(np.exp(best.x)), n))
        else:
            found.append((loss(np.log(power)), power, n))
    _, power, n = min(found)
    return power, n


def _numbers_tried(n_all):
    return [n for n in _N_COORDINATES if n < n_all] + [n_all]


def learned_point_noise(held_out: Callable[[float], float], scale: float, most: float) -> float:
    """Noise of one point under which the labels of held-out bags have the highest density.

    Parameters
    ----------
    held_out : callable
        From sigma_point to the sum of the log densities.
    scale : float
        Of the half-normal prior, which counts as well.
    most : float
        The largest noise that leaves something to learn.

    Returns
    -------
    float, from 0.03 to 1.5 times the scale, or 0 where no noise is better
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
    folds: list[Fold],
    embedding: Embedding,
    y: Array,
    power: float,
    n_coordinates: int | None = None,
) -> Array:
    """Log density of each label given its bag by the fold that held it out, NaN where none did.

    Parameters
    ----------
    folds, embedding, y
        As for `learned_power`.
    power : float
    n_coordinates : int, default all
        The leading ones.
    """
    value = np.full(len(y), np.nan)
    for fold in folds:
        for bags in np.array_split(fold.held, -(-len(fold.held) // _MOST_HELD)):
            one = _HeldOut(fold, bags, embedding, y)
            one.take_coordinates(n_coordinates or len(fold.fitted.at.lam))
            value[bags] = one.log_density(power)
    return value


class _HeldOut:
    """Log densities of the labels of some held-out bags, given ever more coordinates."""

    def __init__(self, fold, bags, embedding, y):
        self.fitted, self.y = fold.fitted, y[bags]
        at, embedding = self.fitted.at, embedding.take(bags)
        self.z, self.sizes = at.of(embedding.mean), embedding.sizes
        self.n_coordinates, self.at_labels, self.at_own = 0, 0.0, 0.0
        self.own_prior = np.interp(self.y, at.labels, at.log_prior, _NO_LABEL, _NO_LABEL)
        n_labels = len(at.labels)
        self.widths = np.ones(n_labels) if at.functions.of_classes else trapezoid_weights(at.labels)
        self.errors = None
        if fold.error_sd is not None:
            error_sd = fold.error_sd[np.isin(fold.held, bags)]
            self.errors = _errors_at(self.y, at.labels, error_sd)

    def take_coordinates(self, n):
        """Add the log likelihoods of the coordinates up to the n-th."""
        new = slice(self.n_coordinates, n)
        at, z = self.fitted.at.take(new), self.z[:, new]
        tau, curve = self.fitted.modes["tau"][new], self.fitted.curves.mean[new]
        of_labels = at.functions(at.labels)
        self.at_labels += log_likelihoods(at, z, self.sizes, tau, curve, of_labels)
        path = at.functions(self.y) @ curve.T
        weight = 1 / (tau**2 + at.lam / self.sizes[:, None])
        self.at_own += np.sum((z - path / 2) * path * weight, axis=1)
        self.n_coordinates = n

    def log_density(self, power):
        """Of each label, shape (len(bags),)."""
        values = power * self.at_labels + self.fitted.at.log_prior
        own = power * self.at_own + self.own_prior
        if self.errors is not None:
            log_weights, wide = self.errors
            own = np.where(wide, logsumexp(values + log_weights, axis=1), own)
        return own - logsumexp(values, b=self.widths, axis=1)


def _errors_at(y, grid, error_sd):
    """Logs of the weights of the grid in densities of labels with errors.

    And which errors are wider than the grid; of others the density at the label itself says more.
    """
    log_weights = np.log(np.maximum(weights_at(y, grid, error_sd), np.exp(_NO_LABEL)))
    left = np.clip(np.searchsorted(grid, y) - 1, 0, len(grid) - 2)
    return log_weights, error_sd > np.diff(grid)[left]
