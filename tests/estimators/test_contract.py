"""What every estimator promises, whatever its family. Runs under either ArviZ major version."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict

import bdr_stan
from bdr_stan import (
    BDR,
    BLR,
    DFDR,
    MERR,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    FreqShrinkage,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
)

ESTIMATORS = [
    BLR(5, method="exact"),
    BLR(5),
    Shrinkage(5),
    BDR(5, method="laplace"),
    BDR(5, method="pathfinder"),
    BDR(5),
    BLRClassifier(5),
    ShrinkageClassifier(5),
    BDRClassifier(5, method="laplace"),
    BDRClassifier(5),
    RBFNetwork(5),
    RBFNetwork(5, features="fourier"),
    FreqShrinkage(5),
    MERR(),
    MERR(outer="rbf", n_landmarks=5, landmarks="kmeans"),
    DFDR(),
    AggregateRegressor(n_landmarks=5, method="vb"),
    AggregateRegressor("normal", n_landmarks=5),
    Stacked([BLR(5, method="exact"), BDR(5, method="laplace")]),
    StackedClassifier([BLRClassifier(5, method="laplace"), BDRClassifier(5, method="laplace")]),
]
# Whose fits depend on the order of bags and points by rounding alone, not by random numbers.
SETTLED = [
    BLR(method="exact"),
    Shrinkage(),
    ShrinkageClassifier(),
    BLRClassifier(method="optimize"),
    RBFNetwork(),
    FreqShrinkage(),
]
SHORT = {"chains": 2, "warmup": 150, "draws": 100}


def name_of(model):
    kind = getattr(model, "method", None) or getattr(model, "kernel", "")
    return f"{type(model).__name__}-{kind}"


def options_of(model):
    """Short chains for those that have chains, and a seed."""
    has_chains = not isinstance(model, (RBFNetwork, FreqShrinkage, MERR, DFDR))
    return {"seed": 1, **(SHORT if has_chains else {})}


@pytest.fixture(scope="module")
def problem():
    """Bags of a location family; the label is the bag's location, sizes from 1 to 40."""
    rng = np.random.default_rng(5)
    sizes = rng.permutation(np.r_[np.ones(6, int), rng.integers(2, 41, 44)])
    centres = rng.normal(size=50)
    bags = [c + rng.normal(size=(m, 2)) for c, m in zip(centres, sizes, strict=True)]
    return bags, 3 + centres


def labels(model, bags, y):
    if isinstance(model, AggregateRegressor):
        return np.round(y * [len(bag) for bag in bags])  # totals, and counts
    return np.where(y > 3, "high", "low") if is_classifier(model) else y


