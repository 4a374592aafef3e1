"""Choose bandwidth, landmarks and model by how well held-out labels are predicted."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from threadpoolctl import threadpool_limits

from bdr_stan.bags import Bags, BagsLike, as_bags, check_classes, check_labels
from bdr_stan.cmdstan.progress import status
from bdr_stan.embedding.landmarks import landmark_units, landmarks_of_kernel
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.estimators.bdr import BDR
from bdr_stan.estimators.inverse import InverseBDRClassifier
from bdr_stan.estimators.validation import (
    check_counts,
    check_folds,
    check_positive,
    check_seed,
    checked_splits,
    checked_validation,
)
from bdr_stan.kernels import Kernel, check_kernel, kernel_config, resolve_kernel, summands
from bdr_stan.metrics import mse
from bdr_stan.types import Array, ArrayLike

if TYPE_CHECKING:
    import pandas as pd

# Law et al. (2018), supplement: the grid of their experiments.
BANDWIDTH_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
N_LANDMARKS = (30, 60, 90)

# The search for length scales: how far it may go, its first steps, and when it stops, all on the
# log scale; a change of the score by less means nothing.
_FARTHEST = np.log(20)
_FIRST_STEP = np.log(1.25)
_LOG_TOLERANCE = 0.02
_SCORE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Tuned:
    """Outcome of `tune`.

    Attributes
    ----------
    best : estimator, not fitted
        The model with the best held-out score, its settings filled in.
    best_of : dict, name -> estimator, not fitted
        The same for each model, by its name in the table.
    table : pandas.DataFrame
        One row a candidate, best first: model, kernel where several are tried, n_landmarks,
        bandwidth_scale, bandwidth, nll (mean negative log predictive density of held-out labels;
        NaN for models without one), mse (units of y squared; for classifiers half the squared
        distance of the probabilities, of two classes that of the second). Where `refine` is given
        also refined, whether a search set the bandwidth.
    """

    best: BagEstimator
    best_of: dict[str, BagEstimator]
    table: "pd.DataFrame"


def tune(
    bags: BagsLike,
    y: ArrayLike,
    *,
    models: Sequence[BagEstimator] | dict[str, BagEstimator] | None = None,
    validation: tuple[BagsLike, ArrayLike] | None = None,
    cv: Any = None,
    bandwidth_scale: Sequence[float] = BANDWIDTH_SCALES,
    n_landmarks: Sequence[int] = N_LANDMARKS,
    kernel: Sequence[str | Kernel] | None = None,
    method: str | None = "laplace",
    score: str = "nll",
    refine: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Tuned:
    """Choose among models and settings by their predictions for held-out bags.

    Every (bandwidth, landmarks) is embedded once, whatever the number of models and folds.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    y : array, shape (n,)
    models : list of estimators or dict name -> estimator, default ``[BDR()]``
        In a list a model is named by its class, followed by its place if there are several of
        the class: "BDR 1", "BDR 2".
    validation : (bags, y), optional
        Held-out bags and labels.
    cv : int or scikit-learn splitter, optional
        Cross-validation instead, a number of folds shuffled by `seed`; give exactly one of the
        two. Landmarks, bandwidth and within-bag covariance then come from all bags, labels only
        from the training folds.
    bandwidth_scale : sequence of float, default (0.5, 0.75, 1, 1.25, 1.5)
    n_landmarks : sequence of int, default (30, 60, 90)
        Left alone where a model's landmarks are given as an array.
    kernel : sequence of str or Kernel, optional
        Kernels to try in place of each model's own, such as ["rbf", "additive"].
    method : str or None, default "laplace"
        How Bayesian candidates are fitted; `best` keeps its own method. None fits each by its
        own.
    score : {"nll", "mse"}, default "nll"
        What is to be small. With "nll" models without a predictive density come last, in the
        order of their mse.
    refine : None (default), "bandwidth" or "ard"
        Then search on from the best candidate of each model, its landmarks held: for a better
        bandwidth, or for one length scale per feature (automatic relevance determination); of
        a kernel given as an object, for a factor on all its bandwidths, or for all that it can
        learn. The estimator carries the result as `bandwidth` or in its `kernel`, and the
        landmarks as an array. Each step
        embeds the bags anew, and the held-out bags are used many times: with few of them the
        score of a refined row flatters it.
    seed : int, default 0
    progress : bool, optional
        None tells on stderr, every ten seconds, where it is; True tells of each candidate, False
        nothing.
    **options
        Options of the Bayesian candidates' `fit`, such as draws=300 for short chains.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError, TypeError
        Unusable bags, labels or settings; neither or both of `validation` and `cv`.
    """
    import pandas as pd

    if (validation is None) == (cv is None):
        raise ValueError("give validation=(bags, y) or cv=folds, and not both")
    check_seed(seed, "seed")
    n_landmarks, bandwidth_scale = _checked_grid(n_landmarks, bandwidth_scale)
    if score not in ("nll", "mse"):
        raise ValueError(f"score must be 'nll' or 'mse', found {score!r}")
    if refine not in (None, "bandwidth", "ard"):
        raise ValueError(f"refine must be None, 'bandwidth' or 'ard', found {refine!r}")
    models = _by_name([BDR()] if models is None else models)
    kernels = _checked_kernels(kernel)
    for name, model in models.items():
        if not hasattr(model, "fit_features") or not hasattr(model, "bandwidth_scale"):
            raise TypeError(
                f"{name} cannot be tuned: give models on mean embeddings, such as BDR(), BLR() or "
                "RBFNetwork()"
            )
        model.check_parameters()
        methods = getattr(model, "methods", None)
        if method is not None and methods is not None and method not in methods:
            raise ValueError(f"{name} has no method {method!r}; there are: {', '.join(methods)}")
    task = _Task.of(bags, y, validation, cv, models, seed, options)

    rows: list[dict[str, Any]] = []
    candidates: list[tuple[Any, Any]] = []

    def enter(name, candidate, embedded, **columns):
        training, held = embedded
        rows.append(
            {
                "model": name,
                **({} if kernel is None else {"kernel": _kernel_name(candidate.kernel)}),
                "n_landmarks": len(training.landmarks),
                "bandwidth_scale": candidate.bandwidth_scale,
                "bandwidth": training.bandwidth,
                **task.scores(candidate, training, held, method),
                **columns,
            }
        )
        candidates.append((candidate, training))

    def ranked():
        """The table, best first, and the row of each model's best candidate."""
        # Models without a density have NaN for nll, which sorts last.
        by = ["nll", "mse"] if score == "nll" else ["mse"]
        table = pd.DataFrame(rows).sort_values(by, kind="stable")
        return table, {name: row for row, name in table["model"].drop_duplicates().items()}

    new = {} if refine is None else {"refined": False}
    at = ""

    def telling(text):
        nonlocal at
        at = text
        return status(text, bool(progress))

    with status("Tuning", progress is None, after=10, detail=lambda: at):
        for tried, n, scale in product(kernels, n_landmarks, bandwidth_scale):
            embedded = {}
            for name, model in models.items():
                candidate = clone(model).set_params(bandwidth_scale=scale, random_state=seed)
                if tried is not None:
                    candidate.set_params(kernel=tried)
                if isinstance(model.landmarks, str):
                    candidate.set_params(n_landmarks=n)
                elif n != n_landmarks[0]:
                    continue
                with telling(f"{name}, {n} landmarks, bandwidth x {scale:g}"):
                    view = _view(candidate, models.values())
                    key = _embedding_key(view)
                    if key not in embedded:
                        embedded[key] = task.embedded(view)
                    enter(name, candidate, embedded[key], **new)
        if refine is not None:
            for name, row in ranked()[1].items():
                with telling(f"{name}, search for {refine}"):
                    candidate, training = candidates[row]
                    candidate = _refined(task, candidate, training, refine, method, score)
                    enter(name, candidate, task.embedded(candidate), refined=True)
    table, best_row = ranked()
    return Tuned(
        candidates[table.index[0]][0],
        {name: candidates[best_row[name]][0] for name in models},
        table.reset_index(drop=True),
    )


