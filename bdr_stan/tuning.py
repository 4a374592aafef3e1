"""Choose bandwidth, landmarks and model by how well held-out labels are predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.bags import BagsLike
from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.estimators.bdr import BDR
from bdr_stan.estimators.validation import check_choice, check_positive
from bdr_stan.kernels import Kernel, check_kernel
from bdr_stan.progress import Share, status
from bdr_stan.tuning_embeddings import EmbeddingTask
from bdr_stan.tuning_task import Candidate, Search, TotalsTask, with_method
from bdr_stan.types import ArrayLike, DataFrame, check_counts, check_flags, check_seed

# Law et al. (2018), supplement: the grid of their experiments.
BANDWIDTH_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
N_LANDMARKS = (30, 60, 90)
# Scores of training labels.
EVIDENCES = ("bound", "evidence")


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
        One row per candidate, best first: model, kernel if several are tried, n_landmarks,
        bandwidth_scale, bandwidth, nll (mean negative log predictive density of held-out labels;
        NaN for models without one), mse (units of y squared; for classifiers half the squared
        distance of the probabilities, for two classes of the second's). With `refine` also refined,
        whether a search set the bandwidth. With score "evidence" also evidence, the log evidence of
        all labels in `y` at the most probable sigma, rho, ..., plus the log prior density of these
        without its constant. For models of totals, instead of bandwidth, bound (the variational
        lower bound of the log evidence) and evidence (its Laplace approximation) of the training
        labels, means over the splits: each fit has one, the other is NaN; bandwidth_scale is NaN
        if the model learns its kernel.

    Examples
    --------
    >>> from bdr_stan import RBFNetwork, tune
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> tuned = tune(bags, y, models=[RBFNetwork()], cv=4, n_landmarks=[1, 10], bandwidth_scale=[1])
    >>> tuned.best.fit(bags, y).predict(bags[:2]).shape
    (2,)
    """

    best: BagEstimator
    best_of: dict[str, BagEstimator]
    table: "DataFrame"


