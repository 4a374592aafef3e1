"""Choose bandwidth, landmarks and model by how well held-out labels are predicted."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier

from bdr_stan.bags import Bags, BagsLike, as_bags, check_classes, check_labels
from bdr_stan.embedding.landmarks import landmark_units, landmarks_of_kernel
from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.estimators.bdr import BDR
from bdr_stan.estimators.inverse import InverseBDRClassifier
from bdr_stan.estimators.validation import (
    check_choice,
    check_counts,
    check_positive,
    check_seed,
    checked_splits,
    checked_validation,
)
from bdr_stan.kernels import Kernel, check_kernel, kernel_config, resolve_kernel, summands
from bdr_stan.metrics import mse
from bdr_stan.model_selection import shuffled_folds
from bdr_stan.progress import Share, status
from bdr_stan.threads import limited_blas
from bdr_stan.tuning_totals import TotalsTask, check_evidence
from bdr_stan.types import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

# Law et al. (2018), supplement: the grid of their experiments.
BANDWIDTH_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
N_LANDMARKS = (30, 60, 90)
# Scores of training labels.
EVIDENCES = ("bound", "evidence")

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
        also refined, whether a search set the bandwidth. Of models of totals there is no
        bandwidth, bandwidth_scale is NaN where the model learns its kernel, and there are bound
        (the variational lower bound of the log evidence) and evidence (its value by Laplace's
        method) of the training labels, means over the splits: each fit has one of them, the other
        is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import RBFNetwork, tune
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(30, 1)) for mean in y]
    >>> tuned = tune(bags, y, models=[RBFNetwork()], cv=4, n_landmarks=[1, 10], bandwidth_scale=[1])
    >>> tuned.table[["model", "n_landmarks", "bandwidth_scale"]]
            model  n_landmarks  bandwidth_scale
    0  RBFNetwork           10                1
    1  RBFNetwork            1                1
    >>> tuned.best.fit(bags, y).predict(bags[:2]).shape
    (2,)
    """

    best: BagEstimator
    best_of: dict[str, BagEstimator]
    table: "pd.DataFrame"


