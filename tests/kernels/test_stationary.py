"""Kernels of the distance between points: values, bandwidths, what is refused."""

import numpy as np
import pytest
from builders.kernels import LENGTHS, PROFILES, gram, kernel_and_definition
from scipy.spatial.distance import cdist

from bdr_stan.kernels import (
    RBF,
    Cauchy,
    Exponential,
    Matern32,
    RationalQuadratic,
    StudentT,
    kernel_named,
    median_bandwidth,
)

NAMES = pytest.mark.parametrize("name", PROFILES)


@NAMES
def test_values_are_the_definition(rng, name):
    x, y = rng.normal(size=(11, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(kernel_named(name, 1.3)(x, y), PROFILES[name](cdist(x, y) / 1.3))
    expected = PROFILES[name](cdist(x / LENGTHS, y / LENGTHS))
    np.testing.assert_allclose(kernel_named(name, LENGTHS)(x, y), expected)


@pytest.mark.parametrize(
    "name", ["rational quadratic of alpha 3", "student t of degree 1.7", "variance", "columns"]
)
def test_values_with_other_parameters_are_the_definition(rng, name):
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    kernel, definition = kernel_and_definition(name)
    np.testing.assert_allclose(kernel(x, y), gram(definition, x, y).astype(float), rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(x), [definition(a, a) for a in x])


@NAMES
def test_values_are_positive_definite(rng, name):
    x = rng.normal(size=(40, 2))
    gram = kernel_named(name, 0.8)(x, x)
    assert np.linalg.eigvalsh((gram + gram.T) / 2)[0] > -1e-7  # sqrt of rounded distances
    np.testing.assert_allclose(gram.diagonal(), 1, atol=1e-6)


@NAMES
def test_points_that_meet_a_landmark_far_from_the_origin_give_no_nan(rng, name):
    x = 1e6 + rng.normal(size=(30, 2))
    with np.errstate(all="raise"):
        values = kernel_named(name, 1.3)(x, x)
    assert np.all(values <= 1) and np.all(values >= 0)


@NAMES
def test_float32_and_integers_are_computed_in_float64(rng, name):
    x = rng.integers(-3, 4, size=(6, 2))
    kernel = kernel_named(name, 2.0)
    expected = kernel(x.astype(float), x.astype(float))
    np.testing.assert_array_equal(kernel(x, x), expected)
    np.testing.assert_array_equal(kernel(x.astype(np.float32), x), expected)


def test_relations_between_shapes(rng):
    """The rational quadratic of alpha 1 is Cauchy's, and Gaussian for large alpha."""
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    np.testing.assert_allclose(RationalQuadratic(1.3)(x, y), Cauchy(1.3 * np.sqrt(2))(x, y))
    np.testing.assert_allclose(RationalQuadratic(1.3, alpha=1e7)(x, y), RBF(1.3)(x, y), rtol=1e-5)
    np.testing.assert_allclose(StudentT(1.3, degree=2)(x, y), Cauchy(1.3)(x, y))


def test_median_and_ard(rng):
    points = rng.normal(size=(200, 2)) * [1, 100]
    k = Matern32("ard", columns=[1, 0]).resolved([points])
    lengths = points.std(axis=0)[[1, 0]] * median_bandwidth([points / points.std(axis=0)])
    np.testing.assert_allclose(k.bandwidth, lengths)
    for one in (Matern32(columns=[0]), Matern32("ard", columns=[0])):
        assert one.resolved([points]).bandwidth == median_bandwidth([points[:, :1]])
    assert RBF(2.0).resolved([points]).bandwidth == 2.0


def test_at_median_keeps_the_other_parameters(rng):
    points = rng.normal(size=(50, 2))
    k = StudentT(columns=[1], variance=2.0, degree=1.5).resolved([points])
    assert (type(k), k.columns, k.variance, k.degree) == (StudentT, [1], 2.0, 1.5)


@NAMES
def test_scaled_is_a_larger_bandwidth(rng, name):
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    for bandwidth in (0.7, LENGTHS):
        kernel = kernel_named(name, bandwidth)
        scaled = kernel.scaled(2.5)
        np.testing.assert_allclose(scaled(x, y), kernel(x / 2.5, y / 2.5))
        np.testing.assert_allclose(scaled.bandwidth, 2.5 * np.asarray(bandwidth))
        np.testing.assert_array_equal(kernel.bandwidth, bandwidth)  # it is left alone
        assert kernel.scaled(1) is kernel


def test_scaled_keeps_the_other_parameters():
    k = RationalQuadratic(2.0, columns=["a"], variance=3.0, alpha=0.5).scaled(0.5)
    assert (k.bandwidth, k.columns, k.variance, k.alpha) == (1.0, ["a"], 3.0, 0.5)


def test_bandwidths_are_learned_by_their_logarithms():
    assert Cauchy(0.7).parameter_names == ["bandwidth"]
    assert Cauchy([0.7, 2.0]).parameter_names == ["bandwidth[0]", "bandwidth[1]"]
    assert Cauchy([0.7, 2.0], columns=["c", "a"]).parameter_names == [
        "bandwidth[c]",
        "bandwidth[a]",
    ]
    moved = Cauchy([0.7, 2.0], columns=[2, 0]).with_log_parameters(np.log([1.0, 3.0]))
    np.testing.assert_allclose(moved.bandwidth, [1.0, 3.0])
    assert isinstance(Cauchy(0.7).with_log_parameters(np.log([2.0])).bandwidth, float)


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, None, 1j])
def test_bandwidth_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be a positive number, found"):
        RBF(bandwidth)


@pytest.mark.parametrize(
    ("bandwidth", "message"),
    [
        ([1.0, 0.0, -2.0], "bandwidth of feature 1 must be a positive number, found 0.0"),
        ([1.0, 2.0, np.nan], "bandwidth of feature 2 must be a positive number, found nan"),
        (np.ones(2), "bandwidth has 2 entries, but the points have 3 features: give one number"),
        (np.ones((3, 3)), r"bandwidth has shape \(3, 3\): give a positive number, or one for each"),
        ([], r"bandwidth has shape \(0,\): give a positive number, or one for each feature"),
    ],
)
def test_bandwidths_must_be_positive_and_as_many_as_features(bandwidth, message):
    with pytest.raises(ValueError, match=message):
        RBF(bandwidth)(np.ones((2, 3)), np.ones((4, 3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RBF("wide"),
            "bandwidth of RBF must be a positive number, an array of such, 'scaled', "
            "'ard' or 'median', found 'wide'",
        ),
        (lambda: RBF(1, variance=-1), "variance of RBF must be a positive number, found -1"),
        (lambda: RBF(1, variance="two"), "variance of RBF must be a positive number, found 'two'"),
        (lambda: StudentT(1, degree=3), r"degree of StudentT must be in \(0, 2\], found 3"),
        (
            lambda: RationalQuadratic(alpha=0),
            "alpha of RationalQuadratic must be a positive number, found 0",
        ),
        (
            lambda: RBF()(np.ones((1, 1)), np.ones((1, 1))),
            r"bandwidth='scaled' is not a number yet: give a number, or call resolved\(bags\)",
        ),
        (
            lambda: Exponential("ard").prepare(np.ones((1, 1))),
            "bandwidth='ard' is not a number yet",
        ),
    ],
)
def test_unusable_kernels_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
