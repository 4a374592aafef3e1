"""Distances of new bags from the training bags, and their p-values."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.training import training_features
from bdr_stan.questions import familiarity
from bdr_stan.questions.familiarity import (
    UNFAMILIAR,
    Familiarity,
    too_many_unfamiliar,
)


def bags_of(n, rng, *, sizes=None, shift=0.0):
    """Normal bags of 1 to 300 points whose means and scales differ."""
    if sizes is None:
        sizes = np.exp(rng.uniform(0, np.log(300), n)).astype(int)
    means = rng.normal(shift, 1, (n, 2))
    return [
        rng.normal(m, np.exp(0.3 * m[:1]), (size, 2)) for m, size in zip(means, sizes, strict=True)
    ]


def familiarity_of(bags, **options):
    training = training_features(bags, n_landmarks=15, seed=1, progress=False, **options)
    return training, Familiarity.from_training(training)


@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear + rbf"])
def test_false_alarms(covariance, kernel):
    """Rates near the nominal ones over all bags, and over small and large ones."""
    rng = np.random.default_rng(0)
    alarms = []
    for _ in range(12):
        training, found = familiarity_of(bags_of(200, rng), covariance=covariance, kernel=kernel)
        new = embed(bags_of(500, rng), training.feature_map)
        p = found.p_values(new)
        small = new.sizes <= 10
        levels = (0.05, 0.2)
        alarms.append([[np.mean(p[which] <= a) for a in levels] for which in (small, ~small)])
    assert_allclose(np.mean(alarms, axis=0), [[0.05, 0.2]] * 2, rtol=0.4)


def test_bags_from_elsewhere_are_found_if_they_are_large():
    rng = np.random.default_rng(1)
    training, found = familiarity_of(bags_of(300, rng), covariance=True)
    shifted = {
        n: embed(bags_of(200, rng, sizes=[n] * 200, shift=4.0), training.feature_map)
        for n in (1, 300)
    }
    assert np.mean(found.p_values(shifted[300]) <= 0.01) > 0.9
    assert np.mean(found.p_values(shifted[1]) <= 0.01) < 0.7


def test_normal_embeddings_are_chi_square():
    """Of many bags the distances are those of the definition, and p-values of chi-square(d)."""
    rng = np.random.default_rng(2)
    n, d = 20_000, 3
    sizes = rng.integers(1, 50, n)
    lam = np.array([0.1, 1.0, 10.0])
    z = rng.normal(size=(n, d)) * np.sqrt(1 + lam / sizes[:, None])
    found = Familiarity(np.zeros(d), np.eye(d), lam, np.array([1.0]), _chi_square_levels(d)[None])
    embedding = Embedding(sizes.astype(float), z, None)
    squared = np.sum(z**2 / (1 + lam / sizes[:, None]), axis=1)
    assert_allclose(found.distance(embedding), np.sqrt(squared / d))
    assert_allclose(found.p_values(embedding), chi2.sf(squared, d), rtol=0.02, atol=0.003)
    assert np.mean(found.p_values(embedding) <= 0.05) == pytest.approx(0.05, abs=0.005)


def _chi_square_levels(d):
    from bdr_stan.questions import familiarity

    return chi2.isf(familiarity._LEVELS, d)


def test_distances_beyond_the_largest_grow_as_the_tail_does(rng):
    """As predicted from Hill's estimate by a tenth of them; else by their ranks."""
    distances = 1 + rng.pareto(3.0, size=200)
    ordered = np.sort(distances)[::-1]
    excess = [np.log(ordered[k] / ordered[20]) for k in range(20)]
    found, scale = familiarity._quantiles(distances), sum(excess) + excess[0]
    for level, value in zip(familiarity._LEVELS, found, strict=True):
        by_rank = np.interp(np.log(level), np.log(np.arange(1, 201) / 201), ordered)
        beyond = max(1 / (201 * level), 1)
        assert value == pytest.approx(by_rank * np.exp(scale * (beyond ** (1 / 20) - 1)))


