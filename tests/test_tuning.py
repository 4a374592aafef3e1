"""Tuning: the grid, the winners, the search beyond it, and that candidates are embedded once."""

import numpy as np
import pytest

from bdr_stan import BDR, BLR, BLRClassifier, InverseBDR, RBFNetwork, Shrinkage, tune
from bdr_stan.embedding import training
from experiments.papers import FreqShrinkage


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
        bags[:25],
        y[:25],
        validation=held,
        models=[BLR(method="exact")],
        n_landmarks=(4,),
        method=None,
    )
    fitted = tuned.best.fit(bags[:25], y[:25])
    nll = -fitted.predictive(held[0]).log_prob(held[1]).mean()
    np.testing.assert_allclose(nll, tuned.table["nll"][0], rtol=1e-8)


def test_models_share_one_embedding(problem, monkeypatch):
    bags, y = problem
    calls = []
    embed = training.embed
    monkeypatch.setattr(training, "embed", lambda *a, **k: calls.append(a) or embed(*a, **k))
    tune(
        bags,
        y,
        cv=3,
        models=[
            BLR(method="exact"),
            BLR(method="exact", random_state=1),
            Shrinkage(kernel="rbf"),
        ],
        n_landmarks=(3, 5),
        bandwidth_scale=(1.0,),
        method=None,
    )
    assert len(calls) == 2  # one a (landmarks, bandwidth), for all models and folds


def test_a_model_shares_the_embedding_of_one_without_covariates(problem):
    bags, y = problem
    models = {
        "blr": BLR(method="exact"),
        "inverse": InverseBDR(method="optimize"),
        "bdr": BDR(bandwidth="median", method="laplace"),
    }
    once = {"cv": 2, "n_landmarks": (3,), "bandwidth_scale": (1.0,), "method": None, "seed": 1}
    together = tune(bags, y, models=models, **once).table.set_index("model")
    for name, model in models.items():
        alone = tune(bags, y, models={name: model}, **once).table.set_index("model")
        np.testing.assert_allclose(together["nll"][name], alone["nll"][name], rtol=1e-8)


def test_cross_validation_scores_held_out_bags(problem):
    bags, y = problem
    once = {"n_landmarks": (4,), "bandwidth_scale": (1.0,), "method": None}
    tuned = tune(bags, y, cv=4, models=[BLR(method="exact")], **once)
    assert 0 < tuned.table["mse"][0] < np.var(y)


def test_laplace_scores_by_default_and_best_keeps_its_method(problem):
    bags, y = problem
    tuned = tune(bags, y, cv=2, models=[BDR()], n_landmarks=(3,), bandwidth_scale=(1.0,))
    assert tuned.best.method == "nuts"


def test_best_of_each_model_by_class_and_place(problem):
    bags, y = problem
    models = [BLR(method="exact"), RBFNetwork(), BLR(method="exact", landmarks="random")]
    grid = {"n_landmarks": (3, 5), "bandwidth_scale": (0.5, 2.0)}
    tuned = tune(bags, y, cv=3, models=models, method=None, **grid)
    assert list(tuned.best_of) == ["BLR 1", "RBFNetwork", "BLR 2"]
    for name, model in tuned.best_of.items():
        best = tuned.table[tuned.table["model"] == name].iloc[0]
        assert type(model).__name__ == name.split()[0]
        assert model.n_landmarks == best["n_landmarks"]
        assert model.bandwidth_scale == best["bandwidth_scale"]
    assert tuned.best_of["BLR 2"].landmarks == "random"
    assert tuned.best is tuned.best_of[tuned.table["model"][0]]


def test_models_have_the_names_of_a_dict(problem):
    bags, y = problem
    models = {"ours": BLR(method="exact"), "theirs": RBFNetwork(alpha=1e-3)}
    grid = {"n_landmarks": (3,), "bandwidth_scale": (1.0,)}
    tuned = tune(bags, y, cv=3, models=models, method=None, **grid)
    assert set(tuned.table["model"]) == set(tuned.best_of) == {"ours", "theirs"}
    assert tuned.best_of["theirs"].alpha == 1e-3


def test_models_without_density_are_ranked_by_squared_error(problem):
    bags, y = problem
    models = {"plain": RBFNetwork(), "shrunk": FreqShrinkage(), "blr": BLR(method="exact")}
    held = bags[25:], y[25:]
    arguments = {"models": models, "n_landmarks": (3,), "bandwidth_scale": (1.0, 3.0)}
    by_nll, by_mse = (
        tune(bags[:25], y[:25], validation=held, method=None, score=score, **arguments).table
        for score in ("nll", "mse")
    )
    assert list(by_nll["model"][:2]) == ["blr", "blr"]
    assert by_nll["nll"].isna().tolist() == [False] * 2 + [True] * 4
    assert by_nll["mse"][2:].is_monotonic_increasing
    assert by_mse["mse"].is_monotonic_increasing
    for name in ("plain", "shrunk"):
        row = by_mse[(by_mse["model"] == name) & (by_mse["bandwidth_scale"] == 3.0)].iloc[0]
        model = models[name].set_params(n_landmarks=3, bandwidth_scale=3.0, random_state=0)
        predicted = model.fit(bags[:25], y[:25]).predict(held[0])
        assert row["mse"] == pytest.approx(np.mean((predicted - held[1]) ** 2))


