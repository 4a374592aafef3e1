"""Trials of counts in folds, searches and pipelines."""

import pickle

import numpy as np
import pandas as pd
import pytest
from builders.rates import country, sums, surface
from builders.totals import RATES
from joblib import parallel_config
from sklearn import config_context
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.pipeline import Pipeline

import bdr_stan
from bdr_stan import AggregateRegressor, Bags, SpatialBlocks
from bdr_stan.kernels import RBF


@pytest.fixture
def survey():
    """Bags with people asked in each, in their metadata too, and how many said yes."""
    bags = country()
    asked = np.random.default_rng(6).integers(5, 300, len(bags))
    mean = sums(bags, RATES["logit"](surface(bags.points))) / bags.totals
    y = np.random.default_rng(7).binomial(asked, mean)
    metadata = pd.DataFrame({"asked": asked})
    bags = Bags(bags.points, bags.offsets, weights=bags.weights, metadata=metadata)
    return bags, y, asked


def of_survey(**options):
    options = {"n_landmarks": 5, "kernel": RBF(1.0), "learn_kernel": False, **options}
    return AggregateRegressor("binomial", method="optimize", random_state=1, **options)


def fold_by_fold(bags, y, asked, cv):
    """Predictions of held-out bags, each fold fitted and predicted by hand."""
    predicted = np.empty(len(y))
    for train, test in cv.split(bags):
        model = of_survey().fit(bags[train], y[train], trials=asked[train])
        predicted[test] = model.predict(bags[test], trials=asked[test])
    return predicted


def test_trials_of_a_column_go_with_the_bags(survey, tmp_path):
    bags, y, asked = survey
    cv = KFold(3)
    expected = fold_by_fold(bags, y, asked, cv)
    found = cross_val_predict(of_survey(), bags, y, cv=cv, params={"trials": "asked"})
    np.testing.assert_array_equal(found, expected)
    with config_context(enable_metadata_routing=True):
        routed = of_survey().set_fit_request(trials=True)
        found = cross_val_predict(routed, bags, y, cv=cv, params={"trials": "asked"})
    np.testing.assert_array_equal(found, expected)
    search = GridSearchCV(
        of_survey(), {"n_landmarks": [3, 5]}, cv=cv, scoring="neg_mean_squared_error"
    )
    search.fit(bags, y, trials="asked")
    errors = [np.mean((y[test] - expected[test]) ** 2) for _, test in cv.split(bags)]
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(-np.mean(errors))
    model = of_survey().fit(bags, y, trials="asked")
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags, trials=asked))
    twice = model.predict(bags, trials=2 * asked)  # what a call says comes first
    np.testing.assert_allclose(twice, 2 * again.predict(bags))


def test_trials_of_a_column_of_a_table(survey):
    bags, y, asked = survey
    rows = np.repeat(np.arange(len(bags)), bags.sizes)
    table = pd.DataFrame(bags.points, columns=["rain", "height"])
    table = table.assign(people=bags.weights, district=rows, asked=asked[rows])
    named = Bags.from_dataframe(
        table, "district", ["rain", "height"], weight="people", metadata=["asked"]
    )
    model = of_survey().fit(named, y, trials="asked")
    np.testing.assert_array_equal(model.predict(table), model.predict(named, trials=asked))


def test_trials_are_routed_and_sliced_with_the_bags(survey):
    bags, y, asked = survey
    cv = SpatialBlocks(3, columns=(0, 1))
    with config_context(enable_metadata_routing=True):
        model = of_survey().set_fit_request(trials=True).set_score_request(trials=True)
        scores = cross_validate(model, bags, y, cv=cv, params={"trials": asked})["test_score"]
        predicted = fold_by_fold(bags, y, asked, cv)
        expected = [r2_score(y[test], predicted[test]) for _, test in cv.split(bags)]
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        with parallel_config("threading"):  # processes would each import everything anew
            side_by_side = cross_validate(
                model, bags, y, cv=cv, params={"trials": asked}, n_jobs=2, error_score="raise"
            )
        np.testing.assert_allclose(side_by_side["test_score"], expected, rtol=1e-12)
        grid = {"n_landmarks": [3, 5]}
        search = GridSearchCV(model, grid, cv=cv, error_score="raise").fit(bags, y, trials=asked)
        assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(expected))


def test_trials_go_through_a_pipeline(survey):
    bags, y, asked = survey
    with config_context(enable_metadata_routing=True):
        model = of_survey().set_fit_request(trials=True)
        model.set_predict_request(trials=True).set_score_request(trials=True)
        line = Pipeline([("rates", pickle.loads(pickle.dumps(model)))])  # the requests stay
        line.fit(bags, y, trials=asked)
        plain = of_survey().fit(bags, y, trials=asked)
        expected = plain.predict(bags, trials=asked)
        np.testing.assert_array_equal(line.predict(bags, trials=asked), expected)
        assert line.score(bags, y, trials=asked) == r2_score(y, expected)
    weights = np.arange(1.0, len(y) + 1)
    score = plain.score(bags, y, weights, trials=asked)
    assert score == r2_score(y, expected, sample_weight=weights)


def test_folds_without_trials_say_how_to_hand_them_on(survey):
    bags, y, asked = survey
    how = r"name of a column of the bags' metadata, .*set_config\(enable_metadata_routing=True\)"
    with pytest.raises(ValueError, match=how):
        cross_val_predict(of_survey(), bags, y, cv=3, params={"trials": asked})
    with pytest.raises(ValueError, match=how):
        cross_validate(of_survey(), bags, y, cv=3, params={"trials": asked}, error_score="raise")
    with pytest.raises(ValueError, match="trials='people' is not a column .* which have 'asked'"):
        of_survey().fit(bags, y, trials="people")
