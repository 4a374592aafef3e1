"""Effects of columns that are alike in all bags are left out; the others are not."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bdr_stan import BDR, BLR, Bags
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import p_value, training_features


def people(seed, n=60, most=12):
    """Groups that differ in `age` and `kind`, and not in `noise` and `side`."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n), rng.integers(1, most + 1, n))
    level = rng.normal(size=n)
    kinds = np.where(rng.random(len(of)) < stats.norm.cdf(level[of]), "a", "b")
    table = pd.DataFrame(
        {
            "age": level[of] + rng.normal(size=len(of)),
            "noise": rng.normal(size=len(of)),
            "kind": np.where(rng.random(len(of)) < 0.2, "c", kinds),
            "side": rng.choice(["left", "right"], len(of)),
            "bag": of,
        }
    )
    return Bags.from_dataframe(table, "bag"), level


def effects(features):
    """Columns of which the kernel has effects."""
    partial = np.isnan(features.landmarks).any(axis=1)
    return sorted({k for row in features.landmarks[partial] for k in np.flatnonzero(row == row)})


def test_p_value_of_one_feature_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(3)
    groups = [rng.normal(0.5 * k, 1, size) for k, size in enumerate([4, 9, 6])]
    sizes = np.array([len(group) for group in groups], float)
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / np.sum(sizes - 1)
    mean = np.array([[group.mean()] for group in groups])
    embedding = Embedding(sizes, mean, np.array([[within]]))
    expected = stats.f_oneway(*groups).pvalue
    assert p_value(embedding, np.array([True])) == pytest.approx(expected, rel=1e-10)


def test_p_values_of_bags_alike_are_uniform():
    """Of two columns at once, one of them a category, whose levels sum to 1."""
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        of = np.repeat(np.arange(40), rng.integers(2, 12, 40))
        up = rng.random(len(of)) < 0.4
        X = np.column_stack([up, ~up, rng.normal(size=len(of))]).astype(float)
        sizes = np.bincount(of).astype(float)
        mean = np.array([X[of == i].mean(axis=0) for i in range(40)])
        covariance = (X - mean[of]).T @ (X - mean[of]) / np.sum(sizes - 1)
        found.append(p_value(Embedding(sizes, mean, covariance), np.ones(3, bool)))
    assert stats.kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize("covariance", [False, True])
def test_columns_alike_in_all_bags_lose_their_effects(covariance):
    kept = []
    for seed in range(10):
        bags, _ = people(seed)
        found = training_features(bags, kernel="linear + rbf", covariance=covariance, seed=1)
        kept += [bags.features[k] for k in effects(found)]
    assert {kept.count(name) for name in ("age", "kind=a", "kind=b", "kind=c")} == {10}
    assert kept.count("noise") <= 3 and kept.count("side=left") <= 3  # 1 of 10 expected
    d = len(found.landmarks)
    assert found.embedding.covariance is not None
    assert found.embedding.mean.shape == (len(bags), d) and found.feature_map.n_columns == d
    direct = training_features(bags, kernel=found.kernel, landmarks=found.landmarks)
    np.testing.assert_allclose(found.embedding.mean, direct.embedding.mean, rtol=1e-12)


def test_models_fit_and_predict_where_no_column_or_every_column_may_vary():
    rng = np.random.default_rng(0)
    alike = [rng.normal(size=(6, 2)) for _ in range(30)]
    model = BDR(method="optimize").fit(alike, rng.normal(size=30), seed=3)
    assert not np.isnan(model.landmarks_).any() or effects(model.training_features(alike, seed=3))
    single = [rng.normal(size=(1, 2)) for _ in range(30)]
    y = np.array([bag[0, 0] for bag in single])
    fitted = BLR(8, kernel="linear + rbf", method="exact").fit(single, y, seed=3)
    assert effects(fitted.training_features(single, seed=3)) == [0, 1]
    assert np.corrcoef(fitted.predict(single), y)[0, 1] > 0.9
