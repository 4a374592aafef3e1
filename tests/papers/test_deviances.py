"""Deviances of totals against log densities by SciPy, their slopes against differences."""

import numpy as np
import pytest
from builders import reference
from scipy import stats

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from experiments.papers.deviances import DEVIANCES

MEAN, VARIANCE = np.array([0.3, 1.0, 4.0, 9.0]), np.array([0.5, 0.49, 2.0, 0.1])


@pytest.mark.parametrize("name", DEVIANCES)
def test_half_of_it_is_the_log_density_at_the_label_less_that_at_the_mean(name):
    likelihood, deviance = LIKELIHOODS[name], DEVIANCES[name]
    y = np.array([0.0, 2.0, 3.0, 8.0]) if likelihood.is_count else np.array([0.7, 2.2, 3.0, 8.5])
    half, slope = deviance(y, MEAN, VARIANCE)
    law = likelihood.distribution(MEAN, sigma=np.sqrt(VARIANCE))
    best = likelihood.distribution(np.maximum(y, 1e-300), sigma=np.sqrt(VARIANCE))
    log_density = [(d.logpmf if likelihood.is_count else d.logpdf)(y) for d in (best, law)]
    np.testing.assert_allclose(half, log_density[0] - log_density[1], atol=1e-10)
    for a in range(4):

        def of_mean(x, a=a):
            return deviance(y[a : a + 1], x, VARIANCE[a : a + 1])[0][0]

        assert slope[a] == pytest.approx(reference.gradient(of_mean, MEAN[a : a + 1])[0], rel=1e-7)


def test_the_sign_of_normal_labels_is_free():
    half, slope = DEVIANCES["normal"](np.array([-3.0]), np.array([-1.0]), np.array([0.5]))
    law = stats.norm(-1.0, np.sqrt(0.5))
    np.testing.assert_allclose(half, law.logpdf(-1.0) - law.logpdf(-3.0))
    np.testing.assert_allclose(slope, 4.0)
