"""What every system that is fitted to bags promises; `test_rate_model` has more of those of rates.

`tests/test_matching.py`, `tests/test_properties.py` and `tests/bad_input/` hold them to the rest of
what the estimators for users promise, except for files.
"""

import pickle

import numpy as np
import pytest
from builders.papers import PAPERS
from builders.problems import (
    NAMES,
    labels_for,
    location_bags,
    predictions,
    quick,
    quiet_fit,
    supervised,
)
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from experiments import papers
from experiments.papers import (
    DFDR,
    AggregateNN,
    BagPixel,
    ConstantRate,
    OneClassSMM,
    SupportMeasureMachine,
)

MODELS = [*PAPERS, SupportMeasureMachine(estimator="s-kmse", outer="gaussian")]
GRIDS = {
    DFDR: {"distance": ["l1", "l2"]},
    SupportMeasureMachine: {"C": [1.0, 10.0]},
    ConstantRate: {"likelihood": ["poisson", "negative binomial"]},
    AggregateNN: {"n_hidden": [3, 5]},
}


def each_of(models):
    return pytest.mark.parametrize("model", models, ids=repr)


@pytest.fixture(scope="module")
def problem():
    return location_bags()


@pytest.fixture(scope="module", params=MODELS, ids=repr)
def fitted(request, problem):
    return quiet_fit(clone(request.param), *problem)


def test_no_system_is_left_out():
    assert {type(model).__name__ for model in PAPERS} == set(papers.__all__)


def test_parameters_and_kinds(fitted):
    again = clone(fitted)
    assert repr(again.get_params()) == repr(fitted.get_params())
    assert repr(again) == repr(fitted) and type(fitted).__name__ in repr(fitted)
    assert sum(kind(fitted) for kind in (is_classifier, is_regressor, is_outlier_detector)) == 1


@each_of(PAPERS)
def test_not_fitted(model, problem):
    with pytest.raises(NotFittedError):
        clone(model).predict(problem[0])


def test_it_learns(fitted, problem):
    bags, centres = problem
    assert fitted.n_features_in_ == 2 and list(fitted.feature_names_in_) == NAMES
    if is_outlier_detector(fitted):
        far = fitted.decision_function([bag + 5.0 for bag in bags])
        assert fitted.decision_function(bags).mean() > far.max()
    else:
        assert fitted.score(bags, labels_for(fitted, bags, centres)) > 0.5


def test_each_bag_is_predicted_by_itself(fitted, problem):
    bags = list(problem[0])
    whole = predictions(fitted, bags)
    np.testing.assert_allclose(predictions(fitted, bags[10:13]), whole[10:13], rtol=1e-10)
    np.testing.assert_allclose(predictions(fitted, bags[::-1]), whole[::-1], rtol=1e-10)


def test_the_seed_determines_the_fit_and_nothing_given_changes(fitted, problem):
    bags, centres = problem
    given = supervised(fitted, bags, centres)
    points, labels = bags.points.copy(), np.copy(given[1:])
    again = clone(fitted).fit(*given, **quick(fitted))
    np.testing.assert_array_equal(predictions(again, bags), predictions(fitted, bags))
    np.testing.assert_array_equal(bags.points, points)
    np.testing.assert_array_equal(given[1:], labels)


def test_pickle_keeps_the_fit(fitted, problem):
    again = pickle.loads(pickle.dumps(fitted))
    assert repr(again.get_params()) == repr(fitted.get_params())
    assert list(again.feature_names_in_) == NAMES
    np.testing.assert_array_equal(predictions(again, problem[0]), predictions(fitted, problem[0]))


def test_new_bags_must_have_the_columns_of_the_fit(fitted, problem):
    wider = [np.column_stack([bag, bag]) for bag in problem[0]]
    with pytest.raises(ValueError, match="the bags have 4 features per point, but the model"):
        fitted.predict(wider)


@each_of([model for model in PAPERS if not isinstance(model, OneClassSMM)])
def test_scikit_learn_searches(model, problem):
    bags, centres = problem
    grid = GRIDS.get(type(model), {"n_landmarks": [3, 5]})
    search = GridSearchCV(model, grid, cv=2, error_score="raise")
    search.fit(bags, labels_for(model, bags, centres), **quick(model))
    assert search.best_score_ > (-1 if isinstance(model, BagPixel) else 0.2)
    assert search.predict(bags).shape == (50,)
