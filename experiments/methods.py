"""The methods of Law et al. (2018): how each is tuned on validation bags, fitted and scored."""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.metrics import mean_squared_error

from bdr_stan import BDR, BLR, InverseBDR, RBFNetwork, Shrinkage, tune

# All columns of the papers' data share one unit.
METHODS = {
    "RBF network": RBFNetwork(bandwidth="median"),
    "BLR": BLR(bandwidth="median"),
    "Shrinkage": Shrinkage(bandwidth="median"),
    "Shrinkage C": Shrinkage(
        bandwidth="median", embedding_prior="convolution", measure_scale="evidence"
    ),
    "BDR": BDR(bandwidth="median"),
    "InverseBDR": InverseBDR(bandwidth="median", method="optimize"),
    "InverseBDR, additive": InverseBDR(kernel="additive", method="optimize"),
}
OPTIMAL = "Optimal"


@dataclass(frozen=True)
class Point:
    """A point prediction, for methods that have no predictive distribution."""

    mean: np.ndarray


def fit_methods(methods, train, validation, *, seed, tune_by="laplace", grid=None, run=None):
    """Tune each method on the validation bags and fit it to the training bags.

    Parameters
    ----------
    methods : dict, name -> estimator; the final fit of methods that sample is by NUTS
    train, validation : (Bags, y)
    seed : int, for landmarks and Stan
    tune_by : "laplace" or "nuts", how candidates of methods that sample are fitted
    grid : dict, arguments of `tune`, to replace the paper's grid
    run : dict, arguments of `fit`, to replace the default chains

    Returns
    -------
    dict, name -> fitted estimator
    """
    candidates = {name: clone(model) for name, model in methods.items()}
    for model in candidates.values():
        if isinstance(model, InverseBDR):  # its mode predicts as well as its draws
            model.set_params(method="optimize")
        elif samples(model):
            model.set_params(method=tune_by)
    start = time.perf_counter()
    tuned = tune(
        *train, models=candidates, validation=validation, method=None, seed=seed, **(grid or {})
    )
    print(f"tuned {len(candidates)} methods in {time.perf_counter() - start:.0f} s", flush=True)
    fitted = {}
    for name, model in methods.items():
        best = tuned.best_of[name]
        start = time.perf_counter()
        if samples(model):
            best.set_params(method="nuts").fit(*train, seed=seed, **(run or {}))
        else:
            best.fit(*train, seed=seed)
        seconds = time.perf_counter() - start
        print(f"{name}: {setting(best)}, fitted in {seconds:.1f} s", flush=True)
        fitted[name] = best
    return fitted


def fewer(data, n):
    """The first n bags of each split, for a quick run."""
    return {split: (bags[:n], y[:n]) for split, (bags, y) in data.items()}


def samples(model):
    return getattr(model, "method", None) == "nuts"


def setting(model):
    return f"{model.n_landmarks} landmarks, bandwidth x {model.bandwidth_scale:g}"


def predict(model, bags):
    """Predictive distribution where the method has one, else its point predictions."""
    return model.predictive(bags) if hasattr(model, "predictive") else Point(model.predict(bags))


def scores(predicted, y):
    """MSE and NLL of predictions; the NLL is NaN without a density."""
    has_density = hasattr(predicted, "log_prob")
    nll = float(-predicted.log_prob(y).mean()) if has_density else np.nan
    return mean_squared_error(y, predicted.mean), nll
