"""Points in clusters: variances between and within clusters, effective sizes, design effects."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bdr_stan import BDR, BLR, MERR, RBF, Bags, Linear, Samples, load
from bdr_stan.bags import clusters
from bdr_stan.bags.clusters import INDEPENDENT, clustered_sizes
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import landmark_features
from bdr_stan.report.fit_summary import fit_summary
from bdr_stan.report.model_sections import data_and_model

LINE = landmark_features(Linear(), np.eye(1))
MAP = landmark_features(RBF(1.0), np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]))


def households(rng, n=30, *, between=0.5, weighted=False, strata=None, people=6, most=7):
    """Points, and arguments of `Bags.from_points`: bags of up to 6 households of up to 5 people."""
    counts = rng.integers(1, most, n)
    sizes = rng.integers(1, people, counts.sum())
    bag = np.repeat(np.arange(n), counts)
    stratum = rng.integers(0, 2, len(bag)) * (0 if strata is None else strata)
    centres = rng.normal(stratum[:, None] + rng.normal(size=(n, 2))[bag], between**0.5)
    points = rng.normal(np.repeat(centres, sizes, axis=0), (1 - between) ** 0.5)
    first = np.concatenate([np.arange(k) for k in counts])  # numbered from 0 in each bag
    columns = {"sizes": np.bincount(np.repeat(bag, sizes)), "cluster": np.repeat(first, sizes)}
    if weighted:
        columns["weights"] = rng.uniform(0, 2, len(points)) * (rng.uniform(size=len(points)) > 0.1)
        columns["weights"][np.cumsum(columns["sizes"]) - 1] = 1.0
    if strata is not None:
        columns["strata"] = np.repeat(stratum, sizes)
    return points, columns


def by_definition(bags, features):
    """Variances and covariance as at the head of the module, with double loops."""
    n, d = len(bags), features.n_columns
    total, between, of_strata = np.zeros((3, d, d))
    W_in, W_between, B_between = 0.0, 0.0, 0.0  # degrees of freedom
    k, l, weights = np.zeros((3, n))
    several = bags.effective_sizes > 1 + 1e-9
    for i in range(n):
        rows = np.arange(bags.offsets[i], bags.offsets[i + 1])
        phi, p = features(bags[i]), bags.point_shares[rows]
        mean = p @ phi
        weights[i] = bags.effective_sizes[i] / (bags.effective_sizes[i] - 1) if several[i] else 0
        F = weights[i]
        total += F * (phi - mean).T @ np.diag(p) @ (phi - mean)
        l[i] = np.sum(p**2)
        strata = np.zeros(len(rows)) if bags.strata is None else bags.strata[rows]
        for h in np.unique(strata):
            stratum = strata == h
            share = p[stratum].sum()
            if share == 0:
                continue
            centre = p[stratum] @ phi[stratum] / share
            of_strata += F * share * np.outer(centre - mean, centre - mean)
            for c in np.unique(bags.cluster[rows][stratum]):
                own = stratum & (bags.cluster[rows] == c)
                P, Q = p[own].sum(), np.sum(p[own] ** 2)
                if P == 0:
                    continue
                average = p[own] @ phi[own] / P
                between += F * P * np.outer(average - centre, average - centre)
                k[i] += P**2
                W_in += F * (P - Q / P)
                W_between += F * (Q / P - Q / share)
                B_between += F * (P - P**2 / share)
    W = (total - of_strata - between) / W_in
    values, axes = np.linalg.eigh((between - W_between * W) / B_between)
    b = max(values.sum(), 0)
    B = axes @ np.diag(values.clip(0)) @ axes.T
    B *= b / np.trace(B)
    part = B_between / (W_in + W_between)
    in_strata = (total - of_strata) / (W_in + W_between)
    w = np.trace(in_strata) - part * b
    t = (np.trace(total) + weights @ (b * k + w * l)) / weights.sum()
    shape = in_strata + (k.mean() / l.mean() - part) * B
    return np.array([b, w]) / t, shape * t / np.trace(shape), t / (b * k + w * l)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strata", [None, 3])
@pytest.mark.parametrize("numbers", [30, 10**6])
def test_variances_are_those_of_the_definition(rng, monkeypatch, weighted, strata, numbers):
    """However the bags are cut to save memory."""
    monkeypatch.setattr(clusters, "_NUMBERS_AT_ONCE", numbers)
    points, columns = households(rng, weighted=weighted, strata=strata)
    bags = Bags.from_points(points, **columns)
    variances, covariance, sizes = by_definition(bags, MAP)
    embedding = embed(bags, MAP, covariance=True)
    assert_allclose(embedding.cluster_variances, variances, rtol=1e-8)
    assert_allclose(embedding.covariance, covariance, rtol=1e-8, atol=1e-12)
    assert_allclose(embedding.sizes, sizes, rtol=1e-8)
    assert_allclose(embed(bags, MAP).sizes, sizes, rtol=1e-8)
    assert embed(bags, MAP).covariance is None


def test_equal_clusters_have_the_mean_squares_of_textbooks(rng):
    """b = (MSB - MSW) / n, w = MSW: the design effect is 1 + (n - 1) rho."""
    n, m, people = 40, 5, 4
    x = rng.normal(rng.normal(size=(n, m, 1)), 1.0, (n, m, people))
    means = x.mean(axis=2)
    msw = np.sum((x - means[:, :, None]) ** 2) / (n * m * (people - 1))
    msb = people * np.sum((means - means.mean(axis=1)[:, None]) ** 2) / (n * (m - 1))
    rho = (msb - msw) / people / ((msb - msw) / people + msw)
    bags = Bags.from_points(
        x.reshape(-1, 1), sizes=[m * people] * n, cluster=np.tile(np.arange(m).repeat(people), n)
    )
    embedding = embed(bags, LINE, covariance=True)
    assert_allclose(embedding.cluster_variances, [rho, 1 - rho])
    assert_allclose(bags.sizes / embedding.sizes, 1 + (people - 1) * rho)
    assert_allclose(embedding.covariance, (msb - msw) / people + msw)
    table = bags.describe()
    assert_allclose(table["design_effect"], 1 + (people - 1) * rho)
    assert table.loc["all", "clusters"] == n * m and table.loc["all", "points"] == len(bags.points)


def test_variances_are_unbiased_with_strata_and_weights():
    """Mean of 200 estimates of b and w, and of the variance of a bag's mean, within 4 errors."""
    rng, found = np.random.default_rng(3), []
    for _ in range(200):
        points, columns = households(rng, 20, between=0.3, weighted=True, strata=4)
        bags = Bags.from_points(points, **columns)
        embedding = embed(bags, landmark_features(Linear(), np.eye(2)), covariance=True)
        # b = .6 and w = 1.4 are for two columns; t cancels.
        found.append(np.trace(embedding.covariance) * embedding.cluster_variances)
    found = np.array(found)
    errors = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - [0.6, 1.4]) < 4 * errors)


