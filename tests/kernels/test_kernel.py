"""Sums and products of kernels, the columns they depend on, their learned parameters."""

import numpy as np
import pytest
from builders.kernels import (
    COLUMNS,
    DEFINITIONS,
    PROFILES,
    composed,
    gram,
    kernel_and_definition,
)
from scipy.spatial.distance import cdist

from bdr_stan import kernels
from bdr_stan.kernels import (
    RBF,
    Exponential,
    Matern32,
    Polynomial,
    Product,
    Sum,
    kernel_config,
    map_kernel,
    median_bandwidth,
)


@pytest.fixture
def xy(rng):
    return rng.normal(size=(11, 3)), rng.normal(size=(4, 3))


def resolved():
    return composed().on(COLUMNS, 3)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("name", DEFINITIONS)
def test_values_and_diagonal_are_the_definition(xy, name):
    x, y = xy
    kernel, definition = kernel_and_definition(name)
    np.testing.assert_allclose(kernel(x, y), gram(definition, x, y).astype(float), rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(x), [definition(a, a) for a in x])


def test_sums_products_and_columns(xy):
    x, y = xy
    k = resolved()
    first = np.exp(-((x[:, :1] - y[:, 0]) ** 2) / 2 / 0.49)
    second = 3 * PROFILES["matern52"](cdist(x[:, 1:], y[:, 1:]) / 2)
    lengths = [0.5, 1.5]
    third = np.exp(-cdist(x[:, [2, 0]] / lengths, y[:, [2, 0]] / lengths))
    np.testing.assert_allclose(k(x, y), first * second + third)
    # exp(-r) of a point with itself knows the square root of rounding
    np.testing.assert_allclose(k.diagonal(x), np.diag(k(x, x)), rtol=1e-7)
    np.testing.assert_allclose(k.diagonal(x), 4)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_evaluate_fills_any_array_and_takes_a_log_scale_a_point(rng, xy, name):
    x, u = xy
    kernel, _ = kernel_and_definition(name)
    scale = rng.gamma(1.0, size=len(x))
    wide = np.full((len(x), 9), np.nan)
    out = wide[:, 3:7]  # rows that are not next to each other
    assert kernel.evaluate(x, kernel.prepare(u), out, np.log(scale)) is out
    np.testing.assert_allclose(out, scale[:, None] * kernel(x, u), rtol=1e-12)
    assert np.isnan(wide[:, :3]).all() and np.isnan(wide[:, 7:]).all()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_points_and_landmarks_are_left_alone(xy, name):
    copies = [a.copy() for a in xy]
    kernel_and_definition(name)[0](*xy)
    for array, copy in zip(xy, copies):
        np.testing.assert_array_equal(array, copy)


# ---------------------------------------------------------------- columns


