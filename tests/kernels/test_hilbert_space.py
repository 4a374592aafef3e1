"""Hilbert-space basis functions against the kernels that they stand for."""

import numpy as np
import pytest
from scipy import integrate

from bdr_stan import Bags
from bdr_stan.kernels import RBF, Cauchy, Exponential, HilbertSpace, Matern32, Matern52
from bdr_stan.kernels import resolve_kernel as resolve
from bdr_stan.kernels.hilbert_space import HilbertSpaceFeatures, lowest_frequencies

KINDS = pytest.mark.parametrize("kind", [RBF, Exponential, Matern32, Matern52])


@pytest.mark.parametrize(
    ("kernel", "n", "largest"),
    [
        (RBF(0.4, [1]), 40, 1e-8),
        (Matern52(0.4, [1]), 80, 1e-4),
        (Matern32(0.4, [1]), 80, 1e-3),
        (RBF([0.4, 8.0], [1, 0]), 500, 1e-4),
        (Matern52([0.6, 12.0], [1, 0], 3.0), 900, 0.01),
        (RBF(0.25, [1, 0], 1.0, [2.0, 40.0]), 900, 1e-3),
        (RBF([0.8, 16.0, 0.08], [1, 0, 2]), 1500, 0.01),
    ],
    ids=repr,
)
def test_inner_products_are_the_kernel(rng, kernel, n, largest):
    x = rng.uniform(-1, 1, (400, 3)) * [60, 3, 0.3] + [500, -7, 0]
    bags = Bags.from_points(x, sizes=[150, 250])
    field = resolve(HilbertSpace(kernel, n, 2.0), "scaled", bags)
    rows = HilbertSpaceFeatures(field, 3)(x)
    assert rows.shape == (400, n)
    error = np.abs(rows @ rows.T - field(x, x)) / (2 * kernel.variance)
    inner = np.all(np.abs(x - [500, -7, 0]) < [36, 1.8, 0.18], axis=1)
    assert inner.sum() > 70 and error[inner][:, inner].max() < largest
    assert np.mean(error) < 0.01  # by the edge of the box it is less
    np.testing.assert_allclose(field(x, x[:3]), 2 * kernel(x, x[:3]))


@KINDS
def test_spectral_densities_are_transforms_of_the_kernels(kind):
    """In one column the integral of k(r) cos(w r)."""
    for w in (0.1, 0.7, 3.0):
        value = integrate.quad(
            lambda r: kind(1.0)([[0.0]], [[r]])[0, 0], 0, 60, weight="cos", wvar=w
        )
        density = kind(1.0).spectral_density(np.array([w**2]), 1)[0]
        assert density == pytest.approx(2 * value[0], rel=1e-6)


@KINDS
@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_spectral_densities_integrate_to_the_variance(kind, n_columns):
    """k(0) = (2 pi)^-k times the integral of S over all frequencies."""
    sphere = {1: 2.0, 2: 2 * np.pi, 3: 4 * np.pi}[n_columns]

    def shell(w):
        return sphere * w ** (n_columns - 1) * kind(1.0).spectral_density(w**2, n_columns)

    total = integrate.quad(shell, 0, np.inf, limit=500)[0]
    assert total / (2 * np.pi) ** n_columns == pytest.approx(1, rel=1e-6)


def test_the_lowest_frequencies_are_taken():
    reach = np.array([3.0, 1.0])
    orders = lowest_frequencies(50, reach)
    assert len(np.unique(orders, axis=0)) == 50 and orders.min() == 1
    every = np.stack(np.meshgrid(np.arange(1, 200), np.arange(1, 200)), -1).reshape(-1, 2)
    varies = np.sort(np.sum((every / reach) ** 2, axis=1))[:50]
    np.testing.assert_allclose(np.sum((orders / reach) ** 2, axis=1), varies)
    np.testing.assert_array_equal(lowest_frequencies(3, np.ones(1)), [[1], [2], [3]])


def test_features_vanish_at_the_edge_of_the_box_and_beyond(rng):
    x = rng.uniform(0, 10, (50, 2))
    field = resolve(HilbertSpace(Matern32(1.0), 60), "scaled", Bags.from_points(x, sizes=[50]))
    features = HilbertSpaceFeatures(field, 2)
    assert np.abs(features(np.array([[-1e6, 5.0], [3.0, 1e6]]))).max() < 1e-12
    assert np.abs(features(np.array([[5.0, 5.0]]))).max() > 0.01


def test_the_length_can_be_learned(rng):
    x = rng.uniform(0, 10, (50, 2))
    field = resolve(HilbertSpace(Matern32(), 60), "scaled", Bags.from_points(x, sizes=[50]))
    assert field.parameter_names == ["bandwidth"]
    longer = field.with_log_parameters(field.log_parameters + np.log(2))
    assert longer.base.bandwidth == pytest.approx(2 * field.base.bandwidth)
    assert field.scaled(2.0).base.bandwidth == pytest.approx(longer.base.bandwidth)
    np.testing.assert_array_equal(longer.reach, field.reach)


def test_log_scales_multiply_rows(rng):
    x = rng.uniform(0, 10, (20, 2))
    field = resolve(HilbertSpace(RBF(3.0), 9), "scaled", Bags.from_points(x, sizes=[20]))
    features, scale = HilbertSpaceFeatures(field, 2), rng.normal(size=20)
    np.testing.assert_allclose(features(x, log_scale=scale), np.exp(scale)[:, None] * features(x))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: HilbertSpace(Cauchy()), TypeError, "HilbertSpace takes RBF, Exponential, Matern"),
        (lambda: HilbertSpace("rbf"), TypeError, "HilbertSpace takes RBF, .*, found 'rbf'"),
        (
            lambda: HilbertSpace(RBF(), 0),
            ValueError,
            "n_functions of HilbertSpace must be an integer from 1 to 10000, found 0",
        ),
        (
            lambda: HilbertSpace(RBF(), variance=-1.0),
            ValueError,
            "variance of HilbertSpace must be a positive number, found -1.0",
        ),
        (
            lambda: HilbertSpace(RBF(1.0)).resolved([np.random.default_rng(0).normal(size=(9, 4))]),
            ValueError,
            "HilbertSpace depends on 4 columns, .* name at most 3 as columns of its base",
        ),
        (
            lambda: HilbertSpace(RBF(1.0)).resolved([np.ones((9, 1))]),
            ValueError,
            "column 0 is constant: leave it out of HilbertSpace",
        ),
        (
            lambda: HilbertSpaceFeatures(HilbertSpace(RBF(1.0)), 2),
            ValueError,
            r"HilbertSpace has no numbers yet: call resolved\(bags\)",
        ),
    ],
)
def test_unusable_kernels_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()
