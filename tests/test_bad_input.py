"""Every mistake gets one sentence that says what is wrong and where, before any work is done.

Cases stand in tables by area: what is called, and words that the sentence must have, such as the
name of the parameter, bag, column or file. They run in one folder of ready files, which none of
them may change.
"""

import copy
import inspect
import json
import re
import shutil
from importlib import import_module

import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from builders.estimators import ESTIMATORS
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.model_selection import KFold

import bdr_stan
from bdr_stan import (
    BDR,
    BLR,
    MERR,
    MERRCV,
    RBF,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    FreqShrinkage,
    InverseBDR,
    InverseBDRClassifier,
    KernelMean,
    Matern32,
    Polynomial,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    SpatialBlocks,
    Stacked,
    StackedClassifier,
    SupportMeasureMachine,
    cli,
    cmdstan,
    datasets,
    learn_landmarks,
    metrics,
    plots,
    tune,
)
from bdr_stan.baselines import DFDR, AggregateNN, BagPixel, ConstantRate
from bdr_stan.cmdstan.programs import compile_program, eject
from bdr_stan.embedding.landmarks import choose_landmarks
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.covariance_operators import CovarianceOperator
from bdr_stan.kernel_means.density_matching import kmeans_mixture
from bdr_stan.kernel_means.gaussian_mixtures import GaussianMixture, MixtureMean
from bdr_stan.kernel_means.kernel_pca import KernelPCA
from bdr_stan.kernel_means.set_kernels import bag_weights, set_kernels
from bdr_stan.kernel_means.shrinkage import f_kmse, s_kmse
from bdr_stan.kernels import (
    ConcatenatedFeatures,
    LandmarkFeatures,
    RationalQuadratic,
    StudentT,
    draw_frequencies,
    median_bandwidth,
)
from bdr_stan.predictive import mix
from data_gen.bag_sizes import negative_binomial_sizes
from experiments import paper_data

EXPECTED = (ValueError, TypeError, OSError, RuntimeError, LookupError)

RNG = np.random.default_rng(3)
SIZES = np.arange(1, 13)
POINTS = RNG.normal(size=(SIZES.sum(), 2))
BAGS = Bags.from_points(POINTS, sizes=SIZES, features=["x", "z"])
Y = np.array([bag[:, 0].mean() for bag in BAGS]) + RNG.normal(0, 0.3, len(BAGS))
CLASSES = np.where(np.arange(12) % 2, "a", "b")
COUNTS = SIZES.astype(float)
TABLE = pd.DataFrame(POINTS, columns=["x", "z"]).assign(
    town=np.repeat([f"t{i:02}" for i in range(12)], SIZES),
    y=np.repeat(Y, SIZES),
    people=1.0,
    note="text",
)
PARTS = dd.from_pandas(TABLE.drop(columns="note"), npartitions=3)
LAZY = Bags.from_dask(PARTS, "town", ["x"])
NUMBERED = TABLE[["x", "z", "town"]].rename(columns={"x": 0, "z": 1})


MEASURED = Bags.from_points(
    POINTS,
    sizes=SIZES,
    ids=[f"t{i:02}" for i in range(12)],
    metadata=pd.DataFrame({"se": [1.0, 0.5, np.nan] * 4}),
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
    "covariates": ["population", [1], ["age", "age"], 3],
    "embedding_prior": ["flat", None],
    "measure_scale": ["best", -1.0, None],
    "n_curved": [0, 4, 1.0, "two", None, True],
    "n_functions": [0, 2.5, "many", None],
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
    "power": [0, 1.5, -0.1, "learned", None, np.nan, True],
    "method": ["mcmc", None, 1],
    "stan_file": ["nowhere.stan", ".", "table.csv", 3],
    "compress": ["no", None],
    "label_noise": ["wide", None, 1.0, True],
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
    "models": [[], [BLR()], [BLR(), MERR()], BLR()],
    **dict.fromkeys(["n_hidden", "n_frequencies", "n_restarts", "max_iter"], (0, 2.5, "a", None)),
    **dict.fromkeys(["manifold", "bag_manifold", "l2"], (-1.0, "a", None, np.nan)),
}
KINDS = [type(model) for model in ESTIMATORS]
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
    for estimator in KINDS:
        for name in inspect.signature(estimator).parameters:
            assert name in BAD_VALUES, f"give bad values of {name}"
            for value in BAD_VALUES[name]:
                call = fit_with(estimator, {**BESIDE.get(name, {}), name: value})
                word = {"kernels": "kernel", "outers": "outer"}.get(name, name)
                yield f"{estimator.__name__}({name}={value!r})", call, word


FITTED = BLR(5, method="exact").fit(BAGS, Y, seed=1)
RATES = AggregateRegressor(n_landmarks=5, method="vb", learn_kernel=False).fit(BAGS, COUNTS, seed=1)
BINOMIAL = AggregateRegressor("binomial", n_landmarks=5)
NETWORK = AggregateNN(3, n_restarts=1, max_iter=3).fit(BAGS, COUNTS, seed=1)
FOLDED = MERRCV([RBF(1.0)], cv=KFold(3)).fit(BAGS, Y)
PREDICTIVE = FITTED.predictive(BAGS)
AT_POINTS = RATES.predict_points(POINTS)
NARROW = Bags.from_points(POINTS[:, :1], sizes=SIZES)
RENAMED = Bags.from_points(POINTS, sizes=SIZES, features=["x", "age"])
TWO = BAGS[:2]


def changed(values, place, value):
    """A copy with another value in one place."""
    values = np.array(values, dtype=object if isinstance(value, str) else None)
    values[place] = value
    return values


# ------------------------------------------------------------------ what fits take

# Arguments of `fit` that no Bayesian estimator on mean embeddings takes; Y where no labels are.
LABELS = [
    ("too few labels", Y[:5], "5 labels"),
    ("labels in a column", Y[:, None], "y has shape (12, 1)"),
    ("labels of two columns", np.column_stack([Y, Y]), "y has shape (12, 2)"),
    ("labels of text", ["a"] * 12, "labels y"),
    ("no labels", None, "y"),
    ("a label that is NaN", changed(Y, 3, np.nan), "bag 3"),
    ("a label that is infinite", changed(Y, 4, np.inf), "bag 4"),
    ("a label that is a nodata marker", changed(Y, 5, -3.4e38), "bag 5"),
    ("labels all alike", np.ones(12), "labels"),
]
CLASS_LABELS = [
    ("too few classes", ["a"] * 12, "1 class"),
    ("three classes", ["a", "b", "c"] * 4, "3 classes"),
    ("a missing class", [None, *CLASSES[1:]], "bag 0"),
    ("mixed classes", ["a", 1] * 6, "labels y"),
    ("too few labels of classes", CLASSES[:4], "4 labels"),
]
# Known standard errors of labels, which models of normal labels alone take.
LABEL_SDS = [
    ("too few", np.ones(5), "label_sd has shape (5,)"),
    ("in a column", np.ones((12, 1)), "label_sd has shape (12, 1)"),
    ("one for all", 0.3, "label_sd has shape ()"),
    ("of text", ["a"] * 12, "label_sd"),
    ("true or false", [True] * 12, "label_sd"),
    ("zero", changed(np.ones(12), 3, 0.0), "label_sd of bag 3"),
    ("negative", changed(np.ones(12), 4, -1.0), "label_sd of bag 4"),
    ("NaN", changed(np.ones(12), 5, np.nan), "label_sd of bag 5"),
    ("infinite", changed(np.ones(12), 6, np.inf), "label_sd of bag 6"),
    ("None", [None] + [1.0] * 11, "label_sd of bag 0"),
    ("pandas' missing", pd.array([1.0] * 11 + [None], "Float64"), "label_sd of bag 11"),
    ("in no column", "se", "label_sd='se' is no column"),
]
MANY_CLASS_LABELS = [
    *(case for case in CLASS_LABELS if case[0] != "three classes"),
    ("classes that each bag has for its own", list("abcdefghijkl"), "has its own class"),
]
TOTAL_LABELS = [
    ("a negative count", changed(COUNTS, 2, -1.0), "bag 2"),
    ("a fractional count", changed(COUNTS, 2, 0.5), "bag 2"),
    ("a count that is NaN", changed(COUNTS, 2, np.nan), "bag 2"),
    ("a count too large", changed(COUNTS, 2, 2.0**31), "bag 2"),
    ("counts of text", ["a"] * 12, "labels y"),
    ("counts all zero", np.zeros(12), "all 12 labels are 0"),
    ("too few counts", COUNTS[:3], "3 labels"),
]
FEW_DRAWS = {"chains": 1, "warmup": 5, "draws": 5}
RUNS = [
    ({"chains": 0}, "chains"),
    ({"chains": "four"}, "chains"),
    ({"draws": 0}, "draws"),
    ({"draws": 10.5}, "draws"),
    ({"warmup": -1}, "warmup"),
    ({"warmup": 0}, "warmup=0"),
    ({"seed": "one"}, "seed"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**32}, "seed"),
    ({"seed": [1, 2]}, "seed"),
    ({"adapt_delta": 2}, "adapt_delta"),
    ({"adapt_delta": "high"}, "adapt_delta"),
    ({"max_treedepth": 0}, "max_treedepth"),
    ({"max_treedepth": 2.5}, "max_treedepth"),
    ({"step_size": -1.0}, "step_size"),
    ({"metric": "round"}, "metric"),
    ({"adapt_engaged": "no"}, "adapt_engaged"),
    ({"thin": 0}, "thin"),
    ({"timeout": -5}, "timeout"),
    ({"iter": 2000}, "iter"),
    ({"iter_warmup": 100}, "warmup"),
    ({"iter_sampling": 100}, "draws"),
    ({"output_dir": "here"}, "output_dir"),
    ({"adapt_detla": 0.9}, "adapt_detla"),
    ({"n_jobs": 2}, "n_jobs"),
]
RUNS_BY_METHOD = [
    ("exact", {"adapt_delta": 0.9}, "adapt_delta"),
    ("optimize", {"adapt_delta": 0.9}, "adapt_delta"),
    ("optimize", {"iter": 0}, "iter"),
    ("optimize", {"algorithm": "adam"}, "algorithm"),
    ("optimize", {"tol_obj": -1.0}, "tol_obj"),
    ("laplace", {"max_treedepth": 5}, "max_treedepth"),
    ("laplace", {"iter": 5}, "iter"),
    ("pathfinder", {"num_paths": 5}, "num_paths"),
    ("pathfinder", {"psis_resample": True}, "psis_resample"),
    ("pathfinder", {"history_size": 0}, "history_size"),
    ("pathfinder", {"max_lbfgs_iters": 0}, "max_lbfgs_iters"),
]


