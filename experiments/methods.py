"""The methods of Law et al. (2018): how each is tuned on validation bags, fitted and scored."""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from bdr_stan import BDR, BLR, InverseBDR, RBFNetwork, Shrinkage, tune
from experiments.papers import FreqShrinkage
from experiments.papers.shrinkage_c import ShrinkageC

# All columns of the papers' data share one unit.
METHODS = {
    "RBF network": RBFNetwork(bandwidth="median"),
    "Freq-shrinkage": FreqShrinkage(bandwidth="median"),
    "Freq-shrinkage to 0": FreqShrinkage(bandwidth="median", target="zero"),
    "BLR": BLR(bandwidth="median"),
    "Shrinkage": Shrinkage(bandwidth="median"),
    "Shrinkage C": ShrinkageC(bandwidth="median"),
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

    `FreqShrinkage` has its amount of shrinkage by leave-one-out while bandwidth and landmarks are
    chosen, then from the validation bags.

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
            held_out = {"validation": validation} if isinstance(model, FreqShrinkage) else {}
            best.fit(*train, seed=seed, **held_out)
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
    text = f"{model.n_landmarks} landmarks, bandwidth x {model.bandwidth_scale:g}"
    if isinstance(model, FreqShrinkage):
        return f"{text}, shrinkage {model.shrinkage_:.3g}"
    return text


def predict(model, bags):
    """Predictive distribution where the method has one, else its point predictions."""
    return model.predictive(bags) if hasattr(model, "predictive") else Point(model.predict(bags))


def scores(predicted, y):
    """MSE and NLL of predictions; the NLL is NaN without a density."""
    return tuple(float(losses.mean()) for losses in losses_of(predicted, y))


def standard_errors(predicted, y):
    """Standard errors of the `scores`, over bags."""
    return tuple(float(losses.std(ddof=1) / np.sqrt(len(y))) for losses in losses_of(predicted, y))


def losses_of(predicted, y):
    """Squared error and negative log density of each bag, (n,) each; NaN without a density."""
    has_density = hasattr(predicted, "log_prob")
    return (predicted.mean - y) ** 2, -predicted.log_prob(y) if has_density else np.full(
        len(y), np.nan
    )
