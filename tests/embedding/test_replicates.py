"""Effective sizes of bags from the replicate weights of a survey."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bdr_stan import BDR, BLR, RBF, Bags, Linear, Shrinkage, load
from bdr_stan.embedding import replicates
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import landmark_features

MAP = landmark_features(RBF(1.0), np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]))


def jackknife(sizes, rng, *, weights=None):
    """Bags with the replicates that leave out one point of each bag in turn."""
    n, most = sum(sizes), max(sizes)
    own = np.ones(n) if weights is None else weights
    place = np.concatenate([np.arange(size) for size in sizes])
    left = own[:, None] * (place[:, None] != np.arange(most))
    points = rng.normal(size=(n, 2))
    return Bags.from_points(
        points, sizes=sizes, weights=own, replicate_weights=left, replicate_scale=1.0
    )


def clustered(rng, n=40, clusters=12, people=10, between=0.5, n_replicates=200):
    """Bags of clusters of people, with bootstrap replicates of clusters."""
    centres = rng.normal(rng.normal(size=(n, 1, 2)), between**0.5, (n, clusters, 2))
    points = rng.normal(centres[:, :, None], (1 - between) ** 0.5, (n, clusters, people, 2))
    drawn = rng.multinomial(clusters - 1, np.ones(clusters) / clusters, (n, n_replicates))
    weights = np.repeat(drawn * clusters / (clusters - 1), people, axis=2)  # (n, R, points)
    return Bags.from_points(
        points.reshape(-1, 2),
        sizes=[clusters * people] * n,
        weights=np.ones(n * clusters * people),
        replicate_weights=weights.transpose(0, 2, 1).reshape(-1, n_replicates),
        replicate_scale=1 / n_replicates,
    )


def by_definition(bags, features):
    """Effective sizes as at the head of the module, bag by bag."""
    sizes = []
    for i, points in enumerate(bags):
        rows = slice(bags.offsets[i], bags.offsets[i + 1])
        phi, w = features(points), bags.weights[rows]
        mean = w @ phi / w.sum()
        moved = bags.replicate_weights[rows].T @ phi
        moved /= bags.replicate_weights[rows].sum(axis=0)[:, None]
        D = (moved - mean).T @ np.diag(bags.replicate_scale) @ (moved - mean)
        Sigma = (phi - mean).T @ np.diag(w / w.sum()) @ (phi - mean) + D
        sizes.append(np.trace(Sigma) / np.trace(D))
    return np.array(sizes)


@pytest.mark.parametrize("numbers", [10, 200, 10**6])
def test_sizes_are_those_of_the_definition(rng, monkeypatch, numbers):
    """However the bags are cut to save memory."""
    monkeypatch.setattr(replicates, "_SUMS_AT_ONCE", numbers)
    n = 40
    bags = Bags.from_points(
        rng.normal(5, 1, size=(n, 2)),
        sizes=[2, 25, 3, 10],
        weights=rng.uniform(0.1, 3, n),
        replicate_weights=rng.uniform(0, 3, (n, 7)),
        replicate_scale=rng.uniform(0.1, 1, 7),
    )
    assert_allclose(replicates.effective_sizes(bags, MAP), by_definition(bags, MAP), rtol=1e-9)
    assert_allclose(embed(bags, MAP).sizes, by_definition(bags, MAP), rtol=1e-9)


def test_the_jackknife_of_points_gives_their_number(rng):
    sizes = [6] * 5
    bags = jackknife(sizes, rng)
    bags.replicate_scale[:] = 5 / 6
    assert_allclose(embed(bags, MAP).sizes, 6, rtol=1e-10)


def test_clusters_have_the_design_effect_of_their_correlation():
    """1 + (people - 1) rho, of a linear function of the points."""
    rng = np.random.default_rng(1)
    bags = clustered(rng, n=200, between=0.5)
    features = landmark_features(Linear(), np.eye(2))
    found = 120 / replicates.effective_sizes(bags, features)
    assert np.median(found) == pytest.approx(1 + 9 * 0.5, rel=0.15)


def test_means_and_covariance_are_those_without_replicates(rng):
    bags = clustered(rng)
    plain = Bags.from_points(bags.points, sizes=bags.sizes, weights=bags.weights)
    found, expected = (embed(b, MAP, covariance=True) for b in (bags, plain))
    assert_array_equal(found.mean, expected.mean)
    assert_array_equal(found.covariance, expected.covariance)
    assert np.all(found.sizes < expected.sizes)


def test_replicates_that_do_not_vary_are_told(rng):
    weights = rng.uniform(1, 2, 12)
    replicate_weights = weights[:, None] * np.ones(4)
    replicate_weights[:6] *= rng.uniform(0.5, 1, (6, 4))
    bags = Bags.from_points(
        rng.normal(size=(12, 2)), sizes=[6, 5, 1], weights=weights,
        replicate_weights=replicate_weights, replicate_scale=0.25,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="of 1 bags, such as bag 1, are in proportion"):
        sizes = embed(bags, MAP).sizes
    assert_allclose(sizes[1:], bags.effective_sizes[1:])
    assert sizes[0] != pytest.approx(bags.effective_sizes[0], rel=0.01)


def test_a_subgroup_that_a_replicate_leaves_out_is_told(rng):
    halves = 2.0 * np.array([[1, 1, 0, 0, 1, 0, 1, 0], [0, 0, 1, 1, 0, 1, 0, 1]]).T
    bags = Bags.from_points(
        np.column_stack([rng.normal(size=8), [1, 1, 0, 0, 1, 1, 1, 1]]), sizes=[4, 4],
        weights=np.ones(8), replicate_weights=halves, replicate_scale=0.5, features=["x", "young"],
    )  # fmt: skip
    whole = embed(bags, MAP).sizes
    with pytest.warns(UserWarning, match="of 1 bags, such as bag 0, leave no point in some"):
        sizes = embed(bags.where(young=1), MAP).sizes
    assert_allclose(sizes, [2, whole[1]])


def test_a_table_has_columns_of_replicates(rng, tmp_path):
    table = pd.DataFrame({"town": ["b", "a", "b", "a"], "x": [1.0, 2.0, 3.0, 4.0], "w": 1.0})
    table = table.assign(w1=[1.0, 0.0, 2.0, 1.0], w2=[0.5, 3.0, 1.0, 2.0])
    given = {"weight": "w", "replicate_weights": ["w1", "w2"], "replicate_scale": 0.5}
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for bags in (
        Bags.from_dataframe(table, "town", **given),
        Bags.from_csv(tmp_path / "t.csv", "town", **given),
        Bags.from_parquet(tmp_path / "t.parquet", "town", **given),
    ):
        assert bags.features == ["x"] and bags.points.ravel().tolist() == [2.0, 4.0, 1.0, 3.0]
        assert_array_equal(bags.replicate_weights, [[0, 3], [1, 2], [1, 0.5], [2, 1]])
        assert_array_equal(bags.replicate_scale, [0.5, 0.5])
        assert_array_equal(bags[[1]].replicate_weights, [[1, 0.5], [2, 1]])
        assert_array_equal(bags.where(x=lambda x: x > 2).replicate_weights, [[1, 2], [2, 1]])
    points = Bags.from_points(
        table[["x"]], bag=table["town"], weights=table["w"],
        replicate_weights=table[["w1", "w2"]], replicate_scale=0.5,
    )  # fmt: skip
    assert_array_equal(points.replicate_weights, [[1, 0.5], [2, 1], [0, 3], [1, 2]])


def test_predictions_are_less_certain_by_the_design(rng, tmp_path):
    bags = clustered(rng, n=60)
    plain = Bags.from_points(bags.points, sizes=bags.sizes, weights=bags.weights)
    y = np.array([bag[:, 0].mean() for bag in bags]) + 0.1 * rng.normal(size=60)
    model = Shrinkage(8, kernel="rbf").fit(plain, y, seed=1)
    assert np.all(model.predictive(bags).sd > model.predictive(plain).sd)
    assert_allclose(model.predict_table(bags)["sd"], model.predictive(bags).sd)
    again = BDR(8, kernel="rbf", method="optimize").fit(bags, y, seed=1)
    assert_allclose(again.result_.constants["bag_size"], again.embed(bags).sizes)
    again.save(tmp_path / "fit.nc")
    with pytest.warns(UserWarning, match="no replicate_weights, but the training bags had"):
        load(tmp_path / "fit.nc").predict(plain)


def test_exact_embeddings_do_not_change(rng):
    bags = clustered(rng, n=30)
    plain = Bags.from_points(bags.points, sizes=bags.sizes, weights=bags.weights)
    y = rng.normal(size=30)
    found, expected = (BLR(5, method="exact").fit(b, y, seed=1) for b in (bags, plain))
    assert_allclose(found.predict(bags), expected.predict(plain))


def survey_weights(rng, n=400, n_replicates=80):
    weights = rng.lognormal(5, 0.5, n)
    return weights, rng.multinomial(n, np.ones(n) / n, n_replicates).T.astype(float)


@pytest.mark.parametrize("unit", [1.0, 1 / 170])  # weights, or weights of mean 1
def test_factors_in_place_of_replicate_weights_are_refused(rng, unit):
    weights, factors = survey_weights(rng)
    weights *= unit
    given = {"sizes": [100] * 4, "weights": weights, "replicate_scale": 1 / 80}
    points = rng.normal(size=(400, 2))
    with pytest.raises(ValueError, match="as factors of the weights do: multiply them"):
        Bags.from_points(points, replicate_weights=factors, **given)
    right = Bags.from_points(points, replicate_weights=factors * weights[:, None], **given)
    kish = right.weights.sum() ** 2 / np.sum(right.weights**2) / 4
    assert_allclose(embed(right, MAP).sizes.mean(), kish, rtol=0.3)
    Bags.from_points(points, replicate_weights=factors, **given | {"weights": np.ones(400)})


def test_negative_replicate_weights_enter_by_the_formula(rng):
    """As in the American Community Survey."""
    weights, factors = survey_weights(rng, 60, 8)
    replicates_of = weights[:, None] * (2 * factors - 1)
    assert (replicates_of < 0).any()
    bags = Bags.from_points(
        rng.normal(size=(60, 2)),
        sizes=[20, 40],
        weights=weights,
        replicate_weights=replicates_of,
        replicate_scale=4 / 8,
    )
    assert_allclose(embed(bags, MAP).sizes, by_definition(bags, MAP), rtol=1e-9)


def test_a_replicate_is_named_once(rng):
    table = pd.DataFrame(rng.uniform(1, 2, (40, 5)), columns=list("xwabc")).assign(town=[1, 2] * 20)
    for names, words in ((["a", "b", "a"], "'a' twice"), (["a", "w"], "'w' is both weight and")):
        with pytest.raises(ValueError, match=words):
            Bags.from_dataframe(
                table, "town", ["x"], "w", replicate_weights=names, replicate_scale=0.5
            )
