"""Every mistake gets one sentence that says what is wrong and where, before any work is done.

Cases stand in tables by area: what is called, and words that the sentence must have, such as the
name of the parameter, bag, column or file. They run in one folder of ready files, which none of
them may change.
"""

import inspect
import re
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from bdr_stan import (
    BDR,
    BLR,
    DFDR,
    MERR,
    MERRCV,
    AggregateNN,
    AggregateRegressor,
    BagPixel,
    Bags,
    BDRClassifier,
    BLRClassifier,
    ConstantRate,
    FreqShrinkage,
    OneClassSMM,
    Polynomial,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
    SupportMeasureMachine,
)

EXPECTED = (ValueError, TypeError, OSError, RuntimeError, LookupError)

RNG = np.random.default_rng(3)
SIZES = np.arange(1, 13)
POINTS = RNG.normal(size=(SIZES.sum(), 2))
BAGS = Bags.from_points(POINTS, sizes=SIZES, features=["x", "z"])
Y = np.array([bag[:, 0].mean() for bag in BAGS])
CLASSES = np.where(np.arange(12) % 2, "a", "b")
COUNTS = SIZES.astype(float)
TABLE = pd.DataFrame(POINTS, columns=["x", "z"]).assign(
    town=np.repeat([f"t{i:02}" for i in range(12)], SIZES),
    y=np.repeat(Y, SIZES),
    people=1.0,
    note="text",
)


def labels_of(estimator):
    """Good labels for a class of estimators."""
    name = estimator.__name__
    if "Classifier" in name or name == "SupportMeasureMachine":
        return CLASSES
    return COUNTS if hasattr(estimator, "predict_points") else Y


# ------------------------------------------------------------------ parameters of estimators

# What no estimator with such a parameter can take.
BAD_VALUES = {
    "n_landmarks": [0, 2.5, "many", None, True],
    "kernel": ["gauss", 3, None],
    "bandwidth": [0, -1.0, np.nan, "wide", None, [1.0, 2.0, 3.0], []],
    "bandwidth_scale": [0, "2", None, np.inf, [1.0, 2.0]],
    "landmarks": ["grid", [[1.0]], [["a", "b"]], 7, [[np.nan, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],
    "covariance": ["mean", None],
    "embedding_prior": ["flat", None],
    "measure_scale": ["best", -1.0, None],
    "tau": [0, "1", None, np.nan],
    "jitter": [-1e-4, "small", None, np.nan],
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
    "method": ["mcmc", None, 1],
    "stan_file": ["nowhere.stan", ".", "table.csv", 3],
    "compress": ["no", None],
    "random_state": ["seed", -1, 1.5],
    "features": ["waves", None],
    "alpha": [0, -1.0, "cv", [], None, [1.0, "a"]],
    "estimator": ["mean", None],
    "outer": ["tanh", None, 3, Polynomial()],
    "outer_bandwidth": [-1.0, "wide", None, [1.0, 2.0]],
    "kernels": ["rbf", [], {}, {"a": []}, ["gauss"], 3],
    "outers": ["linear", (), ["tanh"], None],
    "outer_scales": [(), [0.0], ["a"], None],
    "alphas": [[], [-1.0], "loo", ["a"]],
    "cv": [1, 0, 13, "five", None, 2.5],
    "average": ["yes", None],
    "distance": ["l3", None],
    "bandwidths": [[], [0.0], ["a"], "median"],
    "smoothings": [[], [-1.0], ["a"]],
    "n_samples": [0, 2.5, "many", None],
    "likelihood": ["gauss", None, 3],
    "link": ["log", 3],
    "learn_kernel": ["yes", None],
    "bag_effects": ["yes", None],
    "thin": [0, 2.5, "few"],
    "C": [0, "1", None, np.nan],
    "nu": [0, 1.5, "half", None, np.nan],
    "models": [[], None, [BLR()], [BLR(), MERR()], BLR()],
    **dict.fromkeys(["n_hidden", "n_frequencies", "n_restarts", "max_iter"], (0, 2.5, "a", None)),
    **dict.fromkeys(["manifold", "bag_manifold", "l2"], (-1.0, "a", None, np.nan)),
}
BAYESIAN = [BLR, BDR, Shrinkage, BLRClassifier, BDRClassifier, ShrinkageClassifier]
RIDGE = [RBFNetwork, FreqShrinkage, MERR, MERRCV, DFDR]
MACHINES = [SupportMeasureMachine, OneClassSMM]
TOTALS = [AggregateRegressor, BagPixel, AggregateNN, ConstantRate]
STACKS = [Stacked, StackedClassifier]
ESTIMATORS = [*BAYESIAN, *RIDGE, *MACHINES, *TOTALS, *STACKS]
# What a value of a parameter needs beside it to be looked at.
BESIDE = {
    "n_landmarks": {"landmarks": "random"},
    "measure_scale": {"embedding_prior": "convolution"},
    "outer_bandwidth": {"outer": "rbf"},
    "thin": {"link": "exp"},
}


def fit_with(estimator, parameters):
    """Fit with good bags and labels, and these parameters."""
    if "n_landmarks" in inspect.signature(estimator).parameters:
        parameters = {"n_landmarks": 5, **parameters}
    return lambda: estimator(**parameters).fit(BAGS, labels_of(estimator))


def parameter_cases():
    for estimator in ESTIMATORS:
        for name in inspect.signature(estimator).parameters:
            assert name in BAD_VALUES, f"give bad values of {name}"
            for value in BAD_VALUES[name]:
                call = fit_with(estimator, {**BESIDE.get(name, {}), name: value})
                word = {"kernels": "kernel", "outers": "outer"}.get(name, name)
                yield f"{estimator.__name__}({name}={value!r})", call, word


CASES = [*parameter_cases()]


# ------------------------------------------------------------------ the rules


@pytest.fixture(autouse=True)
def no_stan(monkeypatch):
    """Whatever would start Stan, or the search for the mode before it, fails loudly."""

    def started(*arguments, **options):
        pytest.fail("the mistake went unnoticed until Stan was started")

    for module, name in (
        ("posterior.sampling", "most_probable_scales"),
        ("posterior.sampling", "compile_program"),
        ("cmdstan.programs", "choose"),
        ("cmdstan.setup", "choose"),
    ):
        monkeypatch.setattr(import_module(f"bdr_stan.{module}"), name, started)


def check_sentence(text, words):
    assert "\n" not in text, text
    assert len(text.split()) >= 4, f"no sentence: {text}"
    assert not re.search(r"Traceback|<class|<function|object at 0x|^\W", text), text
    for word in [words] if isinstance(words, str) else words:
        assert word in text, text


@pytest.mark.parametrize(
    ("call", "words"), [pytest.param(call, words, id=name) for name, call, words in CASES]
)
def test_python(call, words):
    with pytest.raises(EXPECTED) as raised:
        call()
    text = raised.value.args[0] if isinstance(raised.value, KeyError) else str(raised.value)
    check_sentence(text, words)
