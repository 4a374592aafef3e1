"""summands: sums of kernels of different columns, with landmarks of their own."""

import numpy as np
import pytest
from builders.problems import location_bags, quiet_fit

from bdr_stan import BDR, RBF, Bags, Matern32, Polynomial, RBFNetwork, Shrinkage, load, tune
from bdr_stan.bags import as_bags
from bdr_stan.embedding.landmarks import even_shares, landmarks_of_kernel
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.training import training_features
from bdr_stan.kernels import (
    LandmarkFeatures,
    SummandFeatures,
    kernel_text,
    landmark_features,
    resolve_kernel,
    summands,
)


@pytest.fixture
def bags(rng):
    return as_bags([rng.normal(size=(n, 3)) * [1, 5, 0.1] for n in (4, 9, 30, 50)])


def test_summands_are_found_by_the_columns_they_look_at(bags):
    x = bags.points
    kernel = RBF(1.0, [0]) + Matern32(2.0, [1]) * RBF(1.0, [2]) + Polynomial(2, 1.0, [0])
    parts = summands(kernel, 3)
    assert list(parts) == [(0,), (1, 2)]
    together = sum(part(x, x) for part in parts.values())
    np.testing.assert_allclose(together, kernel(x, x), rtol=1e-12)


def test_factors_of_sums_stay_with_the_summands(bags):
    x = bags.points
    kernel = RBF(1.0, [0]) + Matern32(2.0, [1])
    kernel = kernel.with_log_parameters(kernel.log_parameters + 0.3) + RBF(1.0, [2], 0.5)
    parts = summands(kernel, 3)
    assert len(parts) == 3
    np.testing.assert_allclose(sum(p(x, x) for p in parts.values()), kernel(x, x), rtol=1e-12)


def test_a_kernel_that_is_no_sum_of_columns_is_one_summand():
    for kernel in (RBF(1.0), RBF(1.0) + Matern32(1.0), RBF(1.0, [0]) * RBF(1.0, [1])):
        assert len(summands(kernel, 2)) == 1


def test_landmarks_have_the_columns_of_their_summand(bags):
    kernel = resolve_kernel("additive", "scaled", bags)
    landmarks = landmarks_of_kernel(kernel, bags, 20, seed=0)
    own = np.isfinite(landmarks)
    assert own.sum(axis=1).tolist() == [1] * 20
    assert own.sum(axis=0).tolist() == [7, 7, 6]
    for column in range(3):
        values = landmarks[own[:, column], column]
        assert bags.points[:, column].min() <= values.min()
        assert values.max() <= bags.points[:, column].max()


def test_a_summand_of_few_values_has_a_landmark_at_each(rng):
    points = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=200)])
    bags = Bags.from_points(points, sizes=[20] * 10)
    kernel = resolve_kernel("additive", "scaled", bags)
    landmarks = landmarks_of_kernel(kernel, bags, 20, seed=0)
    assert sorted(landmarks[np.isfinite(landmarks[:, 0]), 0]) == [0, 1]
    assert np.isfinite(landmarks[:, 1]).sum() == 10


def test_features_are_those_of_the_summands_side_by_side(bags):
    kernel = resolve_kernel(RBF(columns=[0]) + Matern32(columns=[1, 2]), "scaled", bags)
    landmarks = landmarks_of_kernel(kernel, bags, 8, seed=0)
    features = landmark_features(kernel, landmarks)
    assert isinstance(features, SummandFeatures)
    expected = np.hstack(
        [
            kernel.first(bags.points, landmarks[:4]),
            kernel.second(bags.points, landmarks[4:]),
        ]
    )
    np.testing.assert_allclose(features(bags.points), expected, rtol=1e-12)
    np.testing.assert_allclose(embed(bags, features).mean[1], expected[4:13].mean(axis=0))
    gram = features.gram()
    np.testing.assert_allclose(gram[:4, :4], kernel.first(landmarks[:4], landmarks[:4]))
    np.testing.assert_array_equal(gram[:4, 4:], 0)
    assert isinstance(landmark_features(kernel, bags.points[:5]), LandmarkFeatures)


