"""Inverse distribution regression: embeddings given the label, and labels by Bayes' rule.

In coordinates in which the covariance within bags is diagonal and what the label leaves of that
between bags is nearly the identity, the embedding z of a bag of N points moves along a curve as its
label changes:

    z_k | y  ~  N(c_k' B(y), tau_k^2 + lambda_k / N)        independent over k
    p(y | z)  is in proportion to  p(y) prod_k p(z_k | y)^power

The coordinates are neither quite independent nor normal given the label, and the power, learned
from held-out bags, keeps their errors from adding up. Where labels have errors, the embedding
follows the true labels behind them: see `models/label_errors.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bdr_stan.embedding.label_functions import (
    LabelFunctions,
    functions_of_classes,
    functions_of_numbers,
)
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.models.bayes_rule import InverseCoordinates, log_likelihoods
from bdr_stan.models.embedding_curves import (
    Curves,
    CurveSums,
    coefficient_scales,
    curves_given,
    most_probable_curves,
    residual_coordinates,
    rows_without_blur,
)
from bdr_stan.models.label_distribution import LabelDistribution
from bdr_stan.models.label_errors import TrueLabels, most_point_noise, true_labels
from bdr_stan.models.label_noise import size_noise_prior
from bdr_stan.posterior.priors import with_user_values
from bdr_stan.posterior.sampling import Posterior, run
from bdr_stan.predictive.grid import trapezoid_weights, weights_at
from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws
from bdr_stan.types import Array, ArrayLike, PathName

PRIORS = {
    "level_scale": 10.0,
    "tau_scale": 1.0,
    "amplitude_median": 1.0,
    "amplitude_log_sd": 1.5,
    "bend_median": 0.4,
    "bend_log_sd": 1.0,
}
# The powers that held-out bags choose from, and how many folds hold them out.
_POWERS = 0.05, 1.0
# Few bags say little of the power: about where its logarithm lies, and how firmly.
_USUAL_POWER, _POWER_LOG_SD = 0.6, 0.5
_FOLDS = 5
_FEWEST_BAGS = 10  # from which a power can be learned
_MOST_HELD = 1_000  # bags held out of a fold; more say no more of one number
# Noise of one point that held-out bags choose from, in units of its prior's scale; how many values.
_POINT_NOISES = 0.03, 1.5
_NOISES_TRIED, _NOISES_TRIED_CLOSELY = 9, 5
_NO_LABEL = -600.0  # log density of labels that cannot be
# Labels of the grid: so many within a standard deviation of the sharpest prediction; bounds.
_LABELS_PER_SD = 4
_LABELS = 100, 2000
# On the log scale: how far apart chains start, how far from the mode a search for it does, and
# about how wide the posterior is.
_SPREAD = 0.3
_BESIDE = 0.05
_UNITS = {"tau": 0.1, "amplitude": 0.4, "bend": 0.3}


# ------------------------------------------------------------------ the model


@dataclass(frozen=True)
class InverseModel:
    """The model of ``stan/inverse.stan`` with its data.

    at : InverseCoordinates
    sums : CurveSums
    priors : dict
        Numbers of the priors by their names in the program.
    modes : dict
        Most probable tau, amplitude and bend.
    curves : Curves, at the modes
    held_out : array, shape (n,), log density of each label by curves of other bags
    """

    at: InverseCoordinates
    sums: CurveSums
    priors: dict[str, float]
    modes: dict[str, Array]
    curves: Curves
    held_out: Array

    @property
    def constants(self) -> dict[str, tuple[ArrayLike, list[str]]]:
        """What prediction needs besides the draws; kept with a fit."""
        return {**self.at.constants(), "held_out": (self.held_out, ["bag"])}


def inverse_data(
    sums: CurveSums,
    lam: Array,
    functions: LabelFunctions,
    priors: Mapping[str, float],
    *,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/inverse.stan``; ``use_likelihood=False`` samples the prior."""
    G, J, K = sums.cross.shape
    return {
        "K": K,
        "J": J,
        "S": functions.n_straight,
        "G": G,
        "bag_size": sums.size,
        "n_bags": sums.n_bags,
        "gram": sums.gram.reshape(G, J * J).T,
        "cross": np.swapaxes(sums.cross, 0, 1),
        "squares": sums.squares,
        "lambda": lam,
        "smooth": functions.smooth,
        **{name: priors[name] for name in PRIORS},
        "use_likelihood": int(use_likelihood),
    }


