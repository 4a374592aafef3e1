"""Leave-one-out predictions of the training bags, and weights of several models by them.

By Pareto-smoothed importance sampling: each draw is weighted by the inverse of the label's
likelihood.
"""

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from bdr_stan.predictive.classes import ClassPredictive, MulticlassPredictive
from bdr_stan.predictive.distributions import Distributions
from bdr_stan.predictive.mixture import LabelMixture, bags_at_once
from bdr_stan.results.diagnostics import pareto_smoothed
from bdr_stan.results.inference_data import Groups, InferenceData, arviz, arviz_is_1
from bdr_stan.types import Array, ArrayLike, DataFrame, Seed

GOOD_K = 0.7  # Pareto k-hat above which a bag's prediction is unreliable, of Vehtari et al. (2024)
# Weight of the prior in labels, each predicted equally well by all models.
_PRIOR_LABELS = 1.0


class LeaveOneOut(Distributions):
    """Leave-one-out predictive distributions of n labels, as weighted draws.

    `draws` and `log_likelihood` have shape (S, n), as has `weights`, with sum 1 per bag; `mean`,
    `sd` and `pareto_k` have shape (n,). Without log_likelihood the weights are equal and `pareto_k`
    is None: the predictions depend on the label.

    Source: Vehtari, Gelman, Gabry (2017), "Practical Bayesian model evaluation using
    leave-one-out cross-validation and WAIC".
    """

    def __init__(self, draws: Array, labels: Array, log_likelihood: Array | None = None) -> None:
        self.labels, self._draws, self._log_likelihood = labels, draws, log_likelihood
        self.pareto_k: Array | None = None
        if log_likelihood is None:
            self.weights = np.full(draws.shape, 1 / len(draws))
        else:
            smoothed = [pareto_smoothed(-each) for each in log_likelihood.T]
            self.weights = np.column_stack([weights for weights, _ in smoothed])
            self.pareto_k = np.array([k for _, k in smoothed])
        self.mean = np.sum(self.weights * draws, axis=0)
        self.sd = np.sqrt(np.sum(self.weights * (draws - self.mean) ** 2, axis=0))

    @classmethod
    def from_groups(cls, groups: Groups) -> Self | None:
        """From the groups of a fit; None unless they have several draws of the labels."""
        if "posterior_predictive" not in groups:
            return None
        draws = _flat(groups["posterior_predictive"]["y"].values)
        if len(draws) == 1:
            return None
        labels = groups["observed_data"]["y"].values
        group = groups.get("log_likelihood")
        return cls(draws, labels, None if group is None else _flat(group["y"].values))

    def divided_by(self, values: Array) -> Self:
        """The same for labels divided by numbers > 0, shape (n,), for example shares of counts."""
        other = copy(self)
        for name in ("labels", "_draws", "mean", "sd"):
            setattr(other, name, getattr(self, name) / values)
        return other

    def _quantiles_at(self, levels):
        values = np.empty((len(levels), len(self.labels)))
        for i in bags_at_once(len(self.labels), len(self._draws)):
            order = np.argsort(self._draws[:, i], axis=0)
            ranked = np.take_along_axis(self._draws[:, i], order, axis=0)
            below = np.cumsum(np.take_along_axis(self.weights[:, i], order, axis=0), axis=0)
            for level, row in zip(levels, values, strict=True):
                rank = np.minimum(np.sum(below < level, axis=0), len(ranked) - 1)
                row[i] = ranked[rank, np.arange(len(i))]
        return values

    def cdf(self, y: ArrayLike) -> Array:
        """P(label < y) + P(label = y) / 2, shape (n,); uniform if calibrated, also for counts."""
        y = np.asarray(y, float)
        below = np.sum(self.weights * (self._draws < y), axis=0)
        return np.clip(below + 0.5 * np.sum(self.weights * (self._draws == y), axis=0), 0, 1)

    def sample(self, size: int, *, seed: Seed = None) -> Array:
        """Labels from the predictive distributions, shape (size, n)."""
        rng = np.random.default_rng(seed)
        S, n = self._draws.shape
        below = np.cumsum(self.weights, axis=0)
        chosen = [np.searchsorted(below[:, i], rng.uniform(size=size)) for i in range(n)]
        return np.take_along_axis(self._draws, np.minimum(np.transpose(chosen), S - 1), axis=0)

    @property
    def log_density(self) -> Array | None:
        """Leave-one-out log density of each label, shape (n,), or None."""
        if self._log_likelihood is None:
            return None
        return logsumexp(self._log_likelihood, b=self.weights, axis=0)

    def class_probabilities(self, n_classes: int) -> Array:
        """Probability of each class, for labels 0, 1, ...; shape (n, n_classes)."""
        log_density = self.log_density
        if log_density is not None and n_classes == 2:
            p_label = np.exp(log_density)
            second = np.where(self.labels == 1, p_label, 1 - p_label)
            return np.column_stack([1 - second, second])
        codes = range(n_classes)
        return np.column_stack([np.sum(self.weights * (self._draws == c), axis=0) for c in codes])


