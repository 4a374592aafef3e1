"""Estimators whose labels have noise of size, or known standard errors."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_predict

import bdr_stan
from bdr_stan import BDR, BLR, Bags, InverseBDR, Shrinkage, Stacked

MODELS = {
    "BLR, exact": BLR(6, method="exact"),
    "BLR, laplace": BLR(6, method="laplace"),
    "BDR, laplace": BDR(6, method="laplace"),
    "Shrinkage": Shrinkage(6),
    "InverseBDR, laplace": InverseBDR(6, method="laplace"),
}
pytestmark = pytest.mark.filterwarnings("ignore:Pareto k-hat")
of_each = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def problem():
    """Bags of 2 to 300 points, labels that are averages over them, standard errors of these."""
    rng = np.random.default_rng(7)
    n = 120
    sizes, centres = rng.choice([2, 10, 300], n), rng.normal(size=n)
    label_sd = rng.choice([0.05, 0.4], n)
    points = np.repeat(centres, sizes)[:, None] + rng.normal(size=(sizes.sum(), 1))
    y = rng.normal(3 + centres, np.sqrt(0.1**2 + 1.5**2 / sizes + label_sd**2))
    bags = Bags.from_points(points, sizes=sizes, metadata=pd.DataFrame({"se": label_sd}))
    return bags, y, label_sd


def fit(name, bags, y, *, label_sd=None, **parameters):
    model = clone(MODELS[name]).set_params(**parameters)
    return model.fit(bags, y, label_sd=label_sd, draws=200, seed=1)


@pytest.fixture(scope="module")
def inverse(problem):
    """An inverse model of averages over points."""
    return fit("InverseBDR, laplace", *problem[:2], label_noise="size")


@pytest.mark.parametrize("name", ["BLR, exact", "BLR, laplace"])
def test_noise_of_new_labels_is_that_of_their_size(name, problem):
    """A bag whose points come five times has the same embedding, and a fifth of this noise."""
    model = fit(name, *problem[:2], label_noise="size")
    points = np.array([[-0.4], [0.9]])
    once, five_times = (model.predictive([np.tile(points, (k, 1))]) for k in (1, 5))
    assert once.mean == pytest.approx(five_times.mean, rel=1e-10)
    less = np.mean(model.result_.draws("sigma_point") ** 2) * (1 / 2 - 1 / 10)
    assert once.sd**2 - five_times.sd**2 == pytest.approx(less, rel=1e-8)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "InverseBDR, laplace"])
def test_small_bags_get_wider_predictions(name, problem):
    bags, y, _ = problem
    sds = [fit(name, bags, y, label_noise=noise).predictive(bags).sd for noise in
           ("constant", "size")]  # fmt: skip
    small, large = bags.sizes == 2, bags.sizes == 300
    assert sds[1][small].min() > sds[0][small].max()
    assert sds[1][large].max() < sds[0][large].min()


@of_each
def test_label_sd_by_column_or_numbers_and_of_features(name, problem):
    bags, y, label_sd = problem
    by_column = fit(name, bags, y, label_sd="se")
    by_numbers = fit(name, bags, y, label_sd=label_sd)
    model = clone(MODELS[name])
    training = model.training_features(bags, seed=1)
    of_features = model.fit_features(training, y, label_sd=list(label_sd), draws=200, seed=1)
    expected = by_column.predictive(bags).interval()
    for other in (by_numbers, of_features):
        np.testing.assert_array_equal(other.predictive(bags).interval(), expected)
    np.testing.assert_array_equal(by_column.idata["constant_data"]["label_sd"], label_sd)
    assert not np.array_equal(fit(name, bags, y).predictive(bags).interval(), expected)


def test_known_errors_count_for_training_labels_but_not_for_new_ones(problem):
    bags, y, label_sd = problem
    model = fit("BLR, laplace", bags, y, label_sd=label_sd)
    mean, sd = model.predictive(bags).components(np.arange(len(y)))
    expected = stats.norm.logpdf(y, mean, np.sqrt(sd**2 + label_sd**2))
    found = model.idata["log_likelihood"]["y"].values[0]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    # Noise of labels is what is not explained by their errors.
    ignored = fit("BLR, laplace", bags, y)
    assert model.summary(["sigma"])["mean"].item() < ignored.summary(["sigma"])["mean"].item()


def test_tiny_known_errors_change_nothing(problem):
    bags, y, _ = problem
    found = fit("BLR, exact", bags, y, label_sd=np.full(120, 1e-7)).predictive(bags)
    expected = fit("BLR, exact", bags, y).predictive(bags)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.sd, expected.sd, rtol=1e-6)


def test_priors_have_the_noise_of_one_point(problem):
    bags, y, _ = problem
    model = fit("BLR, exact", bags, y, label_noise="size")
    scale = model.priors(as_table=False)["sigma_point_scale"]
    assert model.priors().loc["sigma_point", "prior"] == f"half-normal(0, {scale:.4g})"
    held = fit("BDR, laplace", bags, y, label_noise="size", prior={"sigma_point_scale": 1e-3})
    assert held.priors(as_table=False)["sigma_point_scale"] == 1e-3
    assert np.median(held.result_.draws("sigma_point")) < 0.01
    assert "sigma_point" not in fit("BLR, exact", bags, y).priors().index


@of_each
def test_files_keep_both(name, problem, tmp_path):
    bags, y, _ = problem
    model = fit(name, bags, y, label_sd="se", label_noise="size")
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    assert again.label_noise == "size"
    np.testing.assert_array_equal(
        again.predictive(bags).interval(), model.predictive(bags).interval()
    )


def test_stacks_pass_known_errors_on(problem):
    bags, y, label_sd = problem
    models = [
        BLR(6, method="exact"),
        BDR(6, method="laplace", label_noise="size"),
        InverseBDR(6, method="laplace"),
    ]
    stack = Stacked(models).fit(bags, y, label_sd="se", draws=200, seed=1)
    for model in stack.models_:
        np.testing.assert_array_equal(model.result_.constants["label_sd"], label_sd)


def test_scikit_learn_hands_each_fold_its_own_errors(problem):
    bags, y, label_sd = problem
    model = BLR(6, method="exact", random_state=1)
    found = cross_val_predict(model, bags, y, cv=3, params={"label_sd": label_sd})
    first = np.arange(120) < 40
    by_hand = clone(model).fit(bags[~first], y[~first], label_sd=label_sd[~first])
    np.testing.assert_allclose(found[first], by_hand.predict(bags[first]), rtol=1e-10)


def test_known_standard_errors_are_routed(problem):
    bags, y, label_sd = problem
    plain = BLR(6, method="exact", random_state=1)
    cv, params = KFold(3), {"label_sd": label_sd, "seed": 1, "draws": 200}
    for model in (plain, Stacked([plain, plain])):
        expected = cross_val_predict(model, bags, y, cv=cv, params=params)
        with config_context(enable_metadata_routing=True):
            routed = clone(model).set_fit_request(label_sd=True, seed=True, draws=True)
            found = cross_val_predict(routed, bags, y, cv=cv, params=params)
        np.testing.assert_array_equal(found, expected)
        unlike = cross_val_predict(model, bags, y, cv=cv, params={"seed": 1, "draws": 200})
        assert np.abs(unlike - found).max() > 1e-3


# ---------------------------------------------------------------- inverse models


def test_inverse_models_know_the_noise_of_one_point(inverse, problem):
    bags, y, _ = problem
    assert inverse.sigma_point_ == pytest.approx(1.5, rel=0.5)
    assert float(inverse.idata["constant_data"]["sigma_point"]) == inverse.sigma_point_
    scale = inverse.priors(as_table=False)["sigma_point_scale"]
    assert inverse.priors().loc["sigma_point", "prior"] == f"half-normal(0, {scale:.4g})"
    small = {"sigma_point_scale": 1e-3}
    held = fit("InverseBDR, laplace", bags[:60], y[:60], label_noise="size", prior=small)
    assert held.sigma_point_ < 0.01
    constant = fit("InverseBDR, laplace", bags[:60], y[:60])
    assert not hasattr(constant, "sigma_point_") and "sigma_point" not in constant.priors().index


def test_noise_of_one_point_widens_inverse_predictions_by_size(inverse, problem):
    bags, _, _ = problem
    plain = copy(inverse)
    plain.coordinates_ = replace(inverse.coordinates_, sigma_point=None)
    found, without = (model.predictive(bags) for model in (inverse, plain))
    np.testing.assert_allclose(found.mean, without.mean, rtol=1e-10)
    expected = inverse.sigma_point_**2 / bags.sizes
    np.testing.assert_allclose(found.sd**2 - without.sd**2, expected, rtol=1e-8)


def test_bounds_of_inverse_models_are_of_labels_without_noise(problem):
    bags, y, _ = problem
    bounds = (np.quantile(y, 0.02), None)
    with pytest.raises(ValueError, match="widen the bounds, or leave these bags out"):
        fit("InverseBDR, laplace", bags, y, bounds=bounds)
    model = fit("InverseBDR, laplace", bags, y, bounds=bounds, label_noise="size")
    predictive, small = model.predictive(bags), bags.sizes == 2
    lower, _ = predictive.interval(0.999)
    assert predictive.mean.min() > bounds[0] and lower[small].min() < bounds[0] - 1
    assert np.isfinite(predictive.log_prob(y)).all() and np.isfinite(model.held_out_).all()


def test_known_errors_are_in_drawn_training_labels_of_inverse_models_but_not_in_new_ones(problem):
    bags, y, _ = problem
    model = fit("InverseBDR, laplace", bags, y, label_sd=np.full(120, 0.8))
    drawn = model.idata["posterior_predictive"]["y"].values[0].std(axis=0)
    new = model.predictive(bags).sd
    expected = np.sqrt(np.mean(new**2) + 0.8**2)
    assert np.sqrt(np.mean(drawn**2)) == pytest.approx(expected, rel=0.05)
