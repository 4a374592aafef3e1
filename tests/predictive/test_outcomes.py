"""Labels of families, of few draws, against SciPy's distributions."""

import numpy as np
import pytest
from scipy import stats

from bdr_stan.families import FAMILIES
from bdr_stan.predictive import OutcomePredictive


@pytest.mark.parametrize("weights", [None, np.array([0.2, 0.5, 0.3])])
def test_quantiles_of_three_draws_are_those_of_their_mixture(weights):
    means = np.array([[1.0], [4.0], [30.0]])
    predictive = OutcomePredictive(
        lambda i: (np.log(means)[:, i], np.zeros((3, len(i)))),
        1,
        3,
        FAMILIES["poisson"],
        {},
        weights=weights,
    )
    counts = np.arange(100)
    cdf = np.average(stats.poisson.cdf(counts, means), axis=0, weights=weights)
    np.testing.assert_allclose(predictive.cdf([4.0]), cdf[4], rtol=1e-3)
    for level in (0.05, 0.5, 0.95):
        assert predictive.quantile(level)[0] == counts[np.searchsorted(cdf, level)]


def test_counts_of_absurd_means_are_drawn():
    """As a posterior that Laplace's method does not describe has some."""

    def predictors(i):
        return np.full((2, len(i)), 60.0), np.ones((2, len(i)))

    for name in ("poisson", "negative_binomial"):
        scales = {s: np.full(2, 0.5) for s in FAMILIES[name].likelihood.scales}
        labels = OutcomePredictive(predictors, 3, 2, FAMILIES[name], scales).sample(20, seed=1)
        assert labels.shape == (20, 3) and labels.min() > 1e12
