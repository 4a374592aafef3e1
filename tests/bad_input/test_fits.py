"""Labels, options and data that fits refuse."""

import numpy as np
import pandas as pd
from builders.mistakes import (
    BAGS,
    CLASSES,
    COUNTS,
    MEASURED,
    POINTS,
    RATES,
    RENAMED,
    TABLE,
    TWO,
    Y,
    changed,
    check_call,
    mistakes,
)

from bdr_stan import (
    BDR,
    BLR,
    MERR,
    RBF,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
)
from experiments.papers import (
    DFDR,
    AggregateNN,
    BagPixel,
    ConstantRate,
    FreqShrinkage,
    SupportMeasureMachine,
)

# Arguments of `fit` that no Bayesian estimator on mean embeddings takes; Y where no labels are.
LABELS = [
    ("too few labels", Y[:5], "5 labels"),
    ("labels in a column", Y[:, None], "y has shape (12, 1)"),
    ("labels in three dimensions", np.ones((12, 2, 2)), "y has shape (12, 2, 2)"),
    ("labels of text", ["a"] * 12, ["label of bag 0", "BDRClassifier"]),
    ("no labels", None, "y"),
    ("a label that is NaN", changed(Y, 3, np.nan), "bag 3"),
    ("a label that is infinite", changed(Y, 4, np.inf), "bag 4"),
    ("a label that is a nodata marker", changed(Y, 5, -3.4e38), "bag 5"),
    ("labels all alike", np.ones(12), "labels"),
]
# Several labels of each bag, which only estimators with `takes_outputs` fit.
TWO_COLUMNS = np.column_stack([Y, -Y])
OUTPUTS = [
    ("too few rows", TWO_COLUMNS[:5], ["output '0'", "5 labels"]),
    ("a row for each output", TWO_COLUMNS.T, ["output '0'", "2 labels"]),
    ("of text", pd.DataFrame({"a": Y, "b": "c"}), ["output 'b'", "label of bag 0"]),
    ("one that is NaN", pd.DataFrame({"a": Y, "b": changed(Y, 3, np.nan)}), ["'b'", "bag 3"]),
    ("of which one is alike", pd.DataFrame({"a": Y, "b": 1.0}), "output 'b': all 12 labels"),
    ("masked", np.ma.masked_values(TWO_COLUMNS, TWO_COLUMNS[4, 1]), ["output '1'", "bag 4"]),
    ("of no columns", np.ones((12, 0)), "y has shape (12, 0)"),
    ("ragged", [[1.0, 2.0], *[[3.0]] * 11], "label of bag 0"),
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
    ("in no column", "se", "label_sd='se' is not a column"),
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
    ("counts of text", ["a"] * 12, ["label of bag 0", "BDRClassifier"]),
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
    ("optimize", {"algorithm": "bfgs"}, "takes no algorithm"),
    ("laplace", {"max_treedepth": 5}, "max_treedepth"),
    ("laplace", {"iter": 5}, "iter"),
    ("optimize", {"history_size": 0}, "history_size"),
    ("pathfinder", {}, "no method 'pathfinder'; there are: nuts, exact, optimize, laplace"),
]


def fit_cases():
    for name, y, words in LABELS:
        for model in (BDR(5), InverseBDR(5), BLR(5), RBFNetwork(5), MERR(), DFDR()):
            yield f"{type(model).__name__}, {name}", lambda m=model, y=y: m.fit(BAGS, y), words
    for model in (BDR(5), InverseBDR(5), BLR(5), Stacked([BLR(5), BDR(5)]), DFDR()):
        call = lambda m=model: m.fit(BAGS, TWO_COLUMNS)  # noqa: E731
        words = ["y has shape (12, 2)", "fit a model to each column", "MERR"]
        yield f"{type(model).__name__}, labels of two columns", call, words
    for name, y, words in OUTPUTS:
        for model in (RBFNetwork(5), MERR()):
            yield (
                f"{type(model).__name__}, outputs {name}",
                lambda m=model, y=y: m.fit(BAGS, y),
                words,
            )
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
    ("a variational inverse model",
     lambda: InverseBDR(5, method="vb").fit(BAGS, Y), "vb"),
    ("an inverse model in closed form",
     lambda: InverseBDRClassifier(5, method="exact").fit(BAGS, CLASSES), "exact"),
    ("a prior of another model",
     lambda: InverseBDR(5, prior={"rho_median": 1.0}).fit(BAGS, Y), ["rho_median", "tau_scale"]),
    ("a tiny bandwidth of an inverse model",
     lambda: InverseBDR(5, bandwidth=1e-9).fit(BAGS, Y), "bandwidth"),
    ("a kernel with a bandwidth beside it",
     lambda: BDR(5, RBF(1.0), bandwidth=2.0).fit(BAGS, Y), "bandwidth"),
    ("a kernel on a column that is not there",
     lambda: BDR(5, RBF(columns=["age"])).fit(BAGS, Y), "age"),
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
    ("validation of one output",
     lambda: FreqShrinkage(5).fit(BAGS, TWO_COLUMNS, validation=(BAGS, Y)),
     ["validation", "columns"]),
    ("validation of two outputs",
     lambda: FreqShrinkage(5).fit(BAGS, Y, validation=(BAGS, TWO_COLUMNS)),
     ["validation", "columns"]),
    ("too few rows of outputs for ridge features",
     lambda: RBFNetwork(5).fit_features(RBFNetwork(5).training_features(BAGS), TWO_COLUMNS[:3]),
     "3 labels"),
    ("outputs for the features of BLR",
     lambda: BLR(5).fit_features(BLR(5).training_features(BAGS), pd.DataFrame(TWO_COLUMNS)),
     "y has shape (12, 2)"),
    ("too few labels for ridge features",
     lambda: RBFNetwork(5).fit_features(RBFNetwork(5).training_features(BAGS), Y[:3]),
     "3 labels"),
    ("features that are not shrunk",
     lambda: FreqShrinkage(5, shrinkage="s-kmse").fit_features(
         RBFNetwork(5).training_features(BAGS), Y), "shrunk"),
    ("validation that is no pair",
     lambda: FreqShrinkage(5).fit(BAGS, Y, validation=BAGS), "validation"),
    ("validation of two bags, three labels",
     lambda: FreqShrinkage(5).fit(BAGS, Y, validation=(TWO, [1, 2, 3])), "validation"),
    ("validation of other columns",
     lambda: FreqShrinkage(5).fit(BAGS, Y, validation=(RENAMED, Y)), "validation"),
    ("weights that cannot be shrunk",
     lambda: FreqShrinkage(5, shrinkage="f-kmse").fit(
         Bags(POINTS, BAGS.offsets, weights=np.ones(78)), Y), "weights"),
    ("the average as target of single bags",
     lambda: FreqShrinkage(5, shrinkage="s-kmse", target="average").fit(BAGS, Y), "target"),
    ("a target of other columns",
     lambda: FreqShrinkage(5, target=POINTS[:2, :1]).fit(BAGS, Y), "feature"),
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


@mistakes(fit_cases())
def test_arguments_of_fit(call, words):
    check_call(call, words)


@mistakes(FITS)
def test_fits(call, words):
    check_call(call, words)
