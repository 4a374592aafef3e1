"""Values of a column along which influence is shown, and features at them."""

import numpy as np
from builders.totals import Given

from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.questions.influence import AlongColumn, Column


def test_values_of_a_column_are_all_if_they_are_few(rng):
    few, many = np.array([3.0, 1, 2, 3, 1]), rng.normal(size=500)
    points = np.column_stack([np.resize(few, 500), many])
    np.testing.assert_array_equal(Column(np.array([0])).values(points), [1, 2, 3])
    found = Column(np.array([1])).values(points)
    np.testing.assert_allclose(found, np.linspace(*np.quantile(many, [0.01, 0.99]), 60))
    levels = Column(np.array([0, 1]), ("a", "b"))
    np.testing.assert_array_equal(levels.values(points), [0, 1])


def test_features_along_a_column_are_averages_over_the_others(rng):
    points = rng.normal(size=(20, 3))
    along = AlongColumn(Given(3), Column(np.array([1])), points)
    mean = points.mean(axis=0)
    found = embed([np.array([[5.0]]), np.array([[2.0], [4.0]])], along).mean
    np.testing.assert_allclose(found, [[mean[0], 5, mean[2]], [mean[0], 3, mean[2]]])
