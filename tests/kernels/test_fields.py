"""Fields: the features of each summand of a kernel, side by side."""

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.embedding.landmarks import landmarks_of_fields
from bdr_stan.kernels import (
    RBF,
    FieldFeatures,
    HilbertSpace,
    LinearEffects,
    Matern32,
    NormalScores,
    NystromFeatures,
    field_names,
    fields_of,
    map_kernel,
    resolve_kernel,
)

NAMES = ["rain", "km", "x", "y"]


@pytest.fixture
def bags(rng):
    points = np.column_stack(
        [rng.normal(900, 300, 500), rng.exponential(7, 500), rng.uniform(0, 1000, (500, 2))]
    )
    return Bags.from_points(points, sizes=[100, 250, 150], features=NAMES)


def features_of(kernel, bags, n_landmarks=20, method="kmeans"):
    kernel = resolve_kernel(kernel, "scaled", bags)
    landmarks = landmarks_of_fields(kernel, bags, n_landmarks, method=method, seed=1)
    return FieldFeatures(kernel, landmarks)


def test_one_field_has_the_features_of_landmarks(bags):
    features = features_of(RBF(), bags)
    plain = NystromFeatures(features.kernel, features.landmarks)
    np.testing.assert_array_equal(features(bags.points), plain(bags.points))
    np.testing.assert_array_equal(features.projection, plain.projection)
    assert features.landmarks.shape == (20, 4) and np.isfinite(features.landmarks).all()


def test_each_field_has_features_of_its_own_and_they_add_up(bags):
    kernel = map_kernel(["rain", "km"], n_functions=400) + RBF(columns=["km", "rain"])
    features = features_of(kernel, bags)
    assert [block.stop - block.start for block in features.blocks] == [2, 10, 10, 400, 20]
    assert features.n_columns == 442 and features.projection is None
    rows = features(bags.points)
    for field, block in zip(features.fields, features.blocks, strict=True):
        alone = FieldFeatures(field, features.landmarks)
        np.testing.assert_array_equal(alone(bags.points), rows[:, block])
        assert alone.blocks == [slice(0, block.stop - block.start)]


def test_features_and_what_they_leave_out_make_the_kernels_diagonal(bags):
    kernel = map_kernel(["rain", "km"], n_functions=100) + RBF("ard", columns=["x", "y", "km"])
    features = features_of(kernel, bags)
    rows = features(bags.points)
    residual_variance = features.residual_variance(bags.points, rows)
    assert residual_variance.min() >= 0 and residual_variance.max() > 0.01
    whole = np.sum(rows**2, axis=1) + residual_variance
    np.testing.assert_allclose(whole, features.kernel.diagonal(bags.points), rtol=0.01)
    of_fields = features.residual_variance_of_fields(bags.points, rows)
    np.testing.assert_allclose(of_fields.sum(axis=0), residual_variance)
    np.testing.assert_array_equal(of_fields[0], 0)  # lines leave nothing out
    assert of_fields[1:].any(axis=1).all()


def test_nothing_is_said_of_what_landmarks_in_many_columns_leave_out(bags):
    features = features_of(RBF(0.1), bags)  # in four columns
    assert not features.residual_variance(bags.points, features(bags.points)).any()


def test_more_features_leave_out_less(bags):
    def share(n):
        features = features_of(HilbertSpace(Matern32(100.0, ["x", "y"]), n), bags)
        return features.residual_variance(bags.points, features(bags.points)).mean()

    few, some, many = share(30), share(100), share(400)
    assert few > 2 * some > 4 * many
    assert few > 0.3 and many < 0.1


def test_landmarks_lie_in_the_columns_of_their_field(bags):
    kernel = NormalScores(columns=["km"]) + RBF(columns=["x", "y"]) + Matern32(columns=["x", "y"])
    features = features_of(kernel, bags, 25)
    known = np.isfinite(features.landmarks)
    assert known.sum(axis=0).tolist() == [0, 10, 25, 25]  # both of space share theirs
    assert [each.n_columns for each in features.maps] == [10, 25, 25]


def test_weights_of_landmarks_are_in_the_landmarks_order(bags, rng):
    """One field of some columns: f = sum_i beta_i k(u_i, x), u_i row i of landmarks."""
    features = features_of(Matern32(300.0, columns=["x", "y"]), bags)
    assert np.isnan(features.landmarks[:, :2]).all()
    w, u = rng.normal(size=20), np.nan_to_num(features.landmarks)
    by_landmarks = features.kernel(bags.points, u) @ (features.projection @ w)
    np.testing.assert_allclose(features(bags.points) @ w, by_landmarks, atol=1e-7)
    given = features_of(features.kernel, bags, None, features.landmarks)
    np.testing.assert_array_equal(given(bags.points), features(bags.points))


def test_landmarks_that_a_field_cannot_tell_apart_count_once(bags):
    given = np.array(bags.points[:6])
    given[3:, 1] = given[:3, 1]
    features = features_of(RBF(5.0, columns=["km"]), bags, None, given)
    assert features.n_columns == 3 and features.projection is None


def test_landmarks_with_all_columns_serve_every_field(bags):
    given = np.array(bags.points[:7])
    features = features_of(RBF(columns=["km"]) + RBF(columns=["x", "y"]), bags, None, given)
    assert [each.n_columns for each in features.maps] == [7, 7]
    own = NystromFeatures(features.fields[1], given)
    x = bags.points[7:20]
    kernels = (m(x) @ m(x).T for m in (own, features.maps[1]))
    np.testing.assert_allclose(next(kernels), next(kernels), atol=1e-10)


def test_a_field_without_landmarks_is_told(bags):
    given = np.full((3, 4), np.nan)
    given[:, 1] = [1.0, 5.0, 9.0]
    kernel = resolve_kernel(RBF(columns=["km"]) + RBF(columns=["x", "y"]), "scaled", bags)
    with pytest.raises(ValueError, match=r"no landmark has numbers in the columns \[2, 3\]"):
        FieldFeatures(kernel, given)


def test_lines_alone_need_no_landmarks(bags):
    features = features_of(LinearEffects(columns=["rain", "x"]), bags)
    assert features.landmarks.shape == (0, 4) and features.n_columns == 2
    np.testing.assert_allclose(features(bags.points).std(axis=0), 1, rtol=0.01)


def test_names_tell_kind_and_columns(bags):
    kernel = (
        LinearEffects() + RBF(columns=["km"]) + NormalScores(columns=["rain"]) + RBF(columns=["km"])
    )
    kernel = resolve_kernel(kernel, "scaled", bags)
    assert field_names(kernel, NAMES, 4) == [
        "LinearEffects()",
        "RBF(km) 1",
        "NormalScores(rain)",
        "RBF(km) 2",
    ]
    assert field_names(kernel, None, 4)[1] == "RBF(1) 1"
    assert len(fields_of(kernel)) == 4 and len(fields_of(RBF() * RBF())) == 1


def test_a_map_has_lines_curves_and_space():
    kinds = [type(field).__name__ for field in fields_of(map_kernel(["a", "b"], ["lon", "lat"]))]
    assert kinds == ["LinearEffects", "NormalScores", "NormalScores", "HilbertSpace"]