def fit_cases():
    for name, y, words in LABELS:
        for model in (BDR(5), InverseBDR(5), BLR(5), RBFNetwork(5), MERR(), MERRCV(), DFDR()):
            yield f"{type(model).__name__}, {name}", lambda m=model, y=y: m.fit(BAGS, y), words
    for name, y, words in CLASS_LABELS:
        for model in (BDRClassifier(5), BLRClassifier(5)):
            yield f"{type(model).__name__}, {name}", lambda m=model, y=y: m.fit(BAGS, y), words
    for name, label_sd, words in LABEL_SDS:
        for model in (BDR(5), BLR(5), Shrinkage(5), InverseBDR(5), Stacked([BLR(5), BDR(5)])):
            call = lambda m=model, s=label_sd: m.fit(BAGS, Y, label_sd=s)  # noqa: E731
            yield f"{type(model).__name__}, known errors {name}", call, words
    for model in (
        BLRClassifier(5), BDRClassifier(5), ShrinkageClassifier(5), InverseBDRClassifier(5)
    ):  # fmt: skip
        call = lambda m=model: m.fit(BAGS, CLASSES, label_sd=np.ones(12))  # noqa: E731
        yield f"{type(model).__name__}, known errors", call, "label_sd"
    for name, y, words in MANY_CLASS_LABELS:
        call = lambda y=y: InverseBDRClassifier(5).fit(BAGS, y)  # noqa: E731
        yield f"InverseBDRClassifier, {name}", call, words
    for name, y, words in TOTAL_LABELS:
        for model in (AggregateRegressor(n_landmarks=5), AggregateNN(), ConstantRate()):
            yield f"{type(model).__name__}, {name}", lambda m=model, y=y: m.fit(BAGS, y), words
    for options, words in RUNS:
        for model, y in ((BDR(5), Y), (AggregateRegressor(n_landmarks=5), COUNTS)):
            call = lambda m=model, y=y, o=options: m.fit(BAGS, y, **o)  # noqa: E731
            yield f"{type(model).__name__}.fit({options})", call, words
    for method, options, words in RUNS_BY_METHOD:
        call = lambda m=method, o=options: BLR(5, method=m).fit(BAGS, Y, **o)  # noqa: E731
        yield f"BLR(method={method!r}).fit({options})", call, words


FITS = [
    ("no bags", lambda: BDR(5).fit([], []), "bags"),
    ("bags that are None", lambda: BDR(5).fit(None, Y), "bags"),
    ("bags that are a number", lambda: BDR(5).fit(3, Y), "bags"),
    ("bags of text", lambda: BDR(5).fit("table.csv", Y), "bags"),
    ("a table for bags", lambda: BDR(5).fit(TABLE, Y), "bags"),
    ("points for bags", lambda: BDR(5).fit(POINTS, np.zeros(len(POINTS))), "bag"),
    ("an empty bag", lambda: BDR(5).fit([POINTS[:3], POINTS[:0]], [1.0, 2.0]), "bag 1"),
    ("bags of different columns", lambda: BDR(5).fit([POINTS, POINTS[:, :1]], [1, 2]), "bag 1"),
    ("landmarks of other columns", lambda: BDR(landmarks=[[1.0]]).fit(BAGS, Y), "landmarks"),
    ("a tiny bandwidth", lambda: BDR(5, bandwidth=1e-9).fit(BAGS, Y), "bandwidth"),
    ("a tiny bandwidth of BLR", lambda: BLR(5, bandwidth=1e-9).fit(BAGS, Y), "bandwidth"),
    ("a tiny bandwidth of classes",
     lambda: BDRClassifier(5, bandwidth=1e-9).fit(BAGS, CLASSES), "bandwidth"),
    ("a tiny bandwidth, fixed prior",
     lambda: BDR(5, bandwidth=1e-9, embedding_prior="kernel").fit(BAGS, Y), "bandwidth"),
    ("a tiny bandwidth of a network",
     lambda: RBFNetwork(5, bandwidth=1e-9).fit(BAGS, Y), "bandwidth"),
    ("a tiny bandwidth of rates",
     lambda: AggregateRegressor(n_landmarks=5, kernel=RBF(1e-9)).fit(BAGS, COUNTS), "bandwidth"),
    ("a huge bandwidth", lambda: BDR(5, bandwidth=1e12).fit(BAGS, Y), "bandwidth"),
    ("a huge bandwidth of BLR", lambda: BLR(5, bandwidth=1e12).fit(BAGS, Y), "bandwidth"),
    ("a prior far from the labels",
     lambda: BLR(5, method="exact", prior={"rho_median": 1e-300}).fit(BAGS, Y), "prior"),
    ("points all alike", lambda: BDR(1).fit([np.ones((2, 2))] * 12, Y), "coincide"),
    ("a bag alone", lambda: BDR(5).fit(BAGS[:1], Y[:1]), "label"),
    ("labels below the bounds",
     lambda: InverseBDR(5, bounds=(np.median(Y), None)).fit(BAGS, Y), ["bag", "beyond the bound"]),
    ("bounds of a class", lambda: InverseBDR(5, bounds={}).fit(BAGS, Y), "bounds"),
    ("a uniform distribution with an open end",
     lambda: InverseBDR(5, label_distribution="uniform", bounds=(-9, None)).fit(BAGS, Y),
     "both bounds"),
    ("two bags of an inverse model", lambda: InverseBDR(2).fit(TWO, Y[:2]), "2 bags"),
    ("Pathfinder of an inverse model",
     lambda: InverseBDR(5, method="pathfinder").fit(BAGS, Y), "pathfinder"),
    ("an inverse model in closed form",
     lambda: InverseBDRClassifier(5, method="exact").fit(BAGS, CLASSES), "exact"),
    ("a scatter of an inverse model",
     lambda: InverseBDR(5, covariance="identity").fit(BAGS, Y), "covariance"),
    ("a prior of another model",
     lambda: InverseBDR(5, prior={"rho_median": 1.0}).fit(BAGS, Y), ["rho_median", "tau_scale"]),
    ("a tiny bandwidth of an inverse model",
     lambda: InverseBDR(5, bandwidth=1e-9).fit(BAGS, Y), "bandwidth"),
    ("a kernel with a bandwidth beside it",
     lambda: BDR(5, RBF(1.0), bandwidth=2.0).fit(BAGS, Y), "bandwidth"),
    ("a kernel on a column that is not there",
     lambda: BDR(5, RBF(columns=["age"])).fit(BAGS, Y), "age"),
    ("a convolution of another kernel",
     lambda: BDR(5, "cauchy", embedding_prior="convolution").fit(BAGS, Y), "embedding_prior"),
    ("trials of counts", lambda: RATES.fit(BAGS, COUNTS, trials=COUNTS), "trials"),
    ("no trials", lambda: AggregateRegressor("binomial").fit(BAGS, COUNTS), "trials"),
    ("fractional trials",
     lambda: AggregateRegressor("binomial").fit(BAGS, COUNTS, trials=COUNTS + 0.5), "trials"),
    ("trials below counts",
     lambda: AggregateRegressor("binomial").fit(BAGS, COUNTS, trials=COUNTS - 1), "trials"),
    ("trials of text",
     lambda: AggregateRegressor("binomial").fit(BAGS, COUNTS, trials=["a"] * 12), "trials"),
    ("too few trials",
     lambda: AggregateRegressor("binomial").fit(BAGS, COUNTS, trials=COUNTS[:2]), "trials"),
    ("thinning of the square link",
     lambda: AggregateRegressor(thin=5, n_landmarks=5).fit(BAGS, COUNTS), "thin"),
    ("thinning of mean points",
     lambda: BagPixel(link="exp", thin=5, n_landmarks=5).fit(BAGS, COUNTS), "thin"),
    ("effects without NUTS",
     lambda: AggregateRegressor("poisson", bag_effects=True, method="vb").fit(BAGS, COUNTS),
     "bag_effects"),
    ("a program for vb",
     lambda: AggregateRegressor(method="vb", stan_file="mine.stan").fit(BAGS, COUNTS),
     "stan_file"),
    ("a prior of no such number",
     lambda: AggregateRegressor(n_landmarks=5, prior={"eta": 1.0}).fit(BAGS, COUNTS), "prior"),
    ("features that are none", lambda: BLR().fit_features(3, Y), "training"),
    ("known errors of too few features",
     lambda: BLR(5).fit_features(BLR(5).training_features(BAGS), Y, label_sd=np.ones(3)),
     "label_sd has shape (3,)"),
    ("known errors of features that are NaN",
     lambda: BLR(5).fit_features(BLR(5).training_features(BAGS), Y,
                                 label_sd=changed(np.ones(12), 3, np.nan)), "label_sd of bag 3"),
    ("known errors of features by column",
     lambda: BLR(5).fit_features(BLR(5).training_features(BAGS), Y, label_sd="se"), "label_sd"),
    ("known errors of classes of features",
     lambda: BLRClassifier(5).fit_features(
         BLRClassifier(5).training_features(BAGS), CLASSES, label_sd=np.ones(12)), "label_sd"),
    ("known errors that explain all labels",
     lambda: InverseBDR(5).fit(BAGS, Y, label_sd=np.full(12, 10.0)), ["label_sd", "explain all"]),
    ("known errors of features that explain all labels",
     lambda: InverseBDR(5).fit_features(
         InverseBDR(5).training_features(BAGS), Y, label_sd=np.full(12, 10.0)), "explain all"),
    ("known errors of totals",
     lambda: AggregateRegressor("normal", n_landmarks=5).fit(BAGS, Y, label_sd=np.ones(12)),
     "label_sd"),
    ("known errors of a column that lacks one",
     lambda: BLR(5).fit(MEASURED, Y, label_sd="se"), ["label_sd", "t02"]),
    ("known errors of another column",
     lambda: BLR(5).fit(MEASURED, Y, label_sd="sd"), ["label_sd='sd'", "'se'"]),
    ("too few labels for features",
     lambda: BLR(5).fit_features(BLR(5).training_features(BAGS), Y[:3]), "3 labels"),
    ("too few labels for ridge features",
     lambda: RBFNetwork(5).fit_features(RBFNetwork(5).training_features(BAGS), Y[:3]),
     "3 labels"),
    ("features that are not shrunk",
     lambda: FreqShrinkage(5).fit_features(RBFNetwork(5).training_features(BAGS), Y), "shrunk"),
    ("validation that is no pair", lambda: MERR().fit(BAGS, Y, validation=BAGS), "validation"),
    ("validation of two bags, three labels",
     lambda: MERR().fit(BAGS, Y, validation=(TWO, [1, 2, 3])), "validation"),
    ("validation of other columns",
     lambda: RBFNetwork(5).fit(BAGS, Y, validation=(RENAMED, Y)), "validation"),
    ("validation and one penalty",
     lambda: MERR(alpha=1.0).fit(BAGS, Y, validation=(BAGS, Y)), "alpha"),
    ("products of another size", lambda: MERR().fit(BAGS, Y, products=np.eye(3)), "products"),
    ("weights that cannot be shrunk",
     lambda: FreqShrinkage(5).fit(Bags(POINTS, BAGS.offsets, weights=np.ones(78)), Y), "weights"),
    ("one class of a machine",
     lambda: SupportMeasureMachine().fit(BAGS, ["a"] * 12), "one class"),
    ("too few labels of a machine",
     lambda: SupportMeasureMachine().fit(BAGS, CLASSES[:3]), "y has shape"),
    ("a stack of which one has bounds",
     lambda: Stacked([BDR(5), InverseBDR(5, bounds=(0, 0.1))]).fit(BAGS, Y), "beyond the bound"),
    ("a stack of which one takes many classes",
     lambda: StackedClassifier([InverseBDRClassifier(5), BDRClassifier(5)]).fit(
         BAGS, ["a", "b", "c"] * 4
     ), "3 classes"),
    ("a stack of a mode",
     lambda: Stacked([BLR(5), Shrinkage(5)]).fit(BAGS, Y), "optimize"),
    ("a stack of classifiers",
     lambda: Stacked([BLRClassifier(5), BLR(5)]).fit(BAGS, Y), "BLRClassifier"),
    ("a network of negative rates",
     lambda: AggregateNN(link="identity").fit(BAGS, COUNTS), "link"),
]  # fmt: skip