def inverse_model(
    training: TrainingFeatures,
    y: Array,
    *,
    distribution: Callable[[Array], LabelDistribution] | None = None,
    power: float | str = "held-out",
    jitter: float = 1e-4,
    prior: Mapping[str, float] | None = None,
    label_noise: str = "constant",
    label_sd: Array | None = None,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> InverseModel:
    """The model of ``stan/inverse.stan`` with its data.

    Parameters
    ----------
    training : TrainingFeatures
        With the within-bag covariance.
    y : array, shape (n,)
        Labels; of classes their codes 0, 1, .. .
    distribution : callable, or None where labels are classes
        From true labels to their `LabelDistribution`.
    power : float, 0 < power <= 1, or "held-out" (default)
        Of the likelihood in predictions. "held-out": that of the highest density of labels of
        bags held out of the curves, a fifth at a time.
    jitter : float, >= 0, default 1e-4
        As for `landmark_matrices`.
    prior : dict, optional
        Numbers that replace the defaults.
    label_noise : {"constant", "size"}, default "constant"
        "size": labels have errors of variance sigma_point^2 / N_i.
    label_sd : array, shape (n,), optional
        Known standard error of each label, units of y.
    bounds : (lower, upper), default none
        Of the true labels.
    """
    embedding, known = training.embedding, 0.0 if label_sd is None else label_sd**2
    by_size = label_noise == "size"
    defaults = {**PRIORS, **(size_noise_prior(y, embedding.sizes) if by_size else {})}
    priors = with_user_values(defaults, prior)

    def labels_with(sigma_point):
        """The true labels, where labels have errors, and the distribution of labels."""
        variance = known + (sigma_point or 0.0) ** 2 / embedding.sizes
        true = true_labels(y, variance, bounds) if np.any(variance) else None
        if distribution is None:
            return true, None
        return true, distribution(y if true is None else true.plausible)

    def held_out_with(sigma_point):
        """Power and held-out log density of each label by curves of other bags."""
        true, labels = labels_with(sigma_point)
        folds = folds_of(training, y, labels, jitter=jitter, priors=priors, true=true)
        own = learned_power(folds, embedding, y) if isinstance(power, str) else power
        return own, held_out_log_density(folds, embedding, y, own)

    sigma_point = None
    if by_size:
        sigma_point = learned_point_noise(
            lambda sigma_point: float(np.nansum(held_out_with(sigma_point)[1])),
            priors["sigma_point_scale"],
            most_point_noise(y, embedding.sizes, known),
        )
    power, held_out = held_out_with(sigma_point)
    true, labels = labels_with(sigma_point)
    at, sums, modes, curves = _fitted(training, y, labels, power, jitter, priors, true)
    if labels is not None:
        at = _on_grid(at, labels, _n_labels(at, labels, sums, modes["tau"], curves.mean))
    at = replace(at, sigma_point=sigma_point)
    return InverseModel(at, sums, priors, modes, curves, held_out)


def _fitted(training, y, labels, power, jitter, priors, true):
    """Coordinates, sums, and the most probable curves of some bags."""
    if labels is None:
        counts = np.bincount(y)
        functions, grid = functions_of_classes(len(counts)), np.arange(float(len(counts)))
        log_prior = np.log(counts / counts.sum())
    else:
        functions = functions_of_numbers(y if true is None else true.plausible)
        grid, log_prior = np.zeros(0), np.zeros(0)
    B, blur = (functions(y), None) if true is None else true.moments(functions)
    m0, basis, lam = residual_coordinates(training, B, jitter=jitter)
    at = InverseCoordinates(m0, basis, lam, functions, grid, log_prior, power)
    if labels is not None:
        at = _on_grid(at, labels, _LABELS[0])
    z, sizes = at.of(training.embedding.mean), training.embedding.sizes
    sums = CurveSums.of(B, z, sizes)
    modes, curves = most_probable_curves(sums, lam, functions, priors)
    if blur is not None:
        rows = rows_without_blur(z, sizes, lam, B, blur, modes["tau"], curves.mean)
        sums = CurveSums.of(*rows, sizes)
        modes, curves = most_probable_curves(sums, lam, functions, priors)
    return at, sums, modes, curves


def _on_grid(at, labels, n):
    """The same coordinates with n labels of the distribution's range."""
    grid = labels.grid(n)
    log_prior = labels.log_density(grid)
    log_prior = log_prior - logsumexp(log_prior, b=trapezoid_weights(grid))
    return replace(at, labels=grid, log_prior=log_prior)


def _n_labels(at, labels, sums, tau, curve):
    """Labels of a grid fine enough for the sharpest prediction, of the largest bags."""
    path = curve @ at.functions(at.labels).T
    slopes = np.gradient(path, at.labels, axis=1)
    information = np.sum(slopes**2 / (tau**2 + at.lam / sums.size.max())[:, None], axis=0)
    sharpest = 1 / np.sqrt(at.power * information.max())
    wanted = _LABELS_PER_SD * (labels.most - labels.least) / sharpest
    return int(np.clip(wanted, *_LABELS))


@dataclass(frozen=True)
class Fold:
    """Bags held out of the most probable curves of the others.

    held : int array
    at : InverseCoordinates, of the others
    tau : array, shape (K,)
    curve : array, shape (K, J)
    error_sd : array, shape (n,), of the errors of all labels; None where there are none
    """

    held: Array
    at: InverseCoordinates
    tau: Array
    curve: Array
    error_sd: Array | None = None


def folds_of(
    training: TrainingFeatures,
    y: Array,
    labels: LabelDistribution | None,
    *,
    jitter: float,
    priors: Mapping[str, float],
    true: TrueLabels | None = None,
) -> list[Fold]:
    """A fifth of the bags at a time, held out; none where the bags are too few.

    Parameters
    ----------
    training, y, jitter, priors
        As for `inverse_model`.
    labels : LabelDistribution, or None where labels are classes
    true : TrueLabels, where labels have errors
    """
    n = len(y)
    order = np.random.default_rng(0).permutation(n)  # bags may be sorted by size or label
    folds = []
    for held in np.array_split(order, _FOLDS) if n >= _FEWEST_BAGS else []:
        kept = np.setdiff1d(order, held)
        if len(np.unique(y[kept])) < (2 if labels is not None else len(np.unique(y))):
            continue  # nothing to learn a curve from, or a class that is held out whole
        own = None if true is None else true.take(kept)
        at, sums, modes, curves = _fitted(
            training.take(kept), y[kept], labels, 1.0, jitter, priors, own
        )
        if labels is not None:
            at = _on_grid(at, labels, _n_labels(at, labels, sums, modes["tau"], curves.mean))
        error_sd = None if true is None else true.error_sd
        folds.append(Fold(held, at, modes["tau"], curves.mean, error_sd))
    return folds


def learned_power(folds: list[Fold], embedding: Embedding, y: Array) -> float:
    """Power under which the labels of held-out bags have the highest density, 0.05 to 1.

    A weak prior counts as well, lognormal about 0.6, which is taken where there are no folds.
    """
    if not folds:
        return _USUAL_POWER
    parts = [_log_density(fold, fold.held[:_MOST_HELD], embedding, y) for fold in folds]

    def loss(log_power):
        away = (log_power - np.log(_USUAL_POWER)) / _POWER_LOG_SD
        return 0.5 * away**2 - sum(part(np.exp(log_power)).sum() for part in parts)

    return float(np.exp(minimize_scalar(loss, bounds=np.log(_POWERS), method="bounded").x))


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


def held_out_log_density(folds: list[Fold], embedding: Embedding, y: Array, power: float) -> Array:
    """Log density of each label given its bag by the fold that held it out, NaN where none did."""
    value = np.full(len(y), np.nan)
    for fold in folds:
        for bags in np.array_split(fold.held, -(-len(fold.held) // _MOST_HELD)):
            value[bags] = _log_density(fold, bags, embedding, y)(power)
    return value


def _log_density(fold, bags, embedding, y):
    """The log density of the labels of some bags as a function of the power."""
    at, embedding, y = fold.at, embedding.take(bags), y[bags]
    z, sizes = at.of(embedding.mean), embedding.sizes
    at_labels = log_likelihoods(at, z, sizes, fold.tau, fold.curve, at.functions(at.labels))
    path = at.functions(y) @ fold.curve.T
    own = np.sum((z - path / 2) * path / (fold.tau**2 + at.lam / sizes[:, None]), axis=1)
    own_prior = np.interp(y, at.labels, at.log_prior, _NO_LABEL, _NO_LABEL)
    continuous = not at.functions.of_classes
    widths = trapezoid_weights(at.labels) if continuous else np.ones(len(at.labels))

    errors = None if fold.error_sd is None else _errors_at(y, at.labels, fold.error_sd[bags])

    def log_density(power):
        values = power * at_labels + at.log_prior
        own_value = power * own + own_prior
        if errors is not None:
            log_weights, wide = errors
            own_value = np.where(wide, logsumexp(values + log_weights, axis=1), own_value)
        return own_value - logsumexp(values, b=widths, axis=1)

    return log_density


def _errors_at(y, grid, error_sd):
    """Logs of the weights of the grid in densities of labels with errors.

    And which errors are wider than the grid; of others the density at the label itself says more.
    """
    log_weights = np.log(np.maximum(weights_at(y, grid, error_sd), np.exp(_NO_LABEL)))
    left = np.clip(np.searchsorted(grid, y) - 1, 0, len(grid) - 2)
    return log_weights, error_sd > np.diff(grid)[left]


# ------------------------------------------------------------------ its posterior


def sample_inverse(
    model: InverseModel,
    *,
    method: str = "nuts",
    stan_file: PathName | None = None,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    seed: int | None = None,
    progress: bool | None = None,
    options: dict[str, Any] | None = None,
) -> Posterior:
    """Draws from the posterior of the model, as `sample_posterior` gives them of others.

    "optimize" is the mode of the logarithms of tau, amplitude and bend, with the curves at their
    average there.

    Raises
    ------
    ValueError
        The program lacks a variable that predictions need.
    RuntimeError
        Stan's own message if it fails.
    """
    options = dict(options or {})
    if method == "optimize":
        options.setdefault("jacobian", True)  # so that no tau is lost at 0
    drawn, stats, attrs = run(
        stan_file or "inverse",
        inverse_data(model.sums, model.at.lam, model.at.functions, model.priors),
        _starts(model.modes, method, chains, seed),
        method=method,
        chains=chains,
        warmup=warmup,
        draws=draws,
        seed=seed,
        progress=progress,
        options=options,
        unit=_UNITS,
        reader=lambda fit: _read(fit, stan_file),
    )
    if method == "optimize" and stan_file is None:  # which draws the curves at random
        drawn["curve"] = _average_curves(model, drawn)
    return Posterior(_with_shares(drawn), stats, attrs)


def _starts(modes, method, chains, seed):
    """Starting points spread about the mode; one beside it where that is looked for.

    At the mode itself the first step of the search may be lost in rounding, which ends it.
    """
    modes = {"bend": np.zeros(0), **modes}
    if method != "nuts":
        return [{name: np.atleast_1d(value) * np.exp(_BESIDE) for name, value in modes.items()}]
    rng = np.random.default_rng(seed)
    return [
        {
            name: np.atleast_1d(value) * np.exp(_SPREAD * rng.standard_normal(np.size(value)))
            for name, value in modes.items()
        }
        for _ in range(chains)
    ]


def _read(fit, stan_file):
    drawn = stan_draws(fit)
    missing = [name for name in ("tau", "curve") if name not in drawn]
    if missing:
        raise ValueError(
            f"{stan_file} has no variable {missing[0]!r}: predictions need tau and curve, so keep "
            "these names"
        )
    if "bend" in drawn:  # an array of one number, or of none
        bend = drawn.pop("bend")
        drawn |= {"bend": bend[..., 0]} if bend.shape[-1] else {}
    return drawn, sample_stats(fit), fit_attrs(fit)


def _average_curves(model, drawn):
    tau, amplitude = drawn["tau"][0, 0], drawn["amplitude"][0, 0]
    bend = float(drawn["bend"][0, 0]) if "bend" in drawn else 1.0
    level_scale = model.priors["level_scale"]
    scales = coefficient_scales(model.at.functions, amplitude, bend, level_scale)
    return curves_given(model.sums, model.at.lam, tau, scales).mean[None, None]


def _with_shares(drawn):
    """The draws, and the share of each coordinate's spread that the label explains among them."""
    moved = np.sum(drawn["curve"][..., 1:] ** 2, axis=-1)
    return {**drawn, "explained": moved / (moved + drawn["tau"] ** 2)}
