"""Folds of bags: shuffled ones, and regions that are held out as a whole."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate

from bdr_stan import BLR, RBF, AggregateRegressor, Bags, SpatialBlocks, tune
from bdr_stan.model_selection import bag_centres, shuffled_folds

CORNERS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


@pytest.fixture
def towns(rng):
    """Bags in four corners of a map, three columns a point, weights, and the corner of each."""
    corner = rng.integers(0, 4, 40)
    sizes = rng.integers(1, 9, 40)
    owner = np.repeat(np.arange(40), sizes)
    centres = CORNERS[corner] + rng.normal(0, 0.5, (40, 2))
    points = np.column_stack(
        [rng.normal(size=len(owner)), centres[owner] + rng.normal(0, 0.2, (len(owner), 2))]
    )
    weights = rng.gamma(2, 1, len(owner))
    bags = Bags.from_points(points, sizes=sizes, weights=weights, features=["rain", "lon", "lat"])
    return bags, corner


def test_each_fold_holds_out_a_region(towns):
    bags, corner = towns
    folds = SpatialBlocks(4)
    assert folds.get_n_splits(bags) == 4
    held_out = [test for _, test in folds.split(bags)]
    assert sorted(map(tuple, held_out)) == sorted(
        tuple(np.flatnonzero(corner == k)) for k in range(4)
    )
    for train, test in folds.split(bags):
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(40))
    again = [test for _, test in SpatialBlocks(4).split(bags)]
    assert all(map(np.array_equal, again, held_out))


def test_bags_lie_at_the_weighted_means_of_their_points(towns):
    bags, _ = towns
    found = bag_centres(bags, ("lat", "lon"))
    for centre, points, weights in zip(found, bags, np.split(bags.weights, bags.offsets[1:-1])):
        expected = np.average(points[:, [2, 1]], axis=0, weights=weights)
        np.testing.assert_allclose(centre, expected, rtol=1e-10)


def test_columns_by_number_and_bags_as_a_list(towns):
    bags, _ = towns
    unweighted = Bags(bags.points, bags.offsets, features=bags.features)
    by_name = SpatialBlocks(4).regions(unweighted)
    np.testing.assert_array_equal(SpatialBlocks(4, (1, 2)).regions(list(bags)), by_name)


def test_regions_go_through_scikit_learn_and_tune(towns):
    bags, corner = towns
    y = corner + bags.sums(bags.point_shares * bags.points[:, 0])
    model = BLR(6, method="exact", random_state=1)
    folds = SpatialBlocks(4)
    expected = np.empty(40)
    for train, test in folds.split(bags):
        expected[test] = clone(model).fit(bags[train], y[train]).predict(bags[test])
    np.testing.assert_allclose(cross_val_predict(model, bags, y, cv=folds), expected, rtol=1e-10)
    assert len(cross_validate(model, bags, y, cv=folds)["test_score"]) == 4
    search = GridSearchCV(model, {"n_landmarks": [3, 6]}, cv=folds).fit(bags, y)
    assert "split3_test_score" in search.cv_results_ and "split4_test_score" not in (
        search.cv_results_
    )
    settings = {"models": [model], "n_landmarks": (6,), "bandwidth_scale": (1.0,), "method": None}
    blocks = tune(bags, y, cv=folds, **settings).table["mse"][0]
    errors = [np.mean((y[test] - expected[test]) ** 2) for _, test in folds.split(bags)]
    # In `tune` landmarks and bandwidth know where all bags are, so the numbers are near, not equal.
    assert 0.2 * np.mean(errors) < blocks < 5 * np.mean(errors)
    assert tune(bags, y, cv=4, **settings).table["mse"][0] < 0.5 * blocks


def test_a_region_without_neighbours_is_harder_than_a_bag(towns):
    """Rates that differ by region: shuffled folds know each bag's neighbours, blocks do not."""
    bags, corner = towns
    y = np.random.default_rng(2).poisson(np.array([1.0, 5.0, 20.0, 60.0])[corner] * bags.totals)
    model = AggregateRegressor(
        link="exp", kernel=RBF(3.0, columns=["lon", "lat"]), learn_kernel=False, method="vb"
    )
    score = {
        name: tune(
            bags, y, models=[model], n_landmarks=(4,), bandwidth_scale=(1,), method="vb", cv=cv
        )
        for name, cv in (("random", 4), ("regions", SpatialBlocks(4)))
    }
    assert score["regions"].table["nll"][0] > 2 * score["random"].table["nll"][0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_splits": 1}, "n_splits must be an integer >= 2, found 1"),
        ({"n_splits": 2.0}, "n_splits must be an integer >= 2, found 2.0"),
        ({"n_splits": 41}, "n_splits is 41, but the bags have 40 distinct locations"),
        ({"columns": ("x", "y")}, "the points have no column 'x' .* from rain, lon, lat"),
        ({"columns": ("lon", 3)}, "the points have no column 3 for the locations of bags"),
        ({"columns": "lon"}, "columns must be two names or numbers of columns, found 'lon'"),
        ({"columns": ("lon",)}, "columns must be two names or numbers of columns, found "),
        ({"random_state": -1}, "random_state must be None or an integer"),
    ],
)
def test_regions_that_make_no_sense(towns, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        list(SpatialBlocks(**settings).split(towns[0]))


def test_folds_do_not_follow_the_order_of_the_bags():
    """Bags sorted by size: every fold holds small and large ones."""
    labels = np.arange(40.0)
    held = [test for _, test in shuffled_folds(4, labels, False, 0).split(labels)]
    assert all(test.min() < 20 <= test.max() and np.ptp(test) >= 20 for test in held)
