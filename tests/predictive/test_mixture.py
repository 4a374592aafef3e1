"""What predictive distributions share: levels, and the search for quantiles of mixtures."""

import numpy as np
import pytest
from scipy import optimize, stats

from bdr_stan.predictive.mixture import interval_ends, mixture_quantile, quantile_levels


def test_quantile_of_any_continuous_components(rng):
    """Gamma components, whose quantiles differ by orders of magnitude, and unequal weights."""
    shapes, weights = rng.uniform(0.3, 20, (6, 4)), rng.dirichlet(np.ones(6))

    def cdf_and_density(x, of):
        return stats.gamma(shapes[:, of]).cdf(x), stats.gamma(shapes[:, of]).pdf(x)

    for level in (1e-4, 0.3, 0.999):
        own = stats.gamma(shapes).ppf(level)
        low, high = own.min(axis=0), own.max(axis=0)
        found = mixture_quantile(
            weights @ own, low, high, level, weights, cdf_and_density, np.full(4, 1e-12)
        )
        for j, x in enumerate(found):

            def excess(x, j=j, level=level):
                return weights @ stats.gamma(shapes[:, j]).cdf(x) - level

            root = optimize.brentq(excess, low[j], high[j], xtol=1e-14)
            assert x == pytest.approx(root, rel=1e-9)


def test_quantile_of_equal_components_is_theirs():
    own = np.array([1.5, -2.0])
    found = mixture_quantile(own, own, own, 0.2, np.full(3, 1 / 3), None, np.full(2, 1e-12))
    np.testing.assert_array_equal(found, own)


def test_levels():
    np.testing.assert_allclose(interval_ends(0.8), [0.1, 0.9])
    assert quantile_levels(0.3).shape == (1,) and quantile_levels([0.3, 0.4]).shape == (2,)
    for level in (0, 1, 95, np.nan):
        with pytest.raises(ValueError, match=f"between 0 and 1, found {level}"):
            interval_ends(level)
    for q in (0, 1, np.nan, [0.5, 1.0], [[0.5]]):
        with pytest.raises(ValueError, match="quantiles need 0 < q < 1, found q = "):
            quantile_levels(q)
