"""Kernels and penalty of MERR chosen by labels held out, against explicit refits."""

import pickle

import numpy as np
import pytest
from builders.location_family import location_family
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

import bdr_stan
from bdr_stan import MERR, MERRCV, Bags
from bdr_stan.kernel_means.ridge_path import KernelRidgePath
from bdr_stan.kernels import RBF, Cauchy, Linear, Polynomial

ALPHAS = np.geomspace(1e-5, 1, 6)


@pytest.fixture(scope="module")
def problem():
    return location_family(3, 30, largest=20)


KERNELS = [RBF(0.5), RBF(1.5), Polynomial(2, 1.0)]


SPLITS = {"folds": 3, "validation": None}


@pytest.mark.parametrize("way", SPLITS)
def test_choice_is_that_of_explicit_refits(problem, way, monkeypatch):
    bags, y = problem
    outers, alphas = ("linear", RBF(0.7)), ALPHAS[::2]
    by_default = KernelRidgePath.alphas

    def few(path, alpha=None):
        return alphas if alpha is None else by_default(path, alpha)

    monkeypatch.setattr(KernelRidgePath, "alphas", few)
    model = MERRCV(KERNELS, outers=outers, cv=3)
    if way == "folds":
        model.fit(bags, y)
        splits = list(KFold(3).split(bags))
        used = np.arange(30)
    else:
        model.fit(bags[:20], y[:20], validation=(bags[20:], y[20:]))
        splits = [(np.arange(20), np.arange(20, 30))]
        used = np.arange(20)
    found = {}
    for kernel in KERNELS:
        for outer in outers:
            for alpha in alphas:
                one = MERR(kernel, outer=outer, alpha=float(alpha))
                errors = [
                    one.fit([bags[i] for i in train], y[train]).predict([bags[i] for i in test])
                    - y[test]
                    for train, test in splits
                ]
                found[kernel, outer, alpha] = np.sqrt(np.mean(np.concatenate(errors) ** 2))
    (kernel, outer, alpha), least = min(found.items(), key=lambda item: item[1])
    assert model.table_["rmse"][0] == pytest.approx(least, rel=1e-6)
    assert len(model.table_) == 6 and model.table_["rmse"].is_monotonic_increasing
    assert (model.best_.kernel, model.best_.outer, model.best_.alpha) == (kernel, outer, alpha)
    refit = MERR(kernel, outer=outer, alpha=float(alpha)).fit([bags[i] for i in used], y[used])
    np.testing.assert_allclose(model.predict(bags), refit.predict(bags), rtol=1e-7)


@pytest.mark.parametrize(
    "model",
    [
        MERRCV(),
        MERRCV(["rbf", RBF(0.5), Linear()], outers=("linear", "rbf", RBF(0.7))),
        MERRCV(
            [RBF(0.5), RBF([1.5, 2.0], columns=("a", "b")), "cauchy"],
            outers=["linear", Cauchy("median")],
        ),
    ],
    ids=["default", "names", "columns"],
)
def test_file_and_pickle_keep_the_fit(problem, tmp_path, model):
    bags, y = problem
    weights = [np.arange(1.0, len(bag) + 1) for bag in bags]
    bags = Bags.from_list(bags, weights=weights, features=["a", "b"])
    model = clone(model).fit(bags[:20], y[:20], validation=(bags[20:], y[20:]), seed=1)
    model.save(tmp_path / "fit.nc", notes={"for": "tests"})
    loaded = MERRCV.load(tmp_path / "fit.nc")
    assert loaded.notes_ == {"for": "tests"}
    for again in (loaded, bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(model))):
        assert repr(again.get_params()) == repr(model.get_params())
        np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
        np.testing.assert_array_equal(again.best_.predict(bags), model.best_.predict(bags))
        assert again.table_.equals(model.table_)
        assert list(again.feature_names_in_) == ["a", "b"]
    assert "dual" in loaded.idata["posterior"]
    loaded.best_.save(tmp_path / "best.nc")
    np.testing.assert_array_equal(
        bdr_stan.load(tmp_path / "best.nc").predict(bags), model.best_.predict(bags)
    )


def test_names_are_kernels_at_the_median_rule(problem):
    bags, y = problem
    named = MERRCV(["matern32", "rbf"]).fit(bags, y)
    model = MERR("rbf").fit(bags, y)
    assert f"RBF(bandwidth={model.kernel_.bandwidth}" in "".join(named.table_["kernel"])


def test_scikit_learn_searches(problem):
    bags, y = problem
    search = GridSearchCV(MERRCV(cv=2), {"outers": [("linear",), ("rbf",)]}, cv=2)
    assert search.fit(Bags.from_list(bags), y).best_score_ > 0.3


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MERRCV(["gauss"]), "kernel must be a Kernel, 'auto' or one of 'rbf'.*found 'gauss'"),
        (MERRCV([2.0]), "kernel must be a Kernel, 'auto' or one of 'rbf'.*found 2.0"),
        (MERRCV([]), r"kernels must be a list of kernels, found \[\]"),
        (MERRCV({"a": [RBF(1.0)]}), "kernels must be a list of kernels, found {'a'"),
        (
            MERRCV(outers="linear"),
            r"outers must be a sequence such as \('linear',\), found 'linear'",
        ),
        (MERRCV(outers=("cubic",)), "outer must be a kernel or one of"),
    ],
    ids=str,
)
def test_wrong_parameters(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem)


def test_wrong_bags(problem):
    bags, y = problem
    with pytest.raises(ValueError, match="29 labels, but there are 30 bags"):
        MERRCV().fit(bags, y[1:])
    with pytest.raises(ValueError, match="validation bags have 1 features per point.*bags have 2"):
        MERRCV().fit(bags, y, validation=([bag[:, :1] for bag in bags], y))
    model = MERRCV(cv=2).fit(bags, y)
    with pytest.raises(
        ValueError, match="bags have 1 features per point, but the model was fitted"
    ):
        model.predict([bag[:, :1] for bag in bags])
