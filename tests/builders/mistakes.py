"""Good input that mistakes are made in, and the sentence that each mistake gets."""

import re

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from bdr_stan import BLR, AggregateRegressor, Bags
from experiments.papers import AggregateNN

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


FITTED = BLR(5, method="exact").fit(BAGS, Y, seed=1)
RATES = AggregateRegressor(n_landmarks=5, method="vb", learn_kernel=False).fit(BAGS, COUNTS, seed=1)
BINOMIAL = AggregateRegressor("binomial", n_landmarks=5)
NETWORK = AggregateNN(3, n_restarts=1, max_iter=3).fit(BAGS, COUNTS, seed=1)
PREDICTIVE = FITTED.predictive(BAGS)
AT_POINTS = RATES.predict_points(POINTS)
NARROW = Bags.from_points(POINTS[:, :1], sizes=SIZES)
RENAMED = Bags.from_points(POINTS, sizes=SIZES, features=["x", "age"])
TWO = BAGS[:2]


def labels_of(estimator):
    """Good labels for a class of estimators."""
    name = estimator.__name__
    if "Classifier" in name or name == "SupportMeasureMachine":
        return CLASSES
    return COUNTS if hasattr(estimator, "predict_points") else Y


def changed(values, place, value):
    """A copy with another value in one place."""
    values = np.array(values, dtype=object if isinstance(value, str) else None)
    values[place] = value
    return values


def mistakes(cases):
    """Parametrize a test by (name, call, words); names are unique and there are some."""
    cases = list(cases)
    assert len({name for name, _, _ in cases}) == len(cases) >= 10
    return pytest.mark.parametrize(
        ("call", "words"), [pytest.param(call, words, id=name) for name, call, words in cases]
    )


def check_call(call, words):
    """The call raises, in one sentence with these words."""
    with pytest.raises(EXPECTED) as raised:
        call()
    check_sentence(str(raised.value), words)


def check_sentence(text, words):
    """One sentence with these words, and not what Python says of its own."""
    assert "\n" not in text, text
    assert len(text.split()) >= 3, f"no sentence: {text}"
    assert not re.search(r"Traceback|<class|<function|<bdr_stan|object at 0x", text), text
    for word in [words] if isinstance(words, str) else words:
        assert word in text, text
