"""Movement of mean embeddings between two versions of the same points."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bdr_stan import BDR, Bags, Shrinkage
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, landmark_features
from bdr_stan.questions.contrast import movement

LANDMARKS = np.array([[-1.0], [0.0], [2.0]])
FEATURES = landmark_features(RBF(bandwidth=1.0), LANDMARKS)
W = np.array([0.7, -1.0, 0.4])
VALUES, PROBABILITIES = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 0.3, 0.2])


def moved(after, before, *, weights=None):
    """Movement of bags given as lists of arrays, along W, and the sd of its error."""
    second = Bags.from_list(before, weights=[np.ones(len(bag)) for bag in before])
    first = Bags.from_list(after, weights=weights or [np.ones(len(bag)) for bag in after])
    difference = embed(first, FEATURES).mean - embed(second, FEATURES).mean
    found = movement(first, second, FEATURES, W[None], second.effective_sizes, difference)
    return found.mean @ W, found.sd


def f(x):
    return FEATURES(np.reshape(x, (-1, 1))) @ W


def test_errors_are_those_of_a_double_loop(rng):
    before = [rng.normal(size=(n, 1)) for n in (2, 5, 9)]
    after = [bag + (bag > 0) * (len(bag) != 5) for bag in before]
    weights = [rng.uniform(0.5, 2.0, len(bag)) for bag in before]
    squares, degrees, expected = [], [], []
    for x, y, w in zip(before, after, weights, strict=True):
        n, q = len(x), w / w.sum()
        delta = q @ f(y) - np.mean(f(x))
        m_after, m_before, errors = q @ f(y), np.mean(f(x)), []
        for j in range(n):
            factor = 1 + (q[j] - 1 / n) / (1 - 1 / n) * (n == 5)
            after_j = q[j] * (f(y)[j] - m_after)
            delta += (factor - 1) * after_j
            errors.append(factor * after_j - (f(x)[j] - m_before) / n)
        squares.append(n**2 * np.sum(np.square(errors)))
        degrees.append(n - 1)
        expected.append(delta)
    variance = 10 * np.sum(squares) / np.sum(degrees) + np.array(squares)
    variance /= (10 + np.array(degrees)) * [2, 5, 9]
    mean, sd = moved(after, before, weights=weights)
    assert_allclose(mean, expected, rtol=1e-10)
    assert_allclose(sd, np.sqrt(variance), rtol=1e-10)


def every_sample(n):
    """All samples of n points of a distribution on three values, with their probabilities."""
    for k in product(range(3), repeat=n):
        yield VALUES[list(k)], PROBABILITIES[list(k)].prod()


def test_values_that_change_have_an_unbiased_movement_and_variance():
    means, variances, p = [], [], []
    for x, probability in every_sample(4):
        mean, sd = moved([np.c_[np.where(x < 1, x + 0.5, x)]], [np.c_[x]])
        means.append(mean[0])
        variances.append(sd[0] ** 2)
        p.append(probability)
    truth = PROBABILITIES @ (f(np.where(VALUES < 1, VALUES + 0.5, VALUES)) - f(VALUES))
    assert_allclose(np.dot(p, means), truth, rtol=1e-10)
    assert_allclose(np.dot(p, variances), np.dot(p, (np.array(means) - truth) ** 2), rtol=1e-10)


def test_weights_that_change_have_little_bias():
    r = np.array([1.0, 2.0, 1.0])
    truth = (r * PROBABILITIES) @ f(VALUES) / (r @ PROBABILITIES) - PROBABILITIES @ f(VALUES)
    means, plain, p = [], [], []
    for x, probability in every_sample(5):
        weights = np.where(x == 0.5, 2.0, 1.0)
        means.append(moved([np.c_[x]], [np.c_[x]], weights=[weights])[0][0])
        plain.append(np.average(f(x), weights=weights) - f(x).mean())
        p.append(probability)
    assert abs(np.dot(p, plain) / truth - 1) > 0.15
    assert abs(np.dot(p, means) / truth - 1) < 0.05


def test_removed_points_have_an_unbiased_movement():
    """In bags in which some are left."""
    means, p = [], []
    for x, probability in every_sample(4):
        if (x > -1).any():
            means.append(moved([np.c_[x[x > -1]]], [np.c_[x]])[0][0] + f(x).mean())
            p.append(probability)
    kept = PROBABILITIES[1:] @ f(VALUES[1:]) / PROBABILITIES[1:].sum()
    assert_allclose(np.average(means, weights=p), kept, rtol=1e-10)


def test_added_points_are_part_of_the_change():
    x, new = np.c_[[-1.0, 0.5, 0.7, 2.0]], np.c_[[3.0]]
    mean, sd = moved([np.vstack([new, x])], [x])
    assert_allclose(mean, 0.2 * (f(new) - f(x).mean()), rtol=1e-10)
    assert_allclose(sd, 0.2 * np.std(f(x), ddof=1) / 2, rtol=1e-10)


def test_points_without_weight_may_lie_beside_removed_ones():
    x, weights = np.c_[[-1.0, 0.5, 2.0, 3.0]], np.array([1.0, 1.0, 1.0, 0.0])
    first = Bags.from_list([x[1:]], weights=[weights[1:]])
    second = Bags.from_list([x], weights=[weights])
    difference = embed(first, FEATURES).mean - embed(second, FEATURES).mean
    found = movement(first, second, FEATURES, W[None], second.effective_sizes, difference)
    assert_allclose([found.mean @ W, found.sd], moved([x[1:3]], [x[:3]]), rtol=1e-10)


def test_a_repeated_point_has_a_larger_share():
    x = np.c_[[-1.0, 0.5, 2.0]]
    repeated = moved([np.vstack([x, x[1:2]])], [x])
    weighted = moved([x], [x], weights=[np.array([1.0, 2.0, 1.0])])
    assert_allclose(repeated, weighted, rtol=1e-10)


def test_the_order_of_points_with_weights_does_not_matter(rng):
    bags = [rng.normal(size=(6, 1)) for _ in range(3)]
    weights = [rng.uniform(0.5, 2.0, 6) for _ in bags]
    expected = moved(bags, bags, weights=weights)
    orders = [rng.permutation(6) for _ in bags]
    shuffled = [bag[order] for bag, order in zip(bags, orders, strict=True)]
    also = [w[order] for w, order in zip(weights, orders, strict=True)]
    assert_allclose(moved(shuffled, bags, weights=also), expected, rtol=1e-10)


def test_points_that_move_alike_have_no_error(rng):
    bags = [rng.normal(size=(n, 1)) for n in (1, 3, 40)]
    mean, sd = moved(bags, bags)
    assert np.all(mean == 0) and np.all(sd == 0)


def test_bags_outside_a_change_of_whole_bags_do_not_move(rng):
    bags = [rng.normal(size=(5, 1)) for _ in range(6)]
    after = [bag + (i < 3) for i, bag in enumerate(bags)]
    _, sd = moved(after, bags)
    assert np.all(sd[:3] > 0) and np.all(sd[3:] == 0)
    some = [bag + (bag > 1) * (i < 3) for i, bag in enumerate(bags)]
    assert np.all(moved(some, bags)[1] > 0)  # of others points may have been changed too


def test_bags_of_one_point_have_an_upper_bound(rng):
    bags = [rng.normal(size=(1, 1)) for _ in range(30)]
    mean, sd = moved([bag + 1 for bag in bags], bags)
    assert_allclose(sd, mean.std(), rtol=1e-10)


def test_large_bags_are_thinned_for_their_variance(rng, monkeypatch):
    bags = [rng.normal(size=(n, 1)) for n in (30, 4000)]
    after = [bag + (bag > 0) for bag in bags]
    mean, sd = moved(after, bags)
    monkeypatch.setattr("bdr_stan.questions.contrast._MOST_POINTS", 2000)
    monkeypatch.setattr("bdr_stan.questions.contrast._FEATURES_AT_ONCE", 100)
    again, thinned = moved(after, bags)
    assert_allclose(again, mean, rtol=1e-10)
    assert_allclose(thinned, sd, rtol=0.2)  # 4 standard errors of a standard deviation are 6%


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    bags = [rng.normal(mean, size=(6, 1)) for mean in rng.normal(size=60)]
    y = np.array([bag.mean() for bag in bags])
    return Shrinkage(5).fit(bags, y, seed=1), bags


def test_other_samples_are_refused(fitted, rng):
    model, bags = fitted
    other = [rng.normal(size=(4, 1)) for _ in bags]
    with pytest.raises(ValueError, match="bag 0 has 4 points in bags_a and 6 in bags_b, and"):
        model.contrast(other, bags)


def test_another_order_of_the_points_is_found(fitted, rng):
    model, bags = fitted
    shuffled = [rng.permutation(bag) + 0.2 for bag in bags]
    with pytest.warns(UserWarning, match="seem to be in different orders"):
        contrast = model.contrast(shuffled, bags)
    assert_allclose(contrast.mean, model.contrast([b + 0.2 for b in bags], bags).mean, rtol=1e-8)


def test_one_draw_has_the_errors_of_the_points(fitted):
    model, bags = fitted
    contrast = model.contrast([np.maximum(bag, 0) for bag in bags], bags)
    assert contrast.n_draws > 1 and np.all(contrast.sd > 0)


@pytest.mark.parametrize("n_points, warned", [(2, True), (20, False)])
def test_attenuated_effects_are_reported(n_points, warned, recwarn):
    rng = np.random.default_rng(2)
    means = 0.3 * rng.normal(size=200)
    bags = [rng.normal(mean, size=(n_points, 1)) for mean in means]
    model = BDR(10, method="laplace").fit(bags, means, seed=1)
    contrast = model.contrast([bag + 0.2 for bag in bags], bags)
    assert any("too small" in str(w.message) for w in recwarn) == warned
    assert (contrast.reliability < 0.4) == warned
    assert ("Effects are attenuated" in model.report()) == warned


def test_small_bags_have_the_effect_of_large_ones():
    """Labels are the means of bags of five points, which a shift of all of them by .2 raises."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=150)
        bags = [rng.normal(mean, size=(5, 1)) for mean in means]
        model = BDR(20, method="laplace").fit(bags, means, draws=200, seed=seed)
        ratios.append(model.contrast([bag + 0.2 for bag in bags], bags).mean.mean() / 0.2)
    assert abs(np.mean(ratios) - 1) < 0.05 + 4 * np.std(ratios) / np.sqrt(8)
    assert np.mean(ratios) > 0.88  # a fresh sample would be shrunk to .83
