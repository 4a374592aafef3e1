"""Candidates of `tune` for totals: scores of held-out labels, evidence of training labels."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from joblib import delayed
from sklearn.base import clone

from bdr_stan.bags import values_of_bags
from bdr_stan.estimators.validation import checked_validation
from bdr_stan.kernels import resolve_kernel
from bdr_stan.metrics import mse
from bdr_stan.tuning_task import Labelled, Search, Task, learns_kernel, mean_scores, with_method
from bdr_stan.types import Array, ArrayLike


class TotalsTask(Task):
    """Training bags and held-out bags of models of totals."""

    @classmethod
    def checked(
        cls, search: Search, bags: Any, y: ArrayLike, known: Mapping[str, Any], validation: Any
    ) -> Labelled:
        if search.refine is not None:
            raise ValueError(
                "refine goes with models on mean embeddings: AggregateRegressor learns its kernel "
                "itself, by learn_kernel=True"
            )
        _check_evidence(search)
        for name, values in known.items():
            if name != "trials" and values is not None:
                raise TypeError(
                    f"AggregateRegressor takes no {name}: give the points of the bags weights"
                )
        for model in search.models.values():
            labels = _checked_totals(model, bags, y, trials=known["trials"])
        return Labelled(bags, labels, _numbers(bags, known["trials"]))

    @classmethod
    def checked_validation(
        cls, search: Search, training: Labelled, known: Mapping[str, Any], validation: Any
    ) -> Labelled:
        trials = known["trials"]
        has_trials = isinstance(validation, (tuple, list)) and len(validation) == 3
        if has_trials:
            *validation, trials = validation
        elif trials is not None and not isinstance(trials, str):
            raise ValueError(
                "validation has no trials: give validation=(bags, y, trials), or trials as the "
                "name of a column of the bags' metadata"
            )
        for model in search.models.values():
            check = partial(_checked_totals, model, trials=trials)
            held_out, labels = checked_validation(validation, training.bags, check)
        return Labelled(held_out, labels, _numbers(held_out, trials))

    def with_bandwidth(self, candidate: Any, scale: float) -> Any:
        if not candidate.learn_kernel:
            kernel, bags, seed = candidate.kernel, self.training.bags, self.search.seed
            resolved = resolve_kernel(kernel, "scaled", bags, seed=seed, scale=scale)
            candidate.set_params(kernel=resolved)
        return candidate

    def measured(self, candidate: Any, scale: float, *_: Any) -> tuple[dict[str, Any], Any]:
        fitted_by = with_method(candidate, self.search.method)
        scores = mean_scores(
            delayed(self._scores_of_split)(fitted_by, train, test) for train, test in self.splits
        )
        settings = {
            "n_landmarks": self.n_landmarks(candidate),
            "bandwidth_scale": np.nan if learns_kernel(candidate) else scale,
        }
        return {**settings, **scores}, None

    def _scores_of_split(self, candidate, train, test):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # held-out labels judge an approximation
            bags, y, known = _taken(self.training, train)
            fitted = clone(candidate).fit(
                bags, y, **known, seed=self.search.seed, **self.search.options
            )
            scores = {
                "nll": np.nan,
                "mse": np.nan,
                "bound": getattr(fitted, "bound_", np.nan),
                "evidence": getattr(fitted, "log_evidence_", np.nan),
            }
            if self.held_out is not None:
                bags, y, known = _taken(self.held_out, test)
                predictive = fitted.predictive(bags, **known)
                scores["nll"] = -predictive.log_prob(y).mean()
                scores["mse"] = mse(y, predictive.mean)
            return scores


def _checked_totals(model, bags, y, trials):
    return model.label_model.read(bags, y, trials=trials).y


def _check_evidence(search):
    """Raise ValueError unless the fits compute the score: "bound" with "vb", else "evidence"."""
    for name, model in search.models.items():
        by, score = search.method or model.method, search.score
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


def _numbers(bags, trials):
    """Trials as numbers by their name; empty for none."""
    if trials is None:
        return {}
    return {"trials": np.asarray(values_of_bags(bags, trials, "trials"), float)}


def _taken(labelled, indices):
    known: dict[str, Array] = {name: values[indices] for name, values in labelled.known.items()}
    return labelled.bags.take(indices), labelled.y[indices], known