def tune(
    bags: BagsLike,
    y: ArrayLike,
    *,
    models: Sequence[BagEstimator] | dict[str, BagEstimator] | None = None,
    trials: ArrayLike | str | None = None,
    validation: Sequence[Any] | None = None,
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

    Every (bandwidth, landmarks) is embedded once, whatever the number of models and folds. Models
    of totals, `AggregateRegressor`, are fitted to each fold from its points on, and may be chosen
    by the evidence of the training labels too.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    y : array, shape (n,)
    models : list of estimators or dict name -> estimator, default ``[BDR()]``
        In a list a model is named by its class, followed by its place if there are several of
        the class: "BDR 1", "BDR 2". All on mean embeddings or all of totals; to try links of these,
        give a model with each.
    trials : array, shape (n,), or str, optional
        Of binomial totals, as for `AggregateRegressor.fit`.
    validation : (bags, y), or (bags, y, trials), optional
        Held-out bags, their labels and, where `trials` is an array, their trials.
    cv : int or scikit-learn splitter, optional
        Cross-validation instead: a number of folds, shuffled by `seed`, or a splitter such as
        `SpatialBlocks`. Give exactly one of the two, or none to score the training labels.
        Landmarks, bandwidth and within-bag covariance then come from all bags, labels only from
        the training folds.
    bandwidth_scale : sequence of float, default (0.5, 0.75, 1, 1.25, 1.5)
        Left alone where a model learns its kernel.
    n_landmarks : sequence of int, default (30, 60, 90)
        Left alone where a model's landmarks are given as an array.
    kernel : sequence of str or Kernel, optional
        Kernels to try in place of each model's own, such as ["rbf", "additive"].
    method : str or None, default "laplace"
        How Bayesian candidates are fitted; `best` keeps its own method. None fits each by its
        own.
    score : {"nll", "mse", "bound", "evidence"}, default "nll"
        By which candidates are ranked. With "nll" models without a predictive density come last,
        in the order of their mse. "bound" (with method "vb") and "evidence" (with the others) of
        models of totals need no held-out bags.
    refine : None (default), "bandwidth" or "ard"
        Then search on from the best candidate of each model, its landmarks held: for a better
        bandwidth, or for one length scale per feature (automatic relevance determination); of
        a kernel given as an object, for a factor on all its bandwidths, or for all that it can
        learn. The estimator carries the result as `bandwidth` or in its `kernel`, and the
        landmarks as an array. Each step embeds the bags anew, and the held-out bags are used
        many times: with few of them the score of a refined row flatters it. Models of totals
        learn their kernels themselves.
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

    Notes
    -----
    "bound" and "evidence" are what Law et al. (2018, aggregate outputs) choose settings by in
    VBAgg-Obj: no labels are set aside, but a model that is wrong may have the higher evidence.

    The splits of a candidate are fitted side by side where joblib is configured so, such as on a
    cluster, ``with joblib.parallel_config("dask"):``.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR, RBFNetwork, tune
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(30, 1)) for mean in y]
    >>> tuned = tune(
    ...     bags[:30], y[:30],
    ...     models={"Bayesian": BLR(method="exact"), "ridge": RBFNetwork()},
    ...     validation=(bags[30:], y[30:]),
    ...     n_landmarks=[5], bandwidth_scale=[0.1, 1], method="exact",
    ... )
    >>> tuned.table[["model", "bandwidth_scale"]]
          model  bandwidth_scale
    0  Bayesian              1.0
    1  Bayesian              0.1
    2     ridge              1.0
    3     ridge              0.1
    >>> tuned.best
    BLR(bandwidth_scale=1, method='exact', n_landmarks=5, random_state=0)
    """
    import pandas as pd

    models = _by_name([BDR()] if models is None else models)
    of_totals = _are_of_totals(models)
    check_choice(score, "score", ("nll", "mse", *(EVIDENCES if of_totals else ())))
    if (validation is None) == (cv is None) and (score not in EVIDENCES or cv is not None):
        raise ValueError("give validation=(bags, y) or cv=folds, and not both")
    check_seed(seed, "seed")
    n_landmarks, bandwidth_scale = _checked_grid(n_landmarks, bandwidth_scale)
    if refine not in (None, "bandwidth", "ard"):
        raise ValueError(f"refine must be None, 'bandwidth' or 'ard', found {refine!r}")
    kernels = _checked_kernels(kernel)
    for name, model in models.items():
        methods = getattr(model, "methods", None)
        if method is not None and methods is not None and method not in methods:
            raise ValueError(f"{name} has no method {method!r}; there are: {', '.join(methods)}")
        _fitted_by(model, method).check_parameters()
    if of_totals and refine is not None:
        raise ValueError(
            "refine goes with models on mean embeddings: AggregateRegressor learns its kernel "
            "itself, by learn_kernel=True"
        )
    if score in EVIDENCES:
        check_evidence(models, method, score)
    task: Any
    if of_totals:
        task = TotalsTask.prepare(bags, y, trials, validation, cv, models, seed, options)
    elif trials is None:
        task = _Task.prepare(bags, y, validation, cv, models, seed, options)
    else:
        raise ValueError("trials go with models of totals, AggregateRegressor: leave them out")

    rows: list[dict[str, Any]] = []
    candidates: list[tuple[Any, Any]] = []

    def enter(name, kernel, candidate, columns, *training):
        named = {"model": name} if kernel is None else {"model": name, "kernel": _text(kernel)}
        rows.append({**named, **columns, **({} if refine is None else {"refined": False})})
        candidates.append((candidate, training))

    def ranked():
        """The table, best first, and the row of each model's best candidate."""
        # Models without a density have NaN for nll, which sorts last.
        by = ["nll", "mse"] if score == "nll" else [score]
        lowest_first = score not in EVIDENCES
        table = pd.DataFrame(rows).sort_values(by, kind="stable", ascending=lowest_first)
        return table, {name: row for row, name in table["model"].drop_duplicates().items()}

    grid = kernels, n_landmarks, bandwidth_scale
    n_tried = sum(len(names) for _, names in task.tried(models, grid))
    share, at = Share(), ""

    def telling(text):
        nonlocal at
        share.update(len(rows), n_tried)
        at = f"candidate {len(rows) + 1} of {n_tried} ({text})" if len(rows) < n_tried else text
        return status(at + share.time_left(), bool(progress))

    with status("Tuning", progress is None, after=10, detail=lambda: at + share.time_left()):
        for entry in task.entries(models, grid, method, telling):
            enter(*entry)
        if refine is not None:
            for name, row in ranked()[1].items():
                with telling(f"{name}, search for {refine}"):
                    candidate, (training,) = candidates[row]
                    candidate = _refined(task, candidate, training, refine, method, score)
                    columns, training = task.measured(candidate, task.embedded(candidate), method)
                    tried = None if kernel is None else candidate.kernel
                    enter(name, tried, candidate, columns, training)
                    rows[-1]["refined"] = True
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
    held_out_bags: Bags | None  # None: the training bags, by folds
    held_out_y: np.ndarray
    splits: list  # of (training, held-out) indices
    seed: int
    options: dict  # of the Bayesian candidates' fits
    chosen: dict = field(default_factory=dict)  # landmarks, which no bandwidth changes

    @classmethod
    def prepare(cls, bags, y, validation, cv, models, seed, options):
        classes = any(is_classifier(model) for model in models.values())
        several = all(isinstance(model, InverseBDRClassifier) for model in models.values())
        check = partial(check_classes, several=several) if classes else check_labels
        bags = as_bags(bags)
        y = check(bags, y)
        if validation is None:
            folds = shuffled_folds(cv, y, classes, seed)
            splits = checked_splits(folds.split(bags, y), y)
            return cls(bags, y, None, y, splits, seed, options)
        held_out, held_out_y = checked_validation(validation, bags, check)
        splits = [(np.arange(len(y)), np.arange(len(held_out_y)))]
        return cls(bags, y, held_out, held_out_y, splits, seed, options)

    def tried(self, models, grid):
        """Pairs ((kernel, number of landmarks, bandwidth scale), names of models), a list."""
        fixed = [name for name, model in models.items() if not isinstance(model.landmarks, str)]
        return [
            (settings, [name for name in models if name not in fixed or settings[1] == grid[1][0]])
            for settings in product(*grid)
        ]

    def entries(self, models, grid, method, telling):
        """Name, kernel, candidate, its columns in the table and training features, one by one."""
        for (tried, n, scale), names in self.tried(models, grid):
            embedded = {}
            candidates = {name: self.candidate(models[name], tried, n, scale) for name in names}
            for name, candidate in candidates.items():
                with telling(f"{name}, {n} landmarks, bandwidth x {scale:g}"):
                    view = _view(candidate, candidates.values())
                    key = _embedding_key(view)
                    if key not in embedded:
                        embedded[key] = self.embedded(view)
                    columns, training = self.measured(candidate, embedded[key], method)
                yield name, tried, candidate, columns, training

    def candidate(self, model, kernel, n_landmarks, bandwidth_scale):
        """A model with these settings, its kernel by its own name."""
        made = clone(model).set_params(bandwidth_scale=bandwidth_scale, random_state=self.seed)
        if isinstance(model.landmarks, str):
            made.set_params(n_landmarks=n_landmarks)
        if kernel is not None:
            made.set_params(kernel=kernel)
        if hasattr(made, "kernel_for"):
            made.set_params(kernel=made.kernel_for(self.bags))
        return made

    def measured(self, candidate, embedded, method):
        """A candidate's columns in the table, and its training features."""
        training, held_out = embedded
        columns = {
            "n_landmarks": len(training.landmarks),
            "bandwidth_scale": candidate.bandwidth_scale,
            "bandwidth": training.bandwidth,
            **self.scores(candidate, training, held_out, method),
        }
        return columns, training

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
        if self.held_out_bags is None:
            return training, training.embedding
        return training, model.embed(self.held_out_bags, training)

    def scores(self, model, training, held_out, method):
        """Mean held-out NLL and MSE of a candidate over the splits."""
        bayesian = "method" in model.get_params()
        model = _fitted_by(model, method)
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