# ------------------------------------------------------------------ predictions

PREDICTIONS = [
    ("before a fit", lambda: BDR().predict(BAGS), "not fitted"),
    ("of rates before a fit", lambda: AggregateRegressor().predict_points(POINTS), "not fitted"),
    ("a table, of a fit to none", lambda: FITTED.predict(TABLE), "table"),
    ("rates at a pyarrow table without a column",
     lambda: RATES.predict_points(pa.Table.from_pandas(TABLE[["x"]])), "'z'"),
    ("rates of a network at text",
     lambda: NETWORK.predict_points(TABLE[["x", "note"]]), "points"),
    ("saved before a fit", lambda: BDR().save("new.nc"), "not fitted"),
    ("no bags", lambda: FITTED.predict([]), "bags"),
    ("None", lambda: FITTED.predict(None), "bags"),
    ("fewer columns", lambda: FITTED.predict(NARROW), "1 feature"),
    ("other columns", lambda: FITTED.predict(RENAMED), "age"),
    ("a point that is NaN", lambda: FITTED.predict([[[np.nan, 1.0]]]), "bag 0"),
    ("text", lambda: FITTED.predict([[["a", "b"]]]), "bag 0"),
    ("an interval of level 2", lambda: PREDICTIVE.interval(2), "level"),
    ("an interval of text", lambda: PREDICTIVE.interval("wide"), "level"),
    ("a quantile of 1", lambda: PREDICTIVE.quantile(1.0), "q"),
    ("a quantile of text", lambda: PREDICTIVE.quantile("half"), "q"),
    ("the density of too few labels", lambda: PREDICTIVE.log_prob(Y[:3]), "y has shape"),
    ("the density of text", lambda: PREDICTIVE.log_prob(["a"] * 12), "y"),
    ("the cdf of too few labels", lambda: PREDICTIVE.cdf(Y[:3]), "y has shape"),
    ("samples of a fraction", lambda: PREDICTIVE.sample(2.5), "size"),
    ("no samples", lambda: PREDICTIVE.sample(-1), "size"),
    ("a mixture of one weight for two", lambda: mix([PREDICTIVE] * 2, [1.0]), "weights"),
    ("a mixture of weights above 1", lambda: mix([PREDICTIVE] * 2, [0.6, 0.7]), "weights"),
    ("a mixture of nothing", lambda: mix([], []), "predictives"),
    ("a mixture of other bags",
     lambda: mix([PREDICTIVE, FITTED.predictive(TWO)], [0.5, 0.5]), "bags"),
    ("products with other bags",
     lambda: FOLDED.best_.predict_products(np.ones((2, 3))), "products"),
    ("summary of no variable", lambda: FITTED.summary(["slope"]), "slope"),
    ("rates at points of fewer columns", lambda: RATES.predict_points(POINTS[:, :1]), "1 feature"),
    ("rates at no points", lambda: RATES.predict_points(POINTS[:0]), "point"),
    ("rates at a number", lambda: RATES.predict_points(3.0), "points"),
    ("rates at None", lambda: RATES.predict_points(None), "points"),
    ("rates at text", lambda: RATES.predict_points([["a", "b"]]), "points"),
    ("rates at a table without a column", lambda: RATES.predict_points(TABLE[["x"]]), "'z'"),
    ("rates by no draws", lambda: RATES.predict_points(POINTS, n_draws=0), "n_draws"),
    ("rates by text", lambda: RATES.predict_points(POINTS, n_draws="all"), "n_draws"),
    ("rates with trials", lambda: RATES.predict(BAGS, trials=5), "trials"),
    ("an interval of rates", lambda: AT_POINTS.interval(0), "level"),
    ("a quantile of rates", lambda: AT_POINTS.quantile(-0.1), "q"),
    ("a threshold that is NaN", lambda: AT_POINTS.exceedance(np.nan), "threshold"),
    ("too many thresholds", lambda: AT_POINTS.exceedance([1.0, 2.0]), "threshold"),
    ("draws at no such point", lambda: AT_POINTS.draws([500]), "500"),
    ("draws at a fraction", lambda: AT_POINTS.draws([0.5]), "rows"),
    ("influence before a fit", lambda: BDR().influence(POINTS), "not fitted"),
    ("influence along a column before a fit", lambda: BDR().influence_along("x"), "not fitted"),
    ("influence of no points", lambda: FITTED.influence(POINTS[:0]), "point"),
    ("influence of points of fewer columns", lambda: FITTED.influence(POINTS[:, :1]), "1 feature"),
    ("influence of text", lambda: FITTED.influence([["a", "b"]]), "points"),
    ("influence of other bags", lambda: FITTED.influence(RENAMED), "age"),
    ("influence of a table without a column",
     lambda: FITTED.influence(TABLE[["x", "town"]]), "'z'"),
    ("influence by no draws", lambda: FITTED.influence(POINTS, n_draws=0), "n_draws"),
    ("influence along no such column", lambda: FITTED.influence_along("age"), ["'age'", "'z'"]),
    ("influence along no such number", lambda: FITTED.influence_along(2), "no column 2"),
    ("influence along a list", lambda: FITTED.influence_along(["x"], BAGS), "no column ['x']"),
    ("influence along a column of other bags",
     lambda: FITTED.influence_along("x", RENAMED), "age"),
    ("influence along a column by no points",
     lambda: FITTED.influence_along("x", BAGS, n_points=0), "n_points"),
    ("influence along a column by no draws",
     lambda: FITTED.influence_along("x", BAGS, n_draws="all"), "n_draws"),
    ("influence along a column with a seed of text",
     lambda: FITTED.influence_along("x", BAGS, seed="one"), "seed"),
    ("a contrast before a fit", lambda: BDR().contrast(BAGS, BAGS), "not fitted"),
    ("a contrast of other numbers of bags",
     lambda: FITTED.contrast(BAGS, TWO), ["bags_a holds 12", "bags_b 2"]),
    ("a contrast of totals of other numbers of bags",
     lambda: RATES.contrast(TWO, BAGS), ["bags_a holds 2", "bags_b 12"]),
    ("a contrast with other columns", lambda: FITTED.contrast(BAGS, NARROW), "1 feature"),
    ("a contrast with nothing", lambda: FITTED.contrast(BAGS, None), "bags"),
    ("a contrast's interval of level 2", lambda: FITTED.contrast(BAGS, BAGS).interval(2), "level"),
    ("a contrast's quantile of 1", lambda: FITTED.contrast(BAGS, BAGS).quantile(1.0), "q"),
    ("mixed contrasts of other bags",
     lambda: mix([FITTED.contrast(BAGS, BAGS), FITTED.contrast(TWO, TWO)], [0.5, 0.5]), "bags"),
]  # fmt: skip

