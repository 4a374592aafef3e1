"""Regressors on bags in skpro: its own checks, rows matched to bags, its scores and searches."""

import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from skpro.metrics import CRPS, LogLoss
from skpro.model_selection import GridSearchCV
from skpro.regression.ensemble import BaggingRegressor
from skpro.utils import check_estimator

from bdr_stan import BDR, BLR, BDRClassifier, RBFNetwork, metrics
from bdr_stan.bags import Bags
from bdr_stan.skpro import SkproDistribution, SkproRegressor

N, TRAIN = 60, 40


@pytest.fixture(scope="module")
def bags():
    """Bags with ids that are text, their labels and two covariates."""
    rng = np.random.default_rng(0)
    vote = rng.normal(size=N)
    town = np.repeat(np.arange(N), 30)
    people = pd.DataFrame(
        {
            "town": [f"t{k:02}" for k in town],
            "age": rng.normal(45 + 9 * vote[town], 9),
            "vote": vote[town],
            "hot": rng.integers(0, 2, N)[town],
            "people": rng.integers(50, 90, N)[town],
        }
    )
    return Bags.from_dataframe(people, "town", ["age"], metadata=["vote", "hot", "people"])


@pytest.fixture(scope="module")
def tables(bags):
    """X and y, with the ids as their index."""
    return bags.metadata[["hot", "people"]], bags.metadata[["vote"]]


def regressor(bags, **options):
    return SkproRegressor(BLR(6, method="exact", random_state=1), bags, **options)


@pytest.fixture(scope="module")
def fitted(bags, tables):
    X, y = tables
    return regressor(bags).fit(X[:TRAIN], y[:TRAIN])


def regressors():
    """Of bags of random points, one for each body mass index in the table of the checks."""
    ids = load_diabetes(as_frame=True).data["bmi"].iloc[:100].unique()
    points = np.random.default_rng(0).normal(np.repeat(ids, 5), 1)[:, None]
    bags = Bags.from_points(points, sizes=np.full(len(ids), 5), ids=ids)
    named = {"bags": bags, "bag": "bmi"}
    with_age = BLR(2, method="exact", covariates=["age"])
    return [
        {"estimator": BLR(4, method="exact", random_state=1), **named},
        {"estimator": with_age, "fit_options": {"seed": 1, "draws": 100}, **named},
    ]