def test_strata_raise_effective_sizes(rng):
    points, columns = households(rng, 60, strata=4)
    with_strata = Bags.from_points(points, **columns)
    without = Bags.from_points(points, **columns | {"strata": None})
    assert np.all(embed(with_strata, MAP).sizes > embed(without, MAP).sizes)


def test_clusters_of_one_point_are_independent_points(rng):
    points, columns = households(rng, weighted=True)
    columns["cluster"] = np.arange(len(points))
    bags = Bags.from_points(points, **columns)
    plain = Bags.from_points(points, **columns | {"cluster": None})
    found, expected = (embed(each, MAP, covariance=True) for each in (bags, plain))
    assert_allclose(found.sizes, expected.sizes)
    assert_allclose(found.covariance, expected.covariance)
    assert_array_equal(found.mean, expected.mean)


def test_clusters_that_differ_no_more_than_chance_change_nothing(rng):
    """All clusters have the same mean, so that the estimate would be negative."""
    x = rng.normal(size=(30, 4, 3))
    x -= x.mean(axis=2, keepdims=True)
    numbers = np.tile(np.arange(4).repeat(3), 30)
    bags = Bags.from_points(x.reshape(-1, 1), sizes=[12] * 30, cluster=numbers)
    plain = Bags.from_points(x.reshape(-1, 1), sizes=[12] * 30)
    found, expected = (embed(each, LINE, covariance=True) for each in (bags, plain))
    assert_allclose(found.sizes, 12)
    assert_allclose(found.covariance, expected.covariance)


