"""The Laplace kernel; its values are tested with those of all kernels."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from bdr_stan import BDR, Bags, Laplace, load
from bdr_stan.kernels import Exponential, resolve_kernel


def test_it_is_a_product_of_exponential_kernels(rng):
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    product = Exponential(0.5, columns=[0]) * Exponential(2.0, columns=[1])
    np.testing.assert_allclose(Laplace([0.5, 2.0])(x, y), product(x, y))


def test_at_the_median_of_absolute_differences(rng):
    points = rng.normal(size=(60, 3)) * [1, 10, 100]
    bags = Bags.from_points(points, sizes=[20, 30, 10])
    spreads = points.std(axis=0)
    kernel = resolve_kernel("laplace", "scaled", bags)
    expected = np.median(pdist(points / spreads, "cityblock")) * spreads
    np.testing.assert_allclose(kernel.lengths, expected)
    np.testing.assert_allclose(resolve_kernel("laplace", "ard", bags).bandwidth, expected)
    resolved = resolve_kernel("laplace", "median", bags).bandwidth
    assert resolved == np.median(pdist(points, "cityblock"))
    np.testing.assert_allclose(kernel.scaled(2.0).lengths, 2 * expected)


def test_it_waits_for_data_and_checks_its_bandwidth():
    with pytest.raises(ValueError, match=r"bandwidth='scaled' is not a number yet"):
        Laplace()([[0.0]], [[1.0]])
    with pytest.raises(ValueError, match="bandwidth has 2 entries, but the points have 1 features"):
        Laplace([1.0, 2.0])([[0.0]], [[1.0]])


@pytest.mark.parametrize("name", ["laplace", "additive laplace"])
def test_bdr_takes_it_by_name(rng, tmp_path, name):
    means = rng.normal(size=40)
    bags = [np.c_[m + rng.normal(size=25), 1000 * rng.normal(size=25)] for m in means]
    model = BDR(kernel=name, method="optimize").fit(bags[:30], means[:30])
    assert np.corrcoef(model.predict(bags[30:]), means[30:])[0, 1] > 0.7
    model.save(tmp_path / "fit")
    again = load(tmp_path / "fit").predict(bags[30:])
    np.testing.assert_allclose(again, model.predict(bags[30:]), rtol=1e-12)
