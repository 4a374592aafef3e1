"""user_warnings: a warning names the user's line, at whatever depth its cause is."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from bdr_stan import BLR, Bags
from bdr_stan.user_warnings import warn


def test_the_line_of_the_caller():
    with pytest.warns(UserWarning, match="look here") as record:
        warn("look here")
    assert record[0].filename == __file__


@pytest.mark.parametrize("way", ["predict", "predict_table", "score", "pipeline"])
def test_the_same_warning_by_several_ways(way, rng):
    y = rng.normal(size=30)
    table = pd.DataFrame({"town": np.repeat(np.arange(30), 5), "age": np.repeat(y, 5)})
    table["age"] += rng.normal(40, 1, len(table))
    bags = Bags.from_dataframe(table, "town")
    model = BLR(5, method="exact").fit(bags, y, seed=1)
    in_months = Bags.from_dataframe(table.assign(age=12 * table["age"]), "town")
    ways = {
        "predict": lambda: model.predict(in_months),
        "predict_table": lambda: model.predict_table(in_months),
        "score": lambda: model.score(in_months, y),
        "pipeline": lambda: make_pipeline(model).predict(in_months),
    }
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("default")
        ways[way]()
    (told,) = [w for w in record if "outside the range" in str(w.message)]
    assert told.filename == __file__
