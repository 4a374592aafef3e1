"""Labels and rates that a user's Stan program draws."""

import numpy as np
import pytest

from bdr_stan.predictive import ProgramPredictive

COUNTS = np.array([[1.0, 0.0], [2.0, 0.0], [4.0, 3.0], [9.0, 8.0]])  # of two bags, four draws


def of_draws(is_count):
    return ProgramPredictive(
        lambda i: COUNTS[:, i], 2, 4, log_density=lambda i, y: -np.abs(y), is_count=is_count
    )


def test_quantiles_of_counts_are_counts_that_were_drawn():
    np.testing.assert_array_equal(of_draws(True).quantile(0.5), [2, 0])
    np.testing.assert_array_equal(of_draws(True).quantile(0.51), [4, 3])
    np.testing.assert_allclose(of_draws(False).quantile(0.5), [3, 1.5])


@pytest.mark.parametrize("is_count", [True, False])
def test_moments_and_probabilities_are_those_of_the_draws(is_count):
    found = of_draws(is_count)
    np.testing.assert_allclose([found.mean, found.sd], [COUNTS.mean(axis=0), COUNTS.std(axis=0)])
    np.testing.assert_allclose(found.cdf([2.0, 3.0]), [0.5, 0.75])