def quiet_fit(model, bags, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains mix badly, and say so
        return model.fit(bags, labels(model, bags, y), **options_of(model), **options)


def predicted(model, bags):
    return model.predict_proba(bags) if is_classifier(model) else model.predict(bags)


@pytest.fixture(scope="module", params=ESTIMATORS, ids=name_of)
def fitted(request, problem):
    return quiet_fit(clone(request.param), *problem)


def test_parameters_clone_and_repr(fitted):
    again = clone(fitted)
    params, copied = fitted.get_params(), again.get_params()
    assert repr(params) == repr(copied)
    name, value = next(iter(params.items()))
    assert getattr(again.set_params(**{name: value}), name) == value
    assert repr(fitted) == repr(again)
    assert type(fitted).__name__ in repr(fitted)
    assert is_classifier(fitted) != is_regressor(fitted)


@pytest.mark.parametrize("model", ESTIMATORS, ids=name_of)
def test_not_fitted(model, problem):
    for use in (lambda: model.predict(problem[0]), lambda: model.save("never.nc")):
        with pytest.raises(NotFittedError):
            use()
    for name in ("idata", "priors", "report", "summary"):
        if hasattr(type(model), name):
            with pytest.raises(NotFittedError):
                value = getattr(model, name)
                value()


def test_it_learns(fitted, problem):
    bags, y = problem
    assert fitted.score(bags, labels(fitted, bags, y)) > 0.5
    assert fitted.n_features_in_ == 2
    assert fitted.predict(bags).shape == (50,)


def test_subset_and_order_do_not_matter_to_prediction(fitted, problem):
    bags, _ = problem
    whole = predicted(fitted, bags)
    np.testing.assert_allclose(predicted(fitted, bags[10:13]), whole[10:13], rtol=1e-10)
    np.testing.assert_allclose(predicted(fitted, bags[::-1]), whole[::-1], rtol=1e-10)
    np.testing.assert_allclose(predicted(fitted, Bags.from_list(bags)), whole, rtol=1e-10)
    turned = [bag[::-1] for bag in bags]
    np.testing.assert_allclose(predicted(fitted, turned), whole, rtol=1e-10)


def test_input_is_not_changed(fitted, problem):
    bags, y = problem
    before, labels_before = [bag.copy() for bag in bags], y.copy()
    quiet_fit(clone(fitted), bags, y)
    fitted.predict(bags)
    assert all(np.array_equal(a, b) for a, b in zip(bags, before, strict=True))
    np.testing.assert_array_equal(y, labels_before)


def test_same_seed_same_fit(fitted, problem):
    again = quiet_fit(clone(fitted), *problem)
    np.testing.assert_array_equal(predicted(again, problem[0]), predicted(fitted, problem[0]))


def test_file_and_pickle_keep_the_fit(fitted, problem, tmp_path):
    bags, _ = problem
    path = tmp_path / "fit.nc"
    fitted.save(path, notes={"source": "here"})
    copies = [type(fitted).load(path), bdr_stan.load(path), pickle.loads(pickle.dumps(fitted))]
    for again in copies:
        assert type(again) is type(fitted)
        assert repr(again.get_params()) == repr(fitted.get_params())
        np.testing.assert_array_equal(again.predict(bags), fitted.predict(bags))
        np.testing.assert_array_equal(predicted(again, bags), predicted(fitted, bags))
        if hasattr(fitted, "predictive"):
            np.testing.assert_array_equal(
                again.predictive(bags).interval(), fitted.predictive(bags).interval()
            )
        if hasattr(fitted, "priors"):
            assert again.priors().equals(fitted.priors())
        member = again.models_[0] if hasattr(again, "models_") else again
        assert "posterior" in member.idata
    assert copies[0].notes_ == {"source": "here"}


@pytest.mark.parametrize("model", SETTLED, ids=name_of)
def test_order_does_not_matter_to_a_fit(model, problem):
    bags, y = problem
    model = clone(model).set_params(landmarks=np.concatenate(bags)[:6], bandwidth=1.0)
    straight = predicted(quiet_fit(clone(model), bags, y), bags)
    turned = [bag[::-1] for bag in bags[::-1]]
    again = predicted(quiet_fit(clone(model), turned, y[::-1]), bags)
    np.testing.assert_allclose(again, straight, rtol=1e-3)  # as far as the optimiser goes


@pytest.mark.parametrize("model", ESTIMATORS, ids=name_of)
def test_scikit_learn_searches(model, problem):
    bags, y = problem
    if hasattr(model, "models"):
        grid = {"models": [model.models, model.models[::-1]]}
    elif isinstance(model, DFDR):
        grid = {"distance": ["l1", "l2"]}
    else:
        grid = {"n_landmarks": [3, 5]}
    search = GridSearchCV(model, grid, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        search.fit(Bags.from_list(bags), labels(model, bags, y), **options_of(model))
    assert search.best_score_ > 0.2
    assert search.predict(bags).shape == (50,)


@pytest.mark.parametrize("model", SETTLED, ids=name_of)
def test_scikit_learn_folds(model, problem):
    bags, y = problem
    model = clone(model).set_params(n_landmarks=5, random_state=1)
    method = "predict_proba" if is_classifier(model) else "predict"
    found = cross_val_predict(model, bags, labels(model, bags, y), cv=3, method=method)
    assert found.shape == ((50, 2) if is_classifier(model) else (50,))
