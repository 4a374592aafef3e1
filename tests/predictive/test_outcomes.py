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


@pytest.mark.parametrize("name, dispersion", [("poisson", 0.0), ("negative_binomial", 0.7)])
def test_moments_of_counts_with_lognormal_rates(name, dispersion):
    """E y = E r and E y^2 = E r + (1 + dispersion^2) E r^2, of two draws the average."""
    mean, variance = np.array([[0.3, 2.0], [0.9, 1.5]]), np.array([[0.4, 0.1], [0.2, 0.3]])
    scales = {"dispersion": np.full(2, dispersion)} if dispersion else {}
    found = OutcomePredictive(lambda i: (mean[:, i], variance[:, i]), 2, 2, FAMILIES[name], scales)
    rate = np.exp(mean + variance / 2).mean(axis=0)
    square = np.exp(2 * mean + 2 * variance).mean(axis=0)
    expected = np.sqrt(rate + (1 + dispersion**2) * square - rate**2)
    np.testing.assert_allclose([found.mean, found.sd], [rate, expected], rtol=1e-6)


def test_certain_labels_have_no_variance():
    predictive = OutcomePredictive(
        lambda i: (np.full((1, len(i)), -800.0), np.zeros((1, len(i)))),
        1,
        1,
        FAMILIES["poisson"],
        {},
    )
    assert predictive.mean == 0 and predictive.sd == 0