@dataclass(frozen=True)
class _Task:
    """Bags to learn from and bags to predict."""

    bags: Bags
    y: np.ndarray
    held_bags: Bags | None  # None: the training bags, by folds
    held_y: np.ndarray
    splits: list  # of (training, held-out) indices
    seed: int
    options: dict  # of the Bayesian candidates' fits
    chosen: dict = field(default_factory=dict)  # landmarks, which no bandwidth changes

    @classmethod
    def of(cls, bags, y, validation, cv, models, seed, options):
        classes = any(is_classifier(model) for model in models.values())
        several = all(isinstance(model, InverseBDRClassifier) for model in models.values())
        check = partial(check_classes, several=several) if classes else check_labels
        bags = as_bags(bags)
        y = check(bags, y)
        if validation is None:
            folds = shuffled_folds(cv, y, classes, seed)
            splits = checked_splits(folds.split(np.arange(len(y)), y), y)
            return cls(bags, y, None, y, splits, seed, options)
        held, held_y = checked_validation(validation, bags, check)
        splits = [(np.arange(len(y)), np.arange(len(held_y)))]
        return cls(bags, y, held, held_y, splits, seed, options)

    def embedded(self, model):
        """Training features of a model, and the embedding of the held-out bags."""
        if isinstance(model.landmarks, str) and _has_landmarks(model):
            kernel = resolve_kernel(model.kernel, model.bandwidth, self.bags, seed=self.seed)
            units = landmark_units(kernel, self.bags, self.seed)
            seen = None if units is None else tuple(units)
            parts = tuple(summands(kernel, self.bags.n_features))
            key = (model.landmarks, model.n_landmarks, seen, parts)
            if key not in self.chosen:
                self.chosen[key] = landmarks_of_kernel(
                    kernel, self.bags, model.n_landmarks, method=model.landmarks, seed=self.seed
                )
            model = clone(model).set_params(landmarks=self.chosen[key])
        training = model.training_features(self.bags, seed=self.seed)
        if self.held_bags is None:
            return training, training.embedding
        return training, model.embed(self.held_bags, training)

    def scores(self, model, training, held, method):
        """Mean held-out NLL and MSE of a candidate over the splits."""
        bayesian = "method" in model.get_params()
        if method is not None and bayesian:
            model = clone(model).set_params(method=method)
        options = {"seed": self.seed, **(self.options if bayesian else {})}
        scores = []
        # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
        with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
            # How good an approximation is for a candidate, the held-out labels tell.
            warnings.simplefilter("ignore", UserWarning)
            for train, test in self.splits:
                fitted = clone(model).fit_features(training.take(train), self.y[train], **options)
                scores.append(_scores(fitted, held.take(test), self.held_y[test]))
        return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}


