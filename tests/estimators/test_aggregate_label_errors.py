"""AggregateRegressor with known errors of normal totals: margins of error."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import AggregateRegressor, Bags, Matern32, load
from bdr_stan.kernels import HilbertSpace, LinearEffects


def districts(seed, n=300):
    """Averages of districts whose rates differ, with errors of known size."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 40, n)
    bag = np.repeat(np.arange(n), sizes)
    x = rng.normal(rng.uniform(-2, 2, n)[bag], 0.5)
    rate = 2 + np.sin(1.5 * x) + (0.4 * rng.normal(size=n))[bag]
    sd = pd.Series(rng.uniform(0.1, 1.0, n), [f"d{k:03}" for k in range(n)], name="error")
    points = pd.DataFrame({"x": x, "people": (1 / sizes)[bag], "district": sd.index[bag]})
    points["error"] = points["district"].map(sd)
    outcome = points["people"] * (rate + 0.3 * rng.normal(size=len(x)))
    y = outcome.groupby(points["district"]).sum() + sd * rng.normal(size=n)
    bags = Bags.from_dataframe(points, "district", ["x"], weight="people", metadata=["error"])
    return bags, y.sample(frac=1, random_state=1), sd, rate


def model_of(**given):
    return AggregateRegressor("normal", n_landmarks=15, **given)


def test_intervals_hold_what_they_say():
    """And far less where errors are taken for differences between districts."""
    coverage, error = [], []
    for seed in range(3):
        bags, y, sd, rate = districts(seed)
        model = model_of(bag_effects=True, method="laplace")
        for known in (sd.sample(frac=1, random_state=2), None):
            points = model.fit(bags, y, label_sd=known, seed=1).predict_points(bags)
            lower, upper = points.interval(0.95)
            coverage.append(np.mean((lower <= rate) & (rate <= upper)))
            error.append(np.sqrt(np.mean((points.mean - rate) ** 2)))
    assert 0.92 < np.mean(coverage[::2]) < 0.98
    assert np.mean(coverage[1::2]) < 0.85
    assert np.mean(error[::2]) < 0.7 * np.mean(error[1::2])


@pytest.fixture(scope="module")
def small():
    return districts(5, n=40)


def test_a_column_of_the_metadata_and_a_series_are_the_same(small, tmp_path):
    bags, y, sd, _ = small
    fits = [
        model_of(method="vb").fit(bags, y, label_sd=given, seed=1)
        for given in ("error", sd[::-1], sd.to_numpy())
    ]
    first = fits[0].predict(bags)
    for other in fits[1:]:
        np.testing.assert_array_equal(other.predict(bags), first)
    constant = fits[0].idata.constant_data["label_sd"]
    np.testing.assert_allclose(constant, sd)
    fits[0].save(tmp_path / "fit.bdr")
    np.testing.assert_array_equal(load(tmp_path / "fit.bdr").predict(bags), first)


def test_predictions_are_of_totals_without_the_error(small):
    bags, y, sd, _ = small
    model = model_of(method="vb").fit(bags, y, label_sd=sd, seed=1)
    replicated = model.idata.posterior_predictive["y"].values[0]
    gain = np.sqrt(np.mean(replicated.var(axis=0) - model.predictive(bags).sd ** 2))
    assert gain == pytest.approx(np.sqrt(np.mean(sd**2)), rel=0.15)


def test_errors_of_one_size_are_noise():
    """Weights of 1 / N and bags of one size: the variance of the errors adds to that of noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(rng.uniform(-2, 2, 100)[:, None], 0.5, (100, 10))
    y = np.sin(x).mean(axis=1) + 0.3 * rng.normal(size=100)
    bags = Bags.from_list(list(x[:, :, None]), weights=[np.full(10, 0.1)] * 100)
    options = {"learn_kernel": False, "method": "optimize"}
    alone = model_of(**options).fit(bags, y, seed=1)
    known = model_of(**options).fit(bags, y, label_sd=np.full(100, 0.2), seed=1)
    variances = [m.result_.draws("sigma")[0] ** 2 / 10 for m in (alone, known)]
    assert variances[1] == pytest.approx(variances[0] - 0.2**2, abs=0.006)
    np.testing.assert_allclose(known.predict(bags), alone.predict(bags), atol=0.02)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"label_sd": np.zeros(40)}, ValueError, r"label_sd of bag 0 \(id 'd000'\) is 0 \(40 in"),
        ({"label_sd": np.ones(39)}, ValueError, "label_sd has shape"),
        ({"label_sd": "margin"}, ValueError, "margin"),
        ({"label_sd": np.full(40, 50.0)}, ValueError, "explain all differences"),
    ],
)
def test_what_a_fit_refuses(small, given, error, message):
    bags, y, *_ = small
    with pytest.raises(error, match=message):
        model_of().fit(bags, y, **given)


@pytest.mark.parametrize(
    "likelihood, options, message",
    [
        ("poisson", {}, "the poisson likelihood has no scale that label_sd could add to"),
        ("exponential", {}, "the exponential likelihood has no scale"),
        ("gamma", {"method": "vb"}, "method='vb' takes label_sd only with link 'identity'"),
    ],
)
def test_others_take_no_such_errors(small, likelihood, options, message):
    bags, y, sd, _ = small
    with pytest.raises(TypeError, match=message):
        AggregateRegressor(likelihood, **options).fit(bags, np.ceil(y - y.min() + 1), label_sd=sd)


def estimated_totals(seed, likelihood, n=300):
    """Totals of districts whose rates differ, estimated with relative errors of 5 to 80%."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 40, n)
    x = rng.normal(np.repeat(rng.uniform(-2, 2, n), sizes), 0.5)
    bags = Bags(x[:, None], np.append(0, np.cumsum(sizes)), weights=np.full(len(x), 20.0))
    rate = np.exp(np.sin(1.5 * x) + np.repeat(0.2 * rng.normal(size=n), sizes))
    error = rng.uniform(0.05, 0.8, n)
    y = bags.sums(20 * rate) * rng.gamma(error**-2, error**2)
    y = rng.poisson(y) if likelihood == "negative binomial" else y
    return bags, y, error * np.maximum(y, 1), rate


