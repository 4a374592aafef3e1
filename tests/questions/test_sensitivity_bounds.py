"""Factors of selection at which statements fail, of normal labels in closed form."""

import numpy as np
import pytest
from scipy.stats import norm

from bdr_stan.predictive import Predictive
from bdr_stan.questions.sensitivity import SelectionBounds

MEAN = np.array([2.0, 0.5])


def bounds_of(variance):
    """Means of the labels of two bags move by the logarithm of the factor."""

    def labels(i, shift):
        return Predictive(
            lambda j: (MEAN[i][None, j] + shift, np.sqrt(variance) * np.ones((1, len(j)))),
            len(i),
            1,
        )

    def predictives(i, factors):
        return [(labels(i, -np.log(factor)), labels(i, np.log(factor))) for factor in factors]

    return SelectionBounds(predictives, 2, 1, np.array([1.0, 2.0]), level=0.9)


def test_unknown_bags_are_refused_with_some_that_are_known():
    bounds = bounds_of(0.1)
    bounds.ids, bounds.id_name = np.array(["a", "b", "c", "d"]), "town"
    with pytest.raises(
        ValueError, match="no bag 'x': bags are named by their town, such as a, b, c$"
    ):
        bounds.fails_at("x", "a")


@pytest.mark.parametrize("variance", [0.0, 0.1, 0.4])
def test_factor_at_which_a_statement_fails(variance):
    bounds, z = bounds_of(variance), norm.ppf(0.9)
    between = np.exp((MEAN[0] - MEAN[1] - z * np.sqrt(2 * variance)) / 2)
    assert bounds.fails_at(0, 1) == pytest.approx(between, rel=0.01)
    above = np.exp(MEAN[0] - 1 - z * np.sqrt(variance))
    assert bounds.fails_at(0, value=1) == pytest.approx(above, rel=0.01)
    assert bounds.fails_at(1, 0) == 1