def _scores_of_split(model, training, held_out, options):
    # Matrices this small gain nothing from BLAS's threads, and lose much on a busy machine.
    with limited_blas(), warnings.catch_warnings():
        # How good an approximation is for a candidate, the held-out labels tell.
        warnings.simplefilter("ignore", UserWarning)
        return _scores(model.fit_features(*training, **options), *held_out)


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


def _text(kernel):
    return kernel if isinstance(kernel, str) else repr(kernel)


def _fitted_by(model, method):
    """A model that is fitted by a method, where it knows methods and this is not None."""
    if method is None or "method" not in model.get_params():
        return model
    return clone(model).set_params(method=method)


def _are_of_totals(models):
    """Whether models are of totals; raises where they cannot be tuned together."""
    of_totals = [isinstance(model, AggregateRegressor) for model in models.values()]
    for name, model in models.items():
        on_embeddings = hasattr(model, "fit_features") and hasattr(model, "bandwidth_scale")
        if not on_embeddings and not isinstance(model, AggregateRegressor):
            raise TypeError(
                f"{name} cannot be tuned: give models on mean embeddings, such as BDR(), BLR() or "
                "RBFNetwork(), or of totals, AggregateRegressor()"
            )
    if any(of_totals) and not all(of_totals):
        raise TypeError(
            "models must be all on mean embeddings or all of totals: tune AggregateRegressor by "
            "itself"
        )
    return all(of_totals)


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
    shared = ("n_landmarks", "landmarks", "bandwidth", "bandwidth_scale", "covariates")
    for fellow in models:
        takes_columns = hasattr(fellow, "covariates") or not _covariates(model)
        if (
            _covariance(fellow) is not None
            and takes_columns
            and _map_key(fellow) == _map_key(model)
        ):
            taken = [name for name in shared if hasattr(fellow, name)]
            return clone(fellow).set_params(**{name: getattr(model, name, None) for name in taken})
    return model


def _embedding_key(model):
    """What an embedding depends on besides the bags, to look it up by."""
    settings = [model.landmarks, model.bandwidth]
    texts = [s if isinstance(s, str) else np.asarray(s).tobytes() for s in settings]
    covariance = _covariance(model)
    tau = model.tau if covariance == "identity" else None
    return *texts, _map_key(model), covariance, tau, tuple(_covariates(model) or ())
