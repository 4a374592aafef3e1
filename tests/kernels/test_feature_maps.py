"""Feature maps against plain formulas, one point at a time."""

import re

import numpy as np
import pytest
from builders.feature_maps import FEATURE_MAPS
from builders.kernels import DEFINITIONS, kernel_and_definition

from bdr_stan.kernels import (
    RBF,
    ConcatenatedFeatures,
    LandmarkFeatures,
    Linear,
    Matern32,
    NystromFeatures,
)

MAPS = pytest.mark.parametrize("name", FEATURE_MAPS)


@pytest.fixture
def x(rng):
    return rng.normal(size=(11, 3))


@pytest.fixture
def u(rng):
    return rng.normal(size=(4, 3))


# ---------------------------------------------------------------- all maps


@MAPS
def test_features_are_the_definition(x, u, name):
    feature_map, row = FEATURE_MAPS[name](u)
    phi = feature_map(x)
    assert phi.shape == (11, feature_map.n_columns) and phi.dtype == np.float64
    assert feature_map.n_inputs == 3
    # sines and cosines have no digits near zero
    np.testing.assert_allclose(phi, [row(a) for a in x], rtol=1e-9, atol=1e-13)


@MAPS
def test_features_of_one_point_and_of_none(x, u, name):
    feature_map, _ = FEATURE_MAPS[name](u)
    np.testing.assert_allclose(feature_map(x[:1]), feature_map(x)[:1], rtol=1e-12, atol=1e-14)
    assert feature_map(x[:0]).shape == (0, feature_map.n_columns)


@MAPS
def test_features_take_a_log_scale_a_point(rng, x, u, name):
    feature_map, _ = FEATURE_MAPS[name](u)
    plain, scale = feature_map(x), rng.gamma(1.0, size=11)
    scale[0] = 1e-9
    scaled = feature_map(x, np.empty_like(plain), np.log(scale))
    np.testing.assert_allclose(scaled, scale[:, None] * plain, rtol=1e-12, atol=1e-14)


@MAPS
def test_features_are_written_to_the_array_given(x, u, name):
    """Also to columns, or every other row, of a larger one."""
    feature_map, _ = FEATURE_MAPS[name](u)
    expected, d = feature_map(x), feature_map.n_columns
    for wide, inside in [
        (np.full((11, d), np.nan), np.s_[:, :]),
        (np.full((11, d + 5), np.nan), np.s_[:, 2 : d + 2]),
        (np.full((22, d), np.nan), np.s_[1::2]),
        (np.full((11, d), np.nan, order="F"), np.s_[:, :]),
    ]:
        out = wide[inside]
        assert feature_map(x, out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)
        assert np.isnan(wide).sum() == wide.size - out.size


@MAPS
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_other_types_are_computed_in_float64(rng, u, name, dtype):
    feature_map, _ = FEATURE_MAPS[name](u)
    x = (3 * rng.normal(size=(6, 3))).astype(dtype)
    np.testing.assert_array_equal(feature_map(x), feature_map(x.astype(float)))


@MAPS
def test_points_and_landmarks_are_left_alone(x, u, name):
    copies = x.copy(), u.copy()
    FEATURE_MAPS[name](u)[0](x, None, np.ones(len(x)))
    np.testing.assert_array_equal(x, copies[0])
    np.testing.assert_array_equal(u, copies[1])


# ---------------------------------------------------------------- values at landmarks


@pytest.mark.parametrize("name", DEFINITIONS)
def test_landmark_features_are_kernel_values(x, u, name):
    kernel, _ = kernel_and_definition(name)
    feature_map = LandmarkFeatures(kernel, u.tolist())
    assert feature_map.kernel is kernel
    np.testing.assert_array_equal(feature_map.landmarks, u)
    np.testing.assert_allclose(feature_map(x), kernel(x, u), rtol=1e-13)