def tune(
    bags: BagsLike,
    y: ArrayLike,
    *,
    models: Sequence[BagEstimator] | dict[str, BagEstimator] | None = None,
    trials: ArrayLike | str | None = None,
    exposure: ArrayLike | str | None = None,
    offset: ArrayLike | str | None = None,
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

    Each combination of bandwidth and landmarks is embedded once for all models and folds. Models of
    totals, `AggregateRegressor`, are fitted to the points of each fold, and may be chosen by the
    evidence of the training labels instead.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
        Or `Samples`, or a dict of bags, for models that support several samples per bag, with `cv`.
        All samples then have the same number of landmarks and bandwidth scale.
    y : array, shape (n,)
        Label of each bag, see `fit`.
    models : list of estimators or dict name -> estimator, default ``[BDR()]``
        In a list a model is named by its class, numbered if there are several of the class:
        "BDR 1", "BDR 2". All on mean embeddings or all of totals; to try links of totals, give one
        model per link.
    trials, exposure, offset : array, shape (n,), or str, optional
        For binomial totals and the families of `BDR`, as in their `fit`. For models on mean
        embeddings with `validation`: a column of the metadata of all bags.
    validation : (bags, y), or (bags, y, trials), optional
        Held-out bags, their labels and, if `trials` is an array, their trials.
    cv : int or scikit-learn splitter, optional
        Cross-validation instead: a number of folds, shuffled by `seed`, or a splitter, for example
        `SpatialBlocks`. Give exactly one of the two, or none to score the training labels.
        Landmarks, bandwidth and within-bag covariance then use all bags, labels only the training
        folds.
    bandwidth_scale : sequence of float, default (0.5, 0.75, 1, 1.25, 1.5)
        Ignored if a model learns its kernel.
    n_landmarks : sequence of int, default (30, 60, 90)
        Ignored if a model's landmarks are given as an array.
    kernel : sequence of str or Kernel, optional
        Kernels to try instead of each model's own, for example ["rbf", "additive"].
    method : str or None, default "laplace"
        How Bayesian candidates are fitted; `best` keeps the method of the model. None fits each
        by the method of its model.
    score : {"nll", "mse", "bound", "evidence"}, default "nll"
        Ranks the candidates. With "nll" models without a predictive density come last, in the
        order of their mse. "evidence" and, for models of totals with method "vb", "bound" are of
        the training labels and need no held-out bags. "evidence" is for models of totals, BLR, BDR,
        Shrinkage and their classifiers.
    refine : None (default), "bandwidth" or "ard"
        Continue from the best candidate of each model, its landmarks fixed: with a search for a
        better bandwidth, or for one length scale per feature (automatic relevance determination);
        for a kernel given as an object, for a factor on all its bandwidths, or for all its
        parameters. The estimator has the result as `bandwidth` or in its `kernel`, and the
        landmarks as an array. Each step embeds the bags again. By score "evidence" the search
        follows its slope, in differences with the other scales fixed at their maximum. By the other
        scores it uses the held-out bags many times: with few of them the score of a refined row is
        too optimistic. Not for models of totals, which learn their kernels in `fit`, nor for bags
        with several samples.
    seed : int, default 0
    progress : bool, optional
        None reports progress on stderr every ten seconds, True each candidate, False nothing.
    **options
        Options of the Bayesian candidates' `fit`, for example draws=300 for short chains.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError, TypeError
        Invalid bags, labels or settings; neither or both of `validation` and `cv`.

    Notes
    -----
    By "bound" and "evidence" Law et al. (2018, aggregate outputs) choose the settings of
    VBAgg-Obj, by "evidence" and its slope Law et al. (2018, section 3.1) the bandwidth of BLR: all
    labels are used for training, but a wrong model may have the higher evidence.

    ``with joblib.parallel_config("dask"):`` fits the splits of a candidate in parallel, on a
    cluster.

    Examples
    --------
    >>> from bdr_stan import BLR, RBFNetwork, tune
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> models = {"Bayesian": BLR(method="exact"), "ridge": RBFNetwork()}
    >>> tuned = tune(bags, y, models=models, cv=4, n_landmarks=[1, 10], method="exact")
    >>> tuned.table.columns.tolist()
    ['model', 'n_landmarks', 'bandwidth_scale', 'bandwidth', 'nll', 'mse']
    >>> tuned.best_of["ridge"]
    RBFNetwork(...)
    """
    models = _by_name([BDR()] if models is None else models)
    are_totals = _are_models_of_totals(models)
    check_choice(score, "score", ("nll", "mse", *(EVIDENCES if are_totals else EVIDENCES[1:])))
    if (validation is None) == (cv is None) and (score not in EVIDENCES or cv is not None):
        raise ValueError("give validation=(bags, y) or cv=folds, and not both")
    check_seed(seed, "seed")
    check_flags(progress=progress is None or progress)
    n_landmarks, bandwidth_scale = _checked_grid(n_landmarks, bandwidth_scale)
    if refine not in (None, "bandwidth", "ard"):
        raise ValueError(f"refine must be None, 'bandwidth' or 'ard', found {refine!r}")
    kernels = _checked_kernels(kernel)
    for name, model in models.items():
        methods = getattr(model, "methods", None)
        if method is not None and methods is not None and method not in methods:
            raise ValueError(f"{name} has no method {method!r}; there are: {', '.join(methods)}")
        with_method(model, method).check_parameters()
    search = Search(
        models, kernels, n_landmarks, bandwidth_scale, method, score, refine, seed, options
    )
    label_data = {"trials": trials, "exposure": exposure, "offset": offset}
    kind: Any = TotalsTask if are_totals else EmbeddingTask
    task = kind.prepare(search, bags, y, label_data, validation, cv)

    candidates: list[Candidate] = []
    n_candidates = sum(len(names) for _, names in task.combinations())
    share, position = Share(), ""

    def reporting(text):
        nonlocal position
        n = len(candidates)
        share.update(n, n_candidates)
        position = f"candidate {n + 1} of {n_candidates} ({text})" if n < n_candidates else text
        return status(position + share.time_left(), bool(progress))

    with status("Tuning", progress is None, after=10, detail=lambda: position + share.time_left()):
        for candidate in task.candidates(reporting):
            candidates.append(candidate)  # noqa: PERF402 - reports of progress count them
        if refine is not None:
            for name, row in _best_rows(_ranked(candidates, score)).items():
                with reporting(f"{name}, search for {refine}"):
                    candidates.append(task.refined(candidates[row]))
    table = _ranked(candidates, score)
    best_rows = _best_rows(table)
    return Tuned(
        candidates[table.index[0]].estimator,
        {name: candidates[best_rows[name]].estimator for name in models},
        table.reset_index(drop=True).drop(columns=["refined"] if refine is None else []),
    )


def _ranked(candidates: Sequence[Candidate], score: str) -> "DataFrame":
    """Table of candidates, best first; its index has their places in the list."""
    import pandas as pd

    rows = []
    for candidate in candidates:
        name, kernel, _, columns, _, refined = candidate
        text = kernel if isinstance(kernel, str) else repr(kernel)
        kernels = {} if kernel is None else {"kernel": text}
        rows.append({"model": name, **kernels, **columns, "refined": refined})
    # Models without a density have NaN for nll, which sorts last.
    by = ["nll", "mse"] if score == "nll" else [score]
    ascending = score not in EVIDENCES
    return pd.DataFrame(rows).sort_values(by, kind="stable", ascending=ascending)


def _best_rows(table: "DataFrame") -> dict[str, Any]:
    """Place in the list of the best candidate of each model, from the table of `_ranked`."""
    return {name: row for row, name in table["model"].drop_duplicates().items()}


def _checked_grid(n_landmarks, bandwidth_scale):
    """The grid as tuples; raises for invalid entries."""
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
    """Kernels to try; None is the kernel of each model."""
    if kernels is None:
        return (None,)
    if isinstance(kernels, (str, Kernel)) or not np.iterable(kernels) or len(kernels) == 0:
        raise TypeError(f"kernel must be a sequence of kernels to try, found {kernels!r}")
    for kernel in kernels:
        check_kernel(kernel)
    return tuple(kernels)


def _are_models_of_totals(models):
    """Whether models are of totals; raises if they cannot be tuned together."""
    are_totals = [isinstance(model, AggregateRegressor) for model in models.values()]
    for name, model in models.items():
        on_embeddings = hasattr(model, "fit_features") and hasattr(model, "bandwidth_scale")
        if not on_embeddings and not isinstance(model, AggregateRegressor):
            raise TypeError(
                f"{name} cannot be tuned: give models on mean embeddings, such as BDR(), BLR() or "
                "RBFNetwork(), or of totals, AggregateRegressor()"
            )
    if any(are_totals) and not all(are_totals):
        raise TypeError(
            "models must be all on mean embeddings or all of totals: tune AggregateRegressor by "
            "itself"
        )
    return all(are_totals)


def _by_name(models):
    """Models by name; models in a list by their class, numbered if it occurs again."""
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
