"""Candidates of `tune` on mean embeddings: each embedded once, scored by held-out labels."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import delayed
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier

from bdr_stan.bags import check_classes, check_labels
from bdr_stan.bags.samples import check_one_sample
from bdr_stan.embedding.landmarks import landmark_units, landmarks_of_kernel
from bdr_stan.estimators.inverse import InverseBDRClassifier
from bdr_stan.estimators.label_models import FamilyLabels
from bdr_stan.estimators.validation import checked_validation
from bdr_stan.kernels import kernel_config, resolve_kernel, summands
from bdr_stan.labels import OF_TIMES, Labels
from bdr_stan.threads import limited_blas
from bdr_stan.tuning_task import Candidate, Labelled, Search, Task, mean_scores, with_method
from bdr_stan.types import Array, ArrayLike

# The search for length scales, on the log scale: its bounds, first steps and tolerance. A change of
# the score by less than its tolerance is noise.
_MAX_LOG_CHANGE = np.log(20)
_FIRST_LOG_STEP = np.log(1.25)
_LOG_TOLERANCE = 0.02
_SCORE_TOLERANCE = 1e-4
# Half the step of the differences that are slopes of the evidence, on the log scale, and the
# relative gain in evidence below which its search ends.
_SLOPE_STEP = 1e-3
_EVIDENCE_TOLERANCE = 1e-5
_COLUMNS = ("covariates", "groups", "smooths")  # parameters that name columns of the metadata


class EmbeddingTask(Task):
    """Training bags and held-out bags of models on mean embeddings."""

    @classmethod
    def checked(
        cls, search: Search, bags: Any, y: ArrayLike, label_data: Mapping[str, Any], validation: Any
    ) -> Labelled:
        models = search.models.values()
        if search.score == "nll":
            _check_densities(models)
        for name, model in search.models.items():
            if search.score == "evidence" and not hasattr(model, "log_evidence"):
                raise ValueError(f"{name} has no evidence: leave it out, or pass score='nll'")
        if validation is not None:
            message = "with several samples per bag give cv=, a number of folds"
            check_one_sample(bags, message, TypeError)
        if search.refine is not None:
            check_one_sample(bags, "refine is for bags with one sample of points: leave it out")
        for model in models:
            model.check_samples(bags, None)
        labels = _check_of_labels(models)(bags, y)
        return Labelled(bags, labels, _label_data(models, label_data, bags, labels))

    @classmethod
    def checked_validation(
        cls, search: Search, training: Labelled, label_data: Mapping[str, Any], validation: Any
    ) -> Labelled:
        for name, values in label_data.items():
            if values is not None and not isinstance(values, str):
                raise TypeError(
                    f"with validation= give {name} as the name of a column of the bags' metadata, "
                    f"found {type(values).__name__}"
                )
        models = search.models.values()
        bags, y = checked_validation(validation, training.bags, _check_of_labels(models))
        return Labelled(bags, y, _label_data(models, label_data, bags, y))

    def refined(self, candidate: Candidate) -> Candidate:
        """A candidate with better bandwidths, from a search at its landmarks."""
        estimator = _with_better_bandwidths(self, candidate)
        columns, training = self._in_table(estimator, self.embedded(estimator))
        kernel = None if candidate.kernel is None else estimator.kernel
        return Candidate(candidate.name, kernel, estimator, columns, training, refined=True)

    @property
    def only_sample(self) -> Any:
        """The bags if they have one sample, whose landmarks and embeddings candidates share."""
        return self.training.bags.samples.get("")

    def with_bandwidth(self, candidate: Any, scale: float) -> Any:
        candidate.set_params(bandwidth_scale=scale)
        if hasattr(candidate, "kernel_for") and self.only_sample is not None:
            candidate.set_params(kernel=candidate.kernel_for(self.only_sample))
        return candidate

    def measured(
        self, candidate: Any, scale: float, together: Sequence[Any], embedded: dict[Any, Any]
    ) -> tuple[dict[str, Any], Any]:
        if self.only_sample is None:
            return self._in_table(candidate, self.embedded(candidate))
        sharing = _sharing_embedding(candidate, together)
        key = _embedding_key(sharing)
        if key not in embedded:
            embedded[key] = self.embedded(sharing)
        return self._in_table(candidate, embedded[key])

    def _in_table(self, candidate, embedded):
        training, held_out = embedded
        columns = {
            "n_landmarks": self.n_landmarks(candidate),
            "bandwidth_scale": candidate.bandwidth_scale,
            "bandwidth": training.bandwidth,
            **self.scores(candidate, training, held_out, self.search.method),
        }
        return columns, training

    def training_features(self, model: Any) -> Any:
        """Training features of a model, at landmarks that models and bandwidths share."""
        bags, seed = self.only_sample, self.search.seed
        if bags is not None and isinstance(model.landmarks, str):
            kernel = resolve_kernel(model.kernel, model.bandwidth, bags, seed=seed)
            units = landmark_units(kernel, bags, seed)
            key = (
                model.landmarks,
                model.n_landmarks,
                None if units is None else tuple(units),
                tuple(summands(kernel, bags.n_features)),
            )
            if key not in self.shared:
                self.shared[key] = landmarks_of_kernel(
                    kernel, bags, model.n_landmarks, method=model.landmarks, seed=seed
                )
            model = clone(model).set_params(landmarks=self.shared[key])
        return model.training_features(self.training.bags, seed=seed)

    def embedded(self, model: Any) -> tuple[Any, Any]:
        """Training features of a model, and the embedding of the held-out bags."""
        training = self.training_features(model)
        if self.held_out is None or self.held_out is self.training:
            return training, training.embedding
        return training, model.embed(self.held_out.bags, training)

    def scores(
        self, model: Any, training: Any, held_out: Any, method: str | None
    ) -> dict[str, float]:
        """Mean held-out NLL and MSE of a candidate over the splits, and its evidence."""
        bayesian = "method" in model.get_params()
        model = with_method(model, method)
        options = {"seed": self.search.seed, **(self.search.options if bayesian else {})}
        embedded = Labelled(training, self.training.y, self.training.label_data)
        if self.held_out is None:
            scores = {"nll": np.nan, "mse": np.nan}
        else:
            others = Labelled(held_out, self.held_out.y, self.held_out.label_data)
            scores = mean_scores(
                delayed(_scores_of_split)(
                    clone(model), embedded.take(train), others.take(test), options
                )
                for train, test in self.splits
            )
        if self.search.score == "evidence":
            scores["evidence"] = self.evidence(model, training)[0]
        return scores

    def evidence(
        self, model: Any, training: Any, scales: Mapping[str, float] | None = None
    ) -> tuple[float, dict[str, float]]:
        """Log evidence of the training labels, and the scales."""
        _, y, label_data = self.training
        used = {n: values for n, values in label_data.items() if n in model.label_model.takes}
        return model.log_evidence(training, y, scales=scales, **used)


def _check_densities(models):
    """Raise ValueError if densities would be compared with probabilities of counts."""
    predicting = [model for model in models if hasattr(model, "predictive")]
    if len({getattr(model, "counts_labels", False) for model in predicting}) > 1:
        raise ValueError(
            "nll compares probabilities of counts with each other, or densities, but not one with "
            "the other: give all models a family of counts, or none, or score='mse'"
        )


def _check_of_labels(models):
    """The check of labels: ordered categories, classes or numbers, depending on the models."""
    ordered = [m.label_model for m in models if m.label_model.is_ordered]
    if ordered and len(ordered) < len(models):
        raise ValueError(
            "models of family='ordinal' are compared only with each other: leave the others out"
        )
    if ordered:
        return ordered[0].checked
    if not any(map(is_classifier, models)):
        return check_labels
    several = all(isinstance(model, InverseBDRClassifier) for model in models)
    return partial(check_classes, several=several)


def _label_data(models, supplied, bags, y):
    """Trials, exposure, offset for the models of bags with labels, checked for each model."""
    label_data: dict[str, Array] = {}
    kinds = [model.label_model for model in models]
    for name, values in supplied.items():
        if values is not None and not any(name in kind.takes for kind in kinds):
            raise TypeError(f"none of the models takes {name}: leave {name}= out")
        if values is not None and name in OF_TIMES and not all(name in k.takes for k in kinds):
            raise TypeError(f"{name}= is for families 'weibull' and 'lognormal' of all models")
    for kind in kinds:
        if isinstance(kind, FamilyLabels):
            accepted = {name: values for name, values in supplied.items() if name in kind.takes}
            label_data |= kind.read(bags, y, **accepted).given
    return label_data


def _scores_of_split(model, training, held_out, options):
    # BLAS's threads do not help with matrices this small, and cost much on a busy machine.
    with limited_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # held-out labels judge each approximation
        features, y, label_data = training
        used = {n: values for n, values in label_data.items() if n in model.label_model.takes}
        fitted = model.fit_features(features, y, **used, **options)
        return _held_out_scores(fitted, *held_out)


def _held_out_scores(fitted, embedding, y, label_data):
    classes = getattr(fitted, "classes_", None)
    if not hasattr(fitted, "predictive_features"):
        errors = y - fitted.predict_features(embedding)
        return {"nll": np.nan, "mse": float(np.mean(errors**2))}
    predictive = fitted.predictive_features(embedding, Labels(classes=classes, **label_data))
    nll = -predictive.log_prob(y).mean()
    if is_classifier(fitted):
        errors = predictive.probabilities - (np.asarray(y)[:, None] == fitted.classes_)
        return {"nll": nll, "mse": float(np.mean(np.sum(errors**2, axis=1) / 2))}
    known = not getattr(predictive, "is_partly_known", False)
    return {"nll": nll, "mse": float(np.mean((y - predictive.mean) ** 2)) if known else np.nan}


def _with_better_bandwidths(task, candidate):
    """The estimator of a candidate after a search for bandwidths with fixed landmarks."""
    estimator, training = candidate.estimator, candidate.training
    refine, method, score = task.search.refine, task.search.method, task.search.score
    kernel = training.kernel
    by_name = isinstance(estimator.kernel, str) and hasattr(kernel, "lengths")
    model = clone(estimator).set_params(bandwidth_scale=1.0)
    if not by_name:
        model.set_params(bandwidth="scaled")  # the kernel object has bandwidths
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

    def evidence(steps, scales=None):
        trial = changed(steps)
        return task.evidence(trial, task.training_features(trial), scales)

    def loss_and_slope(steps):
        # The evidence is highest in the scales, so their changes do not contribute to the slope.
        value, scales = evidence(steps)
        slope = [
            evidence(steps - step, scales)[0] - evidence(steps + step, scales)[0]
            for step in _SLOPE_STEP * np.eye(n_steps)
        ]
        return -value, np.array(slope) / (2 * _SLOPE_STEP)

    n_steps = 1
    if refine == "ard":
        n_steps = training.landmarks.shape[1] if by_name else len(kernel.log_parameters)
    start = np.zeros(n_steps)
    bounds = [(-_MAX_LOG_CHANGE, _MAX_LOG_CHANGE)] * n_steps
    if score == "evidence":
        options = {"ftol": _EVIDENCE_TOLERANCE, "maxiter": 100}
        best = minimize(
            loss_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
    else:
        options = {
            "initial_simplex": np.vstack([start, _FIRST_LOG_STEP * np.eye(n_steps)]),
            "xatol": _LOG_TOLERANCE,
            "fatol": _SCORE_TOLERANCE,
            "maxfev": 100 * n_steps,
        }
        best = minimize(loss, start, method="Nelder-Mead", bounds=bounds, options=options)
    return changed(best.x)


def _map_key(model):
    """Inputs of a model's feature map other than landmarks and bandwidth."""
    kernel = model.kernel if isinstance(model.kernel, str) else str(kernel_config(model.kernel))
    # A user's subclass may embed with its own parameters.
    subclass = None if type(model).__module__.startswith("bdr_stan.") else repr(model)
    return kernel, subclass


def _sharing_embedding(model, models):
    """The model with an embedding for a candidate: itself, or another with a covariance."""
    if getattr(model, "has_covariance", False):
        return model
    settings = ("n_landmarks", "landmarks", "bandwidth", "bandwidth_scale", *_COLUMNS)
    for other in models:
        lacking = [name for name in _COLUMNS if not hasattr(other, name)]
        if (
            getattr(other, "has_covariance", False)
            and not any(getattr(model, name, None) for name in lacking)
            and _map_key(other) == _map_key(model)
        ):
            shared = {name: getattr(model, name, None) for name in settings if hasattr(other, name)}
            return clone(other).set_params(**shared)
    return model


def _embedding_key(model):
    """Key of an embedding: its inputs other than the bags."""
    settings = [model.landmarks, model.bandwidth]
    texts = [s if isinstance(s, str) else np.asarray(s).tobytes() for s in settings]
    columns = tuple(map(str, (getattr(model, name, None) or [] for name in _COLUMNS)))
    return *texts, _map_key(model), getattr(model, "has_covariance", False), columns
