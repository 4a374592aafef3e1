"""mixture: the search for quantiles."""

import numpy as np
import pytest
from scipy import optimize, stats

from bdr_stan.predictive.mixture import mixture_quantile


def test_quantile_of_any_continuous_components(rng):
    """Gamma components, whose quantiles differ by orders of magnitude, and unequal weights."""
    shapes, weights = rng.uniform(0.3, 20, (6, 4)), rng.dirichlet(np.ones(6))

    def cdf_and_density(x, j):
        return stats.gamma(shapes[:, j]).cdf(x), stats.gamma(shapes[:, j]).pdf(x)

    for level in (1e-4, 0.3, 0.999):
        quantiles = stats.gamma(shapes).ppf(level)
        low, high = quantiles.min(axis=0), quantiles.max(axis=0)
        found = mixture_quantile(
            weights @ quantiles, low, high, level, weights, cdf_and_density, np.full(4, 1e-12)
        )
        for j, x in enumerate(found):

            def excess(x, j=j, level=level):
                return weights @ stats.gamma(shapes[:, j]).cdf(x) - level

            root = optimize.brentq(excess, low[j], high[j], xtol=1e-14)
            assert x == pytest.approx(root, rel=1e-9)


def test_quantile_of_equal_components_is_theirs():
    quantiles = np.array([1.5, -2.0])
    found = mixture_quantile(
        quantiles, quantiles, quantiles, 0.2, np.full(3, 1 / 3), None, np.full(2, 1e-12)
    )
    np.testing.assert_array_equal(found, quantiles)
