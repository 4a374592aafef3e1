"""Candidates and bags of `tune`: a base of its tasks, and that of models of totals."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier

from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.estimators.validation import checked_splits, checked_validation
from bdr_stan.kernels import Kernel, resolve_kernel
from bdr_stan.model_selection import shuffled_folds
from bdr_stan.types import Array, ArrayLike

# From the text of a candidate to a context that reports progress.
Reporting: TypeAlias = Callable[[str], AbstractContextManager[None]]


class Search(NamedTuple):
    """Arguments of `tune` of these names; of kernels None is the model's own."""

    models: Mapping[str, Any]
    kernels: Sequence[str | Kernel | None]
    n_landmarks: Sequence[int]
    bandwidth_scale: Sequence[float]
    method: str | None
    score: str
    refine: str | None
    seed: int
    options: Mapping[str, Any]


class Labelled(NamedTuple):
    """Bags with labels, and their trials, exposure and offset as arrays, if they have them."""

    bags: Any
    y: Array
    label_data: Mapping[str, Array]

    def take(self, indices: Array) -> "Labelled":
        """The bags with these indices."""
        data = {name: values[indices] for name, values in self.label_data.items()}
        return Labelled(self.bags.take(indices), self.y[indices], data)


class Candidate(NamedTuple):
    """A model with settings, and its scores."""

    name: str  # of the model
    kernel: str | Kernel | None  # in the table; None if `tune` has no kernels
    estimator: Any  # not fitted
    columns: Mapping[str, Any]  # of the table: settings and scores
    training: Any = None  # training features, for a model on embeddings
    refined: bool = False


@dataclass(frozen=True)
class Task:
    """Training bags and held-out bags; a subclass checks them and scores estimators by them."""

    # checked(search, bags, y, label_data, validation) returns training bags, checked_validation(
    # search, training, label_data, validation) held-out ones; or they raise if no model suits them.
    checked: ClassVar[Callable[..., Labelled]]
    checked_validation: ClassVar[Callable[..., Labelled]]
    # with_bandwidth(candidate, scale) is the candidate with its bandwidths times a factor.
    with_bandwidth: ClassVar[Callable[..., Any]]
    # measured(candidate, scale, together, embedded) returns the columns of a candidate in the
    # table, and its training features; candidates with the same settings may share embeddings.
    measured: ClassVar[Callable[..., tuple[dict[str, Any], Any]]]

    search: Search
    training: Labelled
    held_out: Labelled | None  # the training bags if folds are held out
    splits: list[tuple[Array, Array]]  # training and held-out indices
    # Shared by several candidates, for example landmarks: they do not depend on the bandwidth.
    shared: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def prepare(
        cls,
        search: Search,
        bags: BagsLike,
        y: ArrayLike,
        label_data: Mapping[str, ArrayLike | str | None],
        validation: Any,
        cv: Any,
    ) -> Self:
        """The task of the arguments of `tune`; TypeError or ValueError if they are invalid."""
        _check_evidence(search)
        models = search.models.values()
        takes_samples = all(getattr(model, "takes_samples", False) for model in models)
        bags = as_bags(bags, samples=takes_samples)
        training = cls.checked(search, bags, y, label_data, validation)
        all_bags = np.arange(len(training.y))
        if validation is not None:
            held_out = cls.checked_validation(search, training, label_data, validation)
            return cls(search, training, held_out, [(all_bags, np.arange(len(held_out.y)))])
        if cv is None:  # only the training labels are scored
            return cls(search, training, None, [(all_bags, all_bags[:0])])
        labels = np.asarray(training.y)
        folds = shuffled_folds(cv, labels, any(map(is_classifier, models)), search.seed)
        splits = checked_splits(folds.split(bags, labels), labels)
        return cls(search, training, training, splits)

    def combinations(self) -> list[tuple[tuple[Any, int, float], list[str]]]:
        """Settings of the grid, with the names of the models that are fitted with each."""
        first_n, first_scale = self.search.n_landmarks[0], self.search.bandwidth_scale[0]
        return [
            (
                (kernel, n, scale),
                [
                    name
                    for name, model in self.search.models.items()
                    if (_has_n_landmarks(model) or n == first_n)
                    and (not learns_kernel(model) or scale == first_scale)
                ],
            )
            for kernel, n, scale in product(*self.search[1:4])
        ]

    def candidates(self, reporting: Reporting) -> Iterator[Candidate]:
        """All candidates, fitted and scored one by one."""
        for (kernel, n, scale), names in self.combinations():
            estimators = {
                name: self.with_settings(self.search.models[name], kernel, n, scale)
                for name in names
            }
            embedded: dict[Any, Any] = {}
            for name, estimator in estimators.items():
                bandwidth = "" if learns_kernel(estimator) else f", bandwidth x {scale:g}"
                with reporting(f"{name}, {n} landmarks{bandwidth}"):
                    columns, training = self.measured(
                        estimator, scale, list(estimators.values()), embedded
                    )
                yield Candidate(name, kernel, estimator, columns, training)

    def with_settings(self, model: Any, kernel: Any, n_landmarks: int, scale: float) -> Any:
        """An unfitted model with these settings, as far as they apply; kernel None is its own."""
        candidate = clone(model).set_params(random_state=self.search.seed)
        if isinstance(model.landmarks, str):
            candidate.set_params(n_landmarks=n_landmarks)
        if kernel is not None:
            candidate.set_params(kernel=kernel)
        return self.with_bandwidth(candidate, scale)

    def n_landmarks(self, candidate: Any) -> int:
        """Number of landmarks of a candidate, in the table."""
        if not isinstance(candidate.landmarks, str):
            return len(candidate.landmarks)
        of_bags = candidate.landmarks == "one per bag"
        return len(self.training.y) if of_bags else candidate.n_landmarks


