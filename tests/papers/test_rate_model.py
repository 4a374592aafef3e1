"""What the models of rates at points promise, all of them."""

import pickle

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points
from builders.networks import NETWORKS, name_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict

from bdr_stan import Bags
from experiments.papers import AggregateNN, ConstantRate

MODELS = [ConstantRate(), *NETWORKS]


@pytest.fixture(scope="module")
def problem():
    return counts_of_weighted_points()


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_clone_and_pickle(problem, model):
    bags, _, y = problem
    options = {} if isinstance(model, ConstantRate) else {"seed": 1}
    fitted = clone(model).fit(bags, y, **options)
    assert clone(fitted).get_params() == model.get_params()
    again = clone(model).fit(bags, y, **options)
    np.testing.assert_array_equal(again.predict(bags), fitted.predict(bags))
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.get_params() == fitted.get_params()
    np.testing.assert_array_equal(copy.predict(bags), fitted.predict(bags))
    np.testing.assert_array_equal(
        copy.predict_points(bags.points), fitted.predict_points(bags.points)
    )
    assert list(copy.feature_names_in_) == ["height", "depth"]
    assert copy.n_features_in_ == 2
    assert cross_val_predict(model, bags, y, cv=3).shape == (12,)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_new_bags_unlike_the_training_bags(problem, model):
    bags, _, y = problem
    model = clone(model)
    with pytest.raises(NotFittedError):
        model.predict(bags)
    model.fit(bags, y)
    with pytest.raises(
        ValueError, match="bags have 3 features per point, but the model was fitted to 2"
    ):
        model.predict_points(np.ones((2, 3)))
    turned = Bags(bags.points, bags.offsets, features=["depth", "height"])
    with pytest.raises(ValueError, match="column 0 of the bags is 'depth', but .* 'height' there"):
        model.predict(turned)
    with pytest.raises(ValueError, match="points is 1-D"):
        model.predict_points(np.ones(2))
    model.fit(Bags(bags.points, bags.offsets), y)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("likelihood", "bad", "message"),
    [
        ("poisson", -1.0, "is -1 .* needs counts"),
        ("poisson", 0.5, "is 0.5 .* needs counts"),
        ("exponential", 0.0, "is 0 .* exponential likelihood needs labels > 0"),
        ("normal", np.nan, "is nan"),
    ],
)
def test_labels(problem, likelihood, bad, message):
    bags, _, y = problem
    spoilt = np.r_[y[:-1], bad]
    link = "identity" if likelihood == "normal" else "exp"
    with pytest.raises(ValueError, match="label of bag 11 " + message):
        AggregateNN(likelihood=likelihood, link=link).fit(bags, spoilt)
    with pytest.raises(ValueError, match="label of bag 11 " + message):
        AggregateNN(likelihood=likelihood, link=link).fit(bags, y, validation=(bags, spoilt))
    with pytest.raises(ValueError, match="label of bag 11 " + message):
        ConstantRate(likelihood).fit(bags, spoilt)
