"""Tuning: the grid, the winner, and that candidates are embedded once."""

import numpy as np
import pytest

from bdr_stan import BDR, BLR, Shrinkage, tune
from bdr_stan.models import base


@pytest.fixture
def problem(rng):
    centres = rng.normal(size=40)
    bags = [rng.normal(c, 1, (rng.integers(2, 30), 2)) for c in centres]
    return bags, centres + 0.1 * rng.normal(size=40)


def test_table_covers_the_grid_best_first(problem):
    bags, y = problem
    tuned = tune(
        bags[:25],
        y[:25],
        validation=(bags[25:], y[25:]),
        models=[BLR(method="exact"), Shrinkage()],
        n_landmarks=(3, 5),
        bandwidth_scale=(0.5, 2.0),
        method=None,
    )
    assert len(tuned.table) == 8
    assert tuned.table["nll"].is_monotonic_increasing
    best = tuned.table.iloc[0]
    assert type(tuned.best).__name__ == best["model"]
    assert tuned.best.bandwidth_scale == best["bandwidth_scale"]
    assert tuned.best.n_landmarks == best["n_landmarks"]


def test_best_reproduces_its_score(problem):
    bags, y = problem
    held = (bags[25:], y[25:])
    tuned = tune(
        bags[:25], y[:25], validation=held, models=[BLR(method="exact")], n_landmarks=(4,), method=None
    )
    fitted = tuned.best.fit(bags[:25], y[:25])
    nll = -fitted.predictive(held[0]).log_prob(held[1]).mean()
    np.testing.assert_allclose(nll, tuned.table["nll"][0], rtol=1e-8)


def test_models_share_one_embedding(problem, monkeypatch):
    bags, y = problem
    calls = []
    embed = base.embed
    monkeypatch.setattr(base, "embed", lambda *a, **k: calls.append(a) or embed(*a, **k))
    tune(
        bags,
        y,
        cv=3,
        models=[BLR(method="exact"), BLR(method="exact", random_state=1), Shrinkage()],
        n_landmarks=(3, 5),
        bandwidth_scale=(1.0,),
        method=None,
    )
    assert len(calls) == 2  # one a (landmarks, bandwidth), for all models and folds


def test_cross_validation_scores_held_out_bags(problem):
    bags, y = problem
    tuned = tune(
        bags, y, cv=4, models=[BLR(method="exact")], n_landmarks=(4,), bandwidth_scale=(1.0,),
        method=None,
    )
    assert 0 < tuned.table["mse"][0] < np.var(y)


def test_laplace_scores_by_default_and_best_keeps_its_method(problem):
    bags, y = problem
    tuned = tune(bags, y, cv=2, models=[BDR()], n_landmarks=(3,), bandwidth_scale=(1.0,))
    assert tuned.best.method == "nuts"


@pytest.mark.parametrize("both", [{}, {"cv": 3, "validation": ([], [])}])
def test_needs_exactly_one_way_to_hold_out(problem, both):
    with pytest.raises(ValueError, match="give validation=.* or cv="):
        tune(*problem, **both)


def test_wrong_settings_are_refused_before_work_starts(problem):
    with pytest.raises(ValueError, match="bandwidth must be 'median'"):
        tune(*problem, cv=3, models=[BDR(bandwidth="scott")])
