"""Products of Hilbert-space kernels: their features against the product of the kernels."""

import json

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.kernels import (
    RBF,
    FieldFeatures,
    HilbertProduct,
    HilbertSpace,
    LinearEffects,
    Matern32,
    Product,
    field_names,
    kernel_config,
    kernel_from_config,
    kernel_text,
)
from bdr_stan.kernels import resolve_kernel as resolve
from bdr_stan.kernels.hilbert_space import HilbertSpaceFeatures

NAMES = ["month", "x", "y"]


@pytest.fixture
def bags(rng):
    points = rng.uniform(size=(600, 3)) * [36, 1000, 800] + [2000, 0, 3000]
    points[:, 0] = points[:, 0].round()
    return Bags.from_points(points, sizes=[200, 400], features=NAMES)


def product(n_functions=3000, n_space=300, horizon=0.0, months=8.0):
    space = HilbertSpace(Matern32(500.0, ["x", "y"], 1.5), n_space, 2.0)
    time = HilbertSpace(RBF(months, ["month"]), 40, horizon=horizon)
    return HilbertProduct(space, time, n_functions=n_functions)


def test_inner_products_are_the_product_of_the_kernels(bags):
    field = resolve(product(), "scaled", bags)
    x = bags.points
    rows = FieldFeatures(field, np.empty((0, 3)))(x)
    r = np.sqrt(3) * np.linalg.norm(x[:, None, 1:] - x[None, :, 1:], axis=2) / 500
    away = (x[:, None, 0] - x[None, :, 0]) / 8
    exact = 3 * (1 + r) * np.exp(-r) * np.exp(-(away**2) / 2)
    np.testing.assert_allclose(field(x, x), exact, atol=1e-8)
    inner = np.all(np.abs(x - [2018, 500, 3400]) < [12, 300, 240], axis=1)
    assert inner.sum() > 50
    assert np.abs(rows @ rows.T - exact)[inner][:, inner].max() < 0.03 * 3


def test_the_pairs_of_largest_variance_are_kept_while_lengths_change(bags):
    field = resolve(product(60), "scaled", bags)
    space, time = (
        HilbertSpaceFeatures(part, 3)(bags.points) for part in (field.first, field.second)
    )
    first, second = (
        HilbertSpaceFeatures(part, 3).amplitude ** 2 for part in (field.first, field.second)
    )
    kept = np.zeros((300, 40), bool)
    kept[tuple(field.pairs.T)] = True
    assert kept.sum() == 60
    variance = np.outer(first, second)
    assert variance[kept].min() >= variance[~kept].max()
    expected = [space[:, i] * time[:, j] for i, j in field.pairs]
    found = FieldFeatures(field, np.empty((0, 3)))
    np.testing.assert_allclose(found(bags.points), np.transpose(expected))
    residual = found.residual_variance(bags.points, found(bags.points))
    np.testing.assert_allclose(residual, 3 - np.sum(np.square(expected), axis=0))
    shorter = field.with_log_parameters(field.log_parameters - 1)
    np.testing.assert_array_equal(shorter.pairs, field.pairs)
    assert field.parameter_names == ["first.bandwidth", "second.bandwidth"]


def test_a_product_in_a_sum_has_a_text_a_name_and_a_config(bags):
    kernel = resolve(LinearEffects(columns=["x"]) + product(70), "scaled", bags)
    assert field_names(kernel, NAMES, 3) == ["LinearEffects(x)", "HilbertProduct()"]
    assert kernel_text(kernel, NAMES) == (
        "linear in x + Matern32, length 500 for x, y x RBF, lengths month 8 "
        "(70 products of basis functions)"
    )
    again = kernel_from_config(json.loads(json.dumps(kernel_config(kernel))))
    one, other = (FieldFeatures(k, np.empty((0, 3)))(bags.points) for k in (kernel, again))
    np.testing.assert_array_equal(one, other)


def test_the_variance_lasts_up_to_the_horizon(bags):
    later = np.array([[2036.0, 500, 3400], [2042.0, 500, 3400], [2054.0, 500, 3400]])
    share = {}
    for horizon in (0, 6):
        field = resolve(product(horizon=horizon, months=3.0), "scaled", bags)
        features = FieldFeatures(field, later[:0])
        share[horizon] = 1 - features.residual_variance(later, features(later)) / 3
    low, high = field.second.limits()
    assert low[0] <= 2000 and 2042 <= high[0] < 2054
    assert np.all(share[6][:2] > 0.9) and share[0][0] > 0.9
    np.testing.assert_allclose([share[0][1], share[0][2], share[6][2]], 0, atol=1e-12)


def test_the_operator_makes_it_of_two_hilbert_spaces_alone(bags):
    space, time = HilbertSpace(RBF(2.0, ["x"])), HilbertSpace(RBF(1.0, ["month"]))
    assert type(space * time) is HilbertProduct
    assert type(space * RBF(1.0, ["month"])) is Product
    assert repr(space * time) == f"{space!r} * {time!r}"
    assert repr(HilbertProduct(space, time, n_functions=9)).endswith("n_functions=9)")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: (
                HilbertSpace(RBF(columns=["x", "month"])) * HilbertSpace(RBF(columns=["month"]))
            ),
            ValueError,
            "both factors of a product of HilbertSpace kernels depend on the column 'month': name",
        ),
        (
            lambda: HilbertSpace(RBF()) * HilbertSpace(RBF(columns=["month"])),
            ValueError,
            "both factors .* depend on the column 'month'",
        ),
        (
            lambda: HilbertSpace(RBF(columns=["x", "y"])) * HilbertSpace(RBF(columns=["week"])),
            ValueError,
            "RBF depends on the column 'week', which the points do not have; they have month, x, y",
        ),
        (
            lambda: product() * HilbertSpace(RBF(columns=["month"])),
            TypeError,
            "a product of HilbertSpace kernels has two of them, found HilbertProduct",
        ),
        (lambda: product(0), ValueError, "n_functions of HilbertProduct must be .* found 0"),
        (
            lambda: HilbertSpace(RBF(columns=["x", "y"]), horizon=6),
            ValueError,
            "horizon is of one column, such as the month, but HilbertSpace depends on 2",
        ),
        (
            lambda: HilbertSpace(RBF(columns=["x"]), horizon=-1),
            ValueError,
            "horizon of HilbertSpace must be a number >= 0, found -1",
        ),
        (
            lambda: HilbertSpace(RBF(columns=["x"]), reach=[3.0]),
            ValueError,
            "HilbertSpace takes centre and reach together",
        ),
    ],
)
def test_unusable_products_are_refused(bags, make, kind, message):
    with pytest.raises(kind, match=message):
        resolve(make(), "scaled", bags)


def test_more_than_three_columns_are_refused(rng):
    kernel = HilbertSpace(RBF(columns=[0, 1])) * HilbertSpace(RBF(columns=[2, 3]))
    with pytest.raises(ValueError, match="depends on 4 columns, .* name at most 3"):
        resolve(kernel, "scaled", Bags.from_points(rng.uniform(size=(9, 4)), sizes=[9]))
