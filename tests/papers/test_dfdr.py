"""Smoothing in the distance of densities, against densities integrated on a grid."""

import pickle

import numpy as np
import pytest
from builders.location_family import location_family
from scipy.stats import norm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from bdr_stan import Bags
from experiments.papers import DFDR, dfdr

GRID = np.linspace(-12, 12, 4001)


@pytest.fixture(scope="module")
def problem():
    return location_family(4, 25, largest=20, singles=1, n_features=1)


def densities(bags, h):
    return np.array([norm.pdf(GRID[:, None], bag.ravel(), h).mean(axis=1) for bag in bags])


def distances(bags, others, h, kind):
    """L1 or L2 between the densities of the bags, by the trapezoid rule."""
    gaps = np.abs(densities(bags, h)[:, None] - densities(others, h))
    if kind == "l1":
        return np.trapezoid(gaps, GRID)
    return np.sqrt(np.trapezoid(gaps**2, GRID))


def smoothed(gaps, y, b):
    weights = np.exp(-(gaps**2) / (2 * b**2))
    return weights @ y / weights.sum(axis=1)


@pytest.mark.parametrize(("kind", "tolerance"), [("l2", 1e-8), ("l1", 0.02)])
def test_smooths_labels_in_the_distance_of_densities(problem, kind, tolerance, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(dfdr, "SMOOTHINGS", [0.3])
    model = DFDR(distance=kind, bandwidths=[0.6], n_samples=20_000)
    model.fit(bags[:18], y[:18], seed=1)
    training = distances(bags[:18], bags[:18], 0.6, kind)
    b = 0.3 * np.median(training[np.triu_indices(18, 1)])
    expected = smoothed(distances(bags[18:], bags[:18], 0.6, kind), y[:18], b)
    np.testing.assert_allclose(model.predict(bags[18:]), expected, rtol=tolerance)
    # L2 leaves out a factor that all distances share.
    factor = (4 * np.pi * 0.6**2) ** 0.25 if kind == "l2" else 1.0
    assert model.label_bandwidth_ == pytest.approx(b * factor, rel=tolerance)


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_bandwidths_by_validation_and_leave_one_out(problem, kind, monkeypatch):
    bags, y = problem
    smoothings = [0.1, 0.4, 1.0]
    monkeypatch.setattr(dfdr, "SMOOTHINGS", smoothings)
    model = DFDR(distance=kind, bandwidths=[0.2, 0.8]).fit(
        bags[:18], y[:18], validation=(bags[18:], y[18:]), seed=1
    )
    alone = clone(model).fit(bags, y, seed=1)
    tried = {}
    for b in smoothings:
        monkeypatch.setattr(dfdr, "SMOOTHINGS", [b])
        for h in model.bandwidths:
            one = clone(model).set_params(bandwidths=[h])
            tried[h, b] = one.fit(bags[:18], y[:18], seed=1)
    rmse = {k: np.sqrt(np.mean((m.predict(bags[18:]) - y[18:]) ** 2)) for k, m in tried.items()}
    assert (model.bandwidth_, model.smoothing_) == min(rmse, key=rmse.get)
    assert model.table_["rmse"][0] == pytest.approx(min(rmse.values()), rel=0.02)

    gaps = distances(bags, bags, alone.bandwidth_, kind)
    b = alone.smoothing_ * np.median(gaps[np.triu_indices(25, 1)])
    np.fill_diagonal(gaps, np.inf)
    expected = np.sqrt(np.mean((smoothed(gaps, y, b) - y) ** 2))
    assert alone.table_["rmse"][0] == pytest.approx(expected, rel=0.03)


def test_default_grid_learns(problem):
    bags, y = problem
    for kind in ("l1", "l2"):
        model = DFDR(distance=kind).fit(bags[:18], y[:18], seed=1)
        assert model.score(bags[18:], y[18:]) > 0.2
        assert len(model.table_) == 6 and model.table_["rmse"].is_monotonic_increasing
    search = GridSearchCV(DFDR(random_state=1), {"distance": ["l1", "l2"]}, cv=2)
    assert search.fit(Bags.from_list(bags), y).best_score_ > 0.2


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_weighted_points_count_by_weight(problem, kind):
    bags, y = problem
    doubled = [np.vstack([bag, bag[:1]]) for bag in bags]
    weighted = Bags.from_list(bags, weights=[np.r_[2.0, np.ones(len(b) - 1)] for b in bags])
    model = DFDR(distance=kind, bandwidths=[0.5]).fit(weighted, y, seed=1)
    equal = Bags.from_list(doubled, weights=[np.ones(len(bag)) for bag in doubled])
    np.testing.assert_allclose(model.predict(equal), model.predict(weighted), rtol=1e-9)
    if kind == "l2":  # the samples of l1 are drawn from other points
        again = clone(model).fit(doubled, y)
        np.testing.assert_allclose(again.predict(weighted), model.predict(weighted), rtol=1e-9)


def test_a_bag_far_from_all_gets_the_label_of_the_nearest(problem, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(dfdr, "SMOOTHINGS", [2.0**-5])
    model = DFDR(bandwidths=[0.05]).fit(bags, y)
    assert np.isfinite(model.predict([np.full((2, 1), 1e3)])).all()


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_pickle_keeps_the_fit(problem, kind):
    bags, y = problem
    weighted = Bags.from_list(bags, weights=[np.arange(1.0, len(b) + 1) for b in bags])
    model = DFDR(distance=kind).fit(weighted, y, seed=1)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again.get_params()) == repr(model.get_params())
    np.testing.assert_array_equal(again.predict(weighted), model.predict(weighted))
    assert again.table_.equals(model.table_)
    assert (again.bandwidth_, again.smoothing_) == (model.bandwidth_, model.smoothing_)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (DFDR(distance="l3"), "distance must be 'l1' or 'l2', found 'l3'"),
        (DFDR(bandwidths=[]), "bandwidths is empty: give at least one number"),
        (DFDR(bandwidths=[1.0, -2.0]), "bandwidths must be a positive number"),
        (DFDR(n_samples=0), "n_samples must be an integer >= 1, found 0"),
    ],
    ids=str,
)
def test_wrong_parameters(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem)


def test_wrong_bags(problem):
    bags, y = problem
    with pytest.raises(ValueError, match="24 labels, but there are 25 bags"):
        DFDR().fit(bags, y[1:])
    with pytest.raises(ValueError, match="validation bags have 2 features per point.*bags have 1"):
        DFDR().fit(bags, y, validation=([np.hstack([b, b]) for b in bags], y))
    with pytest.raises(ValueError, match="most bags have the same density at bandwidth 1: leave"):
        DFDR(bandwidths=[1.0]).fit([np.ones((2, 1))] * 3, [1.0, 2.0, 3.0])
    with pytest.raises(
        ValueError, match="bags have 2 features per point, but the model was fitted to 1"
    ):
        DFDR().fit(bags, y).predict([np.hstack([b, b]) for b in bags])
