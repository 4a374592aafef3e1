"""Candidates of `tune` for totals: scores of held-out labels, evidence of training labels."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from bdr_stan.bags import Bags, BagsLike, as_bags, values_of_bags
from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.validation import checked_splits, checked_validation
from bdr_stan.kernels import Kernel, resolve_kernel
from bdr_stan.metrics import mse
from bdr_stan.model_selection import shuffled_folds
from bdr_stan.tuning_candidates import Candidate, Grid, Reporting, Settings
from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class TotalsTask:
    """Training bags and held-out bags of models of totals."""

    bags: Bags
    y: Array
    trials: Array | None
    # Bags, labels, trials; the training bags where folds are held out, None without held-out bags.
    held_out: tuple[Bags, Array, Array | None] | None
    splits: Sequence[tuple[Array, Array]]  # training and held-out indices
    seed: int
    options: Mapping[str, Any]  # of the fits

    @classmethod
    def prepare(
        cls,
        bags: BagsLike,
        y: ArrayLike,
        trials: ArrayLike | str | None,
        validation: Sequence[Any] | None,
        cv: Any,
        models: Mapping[str, AggregateRegressor],
        seed: int,
        options: Mapping[str, Any],
    ) -> Self:
        """The task of the arguments of `tune`; TypeError or ValueError if they are invalid."""
        bags = as_bags(bags)
        for model in models.values():
            labels = model.check_labels(bags, y, trials)
        numbers = _numbers(bags, trials)
        all_bags = np.arange(len(bags))
        if validation is not None:
            held_out = _checked_held_out(validation, bags, trials, models)
            splits = [(all_bags, np.arange(len(held_out[0])))]
            return cls(bags, labels, numbers, held_out, splits, seed, options)
        if cv is None:  # the training labels alone are scored
            return cls(bags, labels, numbers, None, [(all_bags, all_bags[:0])], seed, options)
        folds = shuffled_folds(cv, labels, False, seed)
        splits = checked_splits(folds.split(bags, labels), labels)
        return cls(bags, labels, numbers, (bags, labels, numbers), splits, seed, options)

    def combinations(
        self, models: Mapping[str, AggregateRegressor], grid: Grid
    ) -> list[tuple[Settings, list[str]]]:
        """Settings of the grid that affect a model, and the names of the models they are for."""
        _, n_landmarks, bandwidth_scale = grid
        return [
            (
                (kernel, n, scale),
                [
                    name
                    for name, model in models.items()
                    if (_has_n_landmarks(model) or n == n_landmarks[0])
                    and (not model.learn_kernel or scale == bandwidth_scale[0])
                ],
            )
            for kernel, n, scale in product(*grid)
        ]

    def candidates(
        self,
        models: Mapping[str, AggregateRegressor],
        grid: Grid,
        method: str | None,
        reporting: Reporting,
    ) -> Iterator[Candidate]:
        """All candidates, fitted and scored one by one."""
        pairs = [(each, name) for each, names in self.combinations(models, grid) for name in names]
        for (kernel, n, scale), name in pairs:
            model = models[name]
            estimator = self.with_settings(model, kernel, n, scale)
            bandwidth = "" if model.learn_kernel else f", bandwidth x {scale:g}"
            with reporting(f"{name}, {n} landmarks{bandwidth}"):
                scores = self.scores(estimator, method)
            settings = {
                "n_landmarks": self._n_landmarks(estimator),
                "bandwidth_scale": np.nan if model.learn_kernel else scale,
            }
            yield Candidate(name, kernel, estimator, {**settings, **scores})

    def with_settings(
        self, model: AggregateRegressor, kernel: str | Kernel | None, n: int, scale: float
    ) -> AggregateRegressor:
        """An unfitted model with these settings, as far as they apply to it."""
        candidate = clone(model).set_params(random_state=self.seed)
        if kernel is not None:
            candidate.set_params(kernel=kernel)
        if isinstance(model.landmarks, str):
            candidate.set_params(n_landmarks=n)
        if not model.learn_kernel:
            resolved = resolve_kernel(
                candidate.kernel, "scaled", self.bags, seed=self.seed, scale=scale
            )
            candidate.set_params(kernel=resolved)
        return candidate

    def scores(self, candidate: AggregateRegressor, method: str | None) -> dict[str, float]:
        """Means over the splits of nll, mse, bound and evidence, NaN where a fit has none."""
        if method is not None:
            candidate = clone(candidate).set_params(method=method)
        # One after the other, unless joblib is configured otherwise.
        each = Parallel()(
            delayed(self._scores_of_split)(candidate, train, test) for train, test in self.splits
        )
        return {name: float(np.mean([scores[name] for scores in each])) for name in each[0]}

    def _scores_of_split(self, candidate, train, test):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # held-out labels judge an approximation
            fitted = clone(candidate).fit(
                self.bags.take(train),
                self.y[train],
                trials=_subset(self.trials, train),
                seed=self.seed,
                **self.options,
            )
            scores = {
                "nll": np.nan,
                "mse": np.nan,
                "bound": getattr(fitted, "bound_", np.nan),
                "evidence": getattr(fitted, "log_evidence_", np.nan),
            }
            if self.held_out is not None:
                bags, y, trials = self.held_out
                predictive = fitted.predictive(bags.take(test), trials=_subset(trials, test))
                scores["nll"] = -predictive.log_prob(y[test]).mean()
                scores["mse"] = mse(y[test], predictive.mean)
            return scores

    def _n_landmarks(self, candidate):
        if not isinstance(candidate.landmarks, str):
            return len(candidate.landmarks)
        return len(self.bags) if candidate.landmarks == "one per bag" else candidate.n_landmarks


def check_evidence(
    models: Mapping[str, AggregateRegressor], method: str | None, score: str
) -> None:
    """Raise ValueError unless the fits compute the score: "bound" by "vb", "evidence" by others."""
    for name, model in models.items():
        by = method or model.method
        if score == "bound" and by != "vb":
            raise ValueError(
                f"{name} has no bound by method={by!r}: pass method='vb', or score='evidence'"
            )
        if score == "evidence" and by == "vb":
            raise ValueError(f"{name} has a bound by method='vb': pass score='bound'")
        if score == "evidence" and model.stan_file is not None:
            raise ValueError(
                f"{name} has no evidence by a program of your own: pass score='nll', or leave "
                "stan_file out"
            )


def _checked_held_out(validation, bags, trials, models):
    """Validation bags, their labels and trials; raises for invalid ones."""
    held_out_trials = trials
    if isinstance(validation, (tuple, list)) and len(validation) == 3:
        *validation, held_out_trials = validation
    elif trials is not None and not isinstance(trials, str):
        raise ValueError(
            "validation has no trials: give validation=(bags, y, trials), or trials as the name of "
            "a column of the bags' metadata"
        )
    for model in models.values():
        check = partial(model.check_labels, trials=held_out_trials)
        held_out, labels = checked_validation(validation, bags, check)
    return held_out, labels, _numbers(held_out, held_out_trials)


def _numbers(bags, trials):
    """Trials as numbers, None for none."""
    return None if trials is None else np.asarray(values_of_bags(bags, trials, "trials"), float)


def _subset(values, indices):
    return None if values is None else values[indices]


def _has_n_landmarks(model):
    """Whether the number of landmarks is a setting of a model."""
    return isinstance(model.landmarks, str) and model.landmarks != "one per bag"