# ------------------------------------------------------------------ bags and readers

BAD_BAGS = [
    ("points in a row", lambda: Bags([1.0, 2.0], [0, 2]), "points"),
    ("points of text", lambda: Bags([["a"]], [0, 1]), "points"),
    ("points that are None", lambda: Bags(None, [0, 1]), "points"),
    ("offsets that do not end at the last", lambda: Bags(POINTS, [0, 5]), "offsets"),
    ("offsets that fall", lambda: Bags(POINTS, [0, 50, 20, 78]), "offsets"),
    ("offsets of text", lambda: Bags(POINTS, ["a", "b"]), "offsets"),
    ("weights of another length", lambda: Bags(POINTS, [0, 78], weights=[1.0]), "weights"),
    ("a negative weight", lambda: Bags(POINTS, [0, 78], weights=-np.ones(78)), "weight"),
    ("weights of text", lambda: Bags(POINTS, [0, 78], weights=["a"] * 78), "weights"),
    ("weights all zero", lambda: Bags(POINTS, [0, 78], weights=np.zeros(78)), "weights of bag 0"),
    ("ids of another length", lambda: Bags(POINTS, [0, 78], ids=["a", "b"]), "ids"),
    ("ids twice", lambda: Bags(POINTS, [0, 8, 78], ids=["a", "a"]), "id 'a'"),
    ("names of another length", lambda: Bags(POINTS, [0, 78], features=["x"]), "features"),
    ("a name twice", lambda: Bags(POINTS, [0, 78], features=["x", "x"]), "features"),
    ("metadata of another length", lambda: Bags(POINTS, [0, 78], metadata=TABLE), "metadata"),
    ("metadata that is no table", lambda: Bags(POINTS, [0, 78], metadata=[1]), "metadata"),
    ("a value that is NaN", lambda: Bags(changed(POINTS, (2, 1), np.nan), [0, 78]), "point 2"),
    ("a nodata marker", lambda: Bags(changed(POINTS, (2, 1), 1e300), [0, 78]), "point 2"),
    ("a bag of one number", lambda: Bags.from_list([1.0, 2.0]), "bag 0"),
    ("a bag of text", lambda: Bags.from_list([[["a"]]]), "bag 0"),
    ("weights of another bag", lambda: Bags.from_list([POINTS], weights=[[1.0]]), "weights"),
    ("neither bag nor sizes", lambda: Bags.from_points(POINTS), "sizes"),
    ("both bag and sizes", lambda: Bags.from_points(POINTS, [0] * 78, [78]), "sizes"),
    ("sizes that do not add up", lambda: Bags.from_points(POINTS, sizes=[3, 4]), "sizes"),
    ("a size of zero", lambda: Bags.from_points(POINTS, sizes=[78, 0]), "bag 1"),
    ("a size of text", lambda: Bags.from_points(POINTS, sizes=["a"]), "sizes"),
    ("too few bags of points", lambda: Bags.from_points(POINTS, [0, 1]), "bag"),
    ("no such bag column", lambda: Bags.from_dataframe(TABLE, "city"), "city"),
    ("no such feature", lambda: Bags.from_dataframe(TABLE, "town", ["height"]), "height"),
    ("a feature that names the bag", lambda: Bags.from_dataframe(TABLE, "town", ["town"]), "town"),
    ("columns named by numbers", lambda: Bags.from_dataframe(NUMBERED, "town"), "named 0"),
    ("columns chosen by number", lambda: Bags.from_dataframe(NUMBERED, "town", [0]), "named 0"),
    ("no such weight", lambda: Bags.from_dataframe(TABLE, "town", ["x"], "mass"), "mass"),
    ("a weight of text", lambda: Bags.from_dataframe(TABLE, "town", ["x"], "note"), "note"),
    ("metadata that varies",
     lambda: Bags.from_dataframe(TABLE, "town", ["z"], metadata=["x"]), "'x'"),
    ("no such metadata",
     lambda: Bags.from_dataframe(TABLE, "town", ["z"], metadata=["age"]), "age"),
    ("no features", lambda: Bags.from_dataframe(TABLE, "town", []), "features"),
    ("a table that is none", lambda: Bags.from_dataframe([1, 2], "town"), "table"),
    ("an empty table", lambda: Bags.from_dataframe(TABLE[:0], "town", ["x"]), "row"),
    ("a column that is NaN",
     lambda: Bags.from_dataframe(TABLE.assign(x=np.nan), "town", ["x"]), "x"),
    ("no such CSV file", lambda: Bags.from_csv("nowhere.csv", "town"), "nowhere.csv"),
    ("no such bag in a CSV file", lambda: Bags.from_csv("table.csv", "city"), "city"),
    ("no such Parquet file", lambda: Bags.from_parquet("nowhere.parquet", "town"), "nowhere"),
    ("a Parquet file that is none", lambda: Bags.from_parquet("table.csv", "town"), "table.csv"),
    ("a Parquet file cut short",
     lambda: Bags.from_parquet("short.parquet", "town"), "short.parquet"),
    ("no such Parquet files", lambda: Bags.from_parquet("no*.parquet", "town"), "no*.parquet"),
    ("a folder without Parquet files",
     lambda: Bags.from_parquet("folder", "town", lazy=True), "folder"),
    ("a client without partitions",
     lambda: Bags.from_parquet("table.parquet", "town", client=1), "client"),
    ("a client that is none", lambda: Bags.from_dask(PARTS, "town", client=1), "client"),
    ("pandas for Dask", lambda: Bags.from_dask(TABLE, "town"), "from_dataframe"),
    ("no such column of Dask", lambda: Bags.from_dask(PARTS, "city"), "city"),
    ("a missing id in a partition",
     lambda: Bags.from_dask(PARTS.assign(town=PARTS.town.where(PARTS.town != "t03")), "town"),
     ["partition 0", "town"]),
    ("a bad missing of Dask", lambda: Bags.from_dask(PARTS, "town", missing="no"), "missing"),
    ("no path of lazy files", lambda: Bags.from_parquet(None, "town", lazy=True), "path"),
    ("influence of Dask's points", lambda: FITTED.influence(PARTS), "map_partitions"),
    ("influence of points in partitions", lambda: FITTED.influence(LAZY), "load()"),
    ("bags in partitions for MERR", lambda: MERR().fit(LAZY, Y), "load()"),
    ("bags in partitions for totals", lambda: AggregateRegressor().fit(LAZY, COUNTS), "load()"),
    ("bags in partitions for shrinkage", lambda: FreqShrinkage().fit(LAZY, Y), "load()"),
    ("bags in partitions one by one", lambda: list(LAZY), "load()"),
    ("a bag in partitions twice", lambda: LAZY[[1, 1]], "once"),
    ("bags in partitions with other columns",
     lambda: FITTED.predict(LAZY), "features per point"),
    ("nothing put together", lambda: Bags.concatenate([]), "bags"),
    ("other columns put together", lambda: Bags.concatenate([BAGS, RENAMED]), "position 1"),
    ("a list that is None", lambda: Bags.from_list(None), "list"),
    ("names that are a number", lambda: Bags(POINTS, [0, 78], features=3), "features"),
    ("features by one name", lambda: Bags.from_dataframe(TABLE, "town", "x"), "features"),
    ("no bag column", lambda: Bags.from_dataframe(TABLE, None), "give bag, the name of the column"),
    ("missing values to be ignored",
     lambda: Bags.from_dataframe(TABLE, "town", missing="ignore"), "missing"),
    ("columns like those of no table",
     lambda: Bags.from_dataframe(TABLE, "town", like=FITTED), "like"),
    ("a number put together", lambda: Bags.concatenate(3), "parts"),
    ("sums of too few values", lambda: BAGS.sums([1.0]), "values"),
    ("chunks of no point", lambda: BAGS.chunks(0), "n_points"),
    ("no such bag", lambda: BAGS[99], "99"),
    ("a bag by name", lambda: BAGS["t01"], "bags"),
    ("a mask of another length", lambda: BAGS[np.array([True])], "mask"),
    ("two indices", lambda: BAGS[0, 1], "one index"),
]  # fmt: skip

