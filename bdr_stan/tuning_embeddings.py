"""Candidates of `tune` on mean embeddings: each embedded once, scored by held-out labels."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier

from bdr_stan.bags import Bags, BagsLike, Samples, as_bags, check_classes, check_labels
from bdr_stan.embedding.landmarks import landmark_units, landmarks_of_kernel
from bdr_stan.estimators.inverse import InverseBDRClassifier
from bdr_stan.estimators.validation import checked_splits, checked_validation
from bdr_stan.kernels import kernel_config, resolve_kernel, summands
from bdr_stan.metrics import mse
from bdr_stan.model_selection import shuffled_folds
from bdr_stan.threads import limited_blas
from bdr_stan.tuning_candidates import Candidate, Grid, Reporting, Settings
from bdr_stan.types import Array, ArrayLike

# The search for length scales, on the log scale: its bounds, first steps and tolerance. A change of
# the score by less than its tolerance is noise.
_MAX_LOG_CHANGE = np.log(20)
_FIRST_LOG_STEP = np.log(1.25)
_LOG_TOLERANCE = 0.02
_SCORE_TOLERANCE = 1e-4
_COLUMNS = ("covariates", "groups", "smooths")  # parameters that name columns of the metadata


@dataclass(frozen=True)
class EmbeddingTask:
    """Training bags and held-out bags of models on mean embeddings."""

    bags: Bags | Samples
    y: Array
    held_out_bags: Bags | None  # None: the training bags, by folds
    held_out_y: Array
    known: Mapping[str, Array]  # trials, exposure, offset of the training bags
    held_out_known: Mapping[str, Array]
    splits: list[tuple[Array, Array]]  # training and held-out indices
    seed: int
    options: Mapping[str, Any]  # of the Bayesian candidates' fits
    # Landmarks by method, number and kernel, as they do not depend on the bandwidth.
    landmarks: dict[Any, Array] = field(default_factory=dict)

    @classmethod
    def prepare(
        cls,
        bags: BagsLike,
        y: ArrayLike,
        known: Mapping[str, ArrayLike | str | None],
        validation: Any,
        cv: Any,
        models: Mapping[str, Any],
        seed: int,
        options: Mapping[str, Any],
    ) -> Self:
        """The task of the arguments of `tune`; TypeError or ValueError if they are invalid."""
        classes = any(is_classifier(model) for model in models.values())
        several = all(isinstance(model, InverseBDRClassifier) for model in models.values())
        check = partial(check_classes, several=several) if classes else check_labels
        check = _check_of_categories(models) or check
        takes_samples = all(getattr(model, "takes_samples", False) for model in models.values())
        bags = as_bags(bags, samples=takes_samples)
        if isinstance(bags, Samples) and validation is not None:
            raise TypeError("with several samples per bag give cv=, a number of folds")
        if isinstance(bags, Samples):
            for model in models.values():
                model._check_samples(bags, None)
        y = check(bags, y)
        known_of = partial(_known_of_labels, models, known)
        values = known_of(bags, y)
        if validation is None:
            names = np.asarray(y)
            folds = shuffled_folds(cv, names, classes, seed)
            splits = checked_splits(folds.split(bags, names), names)
            return cls(bags, y, None, y, values, values, splits, seed, options)
        for name, given in known.items():
            if given is not None and not isinstance(given, str):
                raise TypeError(
                    f"with validation= give {name} as the name of a column of the bags' metadata, "
                    f"found {type(given).__name__}"
                )
        held_out, held_out_y = checked_validation(validation, bags, check)
        splits = [(np.arange(len(y)), np.arange(len(held_out_y)))]
        others = known_of(held_out, held_out_y)
        return cls(bags, y, held_out, held_out_y, values, others, splits, seed, options)

    def combinations(
        self, models: Mapping[str, Any], grid: Grid
    ) -> list[tuple[Settings, list[str]]]:
        """Settings of the grid, with the names of the models that are fitted with each."""
        fixed = [name for name, model in models.items() if not isinstance(model.landmarks, str)]
        return [
            (settings, [name for name in models if name not in fixed or settings[1] == grid[1][0]])
            for settings in product(*grid)
        ]

    def candidates(
        self, models: Mapping[str, Any], grid: Grid, method: str | None, reporting: Reporting
    ) -> Iterator[Candidate]:
        """All candidates, fitted and scored one by one."""
        for (kernel, n, scale), names in self.combinations(models, grid):
            embedded: dict[Any, Any] = {}
            estimators = {
                name: self.with_settings(models[name], kernel, n, scale) for name in names
            }
            for name, estimator in estimators.items():
                with reporting(f"{name}, {n} landmarks, bandwidth x {scale:g}"):
                    if isinstance(self.bags, Samples):
                        found = self.embedded(estimator)
                    else:
                        sharing = _sharing_embedding(estimator, estimators.values())
                        key = _embedding_key(sharing)
                        if key not in embedded:
                            embedded[key] = self.embedded(sharing)
                        found = embedded[key]
                    columns, training = self.measured(estimator, found, method)
                yield Candidate(name, kernel, estimator, columns, training)

    def refined(self, found: Candidate, refine: str, method: str | None, score: str) -> Candidate:
        """A candidate with better bandwidths, from a search at its landmarks."""
        estimator = _with_better_bandwidths(self, found, refine, method, score)
        columns, training = self.measured(estimator, self.embedded(estimator), method)
        kernel = None if found.kernel is None else estimator.kernel
        return Candidate(found.name, kernel, estimator, columns, training, refined=True)

    def with_settings(
        self, model: Any, kernel: Any, n_landmarks: int, bandwidth_scale: float
    ) -> Any:
        """An unfitted model with these settings; kernel None is the model's."""
        candidate = clone(model).set_params(bandwidth_scale=bandwidth_scale, random_state=self.seed)
        if isinstance(model.landmarks, str):
            candidate.set_params(n_landmarks=n_landmarks)
        if kernel is not None:
            candidate.set_params(kernel=kernel)
        if hasattr(candidate, "kernel_for") and isinstance(self.bags, Bags):
            candidate.set_params(kernel=candidate.kernel_for(self.bags))
        return candidate

    def measured(
        self, candidate: Any, embedded: tuple[Any, Any], method: str | None
    ) -> tuple[dict[str, Any], Any]:
        """A candidate's columns in the table, and its training features."""
        training, held_out = embedded
        given = None if isinstance(candidate.landmarks, str) else len(candidate.landmarks)
        columns = {
            "n_landmarks": candidate.n_landmarks if given is None else given,
            "bandwidth_scale": candidate.bandwidth_scale,
            "bandwidth": training.bandwidth,
            **self.scores(candidate, training, held_out, method),
        }
        return columns, training

    def embedded(self, model: Any) -> tuple[Any, Any]:
        """Training features of a model, and the embedding of the held-out bags."""
        bags = self.bags
        if isinstance(bags, Bags) and isinstance(model.landmarks, str) and _has_landmarks(model):
            kernel = resolve_kernel(model.kernel, model.bandwidth, bags, seed=self.seed)
            units = landmark_units(kernel, bags, self.seed)
            key = (
                model.landmarks,
                model.n_landmarks,
                None if units is None else tuple(units),
                tuple(summands(kernel, bags.n_features)),
            )
            if key not in self.landmarks:
                self.landmarks[key] = landmarks_of_kernel(
                    kernel, bags, model.n_landmarks, method=model.landmarks, seed=self.seed
                )
            model = clone(model).set_params(landmarks=self.landmarks[key])
        training = model.training_features(bags, seed=self.seed)
        training = replace(training, embedding=replace(training.embedding, **self.known))
        if self.held_out_bags is None:
            return training, training.embedding
        held_out = model.embed(self.held_out_bags, training)
        return training, replace(held_out, **self.held_out_known)

    def scores(
        self, model: Any, training: Any, held_out: Any, method: str | None
    ) -> dict[str, float]:
        """Mean held-out NLL and MSE of a candidate over the splits."""
        bayesian = "method" in model.get_params()
        model = with_method(model, method)
        options = {"seed": self.seed, **(self.options if bayesian else {})}
        # One after the other, unless joblib is configured otherwise.
        scores = Parallel()(
            delayed(_scores_of_split)(
                clone(model),
                (training.take(train), self.y[train]),
                (held_out.take(test), self.held_out_y[test]),
                options,
            )
            for train, test in self.splits
        )
        return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}