def test_an_additive_kernel_is_a_sum_over_columns_and_a_category_is_one(rng):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {
            "town": rng.integers(0, 10, 300),
            "age": rng.normal(40, 10, 300),
            "region": rng.choice(["north", "south", "west"], 300),
        }
    )
    bags = Bags.from_dataframe(table, "town")
    kernel = resolve_kernel("additive matern32", "scaled", bags)
    assert sorted(map(len, summands(kernel, bags.n_features))) == [1, 3]
    assert "Matern32, lengths age " in kernel_text(kernel, bags.features)
    lengths = np.arange(1.0, 5.0)
    given = resolve_kernel("additive", lengths, bags)
    assert [np.ravel(p.lengths).tolist() for p in summands(given, 4).values()] == [[1.0], [2, 3, 4]]


@pytest.mark.parametrize(
    "model", [BDR(12, "additive", method="laplace"), RBFNetwork(12, kernel="additive")]
)
def test_fits_are_saved_and_predict_alike(model, tmp_path):
    bags, y = location_bags()
    quiet_fit(model, bags, y)
    model.save(tmp_path / "fit.nc")
    np.testing.assert_array_equal(load(tmp_path / "fit.nc").predict(bags), model.predict(bags))
    assert np.isnan(model.landmarks_).any()
    again = quiet_fit(type(model)(12, kernel="additive", landmarks=model.landmarks_), bags, y)
    assert again.landmarks_.shape == model.landmarks_.shape


def test_an_additive_function_is_learned_better_by_an_additive_kernel(rng):
    """The label is the sum of the log standard deviations of six columns."""
    y = rng.uniform(-1, 1, size=(160, 6))
    bags = as_bags([np.exp(c) * rng.normal(size=(40, 6)) for c in y])
    y = y.sum(axis=1)
    errors = {}
    for kernel in ("rbf", "additive"):
        model = Shrinkage(36, kernel).fit(bags[:120], y[:120], seed=1)
        errors[kernel] = np.mean((model.predict(bags[120:]) - y[120:]) ** 2)
    assert errors["additive"] < 0.8 * errors["rbf"]


def test_tune_chooses_among_kernels():
    bags, y = location_bags()
    kernels = ["rbf", "additive", RBF(columns=[0]) + Matern32(columns=[1])]
    tuned = tune(
        bags,
        y,
        models=[Shrinkage()],
        cv=3,
        kernel=kernels,
        n_landmarks=(8,),
        bandwidth_scale=(1.0,),
        method="optimize",
    )
    assert len(tuned.table) == 3
    assert set(tuned.table["kernel"]) == {k if isinstance(k, str) else repr(k) for k in kernels}
    first = tuned.table["kernel"][0]
    assert first in (tuned.best.kernel, repr(tuned.best.kernel))


def test_shares_are_even():
    assert even_shares(11, 3) == [4, 4, 3]


def test_what_is_wrong_is_told(bags):
    with pytest.raises(ValueError, match="3 summands.* but n_landmarks is 2: ask for 3 or more"):
        training_features(bags, kernel="additive", n_landmarks=2)
    with pytest.raises(ValueError, match="one of 'rbf'.* 'additive' .* found 'additive foo'"):
        training_features(bags, kernel="additive foo")
    partial = np.array([[0.0, np.nan, np.nan], [np.nan, 1.0, 2.0]])
    with pytest.raises(ValueError, match=r"landmark 1 has numbers only in the columns \[1, 2\]"):
        training_features(bags, kernel="additive", landmarks=partial)
    with pytest.raises(ValueError, match="landmarks must be finite"):
        training_features(bags, kernel="rbf", landmarks=partial)
    with pytest.raises(TypeError, match="kernel must be a sequence of kernels to try"):
        tune(bags, [1.0, 2.0, 3.0, 4.0], cv=2, kernel="rbf")