# ------------------------------------------------------------------ choosing models and landmarks

KERNEL_PRIOR = Shrinkage(5, embedding_prior="kernel")
CHOICES = [
    ("neither validation nor cv", lambda: tune(BAGS, Y), "validation"),
    ("both validation and cv", lambda: tune(BAGS, Y, validation=(BAGS, Y), cv=2), "validation"),
    ("no models", lambda: tune(BAGS, Y, cv=2, models=[]), "models"),
    ("no models by name", lambda: tune(BAGS, Y, cv=2, models={}), "models"),
    ("models that are one", lambda: tune(BAGS, Y, cv=2, models=BDR()), "models"),
    ("a model that is none", lambda: tune(BAGS, Y, cv=2, models=[3]), "int"),
    ("a model without landmarks", lambda: tune(BAGS, Y, cv=2, models=[MERR()]), "MERR"),
    ("a model with a bad parameter", lambda: tune(BAGS, Y, cv=2, models=[BDR(tau=0)]), "tau"),
    ("no bandwidth_scale", lambda: tune(BAGS, Y, cv=2, bandwidth_scale=[]), "bandwidth_scale"),
    ("a bandwidth_scale of 0", lambda: tune(BAGS, Y, cv=2, bandwidth_scale=[0]), "bandwidth_scale"),
    ("one bandwidth_scale", lambda: tune(BAGS, Y, cv=2, bandwidth_scale=1.0), "bandwidth_scale"),
    ("no n_landmarks", lambda: tune(BAGS, Y, cv=2, n_landmarks=[]), "n_landmarks"),
    ("n_landmarks of 0", lambda: tune(BAGS, Y, cv=2, n_landmarks=[0]), "n_landmarks"),
    ("one n_landmarks", lambda: tune(BAGS, Y, cv=2, n_landmarks=30), "n_landmarks"),
    ("one fold", lambda: tune(BAGS, Y, cv=1), "cv"),
    ("more folds than bags", lambda: tune(BAGS, Y, cv=13), "cv"),
    ("folds by text", lambda: tune(BAGS, Y, cv="five"), "cv"),
    ("two bags in two folds", lambda: tune(TWO, Y[:2], cv=2, n_landmarks=[2]), "cv"),
    ("three bags in two folds", lambda: tune(BAGS[:3], Y[:3], cv=2, n_landmarks=[2]), "cv"),
    ("validation that is no pair", lambda: tune(BAGS, Y, validation=BAGS), "validation"),
    ("validation of too few labels",
     lambda: tune(BAGS, Y, validation=(BAGS, Y[:3])), "validation"),
    ("validation of other columns",
     lambda: tune(BAGS, Y, validation=(NARROW, Y)), "validation"),
    ("an unknown score", lambda: tune(BAGS, Y, cv=2, score="r2"), "score"),
    ("an unknown search", lambda: tune(BAGS, Y, cv=2, refine="all"), "refine"),
    ("an unknown method", lambda: tune(BAGS, Y, cv=2, method="mcmc"), "mcmc"),
    ("a seed of text", lambda: tune(BAGS, Y, cv=2, seed="one"), "seed"),
    ("too few labels", lambda: tune(BAGS, Y[:3], cv=2), "3 labels"),
    ("totals beside embeddings", lambda: tune(BAGS, COUNTS, cv=2, models=[RATES, BDR()]), "models"),
    ("totals that are no counts", lambda: tune(BAGS, Y, cv=2, models=[RATES]), "bag 0"),
    ("totals of validation that are no counts",
     lambda: tune(BAGS, COUNTS, validation=(BAGS, Y), models=[RATES]), ["validation", "bag 0"]),
    ("totals with trials",
     lambda: tune(BAGS, COUNTS, cv=2, models=[RATES], trials=COUNTS), "trials"),
    ("trials of embeddings", lambda: tune(BAGS, Y, cv=2, trials=COUNTS), "trials"),
    ("no trials", lambda: tune(BAGS, COUNTS, cv=2, models=[BINOMIAL]), "trials"),
    ("trials in no column",
     lambda: tune(MEASURED, COUNTS, cv=2, models=[BINOMIAL], trials="asked"), ["'asked'", "'se'"]),
    ("trials of a column of fractions",
     lambda: BINOMIAL.fit(MEASURED, COUNTS, trials="se"), ["trials", "t01"]),
    ("trials that validation lacks",
     lambda: tune(BAGS, COUNTS, validation=(BAGS, COUNTS), models=[BINOMIAL], trials=COUNTS),
     ["validation", "trials"]),
    ("the bound of a model that has none",
     lambda: tune(BAGS, COUNTS, models=[RATES], score="bound"), ["bound", "'laplace'"]),
    ("the bound of an embedding", lambda: tune(BAGS, Y, score="bound"), "score"),
    ("the kernel of totals refined",
     lambda: tune(BAGS, COUNTS, cv=2, models=[RATES], refine="ard"), "refine"),
    ("regions by columns that are not there",
     lambda: tune(BAGS, Y, cv=SpatialBlocks(3)), ["'lon'", "x, z"]),
    ("more regions than bags", lambda: tune(BAGS, Y, cv=SpatialBlocks(20, ("x", "z"))), "n_splits"),
    ("no region", lambda: tune(BAGS, Y, cv=SpatialBlocks(0, ("x", "z"))), "n_splits"),
    ("an unknown option",
     lambda: tune(BAGS, Y, cv=2, n_landmarks=[3], adapt_detla=1), "adapt_detla"),
    ("landmarks learned for another model",
     lambda: learn_landmarks(BLR(), BAGS, Y, validation=(BAGS, Y)), "embedding_prior"),
    ("landmarks learned for noise of size",
     lambda: learn_landmarks(
         Shrinkage(5, embedding_prior="kernel", label_noise="size"), BAGS, Y,
         validation=(BAGS, Y)), "label_noise"),
    ("tuned by known errors",
     lambda: tune(BAGS, Y, cv=2, n_landmarks=[3], label_sd=np.ones(12)), "label_sd"),
    ("landmarks learned in no step",
     lambda: learn_landmarks(KERNEL_PRIOR, BAGS, Y, validation=(BAGS, Y), max_iter=0),
     "max_iter"),
    ("landmarks learned without validation",
     lambda: learn_landmarks(KERNEL_PRIOR, BAGS, Y, validation=None), "validation"),
    ("landmarks learned by too few labels",
     lambda: learn_landmarks(KERNEL_PRIOR, BAGS, Y, validation=(BAGS, Y[:3])), "validation"),
    ("landmarks learned with a seed of text",
     lambda: learn_landmarks(KERNEL_PRIOR, BAGS, Y, validation=(BAGS, Y), seed="one"), "seed"),
    ("landmarks learned for other columns",
     lambda: learn_landmarks(KERNEL_PRIOR, BAGS, Y, validation=(NARROW, Y)), "validation"),
]  # fmt: skip

# ------------------------------------------------------------------ kernels and kernel means

MIXTURE = GaussianMixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
AT_LANDMARKS = LandmarkFeatures(RBF(1.0), POINTS[:3])

