"""What no estimator with such a parameter takes."""

import inspect

import numpy as np
from builders.estimators import ESTIMATORS
from builders.mistakes import BAGS, Y, check_call, labels_of, mistakes
from builders.papers import PAPERS
from builders.problems import beside

from bdr_stan import BLR, MERR, Polynomial

# What no estimator with such a parameter can take.
BAD_VALUES = {
    "n_landmarks": [0, 2.5, "many", None, True],
    "kernel": ["gauss", 3, None],
    "bandwidth": [0, -1.0, np.nan, "wide", None, [1.0, 2.0, 3.0], []],
    "bandwidth_scale": [0, "2", None, np.inf, [1.0, 2.0]],
    "landmarks": ["grid", [[1.0]], [["a", "b"]], 7, [[np.nan, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],
    "covariates": ["population", [1], ["age", "age"], 3],
    "groups": ["state", [1], ["age", "age"], 3, [["age", "state"]]],
    "smooths": ["year", [1], ["age", "age"], 3, [["x", "y", "z"]], [["x", 1]], [[]]],
    "embedding_prior": ["flat", None, [[1.0, 0.0], [0.0, 1.0]], 3],
    "prior_mean": ["best", None, 3.0, [[1.0]], [], [["a", "b"]], [[np.nan, 0.0]]],
    "prior": [
        {"rho": 1.0},
        {"rho_log_sd": "wide"},
        {"rho_log_sd": None},
        {"rho_log_sd": -1.0},
        {"rho_log_sd": True},
        "wide",
        3,
        [("rho_log_sd", 1.0)],
    ],
    "label_distribution": ["flat", None, 3, "uniform"],
    "bounds": [
        (1.0, 0.0),
        (2.0, 2.0),
        (0.0, np.nan),
        (-np.inf, 0.0),
        (0.0, 1.0, 2.0),
        ("low", "high"),
        "all",
        3.0,
        (None, Y.max() - 0.1),
        [Y.min() + 0.1, None],
    ],
    "method": ["mcmc", None, 1],
    "stan_file": ["nowhere.stan", ".", "table.csv", 3],
    "engine": ["stan", "", 1, True, ["stanli"]],
    "compress": ["no", None],
    "label_noise": ["wide", None, 1.0, True],
    "family": ["normal, heavy", "poison", None, 3, ["poisson"]],
    "random_state": ["seed", -1, 1.5],
    "features": ["waves", None],
    "alpha": [0, -1.0, "cv", [], None, [1.0, "a"]],
    "estimator": ["mean", None],
    "outer": ["tanh", None, 3, Polynomial()],
    "kernels": ["rbf", [], {}, {"a": []}, ["gauss"], 3],
    "outers": ["linear", (), ["tanh"], None],
    "cv": [1, 0, 13, "five", None, 2.5],
    "average": ["yes", None],
    "distance": ["l3", None],
    "bandwidths": [[], [0.0], ["a"], "median"],
    "n_samples": [0, 2.5, "many", None],
    "likelihood": ["gauss", None, 3],
    "link": ["log", 3],
    "learn_kernel": ["yes", None],
    "bag_effects": ["yes", None],
    "thin": [0, 2.5, "few"],
    "C": [0, "1", None, np.nan],
    "nu": [0, 1.5, "half", None, np.nan],
    "shrinkage": ["loo", None, -1.0, [], [1.0, np.nan]],
    "target": ["mean", 3, [], [["a"]], [[np.nan]]],
    "models": [[], [BLR()], [BLR(), MERR()], BLR()],
    **dict.fromkeys(["n_hidden", "n_frequencies", "n_restarts", "max_iter"], (0, 2.5, "a", None)),
    **dict.fromkeys(["manifold", "bag_manifold", "l2"], (-1.0, "a", None, np.nan)),
}
KINDS = [type(model) for model in [*ESTIMATORS, *PAPERS]]
# What a value of a parameter needs beside it to be looked at.
BESIDE = {
    "n_landmarks": {"landmarks": "random"},
    "thin": {"link": "exp"},
}


def fit_with(estimator, parameters):
    """Fit with good bags and labels, and these parameters."""
    if "n_landmarks" in inspect.signature(estimator).parameters:
        parameters = {"n_landmarks": 5, **parameters}
    known = beside(estimator, BAGS)
    return lambda: estimator(**parameters).fit(BAGS, labels_of(estimator), **known)


def parameter_cases():
    for estimator in KINDS:
        for name in inspect.signature(estimator).parameters:
            assert name in BAD_VALUES, f"give bad values of {name}"
            for value in BAD_VALUES[name]:
                call = fit_with(estimator, {**BESIDE.get(name, {}), name: value})
                word = {"kernels": "kernel", "outers": "outer"}.get(name, name)
                yield f"{estimator.__name__}({name}={value!r})", call, word


@mistakes(parameter_cases())
def test_parameters(call, words):
    check_call(call, words)
