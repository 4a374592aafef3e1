"""Kernels from names and bandwidths, and from what users give."""

import re

import numpy as np
import pandas as pd
import pytest
from builders.kernels import COLUMNS, LENGTHS, composed
from scipy.spatial.distance import pdist

from bdr_stan import kernels
from bdr_stan.bags import Bags
from bdr_stan.kernels import (
    KERNELS,
    RBF,
    Cauchy,
    Linear,
    LinearEffects,
    Matern32,
    Polynomial,
    QuadraticEffects,
    check_kernel,
    check_kernel_and_bandwidth,
    kernel_named,
    kernel_text,
    map_kernel,
    median_bandwidth,
    resolve_kernel,
    shapes,
)

UNKNOWN = (
    f"kernel must be a Kernel, 'auto' or one of {', '.join(map(repr, KERNELS))}, with 'additive' "
    "before it where each column has a kernel of its own, or 'linear + ' to add linear and "
    "quadratic effects of each column, found 'cosine'"
)


@pytest.fixture
def bags(rng):
    points = rng.normal(size=(60, 3)) * [1, 10, 100]
    return Bags.from_points(points, sizes=[20, 30, 10], features=COLUMNS)


def test_texts_of_many_columns_are_short():
    names = [f"income_{k}" for k in range(30)]
    kernel = LinearEffects(columns=range(30)) + QuadraticEffects(columns=range(30))
    text = kernel_text(kernel + RBF(np.linspace(1, 2, 30)), names)
    some = "income_0, income_1, income_2, income_3, ... (30 columns)"
    assert text == f"linear and quadratic in {some} + RBF, lengths from 1 to 2"


def test_every_kernel_of_a_name_is_a_public_name():
    assert {kind.__name__ for kind in KERNELS.values()} == set(shapes.__all__)
    for name in shapes.__all__:
        assert getattr(kernels, name) is getattr(shapes, name)
    assert set(shapes.__all__) < set(kernels.__all__)


def test_every_name_is_a_kernel():
    for name, kind in KERNELS.items():
        check_kernel(name)
        kernel = kernel_named(name, 0.7)
        assert type(kernel) is kind and kernel.bandwidth == 0.7
    check_kernel(composed())


@pytest.mark.parametrize("kernel", ["cosine", "RBF", None, 2.0, RBF])
def test_unknown_kernels_are_refused(kernel):
    with pytest.raises(
        ValueError, match="kernel must be a Kernel, 'auto' or one of 'rbf', .*, found "
    ):
        check_kernel(kernel)


def test_unknown_names_are_told_the_known_ones():
    for check in (
        lambda: check_kernel("cosine"),
        lambda: kernel_named("cosine", 1.0),
        lambda: check_kernel_and_bandwidth("cosine", 1.0),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(UNKNOWN)}$"):
            check()


# ---------------------------------------------------------------- resolve_kernel


@pytest.mark.parametrize("bandwidth", [0.7, list(LENGTHS), LENGTHS])
def test_a_name_with_numbers_is_that_kernel(bags, bandwidth):
    kernel = resolve_kernel("matern52", bandwidth, bags)
    assert type(kernel) is KERNELS["matern52"]
    np.testing.assert_array_equal(kernel.bandwidth, bandwidth)


def test_a_name_at_the_median(bags):
    kernel = resolve_kernel("cauchy", "median", bags)
    assert type(kernel) is Cauchy
    assert kernel.bandwidth == median_bandwidth(bags)


@pytest.mark.parametrize("kernel", ["rbf", RBF(), RBF(columns=COLUMNS)], ids=repr)
def test_columns_of_other_units_count_alike(bags, kernel):
    """By default the kernel is that of the columns divided by their standard deviations."""
    scaled = bags.points / bags.points.std(axis=0)
    found = resolve_kernel(kernel, "scaled", bags)
    expected = RBF(median_bandwidth([scaled]))(scaled, scaled[:5])
    np.testing.assert_allclose(found(bags.points, bags.points[:5]), expected, rtol=1e-12)
    np.testing.assert_allclose(found.lengths, found.bandwidth * bags.points.std(axis=0))
    learned = found.with_log_parameters(found.log_parameters + 1)  # one length, not three
    np.testing.assert_allclose(learned.lengths, np.e * found.lengths)
    text = kernel_text(found, COLUMNS)
    assert text.startswith("RBF, lengths a 1.") and "sd of each column" in text


def test_the_kernel_of_a_map_is_described_by_its_columns(rng):
    bags = Bags(rng.uniform(size=(50, 3)), [0, 20, 50], features=["x", "y", "rain"])
    kernel = resolve_kernel(map_kernel(["rain"], n_functions=20), "scaled", bags)
    text = kernel_text(kernel, bags.features)
    assert text.startswith(
        "linear in rain + RBF, length 1 for scores of rain + Matern32, lengths x"
    )
    assert text.endswith("(20 basis functions)") and "None" not in text
    assert kernel_text(LinearEffects(columns=[2]), bags.features) == "linear in rain"
    assert kernel_text(Linear(columns=[0]), bags.features).endswith("columns=['x'])")