KERNELS = [
    ("a bandwidth of 0", lambda: RBF(0), "bandwidth"),
    ("a bandwidth of text", lambda: RBF("wide"), "bandwidth"),
    ("a bandwidth that is None", lambda: RBF(None), "bandwidth"),
    ("a bandwidth of NaN", lambda: Matern32([1.0, np.nan]), "bandwidth"),
    ("no columns", lambda: RBF(columns=[]), "columns"),
    ("a column twice", lambda: RBF(columns=["x", "x"]), "'x'"),
    ("columns that are one", lambda: RBF(columns=3), "columns"),
    ("a variance of 0", lambda: RBF(variance=0), "variance"),
    ("a variance of text", lambda: RBF(variance="a"), "variance"),
    ("a degree of 0", lambda: Polynomial(0), "degree"),
    ("a degree of text", lambda: Polynomial("a"), "degree"),
    ("a negative constant", lambda: Polynomial(2, -1.0), "constant"),
    ("a sum with text", lambda: RBF(1.0) + "rbf", "'rbf'"),
    ("a median that waits for data", lambda: RBF()(POINTS, POINTS), "scaled"),
    ("points of other columns", lambda: RBF([1.0, 2.0])(POINTS[:, :1], POINTS), "feature"),
    ("a column that is not there", lambda: RBF(columns=[7]).on(None, 2), "7"),
    ("the median of one point", lambda: median_bandwidth([POINTS[:1]]), "one point"),
    ("the median of a sample of 1", lambda: median_bandwidth(BAGS, sample=1), "sample"),
    ("Fourier features of no frequency", lambda: draw_frequencies(0, 2), "n_frequencies"),
    ("Fourier features of text", lambda: draw_frequencies("a", 2), "n_frequencies"),
    ("feature maps of none", lambda: ConcatenatedFeatures([]), "map"),
    ("landmarks in a row", lambda: LandmarkFeatures(RBF(1.0), [1.0]), "landmarks"),
    ("no kernel of that name", lambda: KernelMean(POINTS, "gauss"), "kernel"),
    ("no points of a mean", lambda: KernelMean(POINTS[:0]), "point"),
    ("text for points of a mean", lambda: KernelMean([["a"]]), "not numbers"),
    ("no estimator of that name", lambda: KernelMean(POINTS, estimator="best"), "estimator"),
    ("a mean of a negative bandwidth", lambda: KernelMean(POINTS, bandwidth=-1.0), "bandwidth"),
    ("a mean at points of other columns", lambda: KernelMean(POINTS)(POINTS[:, :1]), "points"),
    ("means of two kernels",
     lambda: KernelMean(POINTS, bandwidth=1.0).distance(KernelMean(POINTS, bandwidth=2.0)),
     "kernel"),
    ("the distance from a number", lambda: KernelMean(POINTS).distance(3), "mean"),
    ("an operator of no such estimator",
     lambda: CovarianceOperator(POINTS, estimator="best"), "estimator"),
    ("no components", lambda: KernelPCA(0).fit(POINTS), "n_components"),
    ("components of text", lambda: KernelPCA("two").fit(POINTS), "n_components"),
    ("components before a fit", lambda: KernelPCA().transform(POINTS), "not fitted"),
    ("points of a mixture by text", lambda: MIXTURE.sample("a"), "n must be"),
    ("a mixture of no component", lambda: kmeans_mixture(POINTS, 0), "n_components"),
    ("the mean of a mixture by another kernel",
     lambda: MixtureMean(MIXTURE, Matern32(1.0)), "Matern32"),
    ("no set kernels", lambda: set_kernels(BAGS, []), "kernels"),
    ("set kernels by name", lambda: set_kernels(BAGS, ["rbf"]), "kernels"),
    ("set kernels with other columns", lambda: set_kernels(BAGS, [RBF(1.0)], NARROW), "others"),
    ("weights of no such estimator", lambda: bag_weights(BAGS, RBF(1.0), "best"), "estimator"),
    ("landmarks by no such method", lambda: choose_landmarks(BAGS, 3, method="grid"), "method"),
    ("landmarks of a number", lambda: choose_landmarks(3, 3), "bags"),
    ("an embedding of other columns", lambda: embed(NARROW, AT_LANDMARKS), "columns"),
    ("an embedding of no such covariance",
     lambda: embed(BAGS, AT_LANDMARKS, covariance="all"), "covariance"),
    ("an embedding of a scatter of text",
     lambda: embed(BAGS, AT_LANDMARKS, covariance="identity", tau="a"), "tau"),
    ("degrees of freedom of text", lambda: StudentT(1.0, degree="a"), "degree"),
    ("a negative alpha", lambda: RationalQuadratic(1.0, alpha=-1), "alpha"),
    ("a constant of text", lambda: Polynomial(2, "a"), "constant"),
    ("a gram matrix in a row", lambda: s_kmse(np.ones(3)), "kernel matrix"),
    ("a gram matrix that is not square", lambda: f_kmse(np.ones((2, 3))), "kernel matrix"),
]  # fmt: skip

# ------------------------------------------------------------------ metrics and plots

SCORES = [
    ("labels of another length", lambda: metrics.mse(Y, Y[:3]), "mean has shape"),
    ("a label of NaN", lambda: metrics.mse(changed(Y, 2, np.nan), Y), "bag 2"),
    ("labels of text", lambda: metrics.mse(["a"], [1.0]), "y"),
    ("no labels", lambda: metrics.mse([], []), "no bags"),
    ("bounds of another length", lambda: metrics.coverage(Y, Y, Y[:2]), "upper"),
    ("widths of another length", lambda: metrics.interval_width(Y, Y[:2]), "upper"),
    ("edges that fall", lambda: metrics.size_classes(SIZES, [5, 2]), "edges"),
    ("no edges", lambda: metrics.size_classes(SIZES, []), "edges"),
    ("edges of text", lambda: metrics.size_classes(SIZES, ["a"]), "edges"),
    ("sizes of another length",
     lambda: metrics.table_by_size(Y, PREDICTIVE, SIZES[:3]), "sizes"),
    ("a level of 2", lambda: metrics.table_by_size(Y, PREDICTIVE, SIZES, level=2), "level"),
    ("a level of text",
     lambda: metrics.table_by_size(Y, PREDICTIVE, SIZES, level="wide"), "level"),
    ("levels of 0", lambda: metrics.calibration(Y, PREDICTIVE, [0.0]), "level"),
    ("no levels", lambda: metrics.calibration(Y, PREDICTIVE, []), "levels"),
    ("a fractional count", lambda: metrics.poisson_nll([0.5], [1.0]), "individual 0"),
    ("a negative rate", lambda: metrics.poisson_nll([1.0], [-1.0]), "rate"),
    ("an sd of 0", lambda: metrics.normal_nll([1.0], [1.0], 0.0), "sd"),
    ("an sd of text", lambda: metrics.normal_nll([1.0], [1.0], "a"), "sd"),
    ("no bins", lambda: metrics.reliability(CLASSES, OF_CLASSES, 0), "n_bins"),
    ("bins of text", lambda: metrics.reliability(CLASSES, OF_CLASSES, "ten"), "n_bins"),
    ("a label that is no class",
     lambda: metrics.classes_by_size(["c"] * 12, OF_CLASSES, SIZES), "'c'"),
    ("rates of another length", lambda: metrics.point_calibration([1.0], AT_POINTS), "78 points"),
    ("a plot of sizes of another length",
     lambda: plots.prediction_by_size(Y, PREDICTIVE, SIZES[:3]), "sizes"),
    ("a plot in too few axes",
     lambda: plots.prediction_by_size(Y, PREDICTIVE, SIZES, axes=[]), "axes"),
    ("a comparison of nothing", lambda: plots.compare_by_size({}, Y, SIZES), "predictive"),
    ("a calibration of too few labels", lambda: plots.calibration(Y[:3], PREDICTIVE), "y"),
    ("curves of no table", lambda: plots.point_calibration({}), "tables"),
    ("curves of another table",
     lambda: plots.point_calibration({"a": TABLE}), "level"),
    ("a picture of no influence", lambda: plots.influence(NETWORK, 0), "AggregateNN"),
    ("a picture of no such column", lambda: plots.influence(FITTED, "age", BAGS), "age"),
    ("a picture of a level of 2", lambda: plots.influence(FITTED, "x", level=2), "level"),
    ("a spectrum of no shrinkage", lambda: plots.shrinkage_spectrum(FITTED), "BLR"),
    ("a spectrum of bags of no points",
     lambda: plots.shrinkage_spectrum([1.0], 1.0, [0]), "sizes"),
    ("a spectrum of text", lambda: plots.shrinkage_spectrum(["a"], 1.0), "lam"),
    ("a spectrum of eta 0", lambda: plots.shrinkage_spectrum([1.0], 0.0), "eta"),
    ("landmarks of other columns",
     lambda: plots.landmarks(POINTS, np.ones((2, 3))), "landmarks"),
    ("landmarks by three columns",
     lambda: plots.landmarks(POINTS, POINTS[:3], (0, 1, 2)), "features"),
    ("landmarks by no such column",
     lambda: plots.landmarks(BAGS, POINTS[:3], ("x", "age")), "age"),
    ("a map of places of another length",
     lambda: plots.rate_map([1.0, 2.0], [0], [0]), "shape"),
    ("a map of fractional places", lambda: plots.rate_map([1.0], [0.5], [0]), "row"),
    ("a map between equal limits",
     lambda: plots.rate_map([1.0], [0], [0], limits=(2, 2)), "limits"),
    ("a map of one limit", lambda: plots.rate_map([1.0], [0], [0], limits=(2,)), "limits"),
    ("maps of places of another length",
     lambda: plots.rate_maps({"a": [1.0, 2.0]}, [0], [0]), "'a'"),
    ("the reliability of nothing", lambda: plots.reliability({}, CLASSES, SIZES), "predictive"),
    ("a map of two pixels in a cell",
     lambda: plots.rate_map([1.0, 2.0], [0, 0], [0, 0]), "2 pixels"),
    ("a map of the logarithm of 0",
     lambda: plots.rate_map([0.0, 1.0], [0, 1], [0, 0], log=True), "log"),
    ("no maps", lambda: plots.rate_maps({}, [0], [0]), "map"),
]  # fmt: skip


class OF_CLASSES:
    """A class predictive, as metrics take it."""

    classes, mean = np.array(["a", "b"]), np.full(12, 0.5)

    @staticmethod
    def log_prob(y):
        return np.log(np.full(len(y), 0.5))


# ------------------------------------------------------------------ data sets and files

