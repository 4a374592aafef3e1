"""Predictions as an ArviZ object."""

import numpy as np
import pytest
from builders.training import labelled_bags

from bdr_stan import BLR, BLRClassifier


@pytest.mark.parametrize("classes", [False, True])
def test_draws_are_by_the_id_of_each_bag(classes, rng):
    bags, y = labelled_bags(rng)
    model = BLR(3, method="exact")
    if classes:
        y, model = np.where(y > 5, "high", "low"), BLRClassifier(3, method="optimize")
    predictive = model.fit(bags, y, seed=1).predictive(bags)
    predictive.ids = np.array([f"bag {i}" for i in range(len(y))])
    drawn = predictive.to_inference_data(seed=2)["predictions"]["y"]
    np.testing.assert_array_equal(drawn.values[0], predictive.sample(seed=2))
    assert drawn.dims == ("chain", "draw", "bag")
    assert drawn.sel(bag="bag 7").dims == ("chain", "draw")
