"""The baseline of one rate for all points."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points

from experiments.papers import ConstantRate


def test_constant_rates():
    bags, _, y = counts_of_weighted_points()
    model = ConstantRate().fit(bags, y)
    totals = np.array([bags.weights[a:b].sum() for a, b in zip(bags.offsets, bags.offsets[1:])])
    np.testing.assert_allclose(model.training_rates_ * totals, y)
    np.testing.assert_allclose(model.predict(bags) / totals, y.sum() / totals.sum())
    np.testing.assert_allclose(model.predict_points(bags[0]), np.full(len(bags[0]), model.rate_))
    plain = ConstantRate("normal").fit([np.ones((2, 1)), np.ones((3, 1))], [-1, 11])
    np.testing.assert_allclose(plain.training_rates_, [-1 / 2, 11 / 3])
    assert plain.predict([np.zeros((4, 1))]) == pytest.approx(4 * 2)


def test_likelihoods():
    bags, _, y = counts_of_weighted_points()
    with pytest.raises(ValueError, match="likelihood must be one of 'poisson', .*, found 'beta'"):
        ConstantRate("beta").fit(bags, y)
