"""What families of labels refuse: labels, trials and exposures that do not belong to them."""

import numpy as np
import pandas as pd
import pytest
from builders.families import EXAMPLES, FAMILIES
from builders.mistakes import (
    BAGS,
    COUNTS,
    MEASURED,
    POINTS,
    SIZES,
    Y,
    changed,
    check_call,
    mistakes,
)

from bdr_stan import (
    BDR,
    BLR,
    Bags,
    BDRClassifier,
    InverseBDR,
    RBFNetwork,
    Shrinkage,
    Stacked,
    StackedClassifier,
    tune,
)
from bdr_stan.cmdstan.programs import program_path

TRIALS = np.full(12, 20)
POSITIVE = np.abs(Y) + 0.1
SHARES = SIZES / 13
SEEN = np.array([1, 0] * 6)
THREE = np.array([0, 1, 2] * 4)
NAMED = Bags.from_points(
    POINTS,
    sizes=SIZES,
    ids=[f"t{i:02}" for i in range(12)],
    metadata=pd.DataFrame({"people": TRIALS, "gaps": [np.nan, *TRIALS[1:]], "name": ["a"] * 12}),
)
POISSON, BINOMIAL = BDR(5, family="poisson"), BDR(5, family="binomial")
LABELS = {
    "poisson": [
        ("negative", changed(COUNTS, 2, -1.0), ["bag 2", "-1", "counts"]),
        ("not whole", changed(COUNTS, 2, 0.5), ["bag 2", "0.5", "'gamma'"]),
        ("NaN", changed(COUNTS, 3, np.nan), ["bag 3", "nan"]),
        ("infinite", changed(COUNTS, 3, np.inf), ["bag 3", "inf"]),
        ("too large", changed(COUNTS, 2, 2.5e9), ["bag 2", "Stan"]),
        ("text", ["a"] * 12, ["label of bag 0", "a"]),
        ("all zero", np.zeros(12), "all 12 labels are 0"),
        ("too few", COUNTS[:3], "3 labels"),
    ],
    "negative_binomial": [("not whole", changed(COUNTS, 2, 0.5), ["bag 2", "0.5"])],
    "beta": [
        ("zero", changed(SHARES, 4, 0.0), ["bag 4", "'binomial'"]),
        ("one", changed(SHARES, 5, 1.0), ["bag 5", "below 1"]),
        ("in percent", 100 * SHARES, ["bag 0", "below 1"]),
        ("all alike", np.full(12, 0.5), "labels"),
    ],
    "gamma": [
        ("zero", changed(POSITIVE, 4, 0.0), ["bag 4", "gamma", "> 0"]),
        ("negative", changed(POSITIVE, 5, -2.0), ["bag 5", "-2"]),
    ],
    "lognormal": [
        ("zero", changed(POSITIVE, 4, 0.0), ["bag 4", "lognormal", "> 0"]),
        ("negative", changed(POSITIVE, 5, -2.0), ["bag 5", "-2"]),
    ],
    "ordinal": [
        ("two categories", COUNTS > 1, ["at least 3 categories, found 2", "BDRClassifier"]),
        ("text without an order", ["low", "mid", "high"] * 4, ["pd.Categorical", "ordered=True"]),
        ("categories without an order", pd.Categorical(["low", "mid", "high"] * 4), "ordered=True"),
        ("missing", pd.Categorical([None, *"bcabcabcabc"], ordered=True), ["bag 0", "missing"]),
        ("NaN", changed(COUNTS, 3, np.nan), ["bag 3", "missing"]),
        ("intervals", pd.cut(Y, 3), "rename_categories(str)"),
        ("text and numbers", ["low", 1, 2] * 4, "all be numbers"),
        ("too few labels", COUNTS[:3], "3 labels"),
    ],
    "student_t": [("NaN", changed(Y, 3, np.nan), "bag 3"), ("alike", np.ones(12), "labels")],
}
GIVEN = [
    ("no trials", BINOMIAL, COUNTS, {}, ["'binomial'", "trials=", "column"]),
    ("no trials of a beta-binomial", BDR(5, family="beta_binomial"), COUNTS, {}, "trials="),
    ("too few trials", BINOMIAL, COUNTS, {"trials": TRIALS[:5]}, "trials has shape (5,)"),
    ("one number of trials", BINOMIAL, COUNTS, {"trials": 20}, "trials has shape ()"),
    ("trials below a count", BINOMIAL, COUNTS, {"trials": changed(TRIALS, 7, 3)},
     ["bag 7", "above its 3 trials"]),
    ("trials of zero", BINOMIAL, COUNTS, {"trials": changed(TRIALS, 7, 0)}, ["bag 7", "from 1"]),
    ("trials that are not whole", BINOMIAL, COUNTS, {"trials": TRIALS + 0.5}, ["bag 0", "20.5"]),
    ("trials of text", BINOMIAL, COUNTS, {"trials": ["a"] * 12}, "trials"),
    ("trials that are NaN", BINOMIAL, COUNTS, {"trials": changed(TRIALS + 0.0, 7, np.nan)},
     "bag 7"),
    ("shares for counts", BINOMIAL, SHARES, {"trials": TRIALS}, ["bag 0", "multiply shares"]),
    ("trials of Poisson counts", POISSON, COUNTS, {"trials": TRIALS},
     ["'poisson' takes no trials", "'binomial'"]),
    ("trials of normal labels", BDR(5), Y, {"trials": TRIALS}, "'normal' takes no trials"),
    ("exposure of normal labels", BDR(5), Y, {"exposure": TRIALS},
     ["'normal' takes no exposure", "'poisson'"]),
    ("exposure of a binomial", BINOMIAL, COUNTS, {"trials": TRIALS, "exposure": TRIALS},
     "exposure"),
    ("exposure of lognormal labels", BDR(5, family="lognormal"), POSITIVE, {"exposure": TRIALS},
     "exposure"),
    ("exposure of zero", POISSON, COUNTS, {"exposure": changed(TRIALS, 3, 0)}, ["bag 3", "> 0"]),
    ("negative exposure", POISSON, COUNTS, {"exposure": changed(TRIALS, 3, -1)}, ["bag 3", "-1"]),
    ("infinite exposure", POISSON, COUNTS, {"exposure": changed(TRIALS + 0.0, 3, np.inf)}, "bag 3"),
    ("exposure of text", POISSON, COUNTS, {"exposure": ["a"] * 12}, "exposure"),
    ("too little exposure", POISSON, COUNTS, {"exposure": TRIALS[:4]}, "exposure has shape (4,)"),
    ("one exposure", POISSON, COUNTS, {"exposure": 2.0}, "exposure has shape ()"),
    ("offset of normal labels", BDR(5), Y, {"offset": Y}, ["'normal'", "subtract it"]),
    ("offset of lognormal labels", BDR(5, family="lognormal"), POSITIVE, {"offset": Y},
     ["'lognormal'", "divide"]),
    ("offset that is an exposure", POISSON, COUNTS, {"offset": TRIALS + 100}, ["bag 0", "log"]),
    ("offset with a gap", POISSON, COUNTS, {"offset": changed(Y, 4, np.nan)}, ["bag 4", "finite"]),
    ("infinite offset", BDR(5, family="student_t"), Y, {"offset": changed(Y, 4, np.inf)}, "bag 4"),
    ("offset of text", POISSON, COUNTS, {"offset": ["a"] * 12}, "offset"),
    ("too few offsets", POISSON, COUNTS, {"offset": Y[:4]}, "offset has shape (4,)"),
    ("offset of classes", BDRClassifier(5), ["a", "b"] * 6, {"offset": Y}, "no offset"),
    ("errors of counts", POISSON, COUNTS, {"label_sd": np.ones(12)}, ["label_sd", "'poisson'"]),
    ("errors of lognormal labels", BDR(5, family="lognormal"), POSITIVE, {"label_sd": np.ones(12)},
     ["label_sd", "'lognormal'"]),
    ("trials of classes", BDRClassifier(5), ["a", "b"] * 6, {"trials": TRIALS}, "no trials"),
    ("exposure of an inverse model", InverseBDR(5), Y, {"exposure": TRIALS}, "no exposure"),
    ("events of counts", POISSON, COUNTS, {"event": SEEN}, ["takes no event", "'weibull'"]),
    ("events of normal labels", BDR(5), Y, {"event": SEEN}, ["takes no event", "'lognormal'"]),
    ("events of classes", BDRClassifier(5), ["a", "b"] * 6, {"event": SEEN}, "no event"),
    ("entries of an inverse model", InverseBDR(5), Y, {"entry": Y}, "no entry"),
    *[
        (f"{name}, {family}", BDR(5, family=family), y, given, words)
        for family in ("weibull", "lognormal")
        for name, y, given, words in [
            ("events that are codes", POSITIVE, {"event": changed(SEEN, 3, 2)}, ["bag 3", "is 2"]),
            ("events with a gap", POSITIVE, {"event": changed(SEEN + 0.0, 3, np.nan)},
             ["event of bag 3", "nan"]),
            ("events of text", POSITIVE, {"event": ["dead"] * 12}, ["event of bag 0", "'dead'"]),
            ("no event at all", POSITIVE, {"event": np.zeros(12)}, "all 12 times are censored"),
            ("too few events", POSITIVE, {"event": SEEN[:4]}, "event has shape (4,)"),
            ("a late entry", POSITIVE, {"entry": changed(POSITIVE / 2, 4, 99.0)},
             ["entry of bag 4", "below the label"]),
            ("an entry at the event", POSITIVE, {"entry": POSITIVE}, ["entry of bag 0", "below"]),
            ("an early entry", POSITIVE, {"entry": changed(POSITIVE / 2, 4, -1.0)}, "bag 4"),
            ("an entry with a gap", POSITIVE, {"entry": changed(POSITIVE / 2, 4, np.nan)}, "bag 4"),
            ("a time of 0", changed(POSITIVE, 2, 0.0), {"event": SEEN}, ["bag 2", "> 0"]),
            ("a missing time", changed(POSITIVE, 2, np.nan), {"event": SEEN}, "bag 2"),
            ("errors of times", POSITIVE, {"event": SEEN, "label_sd": np.ones(12)}, "label_sd"),
        ]
    ],
    ("no trials of a stack", Stacked([BINOMIAL, BLR(5, family="beta_binomial")]), COUNTS, {},
     "trials="),
]  # fmt: skip
PARAMETERS = [
    ("misspelt", "poison", ["'poison'", "did you mean 'poisson'?"]),
    ("of R", "negative-binomial", "did you mean 'negative_binomial'"),
    ("of another kind", "cauchy", "'cauchy'"),
    ("a list", ["poisson"], "family"),
    ("None", None, "None"),
    ("a number", 3, "family"),
]
REFUSED = [
    ("more categories than 20", lambda: BDR(5, family="ordinal").fit([POINTS[:2]] * 21, range(21)),
     ["at most 20 categories, found 21", "'normal'"]),
    ("errors of categories",
     lambda: BDR(5, family="ordinal").fit(BAGS, THREE, label_sd=np.ones(12)),
     ["label_sd", "'ordinal'"]),
    ("categories stacked as numbers",
     lambda: Stacked([BDR(5, family="ordinal"), BLR(5, family="ordinal")]).fit(BAGS, THREE),
     "StackedClassifier does"),
    ("categories stacked with classes",
     lambda: StackedClassifier([BDR(5, family="ordinal"), BDRClassifier(5)]).fit(BAGS, THREE),
     ["'ordinal'", "without an order"]),
    ("categories tuned with numbers",
     lambda: tune(BAGS, THREE, cv=2, models=[BDR(5, family="ordinal"), BDR(5)]), "'ordinal'"),
    ("noise of size", lambda: BDR(5, family="gamma", label_noise="size").fit(BAGS, POSITIVE),
     ["label_noise", "'gamma'"]),
    ("the exact method", lambda: BLR(5, family="poisson", method="exact").fit(BAGS, COUNTS),
     ["exact", "'poisson'"]),
    ("trials in no column", lambda: BINOMIAL.fit(NAMED, COUNTS, trials="votes"),
     ["'votes'", "'people'"]),
    ("trials without metadata", lambda: BINOMIAL.fit(BAGS, COUNTS, trials="people"), "metadata"),
    ("trials in a column with gaps", lambda: BINOMIAL.fit(NAMED, COUNTS, trials="gaps"), "t00"),
    ("exposure in a column of text", lambda: POISSON.fit(NAMED, COUNTS, exposure="name"),
     "exposure"),
    ("events in no column", lambda: BDR(5, family="weibull").fit(NAMED, POSITIVE, event="died"),
     ["'died'", "'people'"]),
    ("events in a column of text",
     lambda: BDR(5, family="weibull").fit(NAMED, POSITIVE, event="name"), "event"),
    ("events to tune of a model without",
     lambda: tune(BAGS, POSITIVE, cv=2, models=[BDR(5, family="weibull"), BDR(5)], event=SEEN),
     "event="),
    ("trials of other bags",
     lambda: BINOMIAL.fit(NAMED, COUNTS, trials=pd.Series(TRIALS, index=list("abcdefghijkl"))),
     "trials"),
    ("Laplace's method for many bags",
     lambda: BDR(5, family="poisson", method="laplace", stan_file=program_path("bdr_glm")).fit(
         [POINTS[:2]] * 3001, np.arange(3001)), ["laplace", "3001"]),
    ("an unknown prior", lambda: BDR(5, family="poisson", prior={"sigma_scale": 1.0}).fit(
        BAGS, COUNTS), "sigma_scale"),
    ("counts stacked with densities",
     lambda: Stacked([POISSON, BDR(5)]).fit(BAGS, COUNTS), ["counts", "densities"]),
    ("counts tuned with densities",
     lambda: tune(BAGS, COUNTS, cv=2, models=[POISSON, BDR(5)]), ["nll", "mse"]),
    ("no trials to tune", lambda: tune(BAGS, COUNTS, cv=2, models=[BINOMIAL]), "trials="),
    ("trials of no model to tune",
     lambda: tune(BAGS, Y, cv=2, models=[RBFNetwork(5)], trials=TRIALS), "trials"),
    ("trials of held-out bags as numbers",
     lambda: tune(BAGS, COUNTS, validation=(BAGS, COUNTS), models=[BINOMIAL], trials=TRIALS),
     ["validation", "column"]),
    ("labels to tune that no family has",
     lambda: tune(BAGS, Y, cv=2, models=[POISSON]), ["bag", "counts"]),
    ("features with labels that no family has",
     lambda: POISSON.fit_features(POISSON.training_features(NAMED, seed=1), Y), ["t0", "counts"]),
    ("features without trials",
     lambda: BINOMIAL.fit_features(BINOMIAL.training_features(NAMED, seed=1), COUNTS), "trials="),
]  # fmt: skip