@pytest.mark.parametrize("likelihood, link", [("negative binomial", "exp"), ("gamma", "square")])
def test_intervals_of_counts_and_positive_totals_hold_what_they_say(likelihood, link):
    """And the rates are better than where all totals count alike."""
    coverage, error = [], []
    for seed in range(2):
        bags, y, sd, rate = estimated_totals(seed, likelihood)
        model = AggregateRegressor(likelihood, link, n_landmarks=10, method="laplace")
        expected = bags.sums(20 * rate)
        for known in (sd, None):
            predictive = model.fit(bags, y, label_sd=known, seed=1).predictive(bags, district=False)
            lower, upper = predictive.interval(0.95)
            coverage.append(np.mean((lower <= expected) & (expected <= upper)))
            rates = bags.sums(20 * model.predict_points(bags, district=False).mean)
            error.append(np.mean(np.log(rates / expected) ** 2))
    assert 0.92 < np.mean(coverage[::2]) < 0.98
    assert np.mean(coverage[1::2]) > 0.995  # errors pass for differences between districts
    assert np.mean(error[::2]) < np.mean(error[1::2])


def test_reporting_of_a_province_is_learned_where_it_meets_another():
    """Rates of complete reporting are predicted with the province's column at 0."""
    rng, share = np.random.default_rng(0), 0.4
    x, district = np.sort(rng.uniform(0, 10, 1000)), np.repeat(np.arange(100), 10)
    rate = np.exp(np.sin(x))
    points = pd.DataFrame({"x": x, "incomplete": (x < 5.0).astype(float)})
    bags = Bags.from_points(
        points.to_numpy(), bag=district, weights=np.full(1000, 20.0), features=list(points)
    )
    reported = np.where(points["incomplete"] == 1, share, 1.0)
    y = rng.poisson(bags.sums(20 * rate * reported))
    kernel = HilbertSpace(Matern32(columns=["x"]), n_functions=60)
    kernel += LinearEffects(columns=["incomplete"])
    model = AggregateRegressor("poisson", "exp", kernel=kernel, method="laplace")
    model.fit(bags, y, draws=400, seed=1)
    complete = model.predict_points(points.assign(incomplete=0.0))
    shares = model.predict_points(points).draws([0]) / complete.draws([0])
    low, high = np.quantile(shares, [0.025, 0.975])
    assert 0.15 < low < share < high < 0.8
    low, high = complete.interval(0.95)
    assert np.mean((low < rate) & (rate < high)) > 0.9


def test_effects_are_of_districts_not_of_errors():
    """Given its label, a district's effect is as far from 0 as its error is small."""
    bags, y, sd, _ = estimated_totals(3, "negative binomial")
    model = AggregateRegressor(link="exp", n_landmarks=10, method="laplace")
    model.fit(bags, y, label_sd=sd, seed=1)
    effect = model.idata.posterior_predictive["effect"].values[0]
    dispersion = np.median(model.result_.draws("dispersion"))
    np.testing.assert_allclose(np.sqrt(np.mean(effect**2)), dispersion, rtol=0.15)
    known = sd / np.maximum(y, sd) < 0.15
    assert effect[:, known].mean(axis=0).std() > 1.5 * effect[:, ~known].mean(axis=0).std()
    assert model.idata.constant_data["relative_label_sd"].shape == (len(y),)


def test_bounds_need_totals_without_errors(small):
    bags, y, sd, _ = small
    model = model_of(method="vb").fit(bags, y, label_sd=sd, seed=1)
    with pytest.raises(ValueError, match="totals without errors"):
        model.bounds(bags, y, bags.where(x=lambda x: x > 0))