def test_classifiers_are_scored_by_probability(problem):
    bags, y = problem
    labels = np.where(y > 0, "high", "low")
    model = BLRClassifier(method="optimize")
    held = bags[25:], labels[25:]
    grid = {"n_landmarks": (4,), "bandwidth_scale": (1.0,)}
    tuned = tune(bags[:25], labels[:25], validation=held, models=[model], method=None, **grid)
    predictive = tuned.best.fit(bags[:25], labels[:25]).predictive(held[0])
    row = tuned.table.iloc[0]
    assert row["nll"] == pytest.approx(-predictive.log_prob(held[1]).mean())
    brier = np.mean((predictive.mean - (held[1] == "low")) ** 2)
    assert row["mse"] == pytest.approx(brier)


def test_landmarks_of_the_table_are_those_asked_for():
    rng = np.random.default_rng(0)
    y = rng.normal(size=20)
    bags = [rng.normal(mean, size=(9, 2)) for mean in y]
    for kernel in ("auto", "rbf", "linear + rbf"):
        grid = {"n_landmarks": (8, 12), "bandwidth_scale": (1.0,)}
        table = tune(
            bags, y, models=[BLR(method="exact", kernel=kernel)], cv=2, method=None, **grid
        )
        assert sorted(table.table["n_landmarks"]) == [8, 12]


def test_given_landmarks_enter_once(problem):
    bags, y = problem
    landmarks = np.array([[0.0, 0.0], [1.0, 1.0]])
    models = [BLR(method="exact", landmarks=landmarks), BLR(method="exact")]
    grid = {"n_landmarks": (3, 4), "bandwidth_scale": (0.5, 1.0)}
    table = tune(bags, y, cv=3, models=models, method=None, **grid).table
    assert sorted(table["n_landmarks"][table["model"] == "BLR 1"]) == [2, 2]
    assert sorted(table["n_landmarks"][table["model"] == "BLR 2"]) == [3, 3, 4, 4]


@pytest.fixture
def one_feature_counts(rng):
    """The second feature only adds noise to every distance."""
    centres = rng.uniform(-1, 1, 120)
    bags = [rng.normal([c, 0], [0.3, 2], (20, 2)) for c in centres]
    return bags, np.sin(3 * centres) + 0.05 * rng.normal(size=120)


@pytest.mark.parametrize("refine", ["bandwidth", "ard"])
def test_search_improves_on_the_grid(one_feature_counts, refine):
    bags, y = one_feature_counts
    train, held = (bags[:80], y[:80]), (bags[80:], y[80:])
    tuned = tune(
        *train,
        validation=held,
        models=[BLR(bandwidth="median", method="exact"), RBFNetwork(bandwidth="median")],
        n_landmarks=(10,),
        bandwidth_scale=(1.0, 3.0),
        method=None,
        refine=refine,
    )
    assert tuned.table["refined"].sum() == 2
    for name, model in tuned.best_of.items():
        score = "nll" if name == "BLR" else "mse"
        rows = tuned.table[tuned.table["model"] == name]
        found, grid = rows[rows["refined"]].iloc[0], rows[~rows["refined"]]
        assert found[score] < grid[score].min()
        assert model.bandwidth_scale == 1.0
        assert model.landmarks.shape == (10, 2)
        if refine == "ard":
            assert model.bandwidth.shape == (2,)
            assert model.bandwidth[1] > 2 * model.bandwidth[0]
        else:
            assert np.isscalar(model.bandwidth)
        fitted = model.fit(*train)
        if name == "BLR":
            again = -fitted.predictive(held[0]).log_prob(held[1]).mean()
        else:
            again = np.mean((fitted.predict(held[0]) - held[1]) ** 2)
        assert again == pytest.approx(found[score], rel=1e-6)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"score": "rmse"}, "score must be 'nll', 'mse' or 'evidence', found 'rmse'"),
        ({"refine": True}, "refine must be None, 'bandwidth' or 'ard', found True"),
    ],
)
def test_unknown_settings_are_named(problem, setting, message):
    with pytest.raises(ValueError, match=message):
        tune(*problem, cv=3, **setting)


@pytest.mark.parametrize("both", [{}, {"cv": 3, "validation": ([], [])}])
def test_needs_exactly_one_way_to_hold_out(problem, both):
    with pytest.raises(ValueError, match="give validation=.* or cv="):
        tune(*problem, **both)


def test_wrong_settings_are_refused_before_work_starts(problem):
    with pytest.raises(ValueError, match="bandwidth must be 'scaled', 'ard', 'median'"):
        tune(*problem, cv=3, models=[BDR(bandwidth="scott")])


def test_options_reach_the_candidates(monkeypatch, problem):
    bags, y = problem
    seen = []
    fit_features = BLR.fit_features

    def noted(self, *args, **options):
        seen.append(options)
        return fit_features(self, *args, **options)

    monkeypatch.setattr(BLR, "fit_features", noted)
    tune(
        bags[:25],
        y[:25],
        models=[BLR(), RBFNetwork()],
        validation=(bags[25:], y[25:]),
        bandwidth_scale=[1],
        n_landmarks=[5],
        method="exact",
        draws=50,
    )
    assert [options["draws"] for options in seen] == [50]


def test_an_unknown_method_is_refused(problem):
    bags, y = problem
    with pytest.raises(ValueError, match="BDR has no method 'typo'; there are: nuts"):
        tune(bags, y, cv=3, method="typo")
    with pytest.raises(ValueError, match="BDR has no method 'typo'"):
        model = BDR(3)
        model.set_params(method="typo").fit_features(BDR(3).training_features(bags), y)


def test_more_folds_than_bags_are_refused(problem):
    bags, y = problem
    with pytest.raises(ValueError, match="cv must be from 2 to 4, the number of bags, found 5"):
        tune(bags[:4], y[:4], cv=5)