FILES = [
    ("no digits", lambda: datasets.digits_bags(0, seed=1), "n_bags"),
    ("a text of digits", lambda: datasets.digits_bags("a", seed=1), "n_bags"),
    ("digits of size 0", lambda: datasets.digits_bags(3, seed=1, max_size=0), "max_size"),
    ("digits of no such half", lambda: datasets.digits_bags(3, seed=1, split="all"), "all"),
    ("digits of a seed of text", lambda: datasets.digits_bags(3, seed="a"), "seed"),
    ("faces that are not there", lambda: paper_data.load_faces("no.npy", [0], [1]), "no.npy"),
    ("faces of another kind", lambda: paper_data.load_faces("table.csv", [0], [1]), "table.csv"),
    ("elevators that are not there", lambda: paper_data.load_elevators("no.npz"), "no.npz"),
    ("elevators of another kind", lambda: paper_data.load_elevators("table.csv"), "table.csv"),
    ("aerosol that is not there", lambda: paper_data.load_misr1("no.mat"), "no.mat"),
    ("aerosol of another kind", lambda: paper_data.load_misr1("table.parquet"), "table.parquet"),
    ("elevators in no path", lambda: paper_data.load_elevators(None), "path"),
    ("sizes of no distribution",
     lambda: negative_binomial_sizes(RNG, 5, 10, 1), "mean 10"),
    ("sizes of a mean of text",
     lambda: negative_binomial_sizes(RNG, 5, "a", 1), "mean 'a'"),
    ("a split of one row",
     lambda: paper_data.aggregate_splits(POINTS[:1], Y[:1], ["x", "z"], by="x", seed=1), "rows"),
    ("a split by no such column",
     lambda: paper_data.aggregate_splits(POINTS, POINTS[:, 0], ["x", "z"], by="age", seed=1),
     "age"),
    ("nested splits of no bags", lambda: paper_data.nested_split(0, seed=1), "n_bags"),
    ("nested splits of a share of 2", lambda: paper_data.nested_split(9, seed=1, test=2), "test"),
    ("a fit that is not there", lambda: bdr_stan.load("no.nc"), "no.nc"),
    ("a fit that is a folder", lambda: bdr_stan.load("folder"), "folder"),
    ("a fit below a file", lambda: bdr_stan.load("fit.nc/x.nc"), "fit.nc/x.nc"),
    ("a fit by number", lambda: bdr_stan.load(3), "path"),
    ("a fit cut short", lambda: bdr_stan.load("short.nc"), "short.nc"),
    ("a fit that is empty", lambda: bdr_stan.load("empty.nc"), "empty.nc"),
    ("a fit that is text", lambda: bdr_stan.load("text.nc"), "text.nc"),
    ("a NetCDF file of something else", lambda: bdr_stan.load("other.nc"), "other.nc"),
    ("a fit without a variable", lambda: bdr_stan.load("lacking.nc"), ["lacking.nc", "beta"]),
    ("a fit without a group", lambda: bdr_stan.load("halved.nc"), ["halved.nc", "posterior"]),
    ("a fit of damaged bytes", lambda: bdr_stan.load("garbled.nc"), "garbled.nc"),
    ("a fit of no configuration", lambda: bdr_stan.load("bare.nc"), "bare.nc"),
    ("a fit of a configuration of text", lambda: bdr_stan.load("words.nc"), "words.nc"),
    ("a fit of no such estimator", lambda: bdr_stan.load("unknown.nc"), "unknown.nc"),
    ("another estimator's fit", lambda: BDR.load("fit.nc"), "BLR"),
    ("a fit saved below a file", lambda: FITTED.save("fit.nc/x.nc"), "fit.nc"),
    ("a fit saved in no folder", lambda: FITTED.save("nowhere/x.nc"), "nowhere"),
    ("a fit saved as a folder", lambda: FITTED.save("folder"), "folder"),
    ("a fit saved by number", lambda: FITTED.save(3), "path"),
    ("notes of text", lambda: FITTED.save("new.nc", notes="mine"), "notes"),
    ("notes of objects", lambda: FITTED.save("new.nc", notes={"a": object()}), "notes"),
    ("a splitter in a file", lambda: FOLDED.save("new.nc"), "cv"),
    ("the program of somebody else's fit",
     lambda: bdr_stan.load("own.nc").fit(BAGS, Y), ["stan_file", "own.nc"]),
    ("a clone of somebody else's fit",
     lambda: clone(bdr_stan.load("own.nc")).fit(BAGS, Y), ["stan_file", "own.nc"]),
]  # fmt: skip

# ------------------------------------------------------------------ Stan

STAN = [
    ("an unknown source", lambda: cmdstan.setup("conda"), "source"),
    ("an unknown program to set up", lambda: cmdstan.setup(programs=["bdx"]), "bdx"),
    ("programs that are one", lambda: cmdstan.setup(programs="bdr"), "programs"),
    ("a program ejected to nowhere", lambda: eject("bdr", None), "target"),
    ("an unknown program", lambda: compile_program("bdx"), "bdx"),
    ("a program that is not there", lambda: compile_program("mine.stan"), "mine.stan"),
    ("a program below a file", lambda: compile_program("table.csv/mine.stan"), "mine.stan"),
    ("a program by number", lambda: compile_program(3), "program"),
    ("an unknown program to eject", lambda: eject("bdx", "new.stan"), "bdx"),
    ("a program ejected over another", lambda: eject("bdr", "taken.stan"), "taken.stan"),
    ("a program ejected below a file", lambda: eject("bdr", "table.csv/bdr.stan"), "table.csv"),
]

# ------------------------------------------------------------------ command line


def fit_arguments(*more, table="table.csv"):
    """A good command ``fit``, and more options; of those that come twice the last one counts."""
    good = [
        "--bag",
        "town",
        "--label",
        "y",
        "--features",
        "x,z",
        "--model",
        "blr",
        "--landmarks",
        "5",
        "-o",
        "new.nc",
    ]
    return ["fit", table, *good, *more]


def tune_arguments(*more, table="table.csv"):
    return ["tune", table, "--bag", "town", "--label", "y", "--features", "x,z", *MODEL, *more]


MODEL = ["--model", "blr"]


def predict_arguments(*more, fit="fit.nc", table="table.csv"):
    return ["predict", fit, table, "--bag", "town", "-o", "new.csv", *more]


