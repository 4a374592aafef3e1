"""What the ridge estimators have of their own; the battery is in test_estimators.py."""

import numpy as np
import pytest
from builders.location_family import location_family
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeCV

import bdr_stan
from bdr_stan import Bags, RBFNetwork
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures, Linear, Matern32, landmark_features

ALPHAS = np.geomspace(1e-6, 1e2, 9)


@pytest.fixture(scope="module")
def problem():
    return location_family(11, 40, largest=30)


# ------------------------------------------------------------ RBF network


def test_equals_ridge_on_the_embeddings(problem):
    bags, y = problem
    landmarks = np.concatenate(bags)[::40]
    model = RBFNetwork(landmarks=landmarks, bandwidth=1.3, alpha=0.2).fit(bags, y)
    x = embed(bags, LandmarkFeatures(RBF(1.3), landmarks)).mean
    plain = Ridge(alpha=0.2, solver="svd").fit(x, y)
    np.testing.assert_allclose(model.predict(bags), plain.predict(x), rtol=1e-10)
    posterior = model.idata["posterior"]
    assert posterior["beta"].dims == ("chain", "draw", "landmark")
    np.testing.assert_allclose(posterior["beta"].values[0, 0], plain.coef_, rtol=1e-8)
    m0 = model.idata["constant_data"]["m0"].values
    np.testing.assert_allclose(
        float(posterior["intercept"][0, 0]) - m0 @ plain.coef_, plain.intercept_, rtol=1e-10
    )


def test_alpha_by_leave_one_out_is_scikit_learns(problem):
    bags, y = problem
    model = RBFNetwork(6, alpha=ALPHAS).fit(bags, y, seed=1)
    x = model.embed(bags).mean
    plain = RidgeCV(ALPHAS).fit(x, y)
    assert model.alpha_ == pytest.approx(plain.alpha_)
    assert ALPHAS[0] < model.alpha_ < ALPHAS[-1]
    np.testing.assert_allclose(model.predict(bags), plain.predict(x), rtol=1e-8)


def test_default_penalties_follow_the_scale(problem):
    bags, y = problem
    model = RBFNetwork(6).fit(bags, y, seed=1)
    x = model.embed(bags).mean
    largest = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[0] ** 2
    assert 1e-12 * largest <= model.alpha_ <= largest
    np.testing.assert_allclose(
        RBFNetwork(6).fit(bags, 1e3 * y - 5, seed=1).predict(bags),
        1e3 * model.predict(bags) - 5,
        rtol=1e-8,
    )


def test_fit_on_shared_features(problem):
    bags, y = problem
    model = RBFNetwork(6)
    features = model.training_features(bags[:25], seed=1)
    model.fit_features(features, y[:25])
    whole = RBFNetwork(6).fit(bags[:25], y[:25], seed=1)
    assert model.alpha_ == whole.alpha_
    held = model.embed(bags[25:], features)
    np.testing.assert_array_equal(model.predict_features(held), whole.predict(bags[25:]))


KERNELS = ["matern32", Matern32(1.5), RBF(columns=("a",)) + Linear()]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_by_name_and_as_objects(problem, kernel, tmp_path):
    arrays, y = problem
    bags = Bags.from_list(arrays, features=["a", "b"])
    model = RBFNetwork(6, kernel=kernel, bandwidth_scale=1.5).fit(bags, y, seed=1)
    if kernel is not KERNELS[0]:
        assert RBFNetwork(6, kernel=kernel).fit(bags, y, seed=1).kernel_.on(["a", "b"], 2)
    features = landmark_features(model.kernel_, model.landmarks_)
    x = np.array([features(bag).mean(axis=0) for bag in arrays])
    plain = Ridge(alpha=model.alpha_, solver="svd").fit(x, y)
    np.testing.assert_allclose(model.predict(bags), plain.predict(x), rtol=1e-7)
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert repr(again.get_params()) == repr(model.get_params())
    assert hasattr(again, "bandwidth_") == (kernel is not KERNELS[2])


def test_a_bandwidth_for_each_feature(problem, tmp_path):
    bags, y = problem
    model = RBFNetwork(6, bandwidth=np.array([1.0, 2.0])).fit(bags, y, seed=1)
    stretched = [bag / [1.0, 2.0] for bag in bags]
    same = clone(model).set_params(bandwidth=1.0, landmarks=model.landmarks_ / [1.0, 2.0])
    np.testing.assert_allclose(
        same.fit(stretched, y).predict(stretched), model.predict(bags), rtol=1e-6
    )
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))


def test_weighted_points_count_by_weight(problem):
    bags, y = problem
    doubled = [np.vstack([bag, bag[:1]]) for bag in bags]
    weighted = Bags.from_list(bags, weights=[np.r_[2.0, np.ones(len(b) - 1)] for b in bags])
    model = RBFNetwork(6).fit(doubled, y, seed=1)
    np.testing.assert_allclose(model.predict(weighted), model.predict(doubled), rtol=1e-10)


# ------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RBFNetwork(0), "n_landmarks must be an integer >= 1, found 0"),
        (RBFNetwork(alpha="gcv"), "alpha must be 'loo', a positive number or several, found 'gcv'"),
        (RBFNetwork(alpha=0.0), "alpha must be 'loo', a positive number or several, found 0.0"),
        (RBFNetwork(alpha=[]), r"alpha must be 'loo', .* found \[\]"),
        (RBFNetwork(alpha=[0.1, np.nan]), "alpha must be 'loo', a positive number or several"),
        (
            RBFNetwork(kernel="gauss"),
            "kernel must be a Kernel, 'auto' or one of 'rbf', .* found 'gauss'",
        ),
        (
            RBFNetwork(bandwidth=2.0, kernel=RBF(1.0)),
            "bandwidth=2.0 goes with the name of a kernel",
        ),
    ],
    ids=str,
)
def test_wrong_parameters(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem)


def test_no_predictive_distribution(problem):
    model = RBFNetwork(4).fit(*problem, seed=1)
    assert not hasattr(model, "predictive")
    assert not hasattr(model, "diagnostics")
    with pytest.raises(TypeError, match="return_std"):
        model.predict(problem[0], return_std=True)
