"""Rates inside bags, as a user meets them: fits, predictions and files."""

import numpy as np
import pandas as pd
import pytest
from builders.rates import EVERY, TRIALS, country, fitted, labels, sums, surface, with_trials
from builders.totals import RATES
from sklearn.base import clone

import bdr_stan
from bdr_stan import AggregateRegressor, Bags
from bdr_stan.aggregate.likelihoods import LIKELIHOODS

METHODS = AggregateRegressor.methods


@EVERY
@pytest.mark.parametrize("method", METHODS)
def test_every_likelihood_link_and_method(likelihood, link, method):
    if (likelihood, method) == ("binomial", "vb"):
        with pytest.raises(ValueError, match="method='vb' has no bound for the binomial"):
            fitted(likelihood, link, method)
        return
    model, bags, _ = fitted(likelihood, link, method)
    truth = RATES[link](surface(bags.points))
    rates = model.predict_points(bags, district=False)
    assert rates.mean.shape == (len(bags.points),)
    assert np.corrcoef(rates.mean, truth)[0, 1] > 0.7
    pointwise = ("posterior_predictive", *(["log_likelihood"] if method != "optimize" else []))
    for group in ("observed_data", "constant_data", *pointwise):
        assert model.idata[group].sizes["bag"] == len(bags)
    posterior = model.idata["posterior"]
    assert posterior["w"].shape[2:] == posterior["beta"].shape[2:] == (8,)
    n_draws = {"nuts": (2, 100), "optimize": (1, 1)}.get(method, (1, 100))
    assert posterior["intercept"].shape == n_draws
    own = set(LIKELIHOODS[likelihood].scales)
    assert {"sigma", "dispersion"} & set(posterior) == own
    assert isinstance(model.report(), str) and len(model.report()) > 10
    assert set(model.priors().index) == {"intercept", "rho"} | own
    assert np.isfinite(model.bound_ if method == "vb" else model.log_evidence_)


@EVERY
def test_bag_means_are_sums_of_points_rates(likelihood, link):
    model, _, _ = fitted(likelihood, link)
    bags = country(7, seed=5)
    rates = model.predict_points(bags, n_draws=10_000)
    expected = sums(bags, rates.mean)
    if likelihood == "binomial":
        expected = TRIALS * expected / bags.totals
    trials = with_trials(likelihood)
    np.testing.assert_allclose(model.predict(bags, **trials), expected, rtol=1e-8)
    mean, sd = model.predict(bags, **trials, return_std=True)
    predictive = model.predictive(bags, **trials)
    np.testing.assert_array_equal(mean, predictive.mean)
    np.testing.assert_array_equal(sd, predictive.sd)
    low, high = predictive.interval(0.9)
    assert np.all(low <= high) and predictive.sample(5, seed=1).shape == (5, 7)
    assert np.isfinite(predictive.log_prob(labels(bags, likelihood, link))).all()


@EVERY
def test_files_keep_the_fit(likelihood, link, tmp_path):
    model, bags, _ = fitted(likelihood, link, landmarks="random", kernel="matern32")
    model.save(tmp_path / "fit.nc", notes={"source": "here"})
    trials = with_trials(likelihood)
    for again in (AggregateRegressor.load(tmp_path / "fit.nc"), bdr_stan.load(tmp_path / "fit.nc")):
        assert again.get_params() == model.get_params() and again.notes_ == {"source": "here"}
        np.testing.assert_array_equal(again.predict(bags, **trials), model.predict(bags, **trials))
        one, other = (m.predict_points(bags.points[:9]) for m in (again, model))
        np.testing.assert_array_equal(one.quantile([0.1, 0.9]), other.quantile([0.1, 0.9]))
        assert again.priors().equals(model.priors())


def test_same_seed_same_fit_and_input_is_left_alone():
    bags = country()
    points, weights = bags.points.copy(), bags.weights.copy()
    one, _, y = fitted(bags=bags, learn_kernel=True, method="vb")
    other = clone(one).fit(bags, y, seed=1, draws=100)
    np.testing.assert_array_equal(one.predict(bags), other.predict(bags))
    np.testing.assert_array_equal(bags.points, points)
    np.testing.assert_array_equal(bags.weights, weights)


def test_order_and_chunks_of_bags_do_not_matter():
    model, bags, y = fitted(landmarks=country().points[::30], method="optimize")
    order = np.random.default_rng(0).permutation(len(bags))
    again = clone(model).fit(bags[order], y[order], seed=1)
    np.testing.assert_allclose(again.predict(bags), model.predict(bags), rtol=1e-4)
    whole = model.predict(bags)
    np.testing.assert_allclose(model.predict(bags[order]), whole[order], rtol=1e-10)
    np.testing.assert_allclose(model.predict(bags[4:6]), whole[4:6], rtol=1e-10)


