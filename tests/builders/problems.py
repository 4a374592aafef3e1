"""One learning problem for every estimator: bags, labels of the kind it takes, a quick fit."""

import inspect
import warnings

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from bdr_stan import Bags
from bdr_stan.aggregate.likelihoods import likelihood_named

SHORT = {"chains": 2, "warmup": 150, "draws": 100}
NAMES = ["x", "z"]


def location_bags(n=50, seed=5):
    """Bags of 1 to 40 points of two named columns, around centres of their own; the centres."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.r_[np.ones(6, int), rng.integers(2, 41, n - 6)])
    centres = rng.normal(size=n)
    points = np.repeat(centres, sizes)[:, None] + rng.normal(size=(sizes.sum(), 2))
    return Bags.from_points(points, sizes=sizes, features=NAMES), centres


def counts_points(model):
    """Whether a model's labels are totals over the points of a bag, and so grow with its size."""
    return hasattr(model, "predict_points")


def labels_for(model, bags, centres):
    """Labels that say where a bag's centre is, as this estimator takes them."""
    y = 3 + centres
    if is_classifier(model):
        return np.where(y > 3, "high", "low")
    if not counts_points(model):
        return y
    totals = np.maximum(y, 0.1) * bags.sizes
    return np.round(totals) if likelihood_named(model.likelihood).is_count else totals


def supervised(model, bags, centres):
    """Arguments of `fit`: bags and labels, or bags alone."""
    if is_outlier_detector(model):
        return (bags,)
    return bags, labels_for(model, bags, centres)


def quick(model):
    """A seed, and short chains for those that have chains."""
    known = inspect.signature(model.fit).parameters
    forwarded = inspect.Parameter.VAR_KEYWORD in {p.kind for p in known.values()}
    options = {"seed": 1, **SHORT}
    return {name: value for name, value in options.items() if forwarded or name in known}


def beside(model, bags):
    """What `fit` needs beside bags and labels: of joint models surveys, of ten of these bags."""
    if "surveys" not in inspect.signature(model.fit).parameters:
        return {}
    places = bags[:10]
    low_to_high = np.argsort(np.argsort([np.asarray(bag)[:, 0].mean() for bag in places]))
    return {"surveys": places, "positives": 3 + low_to_high, "examined": np.full(len(places), 20)}


def quiet_fit(model, bags, centres):
    """The model, fitted with short chains, which mix badly and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        given = supervised(model, bags, centres)
        return model.fit(*given, **beside(model, bags), **quick(model))


def predictions(model, bags):
    """The finest that the model says of bags: probabilities, distances from a margin, or labels."""
    for method in ("predict_proba", "decision_function", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(bags)
    raise TypeError(f"{model} predicts nothing")


def rates(model, points):
    """Mean rate at each point, of models with a posterior and without."""
    found = model.predict_points(points)
    return found if isinstance(found, np.ndarray) else found.mean
