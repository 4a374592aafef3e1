"""Predictions as an ArviZ object."""

import numpy as np
import pandas as pd
import pytest
from builders.training import labelled_bags

from bdr_stan import BLR, BLRClassifier


@pytest.mark.parametrize("classes", [False, True])
def test_groups_have_the_draws_and_labels_by_the_id_of_each_bag(classes, rng):
    bags, y = labelled_bags(rng)
    model = BLR(3, method="exact")
    if classes:
        y, model = np.where(y > 5, "high", "low"), BLRClassifier(3, method="optimize")
    predictive = model.fit(bags, y, seed=1).predictive(bags)
    shuffled = pd.Series(y, index=[f"bag {i}" for i in range(len(y))]).sample(
        frac=1, random_state=1
    )
    predictive.ids = np.array([f"bag {i}" for i in range(len(y))])
    found = predictive.to_inference_data(shuffled, seed=2)
    drawn, known = found["predictions"]["y"], found["predictions_constant_data"]["y"]
    np.testing.assert_array_equal(drawn.values[0], predictive.sample(seed=2))
    assert drawn.dims == ("chain", "draw", "bag") and known.dims == ("bag",)
    assert known.sel(bag="bag 7") == y[7]
    without = predictive.to_inference_data(seed=2)
    assert "predictions" in without and "predictions_constant_data" not in without
    with pytest.raises(ValueError, match="bags"):
        predictive.to_inference_data(y[1:])