COMMANDS = [
    (["fit"], "DATA"),
    (["fit", "table.csv"], "--bag"),
    (["fit", "table.csv", "--bag", "town"], "--label"),
    (["fit", "table.csv", "--bag", "town", "--label", "y"], "--output"),
    (fit_arguments(table="nowhere.csv"), "nowhere.csv"),
    (fit_arguments(table="folder"), "folder"),
    (fit_arguments(table="table.txt"), "table.txt"),
    (fit_arguments(table="empty.csv"), "empty.csv"),
    (fit_arguments(table="binary.csv"), "binary.csv"),
    (fit_arguments(table="short.parquet"), "short.parquet"),
    (fit_arguments(table="nowhere.parquet"), "nowhere.parquet"),
    (fit_arguments("--bag", "city"), "city"),
    (fit_arguments("--label", "size"), "size"),
    (fit_arguments("--label", "note"), "note"),
    (fit_arguments("--label", "x"), "x"),
    (fit_arguments("--label", "town"), "town"),
    (fit_arguments("--features", "x,height"), "height"),
    (fit_arguments("--features", "x,y"), "y"),
    (fit_arguments("--features", ""), "no column ''"),
    (fit_arguments("--features", "x,x"), "x"),
    (fit_arguments("--weight", "mass"), "mass"),
    (fit_arguments("--weight", "note"), "note"),
    (fit_arguments("--weight", "x"), "x"),
    (fit_arguments("--model", "ols"), "ols"),
    (fit_arguments("--landmarks", "0"), "--landmarks"),
    (fit_arguments("--landmarks", "many"), "--landmarks"),
    (fit_arguments("--bandwidth", "wide"), "--bandwidth"),
    (fit_arguments("--bandwidth", "-1"), "bandwidth"),
    (fit_arguments("--bandwidth", "nan"), "bandwidth"),
    (fit_arguments("--bandwidth-scale", "0"), "bandwidth_scale"),
    (fit_arguments("--bandwidth-scale", "a"), "--bandwidth-scale"),
    (fit_arguments("--covariance", "average"), "--covariance"),
    (fit_arguments("--covariance", "mean"), "--covariance"),
    (fit_arguments("--label-noise", "wide"), "--label-noise"),
    (fit_arguments("--model", "bdr-classifier", "--label-noise", "size"), "--label-noise"),
    (fit_arguments("--model", "blr-classifier", "--label-sd", "people"), "--label-sd"),
    (fit_arguments("--label-sd", "error"), "error"),
    (fit_arguments("--label-sd", "y"), "y"),
    (fit_arguments("--label-sd", "note"), "label_sd"),
    (fit_arguments("--method", "mcmc"), "--method"),
    (fit_arguments("--model", "bdr", "--method", "exact"), "exact"),
    (fit_arguments("--chains", "0"), "--chains"),
    (fit_arguments("--warmup", "-1"), "--warmup"),
    (fit_arguments("--warmup", "0"), "warmup"),
    (fit_arguments("--draws", "0"), "--draws"),
    (fit_arguments("--draws", "1e3"), "--draws"),
    (fit_arguments("--adapt-delta", "2"), "--adapt-delta"),
    (fit_arguments("--method", "exact", "--adapt-delta", "0.9"), "--adapt-delta"),
    (fit_arguments("--max-treedepth", "0"), "--max-treedepth"),
    (fit_arguments("--seed", "-1"), "--seed"),
    (fit_arguments("--seed", "5000000000"), "seed"),
    (fit_arguments("--stan-file", "mine.stan"), "mine.stan"),
    (fit_arguments("--method", "exact", "--stan-file", "taken.stan"), "stan_file"),
    (fit_arguments("-o", "fit.nc"), "fit.nc"),
    (fit_arguments("-o", "folder"), "folder"),
    (fit_arguments("-o", "nowhere/new.nc"), "nowhere"),
    (fit_arguments("-o", "table.csv/new.nc"), "table.csv"),
    (fit_arguments("-o", "table.csv", "--force"), "table.csv"),
    (fit_arguments("--colour"), "--colour"),
    (fit_arguments("--model", "bdr-classifier"), "classes"),
    (fit_arguments("--model", "inverse-bdr-classifier"), "has its own class"),
    (fit_arguments("--model", "inverse-bdr", "--covariates", "people"), "--covariates"),
    (fit_arguments("--model", "inverse-bdr", "--covariance", "identity"), "covariance"),
    (fit_arguments("--model", "inverse-bdr", "--method", "exact"), "exact"),
    (fit_arguments("--link", "exp"), "--link"),
    (fit_arguments("--likelihood", "gauss"), "--likelihood"),
    (fit_arguments("--trials", "people"), "--trials"),
    (fit_arguments("--bag-effects"), "--bag-effects"),
    (fit_arguments("--thin", "0"), "--thin"),
    (fit_arguments("--n-curved", "4"), "--n-curved"),
    (fit_arguments("--model", "aggregate", "--bandwidth", "2"), "--bandwidth"),
    (fit_arguments("--model", "aggregate", "--label-sd", "people"), "--label-sd"),
    (fit_arguments("--model", "aggregate", "--link", "logit"), "logit"),
    (fit_arguments("--model", "aggregate", "--likelihood", "binomial"), "trials"),
    (fit_arguments("--model", "aggregate"), "counts"),
    (["tune", "table.csv"], "--bag"),
    (tune_arguments(table="nowhere.csv"), "nowhere.csv"),
    (tune_arguments("--model", "ols"), "ols"),
    (tune_arguments("--landmarks", "few"), "--landmarks"),
    (tune_arguments("--landmarks", "0"), "n_landmarks"),
    (tune_arguments("--bandwidth-scale", "-1"), "bandwidth_scale"),
    (tune_arguments("--cv", "1"), "--cv"),
    (tune_arguments("--cv", "90"), "cv"),
    (tune_arguments("--candidates", "vb"), "vb"),
    (tune_arguments("--score", "evidence"), "score"),
    (tune_arguments("--kernel", "rbf,gauss"), "gauss"),
    (tune_arguments("-o", "fit.nc"), "fit.nc"),
    (tune_arguments("--table", "new.txt"), "new.txt"),
    (tune_arguments("--table", "nowhere/new.csv"), "nowhere"),
    (["report"], "FIT"),
    (["report", "fit.nc"], "--output"),
    (["report", "no.nc", "-o", "new.html"], "no.nc"),
    (["report", "ridge.nc", "-o", "new.html"], "ridge.nc"),
    (["report", "fit.nc", "-o", "new.txt"], "new.txt"),
    (["report", "fit.nc", "-o", "folder"], "folder"),
    (["report", "fit.nc", "-o", "nowhere/new.html"], "nowhere"),
    (["report", "fit.nc", "nowhere.csv", "--bag", "town", "-o", "new.html"], "nowhere.csv"),
    (["report", "fit.nc", "table.csv", "-o", "new.html"], "--bag"),
    (["predict"], "FIT"),
    (["predict", "fit.nc"], "NEW"),
    (["predict", "fit.nc", "table.csv"], "--output"),
    (predict_arguments(fit="no.nc"), "no.nc"),
    (predict_arguments(fit="short.nc"), "short.nc"),
    (predict_arguments(fit="lacking.nc"), "lacking.nc"),
    (predict_arguments(fit="ridge.nc"), "ridge.nc"),
    (predict_arguments(table="nowhere.csv"), "nowhere.csv"),
    (predict_arguments(table="table.txt"), "table.txt"),
    (predict_arguments(table="renamed.csv"), "'z'"),
    (predict_arguments("--bag", "city"), "city"),
    (predict_arguments("--weight", "mass"), "mass"),
    (predict_arguments("--level", "1"), "--level"),
    (predict_arguments("--level", "wide"), "--level"),
    (predict_arguments("-o", "new.txt"), "new.txt"),
    (predict_arguments("-o", "table.csv"), "table.csv"),
    (predict_arguments("-o", "nowhere/new.csv"), "nowhere"),
    (predict_arguments("-o", "fit.nc/new.csv"), "fit.nc"),
    (["predict", "fit.nc", "table.csv", "-o", "new.csv"], "--bag"),
    (["summary"], "FIT"),
    (["summary", "no.nc"], "no.nc"),
    (["summary", "text.nc"], "text.nc"),
    (["summary", "garbled.nc"], "garbled.nc"),
    (["summary", "ridge.nc"], "ridge.nc"),
    (["summary", "folder"], "folder"),
    (["eject"], "NAME"),
    (["eject", "bdr"], "TARGET"),
    (["eject", "bdx", "new.stan"], "bdx"),
    (["eject", "bdr", "taken.stan"], "taken.stan"),
    (["eject", "bdr", "table.csv/new.stan"], "table.csv"),
    (["compile"], "NAME_OR_PATH"),
    (["compile", "bdx"], "bdx"),
    (["compile", "nowhere.stan"], "nowhere.stan"),
    (["setup", "--from", "conda"], "--from"),
    (["setup", "now"], "now"),
    (["demo", "--output", "table.csv"], "table.csv"),
    (["demo", "--output", "table.csv/demo"], "table.csv"),
    (["demo", "--slow"], "--slow"),
    (["doctor", "--now"], "--now"),
    (["frobnicate"], "frobnicate"),
]

CASES = [
    *parameter_cases(),
    *fit_cases(),
    *(
        (f"{area}: {name}", call, words)
        for area, table in {
            "fits": FITS,
            "predictions": PREDICTIONS,
            "bags": BAD_BAGS,
            "choices": CHOICES,
            "kernels": KERNELS,
            "scores": SCORES,
            "files": FILES,
            "stan": STAN,
        }.items()
        for name, call, words in table
    ),
]


# ------------------------------------------------------------------ the rules


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the cases name."""
    folder = tmp_path_factory.mktemp("ready")
    (folder / "folder").mkdir()
    TABLE.to_csv(folder / "table.csv", index=False)
    TABLE.to_csv(folder / "table.txt", index=False)
    TABLE.rename(columns={"z": "age"}).to_csv(folder / "renamed.csv", index=False)
    TABLE.to_parquet(folder / "table.parquet")
    cut(folder / "table.parquet", folder / "short.parquet")
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)))
    for name in ("empty.csv", "empty.nc"):
        (folder / name).touch()
    for name in ("taken.stan", "text.nc"):
        (folder / name).write_text("text")
    FITTED.save(folder / "fit.nc")
    RBFNetwork(5).fit(BAGS, Y, seed=1).save(folder / "ridge.nc")
    own = copy.copy(FITTED).set_params(method="nuts", stan_file="taken.stan")
    own.save(folder / "own.nc")
    cut(folder / "fit.nc", folder / "short.nc")
    xr.Dataset({"x": 1}).to_netcdf(folder / "other.nc", engine="h5netcdf")
    for name in ("lacking", "halved", "garbled", "bare", "words", "unknown"):
        shutil.copy(folder / "fit.nc", folder / f"{name}.nc")
    with h5py.File(folder / "lacking.nc", "a") as file:
        del file["posterior/beta"]
    with h5py.File(folder / "halved.nc", "a") as file:
        del file["posterior"]
    for name, config in {
        "bare": {},
        "words": "text",
        "unknown": {"estimator": "OLS", "params": {}, "settings": {}, "members": [], "notes": {}},
    }.items():
        with h5py.File(folder / f"{name}.nc", "a") as file:
            file.attrs["bdr_stan_config"] = json.dumps(config)
    content = bytearray((folder / "garbled.nc").read_bytes())
    content[2000:-2000:3] = b"x" * len(content[2000:-2000:3])
    (folder / "garbled.nc").write_bytes(content)
    return folder


def cut(path, short):
    content = path.read_bytes()
    short.write_bytes(content[: len(content) // 2])


@pytest.fixture(autouse=True)
def nothing_left(folder, monkeypatch):
    """Cases run in the folder of files, and leave it as it is."""

    def state():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    monkeypatch.chdir(folder)
    before = state()
    yield
    assert state() == before


@pytest.fixture(autouse=True)
def no_stan(monkeypatch):
    """Whatever would start Stan, or the search for the mode before it, fails loudly."""

    def started(*arguments, **options):
        pytest.fail("the mistake went unnoticed until Stan was started")

    for module, name in (
        ("posterior.latent_gaussian", "most_probable_scales"),
        ("posterior.sampling", "compile_program"),
        ("learned_landmarks", "most_probable_scales"),
        ("cmdstan.programs", "choose"),
        ("cmdstan.setup", "choose"),
    ):
        monkeypatch.setattr(import_module(f"bdr_stan.{module}"), name, started)


def check_sentence(text, words):
    """One sentence with these words, and not what Python says of its own."""
    assert "\n" not in text, text
    assert len(text.split()) >= 3, f"no sentence: {text}"
    assert not re.search(r"Traceback|<class|<function|<bdr_stan|object at 0x", text), text
    for word in [words] if isinstance(words, str) else words:
        assert word in text, text


@pytest.mark.parametrize(
    ("call", "words"), [pytest.param(call, words, id=name) for name, call, words in CASES]
)
def test_python(call, words):
    with pytest.raises(EXPECTED) as raised:
        call()
    check_sentence(str(raised.value), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [pytest.param(arguments, words, id=" ".join(arguments)) for arguments, words in COMMANDS],
)
def test_command_line(arguments, words):
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code in (1, 2), result.output
    usage, _, sentence = result.stderr.rpartition("Error: ")
    assert usage == "" or (result.exit_code == 2 and usage.startswith("Usage: ")), result.stderr
    check_sentence(sentence.removesuffix("\n"), words)


def test_there_are_many_cases_of_every_area():
    assert len(CASES) + len(COMMANDS) > 200
    assert len({name for name, _, _ in CASES}) == len(CASES)
