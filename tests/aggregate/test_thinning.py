"""Thinning of the points inside bags."""

import numpy as np
import pytest

from bdr_stan import threads
from bdr_stan.aggregate import rows as aggregation
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import point_rows, with_ones
from bdr_stan.aggregate.thinning import thin, thinned_bags, thinned_rows, thinning_error
from bdr_stan.bags import Bags
from bdr_stan.kernels import RBF, NystromFeatures


@pytest.fixture
def bags(rng):
    """Bags of 1 to 300 points around centres of their own, some of weight 0."""
    sizes = [1, 40, 300, 7, 120]
    points = [rng.uniform(0, 4, 2) + rng.normal(0, 0.5, (n, 2)) for n in sizes]
    weights = [rng.gamma(1, 1, n) for n in sizes]
    weights[2][::3] = 0
    return Bags.from_list(points, weights=weights)


@pytest.fixture
def features(bags):
    return NystromFeatures(RBF(1.5), np.asarray(bags.points)[::40])


@pytest.fixture
def thetas(rng, features):
    return rng.normal(0, 0.7, (30, len(features.landmarks) + 1))


def test_total_weight_and_mean_are_kept(rng):
    rows, weights = rng.normal(size=(200, 5)), rng.gamma(1, 1, 200)
    thinned, grouped = thin(rows, weights, 17)
    assert thinned.shape == (17, 5) and grouped.shape == (17,) and np.all(grouped > 0)
    np.testing.assert_allclose(grouped.sum(), weights.sum())
    np.testing.assert_allclose(grouped @ thinned, weights @ rows)


def test_groups_that_lie_apart_are_found(rng):
    centres = 10 * rng.normal(size=(6, 4))
    group = rng.permutation(np.repeat(np.arange(6), 20))
    rows, weights = centres[group] + 0.01 * rng.normal(size=(120, 4)), rng.gamma(1, 1, 120)
    thinned, grouped = thin(rows, weights, 6)
    means = [np.average(rows[group == g], axis=0, weights=weights[group == g]) for g in range(6)]
    order, known = np.argsort(thinned[:, 0]), np.argsort(np.array(means)[:, 0])
    np.testing.assert_allclose(thinned[order], np.array(means)[known])
    np.testing.assert_allclose(grouped[order], np.bincount(group, weights)[known])


def test_few_points_stay_as_they_are(rng):
    rows, weights = rng.normal(size=(9, 3)), np.r_[0.0, rng.gamma(1, 1, 8)]
    thinned, grouped = thin(rows, weights, 8)
    np.testing.assert_array_equal(thinned, rows[1:])
    np.testing.assert_array_equal(grouped, weights[1:])


def test_equal_points_become_one_without_error():
    rows, weights = np.tile([0.5, -2.0, 1.0], (30, 1)), np.full(30, 0.5)
    thinned, grouped = thin(rows, weights, 4)
    assert len(thinned) <= 4 and np.isfinite(thinned).all()
    np.testing.assert_allclose(thinned, rows[: len(thinned)])
    assert grouped.sum() == 15


@pytest.mark.parametrize("link", ["exp", "logit"])
def test_error_falls_with_the_number_of_points_to_zero(bags, features, thetas, link):
    errors = []
    for n_points in (1, 4, 16, 64, 300):
        thinned = thinned_rows(bags, with_ones(features), n_points)
        assert thinned.length.max() <= n_points
        errors.append(np.abs(thinning_error(bags, features, thinned, thetas, LINKS[link].rate)))
    assert errors[0].shape == (30, 5)
    np.testing.assert_allclose(errors[-1], 0, atol=1e-12)
    assert np.all(np.diff([e.max() for e in errors]) < 0)
    # points in the plane: 16 groups are a quarter as wide as one, and the error is of second order
    assert errors[2][:, 2].max() < errors[0][:, 2].max() / 8


def test_error_is_that_of_the_totals_of_all_points(bags, features, thetas):
    thinned = thinned_rows(bags, with_ones(features), 5)
    rows = point_rows(bags, features)
    error = thinning_error(bags, features, thinned, thetas, np.exp)
    for a in range(len(bags)):
        totals = []
        for of in (thinned, rows):
            block = slice(of.start[a], of.start[a] + of.length[a])
            totals.append(of.weights[block] @ np.exp(of.rows[block] @ thetas.T))
        np.testing.assert_allclose(error[:, a], totals[0] / totals[1] - 1, atol=1e-12)


def test_bags_read_in_pieces_are_thinned_as_a_whole(bags, features, thetas, monkeypatch):
    whole = thinned_rows(bags, with_ones(features), 30)
    monkeypatch.setattr(aggregation, "_BYTES_OF_ROWS", 4096)
    monkeypatch.setattr(threads, "effective_n_jobs", lambda _: 2)
    pieces = thinned_rows(bags, with_ones(features), 30)
    np.testing.assert_array_equal(pieces.length, whole.length)
    np.testing.assert_allclose(
        np.add.reduceat(pieces.weights, pieces.start), np.add.reduceat(whole.weights, whole.start)
    )
    one, other = (
        np.abs(thinning_error(bags, features, thinned, thetas, np.exp)).max()
        for thinned in (whole, pieces)
    )
    assert other < 3 * one


def test_rows_tell_of_the_bags_as_the_points_do(bags, features):
    thinned, rows = thinned_rows(bags, with_ones(features), 5), point_rows(bags, features)
    np.testing.assert_allclose(thinned.total, rows.total)
    np.testing.assert_allclose(thinned.noise_factor, rows.noise_factor)
    np.testing.assert_allclose(thinned.rows[:, -1], 1)


def test_no_points_are_refused(bags, features):
    with pytest.raises(ValueError, match="n_points must be at least 1, found 0"):
        thinned_rows(bags, with_ones(features), 0)


def test_thinned_bags_keep_weights_means_and_columns_without_spread(rng):
    points = [np.column_stack([rng.normal(size=n), np.full(n, 7.0)]) for n in (30, 4)]
    bags = Bags.from_list(points)
    thinned = thinned_bags(bags, 5)
    np.testing.assert_array_equal(np.diff(thinned.offsets), [5, 4])
    np.testing.assert_allclose(thinned.points[:, 1], 7.0)
    weights = np.split(thinned.point_weights, thinned.offsets[1:-1])
    halves = np.split(np.asarray(thinned.points), thinned.offsets[1:-1])
    for before, after, weight in zip(points, halves, weights):
        np.testing.assert_allclose(weight @ after / weight.sum(), before.mean(axis=0))