def class_predictive(classes: Array, probabilities: Array) -> LabelMixture:
    """Predictive distribution of n bags with these probabilities of the classes, shape (n, C)."""
    n, n_classes = probabilities.shape
    with np.errstate(divide="ignore"):
        log_p = np.log(probabilities)[None]
    if n_classes > 2:
        return MulticlassPredictive(lambda i: log_p[:, i], n, 1, classes)
    return ClassPredictive(lambda i: (log_p[:, i, 0], log_p[:, i, 1]), n, 1, classes)


def _flat(values):
    """Draws of all chains, shape (S, n)."""
    return values.reshape(-1, values.shape[-1])


def stack(
    idatas: dict[str, InferenceData], held_out: Mapping[str, Array] | None = None
) -> "DataFrame":
    """Stacking weights of fits to the same labels, one row per fit.

    `held_out` maps names to log densities of held-out labels, shape (n,), which then replace
    leave-one-out. Columns are elpd, se, p, max_pareto_k (NaN for held-out densities) and weight.

    Source: Yao et al. (2018), "Using stacking to average Bayesian predictive distributions";
    Vehtari et al. (2017) for leave-one-out by Pareto-smoothed importance sampling.
    """
    import pandas as pd

    held_out = held_out or {}
    rows, log_densities = {}, []
    for name, idata in idatas.items():
        if name in held_out:
            log_density = held_out[name]
            se = np.sqrt(len(log_density)) * np.std(log_density)
            row = {"elpd": np.sum(log_density), "se": se, "p": 0.0, "max_pareto_k": np.nan}
        else:
            row, log_density = _by_leave_one_out(idata)
        rows[name] = row
        log_densities.append(log_density)
    weights = stacking_weights(np.column_stack(log_densities))
    return pd.DataFrame.from_dict(rows, orient="index").assign(weight=weights)


def _by_leave_one_out(idata):
    """Columns of the table for a fit, and its log density of each label, shape (n,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # high Pareto k, which the table contains
        loo = arviz().loo(idata, pointwise=True)
    names = ("elpd", "p", "elpd_i") if arviz_is_1() else ("elpd_loo", "p_loo", "loo_i")
    elpd, p, each = (getattr(loo, name) for name in names)
    k = float(np.max(loo.pareto_k))
    return {"elpd": float(elpd), "se": float(loo.se), "p": float(p), "max_pareto_k": k}, each


def stacking_weights(log_density: Array) -> Array:
    """Weights, shape (K,), of the mixture with the highest log density, under a weak prior.

    `log_density`, shape (n, K), is of n labels that the K models were not fitted to. The prior is a
    Dirichlet distribution with its mode at equal weights, which dominates if labels are few.
    """
    n, K = log_density.shape
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    prior = _PRIOR_LABELS / K

    def loss(x):
        weights = softmax(x)
        mixed = density @ weights
        responsibility = density.T @ (1 / mixed) * weights  # labels attributed to each model
        value = np.log(mixed).sum() + prior * np.log(weights).sum()
        return -value, -(responsibility + prior - (n + _PRIOR_LABELS) * weights)

    return softmax(minimize(loss, np.zeros(K), jac=True, method="L-BFGS-B", tol=1e-12).x)
