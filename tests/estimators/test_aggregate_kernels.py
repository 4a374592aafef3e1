"""Kernels of rates: lengths that are learned, kernels that are given."""

import numpy as np
import pandas as pd
import pytest
from builders.rates import country, fitted, labels, surface
from builders.totals import RATES
from sklearn.base import clone
from sklearn.metrics import mean_squared_error

import bdr_stan
from bdr_stan import AggregateRegressor, Bags
from bdr_stan.aggregate import training
from bdr_stan.kernels import RBF, Matern32


@pytest.mark.parametrize(
    "kernel",
    [
        RBF("ard"),
        RBF([1.0, 2.0], variance=2.0) + Matern32(columns=("x",)),
        RBF(1.0, columns=["x"]) * Matern32(2.0, columns=["z"]),
    ],
)
def test_files_keep_kernels_and_given_landmarks(kernel, tmp_path):
    bags = country()
    named = Bags(bags.points, bags.offsets, weights=bags.weights, features=["x", "z"])
    model, _, _ = fitted(
        bags=named, kernel=kernel, learn_kernel=True, landmarks=bags.points[::40], method="vb"
    )
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    assert again.bound_ == model.bound_
    np.testing.assert_array_equal(again.landmarks, bags.points[::40])
    np.testing.assert_array_equal(again.kernel_.log_parameters, model.kernel_.log_parameters)
    assert type(again.kernel) is type(kernel)
    np.testing.assert_array_equal(again.predict(named), model.predict(named))
    refitted = again.fit(named, labels(named, "poisson", "square"), seed=1, draws=100)
    np.testing.assert_allclose(refitted.predict(named), model.predict(named), rtol=1e-12)


def test_landmarks_one_per_bag():
    model, bags, _ = fitted(landmarks="one per bag", n_landmarks=None, method="optimize")
    assert model.landmarks_.shape == (30, 2)
    for landmark, bag in zip(model.landmarks_, bags, strict=True):
        assert np.any(np.all(landmark == bag, axis=1))


def test_relevant_columns_get_short_lengths():
    """By default, and rates are then better than with one length for all columns."""
    bags = country(60, size=20, n_features=3)
    y = labels(bags, "poisson", "square")
    default = AggregateRegressor(n_landmarks=25, method="optimize", random_state=1).fit(bags, y)
    lengths = default.kernel_.bandwidth
    assert lengths.shape == (3,) and np.all(lengths[1:] > 2.5 * lengths[0])
    given, one = (clone(default).set_params(kernel=k).fit(bags, y) for k in (RBF("ard"), RBF()))
    np.testing.assert_array_equal(given.kernel_.bandwidth, lengths)
    assert np.ndim(one.kernel_.bandwidth) == 0
    truth = RATES["square"](surface(bags.points))
    of_default, of_one = (
        mean_squared_error(truth, fit.predict_points(bags).mean) for fit in (default, one)
    )
    assert of_default < 0.7 * of_one


def test_levels_of_a_category_share_a_length():
    bags = country(60, size=20)
    kind = np.random.default_rng(3).choice(4, len(bags.points), p=[0.5, 0.3, 0.195, 0.005])
    table = pd.DataFrame(bags.points, columns=["x", "z"]).assign(
        kind=pd.Categorical.from_codes(kind, list("abcd")), bag=np.repeat(np.arange(60), bags.sizes)
    )
    with pytest.warns(UserWarning, match="constant columns, which carry no information: 'one'"):
        bags = Bags.from_dataframe(table.assign(one=5.0), bag="bag")
    y = np.random.default_rng(4).poisson(bags.sums(surface(bags.points) ** 2 * (1 + (kind == 1))))
    model = AggregateRegressor(n_landmarks=25, method="optimize", random_state=1).fit(bags, y)
    start = RBF("ard").resolved(bags, seed=1).bandwidth
    moved = dict(zip(bags.features, model.kernel_.bandwidth / start, strict=True))
    assert moved.pop("one") == pytest.approx(1)
    assert moved["z"] > 2.5 * moved["x"]
    levels = [moved[name] for name in bags.features if name.startswith("kind")]
    assert len(levels) == 4
    np.testing.assert_allclose(levels, levels[0])
    assert levels[0] < moved["z"]


@pytest.mark.parametrize("likelihood, link", [("normal", "identity"), ("poisson", "exp")])
def test_rough_surfaces_get_short_bandwidths(likelihood, link):
    bags, found = country(80, size=8, n_features=1), []
    for speed in (0.5, 4.0):
        y = labels(bags, likelihood, link, f=lambda x, s=speed: 1.5 + 0.8 * np.sin(s * x[:, 0]))
        model = AggregateRegressor(
            likelihood, link, n_landmarks=20, method="optimize", random_state=1
        )
        found.append(model.fit(bags, y).kernel_.bandwidth)
    assert found[0] > 2 * found[1]


def test_many_points_are_thinned_for_learning(monkeypatch):
    bags = country(60, size=20)
    y = labels(bags, "poisson", "square")
    model = AggregateRegressor(n_landmarks=15, kernel=RBF("ard"), method="optimize", random_state=1)
    whole = clone(model).fit(bags, y).kernel_.bandwidth
    monkeypatch.setattr(training, "LEARNING_POINTS", 600)
    few = clone(model).fit(bags, y).kernel_.bandwidth
    assert np.all(few != whole)
    np.testing.assert_allclose(few, whole, rtol=0.5)


def test_kernels_that_are_given_stay():
    for kernel in (RBF(0.8), RBF([0.8, 1.5]) + Matern32(2.0, variance=0.5)):
        model, _, _ = fitted(kernel=kernel, method="optimize")
        np.testing.assert_array_equal(model.kernel_.log_parameters, kernel.log_parameters)
    median, bags, _ = fitted(kernel="rbf", method="optimize")
    assert median.kernel_.bandwidth == RBF().resolved(bags, seed=1).bandwidth