def cases():
    for family, labels in LABELS.items():
        for name, y, words in labels:
            for model in (BDR(5, family=family), BLR(5, family=family)):
                call = lambda m=model, y=y: m.fit(BAGS, y)  # noqa: E731
                yield f"{type(model).__name__}, {family}: {name}", call, words
    for family in FAMILIES.values():
        for label in EXAMPLES[family.name].impossible * (family.name != "ordinal"):
            y = changed(COUNTS if family.likelihood.is_count else SHARES, 2, label)
            trials = {"trials": TRIALS} if "trials" in family.takes else {}
            call = lambda f=family.name, y=y, t=trials: BDR(5, family=f).fit(BAGS, y, **t)  # noqa: E731
            yield f"{family.name}: the label {label}", call, "bag 2"
    for name, model, y, given, words in GIVEN:
        yield name, lambda m=model, y=y, g=given: m.fit(BAGS, y, **g), words
    for name, family, words in PARAMETERS:
        for model in (BDR(5, family=family), Shrinkage(5, family=family)):
            yield f"family {name}, {type(model).__name__}", lambda m=model: m.fit(BAGS, Y), words
    yield from REFUSED


@mistakes(cases())
def test_families(call, words):
    check_call(call, words)


def test_measured_bags_still_take_errors():
    """The one argument that normal labels alone take is not refused for them."""
    with pytest.raises(ValueError, match="label_sd of"):
        BDR(5).fit(MEASURED, Y, label_sd="se")