def test_ids_are_matched_within_bags_and_strata(rng):
    points, columns = households(rng, strata=2)
    bag = np.repeat(np.arange(30), columns["sizes"])
    nested = bag * 1000 + columns["strata"] * 100 + columns["cluster"]
    bags = Bags.from_points(points, **columns)
    unique = Bags.from_points(points, **columns | {"cluster": nested.astype(str)})
    assert_allclose(embed(bags, MAP).sizes, embed(unique, MAP).sizes)
    assert_allclose(bags.describe(), unique.describe())


def table_of(rng):
    points, columns = households(rng, weighted=True, strata=2)
    table = pd.DataFrame(points, columns=["x", "z"])
    table = table.assign(w=columns["weights"], hh=columns["cluster"], region=columns["strata"])
    table["town"] = np.repeat(np.arange(30), columns["sizes"])
    return table.sample(frac=1, random_state=1), Bags.from_points(points, **columns)


def test_tables_and_files_have_columns_of_clusters(rng, tmp_path):
    table, bags = table_of(rng)
    roles = {"weight": "w", "cluster": "hh", "strata": "region"}
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    sizes = embed(bags, MAP).sizes
    for read in (
        Bags.from_dataframe(table, "town", **roles),
        Bags.from_csv(tmp_path / "t.csv", "town", **roles),
        Bags.from_parquet(tmp_path / "t.parquet", "town", **roles),
    ):
        assert read.features == ["x", "z"]
        assert_allclose(embed(read, MAP).sizes, sizes)
    points = Bags.from_points(
        table[["x", "z"]], bag=table["town"], weights=table["w"], cluster=table["hh"],
        strata=table["region"],
    )  # fmt: skip
    order = np.argsort(points.ids)
    assert_allclose(embed(points, MAP).sizes[order], sizes)


def test_selections_keep_clusters(rng):
    """Also of bags that are selected twice, whose clusters are other ones."""
    points, columns = households(rng)
    bags = Bags.from_points(points, **columns)
    variances = embed(bags, MAP).cluster_variances
    bags = bags.with_cluster_variances(variances)
    some = np.array([4, 4, 20, 1])
    assert_allclose(clustered_sizes(bags[some]), clustered_sizes(bags)[some])
    assert_allclose(embed(bags[[7]], MAP).sizes, clustered_sizes(bags)[7])
    named = Bags.from_points(points, **columns, features=["x", "z"])
    rows = points[:, 0] > 0
    with pytest.warns(UserWarning, match="have no points that meet"):
        chosen = named.where(x=lambda x: x > 0).with_cluster_variances(variances)
    bag = np.repeat(np.arange(30), columns["sizes"])[rows]
    expected = Bags.from_points(points[rows], bag=bag, cluster=columns["cluster"][rows])
    assert_allclose(
        clustered_sizes(chosen), clustered_sizes(expected.with_cluster_variances(variances))
    )


def test_new_bags_take_the_variances_of_the_fit(rng, tmp_path):
    """A bag alone is predicted as among others; a table is read with its column of clusters."""
    table, _ = table_of(rng)
    bags = Bags.from_dataframe(table, "town", weight="w", cluster="hh", strata="region")
    y = pd.Series([bag[:, 0].mean() for bag in bags], bags.ids) + 0.1 * rng.normal(size=30)
    model = BDR(8, method="optimize").fit(bags, y, seed=1)
    plain = Bags.from_dataframe(table.drop(columns=["hh", "region"]), "town", weight="w")
    sd = model.predictive(bags).sd
    assert_allclose(model.result_.constants["bag_size"], model.embed(bags).sizes)
    assert_allclose(model.predictive(bags[[3]]).sd, sd[3])
    assert_allclose(model.predict_table(table)["sd"], sd)
    with pytest.warns(UserWarning, match="no cluster, but the training bags had: their points"):
        assert np.mean(model.predictive(plain).sd) < np.mean(sd)
    model.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    assert_allclose(again.predictive(bags[[3]]).sd, sd[3])
    assert_allclose(again.predict_table(table)["sd"], sd)
    with pytest.warns(UserWarning, match="the training bags had none, so points are taken as"):
        BDR(8, method="optimize").fit(plain, y, seed=1).predict(bags)
    facts = dict(data_and_model(fit_summary(again, bags, "y")).blocks[0].rows)
    overall = len(table) / model.embed(bags).sizes.sum()
    assert facts["design effect"].startswith(f"{overall:.3g}, ")