def test_columns_become_indices():
    k = resolved()
    assert k.first.first.columns == (0,)
    assert k.first.second.columns == (1, 2)
    assert k.second.columns == (2, 0)
    assert k.first.second.variance == 3
    everywhere = RBF(1.0)
    assert everywhere.on(COLUMNS, 3) is everywhere
    assert RBF(columns=[2, 0]).on(None, 3).columns == (2, 0)
    assert RBF(columns=["c", 0]).on(COLUMNS, 3).columns == (2, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(columns=["a", "b", "a"]), "RBF names the column 'a' twice: name each once"),
        (lambda: RBF(columns=[]), "RBF has no columns: name some, or None for all"),
        (
            lambda: RBF(columns=["z"]).on(["a", "b"], 2),
            "RBF depends on the column 'z', which the points do not have; they have a, b",
        ),
        (lambda: RBF(columns=[2]).on(None, 2), "the column 2, which .* they have 0 to 1"),
        (lambda: RBF(columns=[-1]).on(None, 2), "the column -1, which .* they have 0 to 1"),
        (
            lambda: (RBF(1.0) + RBF(1.0) * Matern32(columns=["z"])).on(["a", "b"], 2),
            "Matern32 depends on the column 'z', which the points do not have; they have a, b",
        ),
    ],
)
def test_columns_that_are_not_there(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("join", [lambda k, other: k + other, lambda k, other: k * other])
def test_only_kernels_are_added_and_multiplied(join):
    with pytest.raises(TypeError, match="only kernels can be added or multiplied, found 2"):
        join(RBF(), 2)


@pytest.mark.parametrize("kind", [Sum, Product])
def test_the_variance_of_a_sum_or_product_is_positive(kind):
    with pytest.raises(ValueError, match=f"variance of {kind.__name__} must be a positive number"):
        kind(RBF(1.0), RBF(2.0), variance=-1)


# ---------------------------------------------------------------- bandwidths and parameters


def test_each_part_has_its_own_median(rng):
    points = rng.normal(size=(100, 2)) * [1, 100]
    k = (RBF(columns=[0]) * Matern32(columns=[1]) + Polynomial() + RBF(5.0)).resolved([points])
    product = k.first.first
    assert product.first.bandwidth == median_bandwidth([points[:, :1]])
    assert product.second.bandwidth == median_bandwidth([points[:, 1:]])
    assert k.second.bandwidth == 5.0


def test_scaled_scales_every_part(xy):
    x, y = xy
    k = resolved()
    np.testing.assert_allclose(k.scaled(2.5)(x, y), k(x / 2.5, y / 2.5))
    with_square = k + Polynomial()
    np.testing.assert_allclose(
        with_square.scaled(2.5)(x, y), k(x / 2.5, y / 2.5) + Polynomial()(x, y)
    )
    np.testing.assert_array_equal(k.scaled(1.0)(x, y), k(x, y))


def test_parameters_are_learned_by_their_logarithms(xy):
    x, y = xy
    k = resolved()
    assert k.parameter_names == [
        "first.first.bandwidth",
        "first.second.bandwidth",
        "second.bandwidth[2]",
        "second.bandwidth[0]",
        "second.variance",
    ]
    np.testing.assert_allclose(np.exp(k.log_parameters), [0.7, 2, 0.5, 1.5, 1])
    same = k.with_log_parameters(k.log_parameters)
    np.testing.assert_allclose(same(x, y), k(x, y))
    moved = k.with_log_parameters(np.log([0.7, 2, 0.5, 1.5, 4]))
    np.testing.assert_allclose(moved(x, y) - k(x, y), 3 * k.second(x, y))
    assert Polynomial().parameter_names == []


def test_the_variance_of_a_sum_or_product_in_a_sum_is_learned(xy):
    x, y = xy
    inner = RBF(0.7) * Exponential(2.0) + Matern32(1.0)
    k = Polynomial() + inner
    moved = k.with_log_parameters(k.log_parameters + np.log([1, 1, 1, 1, 5]))
    np.testing.assert_allclose(moved(x, y), Polynomial()(x, y) + 5 * inner(x, y))
    np.testing.assert_allclose(moved.diagonal(x), Polynomial().diagonal(x) + 5 * 2)
    again = moved.with_log_parameters(moved.log_parameters)
    np.testing.assert_allclose(again(x, y), moved(x, y))


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(),
        RBF(2.0, columns=["age"]) + Polynomial(1, 0.0, variance=3.0),
        (RBF(1.0) + Exponential(2.0)) * Matern32(3.0, columns=[0]),
        RBF(1.0) * Matern32(3.0) + Exponential(2.0),
        Sum(RBF(1.0), Matern32(3.0), variance=2.0),
        map_kernel(["rain"], n_functions=20),
    ],
)
def test_a_kernel_shows_the_python_that_makes_it(kernel):
    again = eval(repr(kernel), vars(kernels))
    assert kernel_config(again) == kernel_config(kernel)
    assert repr(RBF()) == "RBF()" and repr(RBF([1.0, 2.0])) == "RBF(bandwidth=array([1., 2.]))"
