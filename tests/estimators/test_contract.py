"""What every estimator promises, whatever its family. Runs under either ArviZ major version."""

import pickle
import warnings

import numpy as np
import pytest
from builders import estimators
from builders.problems import (
    NAMES,
    beside,
    labels_for,
    location_bags,
    predictions,
    quick,
    quiet_fit,
    rates,
    supervised,
)
from sklearn.base import (
    BaseEstimator,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_val_predict

import bdr_stan
from bdr_stan import (
    BDR,
    BLR,
    MERR,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
    JointRegressor,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
)
from bdr_stan.kernels import RBF, Matern32

SUM = RBF(1.0, columns=("x",)) + Matern32(2.0, columns=("z",))
ESTIMATORS = {
    "BLR, exact": BLR(5, method="exact"),
    "BLR, nuts": BLR(5),
    "Shrinkage": Shrinkage(5),
    "BLR, size noise": BLR(5, label_noise="size", method="laplace"),
    "BDR, laplace": BDR(5, method="laplace"),
    "BDR, nuts": BDR(5),
    "BDR, stanli": BDR(5, engine="stanli"),
    "BDR, size noise": BDR(5, label_noise="size"),
    "BDR, kernels": BDR(5, kernel=SUM, method="laplace"),
    "BDR, student_t": BDR(5, kernel="rbf", family="student_t", method="laplace"),
    "BLRClassifier": BLRClassifier(5),
    "ShrinkageClassifier": ShrinkageClassifier(5),
    "BDRClassifier, laplace": BDRClassifier(5, method="laplace"),
    "BDRClassifier, nuts": BDRClassifier(5),
    "InverseBDR, optimize": InverseBDR(5, method="optimize"),
    "InverseBDR, laplace": InverseBDR(5, bounds=(-5, 10), method="laplace"),
    "InverseBDR, nuts": InverseBDR(5),
    "InverseBDRClassifier, laplace": InverseBDRClassifier(5, method="laplace"),
    "InverseBDRClassifier, nuts": InverseBDRClassifier(5),
    "RBFNetwork": RBFNetwork(5),
    "MERR": MERR(),
    "MERR, outer": MERR(outer="rbf"),
    "AggregateRegressor, vb": AggregateRegressor(n_landmarks=5, method="vb"),
    "AggregateRegressor, exp": AggregateRegressor(
        "poisson", "exp", 5, kernel=SUM, method="laplace"
    ),
    "AggregateRegressor, normal": AggregateRegressor("normal", n_landmarks=5),
    "JointRegressor": JointRegressor(n_landmarks=5, kernel=SUM, method="laplace"),
    "Stacked": Stacked([BLR(5, method="exact"), BDR(5, method="laplace")]),
    "StackedClassifier": StackedClassifier(
        [BLRClassifier(5, method="laplace"), BDRClassifier(5, method="laplace")]
    ),
    "Stacked, inverse": Stacked([BDR(5, method="laplace"), InverseBDR(5, method="laplace")]),
}
# Whose fits depend on the order of bags and points by rounding alone, not by random numbers.
SETTLED = {
    name: ESTIMATORS[name]
    for name in (
        "BLR, exact",
        "Shrinkage",
        "ShrinkageClassifier",
        "RBFNetwork",
        "MERR",
    )
} | {"BLRClassifier, optimize": BLRClassifier(method="optimize")}
FIRST = {type(model): name for name, model in reversed(ESTIMATORS.items())}  # of each class
GRIDS = {MERR: {"kernel": [RBF(1.0), RBF(2.0)], "outer": ["linear", "rbf"]}}


def public_estimators():
    found = {getattr(bdr_stan, name) for name in bdr_stan.__all__}
    return {each for each in found if isinstance(each, type) and issubclass(each, BaseEstimator)}


def each_of(models):
    return pytest.mark.parametrize("model", models.values(), ids=models)


def of_params(model, **values):
    """Those of the parameters that the model has."""
    return {name: value for name, value in values.items() if name in model.get_params()}


@pytest.fixture(scope="module")
def problem():
    """Bags of a location family and their centres."""
    return location_bags()


@pytest.fixture(scope="module", params=ESTIMATORS.values(), ids=ESTIMATORS)
def fitted(request, problem):
    return quiet_fit(clone(request.param), *problem)


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    """The file of the fit, with a note."""
    path = tmp_path_factory.mktemp("saved") / "fit.nc"
    fitted.save(path, notes={"source": "here"})
    return path


@each_of({name: model for name, model in ESTIMATORS.items() if hasattr(model, "training_features")})
def test_random_state_is_the_seed_of_training_features(model, problem):
    bags, _ = problem

    def landmarks(random_state=None, seed=None):
        chosen = clone(model).set_params(landmarks="random", random_state=random_state)
        return chosen.training_features(bags, seed=seed).feature_map

    def rows(feature_map):
        return getattr(feature_map, "landmarks", getattr(feature_map, "frequencies", None))

    np.testing.assert_array_equal(rows(landmarks(3)), rows(landmarks(seed=3)))
    np.testing.assert_array_equal(rows(landmarks(4, seed=3)), rows(landmarks(seed=3)))
    assert not np.array_equal(rows(landmarks(4)), rows(landmarks(3)))


def test_no_public_estimator_is_left_out():
    assert {type(model) for model in ESTIMATORS.values()} == public_estimators()
    assert {type(model) for model in estimators.ESTIMATORS} == public_estimators()


@pytest.mark.parametrize("estimator", sorted(public_estimators(), key=str), ids=str)
def test_at_most_six_own_classes_above_an_estimator(estimator):
    def depth(cls):
        return max((1 + depth(b) for b in cls.__bases__ if b.__module__ != "builtins"), default=0)

    scikit_learn = depth(BaseEstimator)
    assert issubclass(estimator, bdr_stan.estimators.base.BagEstimator)
    assert depth(estimator) - scikit_learn - 1 <= 6


def test_parameters_clone_and_repr(fitted):
    again = clone(fitted)
    params, copied = fitted.get_params(), again.get_params()
    assert repr(params) == repr(copied)
    name, value = next(iter(params.items()))
    assert getattr(again.set_params(**{name: value}), name) == value
    assert repr(fitted) == repr(again)
    assert type(fitted).__name__ in repr(fitted)
    assert is_classifier(fitted) != is_regressor(fitted)


@each_of(ESTIMATORS)
def test_not_fitted(model, problem):
    for use in (lambda: model.predict(problem[0]), lambda: model.save("never.nc")):
        with pytest.raises(NotFittedError):
            use()
    for name in ("idata", "priors", "report", "summary"):
        if hasattr(type(model), name):
            with pytest.raises((NotFittedError, AttributeError)):
                value = getattr(model, name)
                value()


def test_it_learns(fitted, problem):
    bags, centres = problem
    assert fitted.n_features_in_ == 2
    assert list(fitted.feature_names_in_) == NAMES
    assert fitted.predict(bags).shape == (50,)
    assert fitted.score(bags, labels_for(fitted, bags, centres)) > 0.5


def test_subset_and_order_do_not_matter_to_prediction(fitted, problem):
    bags = list(problem[0])
    whole = predictions(fitted, bags)
    np.testing.assert_allclose(predictions(fitted, bags[10:13]), whole[10:13], rtol=1e-10)
    np.testing.assert_allclose(predictions(fitted, bags[::-1]), whole[::-1], rtol=1e-10)
    np.testing.assert_allclose(predictions(fitted, Bags.from_list(bags)), whole, rtol=1e-10)
    turned = [bag[::-1] for bag in bags]
    np.testing.assert_allclose(predictions(fitted, turned), whole, rtol=1e-10)


def test_new_bags_must_have_the_columns_of_the_fit(fitted, problem):
    wider = [np.column_stack([bag, bag]) for bag in problem[0]]
    with pytest.raises(ValueError, match="the bags have 4 features per point, but the model"):
        fitted.predict(wider)
    points, sizes = problem[0].points, problem[0].sizes
    renamed = Bags.from_points(points, sizes=sizes, features=["x", "height"])
    with pytest.raises(ValueError, match="column 1 of the bags is 'height', but the model"):
        fitted.predict(renamed)


def test_same_seed_same_fit_and_what_is_given_stays_as_it_is(fitted, problem):
    bags, centres = problem
    given = supervised(fitted, bags, centres)
    points, labels = bags.points.copy(), np.copy(given[1:])
    again = clone(fitted)
    params = repr(again.get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        again.fit(*given, **beside(again, bags), **quick(again))
    again.predict(list(bags))
    np.testing.assert_array_equal(predictions(again, bags), predictions(fitted, bags))
    assert repr(again.get_params()) == params
    np.testing.assert_array_equal(bags.points, points)
    np.testing.assert_array_equal(given[1:], labels)


def answers(model, bags):
    """What a fit says of bags: labels, finer predictions, intervals and rates of points."""
    yield model.predict(bags)
    yield predictions(model, bags)
    if hasattr(model, "predictive"):
        yield model.predictive(bags).interval()
    if hasattr(model, "predict_points"):
        yield rates(model, bags.points)


def test_file_and_pickle_keep_the_fit(fitted, saved, problem):
    bags, _ = problem
    copies = [type(fitted).load(saved), bdr_stan.load(saved), pickle.loads(pickle.dumps(fitted))]
    expected = list(answers(fitted, bags))
    for again in copies:
        assert type(again) is type(fitted)
        assert repr(again.get_params()) == repr(fitted.get_params())
        assert {name for name in vars(again) if name.endswith("_")} == {
            name for name in vars(fitted) if name.endswith("_")
        }
        assert list(again.feature_names_in_) == NAMES
        for found, value in zip(answers(again, bags), expected, strict=True):
            np.testing.assert_array_equal(found, value)
        if hasattr(fitted, "priors"):
            assert again.priors().equals(fitted.priors())
    assert copies[0].notes_ == {"source": "here"}
    copies[0].save(saved)  # what was read can be written again


def test_another_estimators_load_names_the_right_one(fitted, saved):
    other = BLR if not isinstance(fitted, BLR) else BDR
    with pytest.raises(ValueError, match=f"use {type(fitted).__name__}.load or bdr_stan.load"):
        other.load(saved)


@each_of(SETTLED)
def test_order_does_not_matter_to_a_fit(model, problem):
    bags, centres = problem
    given = of_params(model, landmarks=np.asarray(bags.points[:6], float), bandwidth=1.0)
    model = clone(model).set_params(**given)
    straight = predictions(quiet_fit(clone(model), bags, centres), bags)
    turned = Bags.from_list([bag[::-1] for bag in bags][::-1])
    again = predictions(quiet_fit(clone(model), turned, centres[::-1]), bags)
    size = np.abs(straight).max()
    np.testing.assert_allclose(again, straight, atol=5e-3 * size)  # as far as the optimiser goes


@each_of({name: ESTIMATORS[name] for name in FIRST.values()})
def test_scikit_learn_searches(model, problem):
    bags, centres = problem
    if hasattr(model, "models"):
        grid = {"models": [model.models, model.models[::-1]]}
    else:
        grid = GRIDS.get(type(model), {"n_landmarks": [3, 5]})
    third = ShuffleSplit(1, test_size=0.33, random_state=1)
    search = GridSearchCV(model, grid, cv=third, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        labels = labels_for(model, bags, centres)
        search.fit(bags, labels, **beside(model, bags), **quick(model))
    assert search.best_score_ > 0.2
    assert search.predict(bags).shape == (50,)


@each_of(SETTLED)
def test_scikit_learn_folds(model, problem):
    bags, centres = problem
    model = clone(model).set_params(**of_params(model, n_landmarks=5, random_state=1))
    y = labels_for(model, bags, centres)
    proba = hasattr(model, "predict_proba")
    method = "predict_proba" if proba else "predict"
    found = cross_val_predict(model, list(bags), y, cv=3, method=method)
    assert found.shape == ((50, 2) if proba else (50,))
