"""The baseline that takes each bag for one point."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points
from sklearn.base import clone

from bdr_stan import AggregateRegressor
from bdr_stan.aggregate.rows import mean_points
from experiments.papers import BagPixel


def test_bag_pixel_is_the_regressor_on_mean_points(tmp_path):
    bags, _, y = counts_of_weighted_points()
    options = {"n_landmarks": 4, "method": "optimize", "learn_kernel": False}
    model = BagPixel(**options).fit(bags, y, seed=1)
    pixels = mean_points(bags)
    regressor = AggregateRegressor(**options).fit(pixels, y, seed=1)
    np.testing.assert_allclose(model.predict(bags), regressor.predict(pixels))
    totals = regressor.predict(bags)  # which sums over the points
    differs = np.abs(model.predict(bags) / totals - 1) > 1e-3
    np.testing.assert_array_equal(differs, bags.effective_sizes > 1.001)
    model.save(tmp_path / "fit.nc")
    again = BagPixel.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert clone(model).get_params() == BagPixel(**options).get_params()


def test_one_point_a_bag_cannot_be_thinned():
    bags, _, y = counts_of_weighted_points()
    with pytest.raises(ValueError, match="leaves nothing to thin: leave out thin=5"):
        BagPixel(link="exp", n_landmarks=4, thin=5).fit(bags, y)