def mean_scores(calls: Iterable[Any]) -> dict[str, float]:
    """Means of the scores that delayed calls return, one per split."""
    scores = Parallel()(calls)  # one after the other, unless joblib is configured otherwise
    return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}


def with_method(model: Any, method: str | None) -> Any:
    """A model with a method of fitting, if it has methods and this is not None."""
    if method is None or "method" not in model.get_params():
        return model
    return clone(model).set_params(method=method)


def learns_kernel(model: Any) -> bool:
    """Whether a model chooses its bandwidths itself."""
    return getattr(model, "learn_kernel", False)


def _has_n_landmarks(model):
    """Whether the number of landmarks is a setting of a model."""
    return isinstance(model.landmarks, str) and model.landmarks != "one per bag"


class TotalsTask(Task):
    """Training bags and held-out bags of models of totals."""

    @classmethod
    def checked(
        cls, search: Search, bags: Any, y: ArrayLike, label_data: Mapping[str, Any], validation: Any
    ) -> Labelled:
        if search.refine is not None:
            raise ValueError(
                "refine goes with models on mean embeddings: AggregateRegressor learns its kernel "
                "itself, by learn_kernel=True"
            )
        for model in search.models.values():
            labels = model.label_model.read(bags, y, **label_data)
        return Labelled(bags, labels.y, labels.given)

    @classmethod
    def checked_validation(
        cls, search: Search, training: Labelled, label_data: Mapping[str, Any], validation: Any
    ) -> Labelled:
        n_parts = len(validation) if isinstance(validation, (tuple, list)) else 0
        if n_parts == 3:
            label_data, validation = {"trials": validation[2]}, validation[:2]
        elif not isinstance(label_data["trials"], str | None):
            raise ValueError(
                "validation has no trials: give validation=(bags, y, trials), or trials as the "
                "name of a column of the bags' metadata"
            )
        for model in search.models.values():
            check = partial(model.label_model.read, **label_data)
            held_out, labels = checked_validation(validation, training.bags, check)
        return Labelled(held_out, labels.y, labels.given)

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
            bags, y, label_data = self.training.take(train)
            fitted = clone(candidate).fit(
                bags, y, **label_data, seed=self.search.seed, **self.search.options
            )
            scores = {
                "nll": np.nan,
                "mse": np.nan,
                "bound": getattr(fitted, "bound_", np.nan),
                "evidence": getattr(fitted, "log_evidence_", np.nan),
            }
            if self.held_out is not None:
                bags, y, label_data = self.held_out.take(test)
                predictive = fitted.predictive(bags, **label_data)
                scores["nll"] = -predictive.log_prob(y).mean()
                scores["mse"] = np.mean((y - predictive.mean) ** 2)
            return scores


def _check_evidence(search):
    """Raise ValueError unless the fits compute the score: "bound" with "vb", else "evidence"."""
    for name, model in search.models.items():
        by, score = search.method or getattr(model, "method", None), search.score
        if score == "bound" and by != "vb":
            raise ValueError(
                f"{name} has no bound by method={by!r}: pass method='vb', or score='evidence'"
            )
        if score == "evidence" and by == "vb":
            raise ValueError(f"{name} has a bound by method='vb': pass score='bound'")
        if score == "evidence" and getattr(model, "stan_file", None) is not None:
            raise ValueError(
                f"{name} has no evidence by a program of your own: pass score='nll', or leave "
                "stan_file out"
            )
