"""Labels of several columns: one fit for all of them, against a fit of each by itself."""

import pickle

import numpy as np
import pandas as pd
import pytest
from builders.location_family import location_family
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict

import bdr_stan
from bdr_stan import BLR, MERR, Bags, RBFNetwork
from bdr_stan.kernel_means.ridge_path import KernelRidgePath, RidgePath
from bdr_stan.kernel_means.set_kernels import between
from bdr_stan.kernels import RBF
from experiments.papers import FreqShrinkage

ALPHAS = np.geomspace(1e-5, 1, 6)
NAMES = ["centre", "spread", "noise"]
FIXED = [
    RBFNetwork(6, alpha=0.1),
    FreqShrinkage(6, alpha=0.1, shrinkage=3.0),
    MERR(alpha=0.01),
    MERR(outer="rbf", alpha=0.01),
]
CHOSEN = [RBFNetwork(6), FreqShrinkage(6), MERR(), MERR(outer="rbf")]


@pytest.fixture(scope="module")
def problem():
    """Bags with ids, and three labels of each in a table of these ids."""
    bags, y = location_family(3, 40, largest=20)
    ids = [f"b{i:02}" for i in range(40)]
    noise = np.random.default_rng(0).normal(size=40)
    outputs = np.column_stack([y, np.log([bag.std() + 0.1 for bag in bags]), 5 * noise])
    return Bags.from_list(bags, ids=ids), pd.DataFrame(outputs, ids, NAMES)


@pytest.mark.parametrize("model", FIXED, ids=repr)
def test_with_alpha_given_each_column_is_fitted_as_by_itself(problem, model):
    bags, y = problem
    together = clone(model).fit(bags[:30], y[:30], seed=1)
    assert together.predict(bags).shape == (40, 3)
    for j, name in enumerate(NAMES):
        alone = clone(model).fit(bags[:30], y[name][:30], seed=1)
        np.testing.assert_allclose(together.predict(bags)[:, j], alone.predict(bags), atol=1e-10)
        estimate, other = together.idata["posterior"].sel(output=name), alone.idata["posterior"]
        for variable in other.data_vars:
            np.testing.assert_allclose(estimate[variable], other[variable], rtol=1e-9, atol=1e-10)
        if isinstance(model, MERR):
            sd = together.predict(bags, return_std=True)[1]
            np.testing.assert_allclose(sd[:, j], alone.predict(bags, return_std=True)[1], rtol=1e-9)


@pytest.mark.parametrize("model", CHOSEN, ids=repr)
def test_a_penalty_that_is_chosen_has_the_least_sum_of_errors(problem, model):
    """The same choice as from the errors of each column, and then the same fits."""
    bags, y = problem
    together = clone(model).fit(bags, y, seed=1)
    alpha = together.alpha_
    paths = [path_of(together, bags, y[name].to_numpy()) for name in NAMES]
    tried = paths[0].alphas("loo")
    errors = [path.leave_one_out(tried) for path in paths]
    assert alpha == pytest.approx(tried[np.argmin(np.sum(errors, axis=0))], rel=1e-9)
    assert len({int(np.argmin(each)) for each in errors}) > 1  # each by itself would differ
    given = clone(model).set_params(alpha=alpha)
    each = np.column_stack([given.fit(bags, y[name], seed=1).predict(bags) for name in NAMES])
    np.testing.assert_allclose(together.predict(bags), each, atol=1e-9)


def path_of(model, bags, y):
    """Ridge regression of one label by the features or the kernel of a fit."""
    if not isinstance(model, MERR):
        return RidgePath(model.embed(bags).mean, y)
    products = model.means_.products()
    squares = products.diagonal()
    return KernelRidgePath(between(model.outer_, products, squares, squares), y)


@pytest.mark.parametrize("model", [*FIXED, *CHOSEN], ids=repr)
def test_tables_are_read_by_index_and_kept(problem, model, tmp_path):
    bags, y = problem
    fitted = clone(model).fit(bags, y, seed=1)
    turned = clone(model).fit(bags, y[::-1], seed=1)
    plain = clone(model).fit(bags, y.to_numpy(), seed=1)
    predicted = fitted.predict(bags)
    for other in (turned, plain):
        np.testing.assert_allclose(other.predict(bags), predicted, atol=1e-10)
    average = pytest.approx(r2_score(y, predicted), rel=1e-10)
    assert fitted.score(bags, y[::-1]) == average
    weight = pd.Series(np.arange(1.0, 41), y.index)
    weighted = pytest.approx(r2_score(y, predicted, sample_weight=weight), rel=1e-10)
    assert fitted.score(bags, y, weight[::-1]) == weighted
    assert list(fitted.idata["observed_data"]["output"].values) == NAMES
    assert fitted.idata["observed_data"]["y"].dims == ("bag", "output")
    fitted.save(tmp_path / "fit.nc")
    for again in (bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict(bags), predicted)
        assert again.score(bags, y) == fitted.score(bags, y)
    with pytest.raises(ValueError, match=r"y has the columns \['noise', .*fitted to \['centre'"):
        fitted.score(bags, y[NAMES[::-1]])
    with pytest.raises(ValueError, match=r"y has the columns \['0', '1'\], but the model"):
        fitted.score(bags, y.to_numpy()[:, :2])
    with pytest.raises(TypeError, match=r"output 'noise': the label of bag 0 .* is '<5', not a"):
        fitted.score(bags, y.assign(noise="<5"))


def test_scikit_learn_takes_them(problem):
    bags, y = problem
    arrays, y = list(bags), y[["centre", "spread"]].to_numpy()
    for model in (RBFNetwork(6, random_state=1), MERR(RBF(1.0))):
        assert model.__sklearn_tags__().target_tags.multi_output
        found = cross_val_predict(model, arrays, y, cv=3)
        folds = np.array_split(np.arange(40), 3)
        rest = np.setdiff1d(np.arange(40), folds[1])
        again = clone(model).fit([arrays[i] for i in rest], y[rest])
        np.testing.assert_array_equal(found[folds[1]], again.predict([arrays[i] for i in folds[1]]))
        search = GridSearchCV(model, {"alpha": [0.01, 0.1]}, cv=3).fit(arrays, y)
        assert search.predict(arrays).shape == (40, 2)
    assert not BLR().__sklearn_tags__().target_tags.multi_output


def test_a_predictive_distribution_is_of_one_label(problem):
    bags, y = problem
    model = MERR(RBF(1.0)).fit(bags, y)
    for call in (model.predictive, model.predict_table):
        with pytest.raises(TypeError, match="is of one label per bag, but the model has several"):
            call(bags)