def distributions():
    """Of three bags, and of a single one, which is a scalar."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=30)
    bags = [rng.normal(mean, size=(20, 1)) for mean in y]
    predict = BLR(4, method="exact", random_state=1).fit(bags, y, draws=50).predictive
    three = {"index": pd.Index(["a", "b", "c"]), "columns": pd.Index(["y"])}
    return [
        {"predict": predict, "bags": bags[:3], **three},
        {"predict": predict, "bags": bags[:1]},
    ]


@pytest.mark.parametrize(
    "cls, parameters", [(SkproRegressor, regressors), (SkproDistribution, distributions)]
)
@pytest.mark.filterwarnings("ignore")  # of skpro's approximations and of random labels
def test_checks_of_skpro(cls, parameters, monkeypatch):
    made = parameters()
    monkeypatch.setattr(cls, "get_test_params", classmethod(lambda cls, _=None: made))
    found = check_estimator(cls, verbose=False)
    assert found
    assert {name: result for name, result in found.items() if result != "PASSED"} == {}


def test_predictions_and_scores_are_those_of_the_estimator(bags, tables, fitted):
    X, y = tables
    own = BLR(6, method="exact", random_state=1).fit(bags[:TRAIN], y["vote"].to_numpy()[:TRAIN])
    predictive, labels = own.predictive(bags[TRAIN:]), y["vote"][TRAIN:]
    distribution = fitted.predict_proba(X[TRAIN:])
    frame = fitted.predict(X[TRAIN:])
    assert frame.index.equals(X.index[TRAIN:]) and list(frame) == ["vote"]
    np.testing.assert_allclose(frame["vote"], predictive.mean)
    np.testing.assert_allclose(fitted.predict_var(X[TRAIN:])["vote"], predictive.sd**2)
    intervals = fitted.predict_interval(X[TRAIN:], coverage=0.8).to_numpy()
    np.testing.assert_allclose(intervals.T, predictive.interval(0.8))
    np.testing.assert_allclose(distribution.cdf(y[TRAIN:])["vote"], predictive.cdf(labels))
    assert LogLoss()(y[TRAIN:], distribution) == pytest.approx(-predictive.log_prob(labels).mean())
    assert CRPS()(y[TRAIN:], distribution) == pytest.approx(metrics.crps(labels, predictive))
    assert distribution.sample(3).shape == (3 * (N - TRAIN), 1)


@pytest.mark.parametrize("rows", ["index", "column", "another order", "labels of another order"])
def test_rows_are_matched_to_bags(bags, tables, fitted, rows):
    X, y = (table[:TRAIN] for table in tables)
    new = tables[0][TRAIN:]
    if rows == "column":
        X, new = (x.reset_index().astype({"town": "category"}) for x in (X, new))
    if rows == "another order":
        X, y, new = X[::-1], y[::-1], new[::-1]
    if rows == "labels of another order":
        y = y.sample(frac=1, random_state=1)
    found = regressor(bags).fit(X, y).predict(new)["vote"].to_numpy()
    found = found[::-1] if rows == "another order" else found
    tolerance = 0.1 if rows == "another order" else 1e-12  # k-means begins at other points
    np.testing.assert_allclose(found, fitted.predict(tables[0][TRAIN:])["vote"], atol=tolerance)


def test_columns_of_the_table_are_covariates(bags, tables):
    X, y = tables
    y = y + 3 * X[["hot"]].to_numpy()
    model = SkproRegressor(BLR(6, method="exact", covariates=["hot"], random_state=1), bags)
    model.fit(X[:TRAIN], y[:TRAIN])
    lowered, raised = (model.predict(X[TRAIN:].assign(hot=hot)) for hot in (0, 1))
    np.testing.assert_allclose((raised - lowered)["vote"], 3, atol=0.6)
    without = model.predict(X[TRAIN:])  # the metadata of the bags have the same column
    own = SkproRegressor(model.estimator, bags).fit(X[["people"]][:TRAIN], y[:TRAIN])
    np.testing.assert_allclose(own.predict(X[["people"]][TRAIN:]), without, atol=1e-8)


def test_counts_have_probabilities(bags, tables):
    X, y = tables
    counts = np.round(np.exp(1 + y) * X[["people"]].to_numpy() / 50).rename(columns={"vote": "n"})
    poisson = BLR(4, family="poisson", method="laplace", random_state=1)
    model = SkproRegressor(poisson, bags, fit_options={"exposure": "people", "draws": 100})
    distribution = model.fit(X[:TRAIN], counts[:TRAIN]).predict_proba(X[TRAIN:])
    np.testing.assert_allclose(
        np.log(distribution.pmf(counts[TRAIN:])), distribution.log_pmf(counts[TRAIN:])
    )
    assert (distribution.pdf(counts[TRAIN:]) == 0).all(axis=None)
    doubled = model.predict(X[TRAIN:].assign(people=2 * X["people"]))
    np.testing.assert_allclose(doubled, 2 * distribution.mean())


def test_search_and_bootstrap(bags, tables):
    X, y = tables
    search = GridSearchCV(
        regressor(bags),
        param_grid={"estimator__n_landmarks": [1, 8]},
        cv=KFold(3, shuffle=True, random_state=1),
        scoring=LogLoss(),
        backend="None",
    )
    assert search.fit(X, y).best_params_ == {"estimator__n_landmarks": 8}
    ids = X.reset_index()[["town"]].astype({"town": "category"})
    bagging = BaggingRegressor(regressor(bags), n_estimators=2, bootstrap=True, random_state=1)
    bagging.fit(ids[:TRAIN], y[:TRAIN].reset_index(drop=True))
    error = bagging.predict(ids[TRAIN:]).to_numpy() - y[TRAIN:].to_numpy()
    assert np.mean(error**2) < 0.3 * y["vote"].var()


def test_rows_of_distributions_are_selected(tables, fitted):
    distribution = fitted.predict_proba(tables[0][TRAIN:])
    some = distribution.iloc[[3, 0, 3]]
    np.testing.assert_allclose(some.mean(), distribution.mean().iloc[[3, 0, 3]])
    np.testing.assert_allclose(some.ppf(0.3), distribution.ppf(0.3).iloc[[3, 0, 3]])
    one = distribution.loc["t41", "vote"]
    assert one.shape == () and one.cdf(one.ppf(0.2)) == pytest.approx(0.2)
    assert np.ndim(one.sample()) == 0 and one.sample(4).shape == (4, 1)
    assert distribution.head(2).shape == (2, 1) and distribution.iloc[3].shape == (1, 1)


@pytest.mark.parametrize(
    "rows, labels", [((0, 20), (20, 40)), ((0, 20), (10, 30)), ((20, 40), (0, 20))]
)
@pytest.mark.parametrize("kind", ["category", "int"])
def test_labels_of_other_rows_are_refused(bags, tables, rows, labels, kind):
    named = Bags.from_list(list(bags), np.arange(len(bags)) if kind == "int" else bags.ids)
    X = pd.DataFrame({"bag": pd.Series(named.ids).astype(kind)})
    y = tables[1].reset_index(drop=True)
    model = SkproRegressor(BLR(4, method="exact", random_state=1), named)
    with pytest.raises(ValueError, match="^the index of y differs from the index of X"):
        model.fit(X[slice(*rows)], y[slice(*labels)])
    in_order = model.fit(X[slice(*rows)], y[slice(*rows)]).predict(X)
    as_array = model.fit(X[slice(*rows)], y[slice(*rows)].to_numpy()).predict(X)
    np.testing.assert_array_equal(in_order, as_array)


def test_predictions_before_a_fit_are_refused(bags, tables):
    with pytest.raises(NotFittedError, match=r"call fit\(X, y\) first"):
        regressor(bags).predict(tables[0])


def other_index(table):
    return table.rename(index=lambda name: f"{name}x")


@pytest.mark.parametrize(
    "mistake, message",
    [
        (lambda m, X, y: m.fit(X.to_numpy(), y), "no column and no level of its index 'town'"),
        (lambda m, X, y: m.fit(X.reset_index(drop=True), y), "its first columns are 'hot'"),
        (lambda m, X, y: m.fit(X.reset_index(), y), r"pass X.astype\({'town': 'category'}\)"),
        (lambda m, X, y: m.fit(other_index(X), y), "row 0 of X names the bag 't00x' .60 such rows"),
        (lambda m, X, y: m.fit(X, other_index(y)), "lacks the id 't00' of bag 0"),
        (lambda m, X, y: m.fit(X, pd.concat([y, y + 1], axis=1)), "y has 2 columns, expected one"),
    ],
)
def test_mistakes_in_tables(bags, tables, mistake, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mistake(regressor(bags), *tables)


@pytest.mark.parametrize(
    "estimator, options, message",
    [
        (RBFNetwork(), {}, "a predictive distribution, found RBFNetwork: pass one such as BDR()"),
        (BDRClassifier(), {}, "must be a regressor of bdr_stan"),
        (BDR(family="ordinal"), {}, "family='ordinal' has categories: use BDR itself"),
        (BDR(), {"fit_options": 3}, "fit_options must be a dict of arguments of BDR.fit, found 3"),
        (BDR(), {"bag": "county"}, "no level of its index 'county'"),
        (BLR(method="exact"), {"fit_options": {"sed": 1}}, r"did you mean 'seed'\?"),
    ],
)
def test_mistakes_in_parameters(bags, tables, estimator, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SkproRegressor(estimator, bags, **options).fit(*tables)


def test_without_skpro_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skpro", None)
    monkeypatch.delitem(sys.modules, "bdr_stan.skpro")
    with pytest.raises(ImportError, match=r"pip install 'bdr-stan\[skpro\]'"):
        import_module("bdr_stan.skpro")