def check_densities(models: Mapping[str, Any]) -> None:
    """Raise ValueError where densities would be compared with probabilities of counts."""
    predicting = [model for model in models.values() if hasattr(model, "predictive")]
    if len({getattr(model, "counts_labels", False) for model in predicting}) > 1:
        raise ValueError(
            "nll compares probabilities of counts with each other, or densities, but not one with "
            "the other: give all models a family of counts, or none, or score='mse'"
        )


def _check_of_categories(models):
    """The check of labels that are ordered categories; None where no model is of such."""
    ordinal = [m for m in models.values() if getattr(m, "family", None) == "ordinal"]
    if ordinal and len(ordinal) < len(models):
        raise ValueError(
            "models of family='ordinal' are compared with each other alone: leave the others out"
        )
    return ordinal[0].check_labels if ordinal else None


def _known_of_labels(models, given, bags, y):
    """Trials, exposure, offset that the models take of bags with labels, which suit each model."""
    known: dict[str, Array] = {}
    families = [model for model in models.values() if getattr(model, "family", None) is not None]
    takers = {name: [m for m in families if name in m.takes] for name in given}
    for name, values in given.items():
        if values is not None and not takers[name]:
            raise TypeError(f"none of the models takes {name}: leave {name}= out")
    for model in families:
        labels = model.check_labels(bags, y)
        taken = {name: values for name, values in given.items() if model in takers[name]}
        known |= model.check_known(bags, labels, **taken)
    return known