@pytest.mark.parametrize("n", [30, 100])
def test_few_distances_do_not_promise_a_thin_tail(n):
    """Of Pareto distances the probability beyond the .1% quantile is at most that on average."""
    rng = np.random.default_rng(11)
    at = np.argmin(np.abs(familiarity._LEVELS - 0.001))
    beyond = []
    for _ in range(2000):
        found = familiarity._quantiles(1 + rng.pareto(3.0, size=n))[at]
        beyond.append(found**-3.0)
    error = np.std(beyond) / np.sqrt(2000)
    assert np.mean(beyond) < 0.001 + 4 * error
    assert np.mean(beyond) > 0.0002


def test_order_of_the_bags_does_not_matter():
    rng = np.random.default_rng(3)
    training, found = familiarity_of(bags_of(60, rng), covariance=True)
    order = rng.permutation(60)
    again = Familiarity.from_training(training.take(order))
    assert_allclose(again.at_levels, found.at_levels, rtol=1e-8)


def test_few_bags_have_none():
    bags = bags_of(19, np.random.default_rng(4))
    assert familiarity_of(bags)[1] is None
    assert familiarity_of(bags + bags_of(1, np.random.default_rng(5)))[1] is not None


def test_bags_of_one_point_without_covariance():
    rng = np.random.default_rng(6)
    assert familiarity_of(bags_of(40, rng, sizes=[1] * 40))[1] is None


def test_constants_are_all_that_is_needed():
    training, found = familiarity_of(bags_of(120, np.random.default_rng(7)))
    arrays = {name: values for name, (values, _) in found.constants().items()}
    again = Familiarity.from_constants(arrays)
    new = training.embedding
    assert_allclose(again.p_values(new), found.p_values(new))
    assert Familiarity.from_constants({"m0": np.zeros(3)}) is None


@pytest.mark.parametrize("sizes", [[1] + [5] * 79, [2] * 29 + [7] * 2 + [8] * 60, [3] * 40])
def test_classes_of_sizes_are_large_enough(sizes):
    _, found = familiarity_of(bags_of(len(sizes), np.random.default_rng(10), sizes=sizes))
    counts = np.histogram(sizes, [*found.first_sizes, np.inf])[0]
    assert counts.min() >= 15
    assert np.all(np.diff(found.at_levels, axis=1) >= 0)


def test_many_bags_keep_quantiles_alone():
    rng = np.random.default_rng(8)
    training, _ = familiarity_of(bags_of(50, rng), covariance=True)
    n, embedding = 30_000, training.embedding
    which = rng.integers(0, 50, n)
    mean = embedding.mean[which] + 0.01 * rng.normal(size=(n, embedding.mean.shape[1]))
    many = replace(
        training, embedding=Embedding(embedding.sizes[which], mean, embedding.covariance)
    )
    found = Familiarity.from_training(many)
    assert found.at_levels.size <= 10 * 130
    p = found.p_values(many.embedding)
    assert np.mean(p <= 0.05) == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("n_unfamiliar", "n", "found"),
    [(1, 1, 1), (0, 1, 0), (1, 10, 0), (3, 10, 3), (5, 1000, 0), (20, 1000, 20), (1000, 10**6, 0)],
)
def test_chance_is_no_reason_to_warn(n_unfamiliar, n, found):
    p_values = np.ones(n)
    p_values[:n_unfamiliar] = UNFAMILIAR / 2
    assert too_many_unfamiliar(p_values) == found


def test_bags_like_the_training_bags_seldom_warn():
    """Of single bags and of batches."""
    rng = np.random.default_rng(9)
    warned = []
    for _ in range(10):
        training, found = familiarity_of(bags_of(100, rng), covariance=True)
        p = found.p_values(embed(bags_of(500, rng), training.feature_map))
        batches = [p, *p.reshape(10, 50), *p[:, None]]
        warned.append([too_many_unfamiliar(batch) > 0 for batch in batches])
    assert np.mean(warned) < 0.005


def test_quantiles_of_distances_with_a_tail_of_a_known_power():
    exceeded = np.arange(1, 4001) / 4001
    found = familiarity._quantiles(exceeded**-0.3)
    assert_allclose(found, familiarity._LEVELS**-0.3, rtol=0.03)


def test_sizes_below_all_others_are_of_the_first_class():
    found = familiarity._class_of(np.array([3.0, 10.0]), np.array([1.0, 3.0, 9.5, 10.0, 50.0]))
    np.testing.assert_array_equal(found, [0, 0, 0, 1, 1])
