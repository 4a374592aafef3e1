"""Tuning of models of totals: held-out scores by hand, evidence, trials, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import mean_squared_error

from bdr_stan import BDR, RBF, AggregateRegressor, Bags, Matern32, tune
from bdr_stan.model_selection import shuffled_folds
from experiments.papers import BagPixel

SMALL = {"n_landmarks": (4, 8), "bandwidth_scale": (0.5, 2.0)}
ONE = {"n_landmarks": (5,), "bandwidth_scale": (1.0,)}


@pytest.fixture
def problem(rng):
    """Weighted bags with counts, which a smooth rate of the first column gives."""
    sizes = rng.integers(2, 10, 45)
    owner = np.repeat(np.arange(45), sizes)
    points = rng.uniform(-2, 2, (45, 2))[owner] + 0.2 * rng.normal(size=(len(owner), 2))
    bags = Bags.from_points(points, sizes=sizes, weights=rng.gamma(2, 5, len(owner)))
    rates = np.exp(np.sin(1.5 * points[:, 0]))
    return bags, rng.poisson(bags.sums(bags.weights * rates)).astype(float)


def fixed(**parameters):
    return AggregateRegressor(**{"learn_kernel": False, "method": "vb", **parameters})


def test_table_covers_the_grid_and_the_best_reproduces_its_scores(problem):
    bags, y = problem
    held = bags[30:], y[30:]
    models = {"square": fixed(), "exp": fixed(link="exp")}
    tuned = tune(bags[:30], y[:30], validation=held, models=models, method="vb", **SMALL)
    assert len(tuned.table) == 8 and tuned.table["nll"].is_monotonic_increasing
    for name, model in tuned.best_of.items():
        row = tuned.table[tuned.table["model"] == name].iloc[0]
        assert model.link == models[name].link and model.n_landmarks == row["n_landmarks"]
        median = RBF("scaled").resolved(bags[:30], seed=0).bandwidth
        assert model.kernel.bandwidth == pytest.approx(median * row["bandwidth_scale"])
        fitted = clone(model).fit(bags[:30], y[:30], seed=0)
        predictive = fitted.predictive(held[0])
        assert row["nll"] == pytest.approx(-predictive.log_prob(held[1]).mean())
        assert row["mse"] == pytest.approx(mean_squared_error(held[1], predictive.mean))
        assert row["bound"] == pytest.approx(fitted.bound_) and np.isnan(row["evidence"])
    assert tuned.best is tuned.best_of[tuned.table["model"][0]]


def test_folds_are_fitted_one_by_one(problem):
    bags, y = problem
    tuned = tune(bags, y, cv=3, models=[fixed(kernel=RBF(1.0))], method=None, seed=4, **ONE)
    rows = []
    for train, test in shuffled_folds(3, y, False, 4).split(bags):
        model = fixed(kernel=RBF(1.0), n_landmarks=5).fit(bags[train], y[train], seed=4)
        predictive = model.predictive(bags[test])
        nll = -predictive.log_prob(y[test]).mean()
        rows.append((nll, mean_squared_error(y[test], predictive.mean), model.bound_))
    found = tuned.table[["nll", "mse", "bound"]].iloc[0]
    np.testing.assert_allclose(found, np.mean(rows, axis=0), rtol=1e-8)


@pytest.mark.parametrize("score, method", [("bound", "vb"), ("evidence", "laplace")])
def test_evidence_of_all_labels_needs_no_held_out_bags(problem, score, method):
    bags, y = problem
    models = {"square": fixed(), "exp": fixed(link="exp")}
    table = tune(bags, y, models=models, method=method, score=score, **SMALL).table
    assert table[score].is_monotonic_decreasing and table[["nll", "mse"]].isna().all(axis=None)
    other = {"bound": "evidence", "evidence": "bound"}[score]
    assert table[other].isna().all()
    best = table.iloc[0]
    kernel = RBF("scaled").resolved(bags, seed=0).scaled(best["bandwidth_scale"])
    model = models[best["model"]].set_params(
        method=method, n_landmarks=best["n_landmarks"], kernel=kernel
    )
    fitted = model.fit(bags, y, seed=0)
    assert best[score] == pytest.approx(
        {"bound_": 0, **vars(fitted)}[{"bound": "bound_", "evidence": "log_evidence_"}[score]],
        rel=1e-6,
    )


def test_bound_and_evidence_of_normal_totals_are_the_same(problem):
    """Both are the exact log marginal likelihood at the most probable scales."""
    bags, y = problem
    model = AggregateRegressor("normal", learn_kernel=False)
    by = {m: tune(bags, y, models=[model], method=m, score=s, **ONE).table[s][0]
          for m, s in (("vb", "bound"), ("laplace", "evidence"))}  # fmt: skip
    assert by["vb"] == pytest.approx(by["laplace"], rel=1e-8)


def test_settings_without_effect_enter_once(problem):
    bags, y = problem
    models = {
        "learns": AggregateRegressor(method="vb"),
        "given": fixed(landmarks=np.asarray(bags.points[:6])),
        "one per bag": fixed(landmarks="one per bag"),
    }
    grid = {"n_landmarks": (3, 4), "bandwidth_scale": (0.7, 1.0)}
    table = tune(bags, y, models=models, method="vb", score="bound", **grid).table
    found = {name: of[["n_landmarks", "bandwidth_scale"]] for name, of in table.groupby("model")}
    assert sorted(found["learns"]["n_landmarks"]) == [3, 4]
    assert found["learns"]["bandwidth_scale"].isna().all()
    for name, n in (("given", 6), ("one per bag", 45)):
        assert found[name]["n_landmarks"].tolist() == [n, n]
        assert sorted(found[name]["bandwidth_scale"]) == [0.7, 1.0]


def test_kernels_are_tried(problem):
    bags, y = problem
    kernels = ["matern32", RBF(columns=[0]) * Matern32(columns=[1])]
    tuned = tune(
        bags, y, cv=2, models=[BagPixel(learn_kernel=False)], method="vb", kernel=kernels, **ONE
    )
    assert set(tuned.table["kernel"]) == {"matern32", repr(kernels[1])}
    assert isinstance(tuned.best, BagPixel) and tuned.best.method == "nuts"


def test_trials_are_sliced_with_the_folds_and_given_for_validation(problem, rng):
    bags, _ = problem
    asked = rng.integers(5, 200, len(bags))
    y = rng.binomial(asked, 1 / (1 + np.exp(-bags.points[bags.offsets[:-1], 0])))
    model = AggregateRegressor("binomial", learn_kernel=False, kernel=RBF(1.0))
    named = Bags(
        bags.points, bags.offsets, weights=bags.weights, metadata=pd.DataFrame({"asked": asked})
    )
    options = {"models": [model], "method": "optimize", **ONE}
    by_number = tune(bags, y, cv=2, trials=asked, **options).table
    pd.testing.assert_frame_equal(tune(named, y, cv=2, trials="asked", **options).table, by_number)
    nll = []
    for train, test in shuffled_folds(2, y, False, 0).split(bags):
        fitted = clone(model).set_params(n_landmarks=5, method="optimize")
        fitted.fit(bags[train], y[train], trials=asked[train], seed=0)
        nll.append(-fitted.predictive(bags[test], trials=asked[test]).log_prob(y[test]).mean())
    assert by_number["nll"][0] == pytest.approx(np.mean(nll), rel=1e-8)
    train, held = slice(0, 30), slice(30, None)
    triple = (bags[held], y[held], asked[held])
    pair = (named[held], y[held])
    tables = [
        tune(bags[train], y[train], trials=asked[train], validation=triple, **options).table,
        tune(named[train], y[train], trials="asked", validation=pair, **options).table,
    ]
    pd.testing.assert_frame_equal(*tables)
    with pytest.raises(ValueError, match="validation has no trials: give .*bags, y, trials"):
        tune(bags[train], y[train], trials=asked[train], validation=pair, **options)
    with pytest.raises(ValueError, match="binomial likelihood needs trials"):
        tune(bags, y, cv=2, **options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": [fixed(), BDR()]}, "models must be all on mean embeddings or all of totals"),
        ({"score": "elpd"}, "score must be 'nll', 'mse', 'bound' or 'evidence', found 'elpd'"),
        ({"score": "bound"}, "AggregateRegressor has no bound by method='laplace': pass method="),
        ({"score": "evidence", "method": "vb"}, "has a bound by method='vb': pass score='bound'"),
        ({"score": "bound", "validation": ([], [])}, "give validation=.* or cv=.* and not both"),
        ({"refine": "ard"}, "refine goes with models on mean embeddings"),
        ({"trials": np.ones(45)}, "the negative binomial likelihood takes no trials"),
        (
            {"models": [fixed(likelihood="poisson", bag_effects=True)]},
            "method='laplace' takes no bag_effects",
        ),
        ({"method": "exact"}, "AggregateRegressor has no method 'exact'; there are: nuts"),
        ({"cv": None}, "give validation=.* or cv="),
        ({"models": [BDR()], "trials": "asked"}, "none of the models takes trials"),
        (
            {"models": [BDR()], "score": "bound"},
            "score must be 'nll', 'mse' or 'evidence', found 'bound'",
        ),
    ],
)
def test_what_is_refused_before_work_starts(problem, settings, message, monkeypatch):
    monkeypatch.setattr(AggregateRegressor, "fit", None)
    with pytest.raises((ValueError, TypeError), match=message):
        tune(*problem, **{"models": [fixed()], "cv": 3, **settings})