def shuffled_folds(cv: Any, y: Array, classes: bool, seed: int) -> Any:
    """A splitter; of a number of folds one that shuffles, as bags may be sorted by size."""
    check_folds(cv, len(y))
    if not isinstance(cv, (int, np.integer)):
        return check_cv(cv, y, classifier=classes)
    kind = StratifiedKFold if classes else KFold
    return kind(cv, shuffle=True, random_state=seed)


def _scores(fitted, embedding, y):
    if not hasattr(fitted, "predictive_features"):
        return {"nll": np.nan, "mse": mse(y, fitted.predict_features(embedding))}
    predictive = fitted.predictive_features(embedding)
    nll = -predictive.log_prob(y).mean()
    if is_classifier(fitted):
        away = predictive.probabilities - (y[:, None] == fitted.classes_)
        return {"nll": nll, "mse": float(np.mean(np.sum(away**2, axis=1) / 2))}
    return {"nll": nll, "mse": mse(y, predictive.mean)}


def _refined(task, candidate, training, refine, method, score):
    """The candidate with better bandwidths, by a search from its own with fixed landmarks."""
    kernel = training.kernel
    by_name = isinstance(candidate.kernel, str) and hasattr(kernel, "lengths")
    model = clone(candidate).set_params(bandwidth_scale=1.0)
    if not by_name:
        model.set_params(bandwidth="scaled")  # the kernel has its own
    if _has_landmarks(model):
        model.set_params(landmarks=training.landmarks)
    own = getattr(model, "method", None) if method is None else method
    quick = "exact" if own == "exact" else "optimize"  # no draws: smooth, and the quickest

    def at(steps):
        if not by_name:
            if refine == "bandwidth":
                return clone(model).set_params(kernel=kernel.scaled(float(np.exp(steps[0]))))
            changed = kernel.with_log_parameters(kernel.log_parameters + steps)
            return clone(model).set_params(kernel=changed)
        # One step for all columns leaves a number a number.
        factor = np.exp(steps if refine == "ard" else steps[0])
        return clone(model).set_params(bandwidth=kernel.lengths * factor)

    def loss(steps):
        trial = at(steps)
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
        bounds=[(-_FARTHEST, _FARTHEST)] * n_steps,
        options={
            "initial_simplex": np.vstack([start, _FIRST_STEP * np.eye(n_steps)]),
            "xatol": _LOG_TOLERANCE,
            "fatol": _SCORE_TOLERANCE,
            "maxfev": 100 * n_steps,
        },
    )
    return at(found.x)