@pytest.mark.parametrize("features", [LandmarkFeatures, NystromFeatures])
@pytest.mark.parametrize(
    ("kernel", "landmarks", "message"),
    [
        (RBF(1.0), np.zeros(3), "landmarks have shape (3,), expected (d, p) with d >= 1"),
        (RBF(1.0), np.zeros((0, 3)), "landmarks have shape (0, 3), expected (d, p) with d >= 1"),
        (RBF(), np.zeros((2, 3)), "bandwidth='scaled' is not a number yet"),
        (RBF([1, 2]), np.zeros((4, 3)), "bandwidth has 2 entries, but the points have 3 features"),
        (
            RBF(1.0) + Matern32([1, 2], columns=[0]),
            np.zeros((4, 3)),
            "bandwidth has 2 entries, but the points have 1 features",
        ),
    ],
)
def test_kernels_that_do_not_fit_the_landmarks(features, kernel, landmarks, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        features(kernel, landmarks)


# ---------------------------------------------------------------- Nystrom


def test_nystrom_features_have_the_kernel_as_inner_products(rng):
    """Exactly so at the landmarks, but for the jitter; and nearly so where they are dense."""
    u, x = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (30, 2))
    kernel = RBF(1.5, variance=2.0)
    feature_map = NystromFeatures(kernel, u)
    for points in (u, x):
        psi = feature_map(points)
        np.testing.assert_allclose(psi @ psi.T, kernel(points, points), atol=2e-4)


@pytest.mark.parametrize("kernel", [RBF(1.2), Matern32([0.5, 1, 2], variance=4)])
def test_projection_leads_to_weights_of_the_kernel(rng, x, u, kernel):
    feature_map = NystromFeatures(kernel, u)
    weights = rng.normal(size=4)
    np.testing.assert_allclose(
        feature_map(x) @ weights, kernel(x, u) @ (feature_map.projection @ weights)
    )
    K = kernel(u, u)
    K += 1e-6 * np.trace(K) / 4 * np.eye(4)
    projection = feature_map.projection
    np.testing.assert_allclose(projection.T @ K @ projection, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(projection, np.triu(projection))


def test_nystrom_needs_a_positive_definite_matrix():
    message = (
        "the kernel matrix of the 2 landmarks is not positive definite: use fewer landmarks or a "
        "smaller bandwidth"
    )
    with pytest.raises(ValueError, match=message):
        NystromFeatures(Linear(), np.zeros((2, 1)))


# ---------------------------------------------------------------- side by side


def test_maps_side_by_side_are_their_columns(x, u):
    maps = [
        LandmarkFeatures(RBF(1.0), u),
        LandmarkFeatures(Matern32(0.7), u[:3]),
        NystromFeatures(RBF(2.0), u),
    ]
    together = ConcatenatedFeatures(iter(maps))
    assert together.maps == tuple(maps)
    assert (together.n_columns, together.n_inputs) == (4 + 3 + 4, 3)
    np.testing.assert_allclose(
        together(x), np.hstack([each(x) for each in maps]), rtol=1e-13, atol=1e-15
    )


def test_inner_products_of_maps_side_by_side_are_sums(rng, x):
    """Landmarks of a kernel for each column make an additive kernel."""
    u, parts = rng.normal(size=(200, 3)), [RBF(1.5, columns=[k]) for k in range(3)]
    psi = ConcatenatedFeatures([NystromFeatures(k, u) for k in parts])(x)
    expected = (parts[0] + parts[1] + parts[2])(x, x)
    np.testing.assert_allclose(psi @ psi.T, expected, atol=0.01)


@pytest.mark.parametrize(
    ("columns", "found"), [([], r"\[\]"), ([2, 3], r"\[2, 3\]"), ([4, 1, 4], r"\[1, 4\]")]
)
def test_maps_side_by_side_take_the_same_points(columns, found):
    maps = [LandmarkFeatures(RBF(1.0), np.ones((2, p))) for p in columns]
    message = (
        "feature maps side by side need points of the same columns: pass at least one map, all of "
        f"the same n_inputs, found {found}"
    )
    with pytest.raises(ValueError, match=message):
        ConcatenatedFeatures(maps)
