"""Choose bandwidth, landmarks and model by the held-out predictive density."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv

from bdr_stan.bags import as_bags, check_labels
from bdr_stan.embedding import Embedding, embed
from bdr_stan.landmarks import choose_landmarks
from bdr_stan.metrics import mse
from bdr_stan.models.bdr import BDR
from bdr_stan.toolchain.progress import status

# Law et al. (2018), supplement: the grid of their experiments.
BANDWIDTH_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
N_LANDMARKS = (30, 60, 90)


@dataclass(frozen=True)
class Tuned:
    """Outcome of `tune`.

    Attributes
    ----------
    best : estimator, not fitted
        The model with the lowest held-out NLL, its settings filled in.
    table : pandas.DataFrame
        One row a candidate, best first: model, n_landmarks, bandwidth_scale, bandwidth, nll
        (mean negative log predictive density of held-out labels), mse (units of y squared).
    """

    best: object
    table: object


def tune(
    bags,
    y,
    *,
    models=None,
    validation=None,
    cv=None,
    bandwidth_scale=BANDWIDTH_SCALES,
    n_landmarks=N_LANDMARKS,
    method="laplace",
    seed=0,
    progress=False,
):
    """Choose among models and settings by the negative log predictive density of held-out bags.

    Every (bandwidth, landmarks) is embedded once, whatever the number of models and folds.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p)
    y : array, shape (n,)
    models : list of estimators, default ``[BDR()]``
    validation : (bags, y), optional
        Held-out bags and labels.
    cv : int or scikit-learn splitter, optional
        Cross-validation instead; give exactly one of the two. Landmarks, bandwidth and
        within-bag covariance then come from all bags, labels only from the training folds.
    bandwidth_scale : sequence of float, default (0.5, 0.75, 1, 1.25, 1.5)
    n_landmarks : sequence of int, default (30, 60, 90)
        Left alone where a model's landmarks are given as an array.
    method : str or None, default "laplace"
        How candidates are fitted; `best` keeps its own method. None fits each by its own.
    seed : int, default 0
    progress : bool, default False

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError, TypeError
        Unusable bags, labels or settings; neither or both of `validation` and `cv`.
    """
    import pandas as pd

    bags = as_bags(bags)
    y = check_labels(bags, y)
    if (validation is None) == (cv is None):
        raise ValueError("give validation=(bags, y) or cv=folds, and not both")
    if validation is not None:
        held_bags = as_bags(validation[0])
        held_y = check_labels(held_bags, validation[1])
        splits = [(np.arange(len(y)), None)]
    else:
        held_y = y
        splits = list(check_cv(cv).split(np.arange(len(y)), y))
    models = [BDR()] if models is None else list(models)
    for model in models:
        model._check_parameters()

    rows, candidates, chosen = [], [], {}
    for n, scale in product(n_landmarks, bandwidth_scale):
        embedded = {}
        for model in models:
            candidate = clone(model).set_params(bandwidth_scale=scale, random_state=seed)
            if isinstance(model.landmarks, str):
                candidate.set_params(n_landmarks=n)
            text = f"{type(model).__name__}, {n} landmarks, bandwidth x {scale:g}"
            with status(text, progress):
                view = _view(candidate, models)
                key = (str(view.landmarks), str(view.bandwidth), str(view._covariance()))
                if key not in embedded:
                    features = _features(view, bags, chosen, seed)
                    held = features.embedding
                    if validation is not None:
                        held = embed(held_bags, features.landmarks, features.bandwidth)
                    embedded[key] = features, held
                features, held = embedded[key]
                scores = _held_out_scores(
                    candidate, features, y, held, held_y, splits, method, seed
                )
            candidates.append(candidate)
            rows.append(
                {
                    "model": type(model).__name__,
                    "n_landmarks": len(features.landmarks),
                    "bandwidth_scale": scale,
                    "bandwidth": features.bandwidth,
                    **scores,
                }
            )
    table = pd.DataFrame(rows).sort_values("nll", kind="stable")
    return Tuned(candidates[table.index[0]], table.reset_index(drop=True))


def _view(model, models):
    """The model whose embedding a candidate can use: its own, or a fellow's with a covariance.

    A model that needs no within-bag covariance takes one along, so that both embed once.
    """
    if model._covariance() is not None:
        return model
    shared = ("n_landmarks", "landmarks", "bandwidth", "bandwidth_scale")
    for fellow in models:
        if fellow._covariance() is not None:
            return clone(fellow).set_params(**{name: getattr(model, name) for name in shared})
    return model


def _features(model, bags, chosen, seed):
    """Training features; `chosen` keeps the landmarks, which no bandwidth changes."""
    if isinstance(model.landmarks, str):
        key = (model.landmarks, model.n_landmarks)
        if key not in chosen:
            chosen[key] = choose_landmarks(
                bags, model.n_landmarks, method=model.landmarks, seed=seed
            )
        model = clone(model).set_params(landmarks=chosen[key])
    return model.training_features(bags, seed=seed)


def _held_out_scores(model, features, y, held, labels, splits, method, seed):
    """Mean held-out NLL and MSE of a candidate over the splits."""
    nll, error = [], []
    for train, test in splits:
        fitted = clone(model)
        if method is not None:
            fitted.set_params(method=method)
        fitted.fit_features(_subset(features, train), y[train], seed=seed)
        chosen = np.arange(len(labels)) if test is None else test
        part = Embedding(held.sizes[chosen], held.mean[chosen], None)
        predictive = fitted.predictive_features(part)
        nll.append(-predictive.log_prob(labels[chosen]).mean())
        error.append(mse(labels[chosen], predictive.mean))
    return {"nll": float(np.mean(nll)), "mse": float(np.mean(error))}


def _subset(features, train):
    embedding = features.embedding
    part = Embedding(embedding.sizes[train], embedding.mean[train], embedding.covariance)
    return replace(features, embedding=part, ids=features.ids[train])