def _checked_grid(n_landmarks, bandwidth_scale):
    """The grid as tuples, once every entry is known to be of use."""
    for name, values, check in (
        ("n_landmarks", n_landmarks, check_counts),
        ("bandwidth_scale", bandwidth_scale, check_positive),
    ):
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(f"{name} must be a sequence of numbers to try, found {values!r}")
        if len(values) == 0:
            raise ValueError(f"{name} is empty: give at least one number to try")
        for value in values:
            check(**{name: value})
    return tuple(n_landmarks), tuple(bandwidth_scale)


def _checked_kernels(kernels):
    """Kernels to try; None stands for each model's own."""
    if kernels is None:
        return (None,)
    if isinstance(kernels, (str, Kernel)) or not np.iterable(kernels) or len(kernels) == 0:
        raise TypeError(f"kernel must be a sequence of kernels to try, found {kernels!r}")
    for kernel in kernels:
        check_kernel(kernel)
    return tuple(kernels)


def _kernel_name(kernel):
    return kernel if isinstance(kernel, str) else repr(kernel)


def _by_name(models):
    """Models by name; those of a list by their class, numbered where it comes again."""
    if not isinstance(models, (list, tuple, dict)):
        raise TypeError(f"models must be a list or a dict of estimators, found {models!r}")
    if not models:
        raise ValueError("models is empty: give at least one estimator")
    if isinstance(models, dict):
        return models
    names = [type(model).__name__ for model in models]
    numbered = [
        f"{name} {names[: k + 1].count(name)}" if names.count(name) > 1 else name
        for k, name in enumerate(names)
    ]
    return dict(zip(numbered, models, strict=True))


def _map_key(model):
    """What a model's feature map is made of, besides landmarks and bandwidth."""
    kernel = model.kernel if isinstance(model.kernel, str) else str(kernel_config(model.kernel))
    return kernel, getattr(model, "features", "landmarks"), getattr(model, "estimator", None)


def _has_landmarks(model):
    """Whether the rows that the embedding is made with are points, not frequencies."""
    return getattr(model, "features", "landmarks") == "landmarks"


def _covariance(model):
    """Within-bag covariance that a model's training features hold; None for none."""
    return getattr(model, "covariance", None)


def _covariates(model):
    """Columns of the bags' metadata that a model takes; None for none."""
    return getattr(model, "covariates", None)


def _view(model, models):
    """The model whose embedding a candidate can use: its own, or a fellow's with a covariance.

    A model that needs no within-bag covariance takes one along, so that both embed once.
    """
    if _covariance(model) is not None:
        return model
    shared = ("n_landmarks", "landmarks", "bandwidth", "bandwidth_scale")
    for fellow in models:
        if _covariance(fellow) is not None and _map_key(fellow) == _map_key(model):
            return clone(fellow).set_params(
                **{name: getattr(model, name) for name in shared}, covariates=_covariates(model)
            )
    return model


def _embedding_key(model):
    """What an embedding depends on besides the bags, to look it up by."""
    settings = [model.landmarks, model.bandwidth]
    texts = [s if isinstance(s, str) else np.asarray(s).tobytes() for s in settings]
    covariance = _covariance(model)
    tau = model.tau if covariance == "identity" else None
    return *texts, _map_key(model), covariance, tau, tuple(_covariates(model) or ())
