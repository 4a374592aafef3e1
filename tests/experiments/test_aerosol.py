"""Weights of ensembles of regressions."""

import numpy as np
import pytest

from experiments.aerosol import stacking_weights


def test_stacking_weights_are_the_best_on_the_simplex(rng):
    y = rng.normal(size=40)
    noise = rng.normal(size=(40, 1))  # that the first two share
    predictions = (
        y[:, None] + np.hstack([noise, noise, -0.5 * noise]) + 0.3 * rng.normal(size=(40, 3))
    )
    weights = stacking_weights(predictions, y)
    assert weights.sum() == pytest.approx(1) and np.all(weights >= 0)
    least = np.mean((predictions @ weights - y) ** 2)
    for other in rng.dirichlet(np.full(3, 0.5), 3000):
        assert least <= np.mean((predictions @ other - y) ** 2) + 1e-12
    useless = np.column_stack([y, rng.normal(size=40)])
    np.testing.assert_allclose(stacking_weights(useless, y), [1, 0], atol=1e-9)