def test_held_out_bags_of_a_search_take_the_variances_of_training(rng):
    points, columns = households(rng)
    bags = Bags.from_points(points, **columns)
    model = BDR(8)
    training = model.training_features(bags, seed=1)
    embedding = model.embed(bags[[3]], training)
    assert_allclose(embedding.sizes, training.embedding.sizes[3])


def test_each_of_several_samples_has_its_clusters(rng):
    points, columns = households(rng, 40)
    people = Bags.from_points(points, **columns)
    houses = Bags.from_points(rng.normal(size=(80, 1)), sizes=[2] * 40)
    samples = Samples({"people": people, "houses": houses})
    model = BDR(6, kernel="rbf", method="optimize").fit(samples, rng.normal(size=40), seed=1)
    sizes = model.embed(samples[[5]]).sizes[0]
    assert_allclose(sizes, model.result_.constants["bag_size"][5])
    assert sizes[0] < people.sizes[5] and sizes[1] == 2


def test_exact_embeddings_do_not_change(rng):
    points, columns = households(rng)
    bags = Bags.from_points(points, **columns)
    plain = Bags.from_points(points, **columns | {"cluster": None})
    y = rng.normal(size=30)
    for model, how in (
        (BLR(5, kernel="rbf", method="exact"), {"seed": 1}),
        (MERR(random_state=1), {}),
    ):
        found, expected = (model.fit(each, y, **how).predict(each) for each in (bags, plain))
        assert_allclose(found, expected)


def test_bags_that_are_one_cluster_each_are_told(rng):
    points = rng.normal(size=(40, 2))
    single = np.arange(40)
    for columns in (
        {"cluster": np.zeros(40)},
        {"cluster": [0, 1] * 20, "strata": [0, 1] * 20},
        {"cluster": single, "strata": single},
    ):
        bags = Bags.from_points(points, sizes=[10] * 4, **columns)
        with pytest.warns(UserWarning, match="no bag has two clusters, or none in a stratum"):
            embedding = embed(bags, MAP, covariance=True)
        assert_allclose(embedding.sizes, 10)
        assert_array_equal(embedding.cluster_variances, INDEPENDENT)


def test_points_and_columns_without_variance_are_described(rng):
    points = np.repeat(rng.normal(size=(10, 1)), 6, axis=0)  # equal in each bag
    numbers = np.tile(np.arange(3).repeat(2), 10)
    same = Bags.from_points(points, sizes=[6] * 10, cluster=numbers)
    assert_allclose(embed(same, LINE, covariance=True).sizes, 6)
    x = rng.normal(size=(60, 1))
    bags = Bags.from_points(x, sizes=[6] * 10, cluster=numbers)
    wider = Bags.from_points(
        np.column_stack([x, np.full(60, 0.1)]), sizes=[6] * 10, cluster=numbers
    )
    assert_allclose(wider.describe(), bags.describe())


def test_single_points_have_size_one(rng):
    bags = Bags.from_points(rng.normal(size=(9, 2)), sizes=[1] * 9, cluster=np.zeros(9))
    assert_allclose(embed(bags, MAP).sizes, 1)


def test_a_table_describes_bags_without_clusters(rng):
    bags = Bags.from_points(
        rng.normal(size=(5, 1)), sizes=[2, 3], weights=[1, 1, 1, 1, 0], ids=["a", "all"]
    )
    table = bags.describe()
    assert list(table) == ["points", "effective_size", "design_effect"]
    assert list(table.index) == ["a", "all", "all"]  # the last row is of both bags
    assert_allclose(table["design_effect"], [1, 1.5, 1.25])


def test_sums_of_clustered_bags_are_refused(rng):
    points, columns = households(rng)
    plain = Bags.from_points(points, **columns | {"cluster": None})
    bags = Bags.from_points(points, **columns)
    message = "sums take points as independent: leave cluster out of the bags, or fit to them"
    basis = BDR(5).basis(plain, seed=1)
    with (
        pytest.warns(UserWarning, match="training bags had none"),
        pytest.raises(ValueError, match=message),
    ):
        basis.summarise(bags, rng.normal(size=30))
    with pytest.raises(ValueError, match=message):
        BDR(5).basis(bags, seed=1)