def test_a_category_counts_like_a_number(rng):
    frame = pd.DataFrame({"x": rng.normal(size=500), "kind": rng.choice(list("uvvw"), 500)})
    bags = Bags.from_dataframe(frame.assign(bag=np.arange(500) % 7), "bag")
    units = resolve_kernel("rbf", "scaled", bags).units
    moved = bags.points / units
    mean_square = np.mean(pdist(moved[:, 1:], "sqeuclidean"))
    assert mean_square == pytest.approx(np.mean(pdist(moved[:, :1], "sqeuclidean")), rel=1e-12)
    assert len(set(units[1:])) == 1
    named = resolve_kernel(RBF(columns=["kind"]) + RBF(columns=["x"]), "scaled", bags)
    assert named.first.columns == (1, 2, 3) and named.second.columns == (0,)


def test_few_categories_have_a_bandwidth(rng):
    frame = pd.DataFrame({"kind": rng.choice(list("uuuuv"), 300), "bag": np.arange(300) % 7})
    bags = Bags.from_dataframe(frame, "bag")
    kernel = resolve_kernel("rbf", "scaled", bags)
    assert kernel.bandwidth == pytest.approx(1, rel=0.01)  # half the mean squared distance is 1
    with pytest.raises(ValueError, match="most sampled points coincide"):
        resolve_kernel("rbf", "median", bags)


def test_scale_is_a_factor_on_all_bandwidths(bags):
    assert resolve_kernel("rbf", "median", bags, scale=2.5).bandwidth == pytest.approx(
        2.5 * median_bandwidth(bags), rel=1e-14
    )
    assert resolve_kernel("rbf", 2.0, bags, scale=2.5).bandwidth == 5.0
    np.testing.assert_allclose(
        resolve_kernel(RBF(LENGTHS), "scaled", bags, scale=2.5).bandwidth, 2.5 * LENGTHS
    )
    both = resolve_kernel(RBF(1.0) + Matern32(4.0) * Linear(), "scaled", bags, scale=0.5)
    assert (both.first.bandwidth, both.second.first.bandwidth) == (0.5, 2.0)


def test_a_kernel_gets_indices_and_numbers(bags):
    given = RBF(columns=["c"]) * Matern32("ard", columns=["b", "a"]) + Polynomial(columns=["a"])
    kernel = resolve_kernel(given, "scaled", bags)
    product, square = kernel.first, kernel.second
    assert product.first.columns == (2,)
    assert product.first.bandwidth == median_bandwidth([bags.points[:, 2:]])
    assert product.second.columns == (1, 0)
    deviations = bags.points[:, [1, 0]].std(axis=0)
    np.testing.assert_allclose(
        product.second.bandwidth,
        deviations * median_bandwidth([bags.points[:, [1, 0]] / deviations]),
    )
    assert square.columns == (0,)
    assert given.first.first.bandwidth == "scaled"  # what was given is left alone


def test_the_seed_chooses_the_points_of_the_median(rng):
    bags = Bags.from_points(rng.normal(size=(5000, 2)), sizes=[5000])
    for kernel in ("rbf", RBF(columns=[0])):
        one, same, other = (
            resolve_kernel(kernel, "scaled", bags, seed=seed).bandwidth for seed in (3, 3, 4)
        )
        assert one == same != other


@pytest.mark.parametrize(
    ("kernel", "bandwidth", "message"),
    [
        ("cosine", 1.0, UNKNOWN),
        ("cosine", "median", UNKNOWN),
        ("rbf", 0.0, "bandwidth must be a positive number, found 0.0"),
        ("rbf", [1.0, -1.0], "bandwidth of feature 1 must be a positive number, found -1.0"),
        (
            "rbf",
            "wide",
            "bandwidth must be 'scaled', 'ard', 'median', a positive number, or one for each "
            "column, found 'wide'",
        ),
        (RBF(2.0), 1.0, "bandwidth=1.0 goes with the name of a kernel: give RBF its own"),
        (
            RBF() + Cauchy(),
            0.5,
            "bandwidth=0.5 goes with the name of a kernel: give Sum its own",
        ),
    ],
)
def test_kernels_and_bandwidths_that_do_not_go_together(bags, kernel, bandwidth, message):
    for check in (
        lambda: check_kernel_and_bandwidth(kernel, bandwidth),
        lambda: resolve_kernel(kernel, bandwidth, bags),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(columns=["z"]), "the column 'z', which the points do not have; they have a, b, c"),
        (RBF(1.0) + Cauchy(columns=[3]), "the column 3, which the points do not have"),
    ],
)
def test_columns_that_the_bags_do_not_have(bags, kernel, message):
    with pytest.raises(ValueError, match=message):
        resolve_kernel(kernel, "scaled", bags)


def test_a_constant_column_counts_in_units_of_1(rng):
    bags = Bags.from_list([np.c_[3 * rng.normal(size=9), np.ones(9)]])
    lengths = resolve_kernel(RBF("ard"), "scaled", bags).bandwidth
    scaled = resolve_kernel(RBF("scaled"), "scaled", bags)
    np.testing.assert_allclose(lengths, scaled.lengths)
    assert lengths[1] == scaled.bandwidth