def test_bags_without_weights_are_lists_of_points():
    bags = country()
    counted = Bags(bags.points, bags.offsets, weights=np.ones(len(bags.points)))
    y = labels(counted, "poisson", "square")
    model = AggregateRegressor(n_landmarks=6, method="optimize", random_state=3)
    one = clone(model).fit(counted, y)
    other = clone(model).fit([np.array(bag) for bag in bags], y)
    np.testing.assert_allclose(one.predict(counted), other.predict(list(bags)), rtol=1e-10)
    with_zeros = Bags.from_list(
        [np.vstack([bag, [[0.5, 0.5]]]) for bag in bags],
        weights=[np.r_[np.ones(len(bag)), 0] for bag in bags],
    )
    np.testing.assert_allclose(one.predict(with_zeros), one.predict(counted), rtol=1e-10)


@pytest.mark.parametrize(
    "likelihood, link", [("poisson", "exp"), ("binomial", "logit"), ("poisson", "square")]
)
def test_points_of_tables_and_memory_maps(likelihood, link, tmp_path):
    bags = country()
    owner = np.repeat([f"district {i:02d}" for i in range(len(bags))], bags.sizes)
    table = pd.DataFrame(bags.points, columns=["rain", "height"])
    table = table.assign(people=bags.weights, district=owner, note="dry")
    named = Bags.from_dataframe(table, bag="district", weight="people", features=["rain", "height"])
    model, _, _ = fitted(likelihood, link, bags=named)
    plain, _, _ = fitted(likelihood, link, bags=bags)
    assert list(model.feature_names_in_) == ["rain", "height"]
    assert list(model.idata["observed_data"]["bag"].values[:2]) == ["district 00", "district 01"]
    expected = plain.predict_points(bags.points).mean
    np.testing.assert_array_equal(
        model.predict_points(table[["people", "height", "rain"]]).mean, expected
    )
    np.save(tmp_path / "points.npy", bags.points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    np.testing.assert_array_equal(model.predict_points(mapped).mean, expected)
    of_file = Bags(mapped, bags.offsets, weights=bags.weights)
    trials = with_trials(likelihood)
    again, _, _ = fitted(likelihood, link, bags=of_file)
    np.testing.assert_array_equal(again.predict(of_file, **trials), plain.predict(bags, **trials))


def test_priors_are_on_the_scale_of_the_data():
    model, bags, y = fitted("negative binomial", "square")
    numbers = model.priors(as_table=False)
    rate = y.sum() / bags.weights.sum()
    assert numbers["intercept_location"] == pytest.approx(np.sqrt(rate))
    assert numbers["intercept_scale"] == pytest.approx(np.sqrt(rate) / 3)
    table = model.priors()
    assert list(table.index) == ["intercept", "rho", "dispersion"]
    assert table.loc["dispersion", "prior"] == "half-normal(0, 1)"
    own, _, _ = fitted("negative binomial", "square", prior={"dispersion_scale": 0.2})
    assert own.priors().loc["dispersion", "prior"] == "half-normal(0, 0.2)"
    exp, _, _ = fitted("poisson", "exp")
    numbers = exp.priors(as_table=False)
    assert numbers["intercept_location"] == pytest.approx(
        np.log(labels(bags, "poisson", "exp").sum() / bags.weights.sum())
    )


@pytest.mark.parametrize("unit", [1e-3, 1e4])
@pytest.mark.parametrize("link", ["square", "exp"])
def test_the_unit_of_weights_is_that_of_rates(link, unit):
    """People or thousands of people: the same totals, rates per person or per thousand."""
    bags = country()
    scaled = Bags(bags.points, bags.offsets, weights=unit * bags.weights)
    y = labels(bags, "poisson", link)
    model = AggregateRegressor(link=link, n_landmarks=6, method="vb", random_state=1)
    one, other = clone(model).fit(bags, y, draws=100), clone(model).fit(scaled, y, draws=100)
    np.testing.assert_allclose(other.predict(scaled), one.predict(bags), rtol=0.02)
    at = bags.points[::20]
    np.testing.assert_allclose(
        unit * other.predict_points(at).mean, one.predict_points(at).mean, rtol=0.03
    )


def test_counts_are_negative_binomial_by_default():
    assert AggregateRegressor().likelihood == "negative_binomial"
    model = AggregateRegressor(n_landmarks=6, method="optimize")
    model.fit(country(), np.arange(30), seed=1)
    assert "dispersion_scale" in model.priors(as_table=False)