def _scores_of_split(model, training, held_out, options):
    # BLAS's threads do not help with matrices this small, and cost much on a busy machine.
    with limited_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # held-out labels judge each approximation
        return _held_out_scores(model.fit_features(*training, **options), *held_out)


def _held_out_scores(fitted, embedding, y):
    if not hasattr(fitted, "predictive_features"):
        return {"nll": np.nan, "mse": mse(y, fitted.predict_features(embedding))}
    predictive = fitted.predictive_features(embedding)
    nll = -predictive.log_prob(y).mean()
    if is_classifier(fitted):
        errors = predictive.probabilities - (np.asarray(y)[:, None] == fitted.classes_)
        return {"nll": nll, "mse": float(np.mean(np.sum(errors**2, axis=1) / 2))}
    return {"nll": nll, "mse": mse(y, predictive.mean)}


def _with_better_bandwidths(task, found, refine, method, score):
    """The estimator of a candidate after a search for bandwidths with fixed landmarks."""
    candidate, training = found.estimator, found.training
    kernel = training.kernel
    by_name = isinstance(candidate.kernel, str) and hasattr(kernel, "lengths")
    model = clone(candidate).set_params(bandwidth_scale=1.0)
    if not by_name:
        model.set_params(bandwidth="scaled")  # the kernel object has bandwidths
    if _has_landmarks(model):
        model.set_params(landmarks=training.landmarks)
    fitted_by = getattr(model, "method", None) if method is None else method
    quick = "exact" if fitted_by == "exact" else "optimize"  # no draws: smooth, and the quickest

    def changed(steps):
        if not by_name:
            if refine == "bandwidth":
                return clone(model).set_params(kernel=kernel.scaled(float(np.exp(steps[0]))))
            learned = kernel.with_log_parameters(kernel.log_parameters + steps)
            return clone(model).set_params(kernel=learned)
        # One step for all columns leaves a number a number.
        factor = np.exp(steps if refine == "ard" else steps[0])
        return clone(model).set_params(bandwidth=kernel.lengths * factor)

    def loss(steps):
        trial = changed(steps)
        scores = task.scores(trial, *task.embedded(trial), quick)
        return scores[score] if np.isfinite(scores[score]) else scores["mse"]

    n_steps = 1
    if refine == "ard":
        n_steps = training.landmarks.shape[1] if by_name else len(kernel.log_parameters)
    start = np.zeros(n_steps)
    found = minimize(
        loss,
        start,
        method="Nelder-Mead",
        bounds=[(-_MAX_LOG_CHANGE, _MAX_LOG_CHANGE)] * n_steps,
        options={
            "initial_simplex": np.vstack([start, _FIRST_LOG_STEP * np.eye(n_steps)]),
            "xatol": _LOG_TOLERANCE,
            "fatol": _SCORE_TOLERANCE,
            "maxfev": 100 * n_steps,
        },
    )
    return changed(found.x)


def with_method(model: Any, method: str | None) -> Any:
    """A model with a method of fitting, where it has methods and this is not None."""
    if method is None or "method" not in model.get_params():
        return model
    return clone(model).set_params(method=method)


def _map_key(model):
    """What a model's feature map is made of, besides landmarks and bandwidth."""
    kernel = model.kernel if isinstance(model.kernel, str) else str(kernel_config(model.kernel))
    # A subclass from elsewhere may embed by parameters of its own.
    own = None if type(model).__module__.startswith("bdr_stan.") else repr(model)
    return kernel, getattr(model, "features", "landmarks"), own


def _has_landmarks(model):
    """Whether the features are kernel values at landmarks, not Fourier features."""
    return getattr(model, "features", "landmarks") == "landmarks"


def _sharing_embedding(model, models):
    """The model whose embedding a candidate can use: itself, or another with a covariance."""
    if getattr(model, "covariance", None) is not None:
        return model
    settings = ("n_landmarks", "landmarks", "bandwidth", "bandwidth_scale", *_COLUMNS)
    for other in models:
        lacking = [name for name in _COLUMNS if not hasattr(other, name)]
        if (
            getattr(other, "covariance", None) is not None
            and not any(getattr(model, name, None) for name in lacking)
            and _map_key(other) == _map_key(model)
        ):
            shared = {name: getattr(model, name, None) for name in settings if hasattr(other, name)}
            return clone(other).set_params(**shared)
    return model


def _embedding_key(model):
    """What an embedding depends on besides the bags, to look it up by."""
    settings = [model.landmarks, model.bandwidth]
    texts = [s if isinstance(s, str) else np.asarray(s).tobytes() for s in settings]
    covariance = getattr(model, "covariance", None)
    tau = model.tau if covariance == "identity" else None
    columns = tuple(map(str, (getattr(model, name, None) or [] for name in _COLUMNS)))
    return *texts, _map_key(model), covariance, tau, columns
