"""Effects of bags: counts that vary more than the points explain."""

import warnings

import numpy as np
import pytest
from builders.rates import TRIALS, country, fitted, labels, sums, surface, with_effects, with_trials
from builders.totals import MODELS, RATES

import bdr_stan
from bdr_stan import AggregateRegressor, Bags
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.kernels import RBF


@pytest.mark.parametrize(
    "likelihood, link",
    [m for m in MODELS if m[0] != "normal" and LIKELIHOODS[m[0]].bag_effects_error is None],
)
def test_bag_effects(likelihood, link):
    model, _, _ = fitted(likelihood, link, "nuts", bag_effects=True)
    posterior = model.idata["posterior"]
    assert posterior["effect"].shape == (2, 100, 30) and posterior["tau"].shape == (2, 100)
    assert "t_effect" not in posterior and model.priors().loc["tau", "prior"] == "half-normal(0, 1)"
    tau = float(posterior["tau"].mean())
    assert 0.5 * tau < float(posterior["effect"].std()) < 2 * tau
    new = country(7, seed=5)
    mean = model.predict(new, **with_trials(likelihood))
    rates = sums(new, model.predict_points(new, n_draws=10_000).mean)  # without effects
    if likelihood == "binomial":
        rates = TRIALS * rates / new.totals
    larger = np.mean(np.exp(posterior["tau"].values ** 2 / 2))  # the mean of exp(effect)
    assert abs(np.log(mean / rates).mean() - np.log(larger)) < 0.15
    assert np.all(np.abs(mean / rates - 1) > 1e-6)
    alone = model.predict(new[[5]], **with_trials(likelihood))  # whatever bags it comes with
    np.testing.assert_allclose(alone, mean[5], rtol=1e-12)


def test_training_bags_keep_their_effects():
    """The pointwise likelihood of an effect's own bag, in place of a new one's."""
    bags = country()
    y = labels(bags, "poisson", "square")
    i = int(np.argmax(y))
    y[i] *= 6
    model = AggregateRegressor("poisson", n_landmarks=6, bag_effects=True, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(bags, y, chains=2, warmup=200, draws=100)
    effect = model.idata["posterior"]["effect"].values.mean(axis=(0, 1))
    assert np.argmax(effect) == i and effect[i] > 0.7
    replicated = model.idata["posterior_predictive"]["y"].values.mean(axis=(0, 1))
    assert replicated[i] == pytest.approx(y[i], rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["exp", "square"])
def test_effects_sample_well_whatever_the_counts(link):
    """Bags of no case and of thousands: effects are known by the prior here, by the label there."""
    rng = np.random.default_rng(5)
    bags = country(100, seed=5)
    people = bags.weights * np.repeat(np.exp(rng.normal(1, 2, 100)), bags.sizes)
    bags = Bags.from_points(bags.points, sizes=bags.sizes, weights=people)
    f = 1 + surface(bags.points)  # squares say nothing of the sign of f where it comes near zero
    mean = sums(bags, RATES[link](f))
    y = rng.poisson(mean * np.exp(0.3 * rng.normal(size=100)))
    assert y.min() < 5 and y.max() > 5000
    model = AggregateRegressor("poisson", link, 20, RBF(1.0), learn_kernel=False, bag_effects=True)
    model.fit(bags, y, warmup=400, draws=400, seed=1)
    found = model.diagnostics()
    # 211 steps where all are centred at 0
    assert found["divergences"] <= 2 and found["mean_n_steps"] < 40
    assert found["max_r_hat"] < 1.05 and found["min_ess_bulk"] > 400
    low, high = np.quantile(model.result_.draws("tau"), [0.001, 0.999])
    assert low < 0.3 < high


@pytest.mark.parametrize("link", ["square", "exp"])
@pytest.mark.parametrize("method", ["laplace", "optimize"])
def test_points_of_training_bags_have_their_effects(link, method, tmp_path):
    model, bags, y = with_effects("negative binomial", link, method)
    own, average = model.predict_points(bags), model.predict_points(bags, district=False)
    ratio = bags.sums(bags.weights * own.mean) / bags.sums(bags.weights * average.mean)
    assert np.mean(ratio[1::2]) > 1.3 * np.mean(ratio[::2])
    predictive = model.predictive(bags)
    np.testing.assert_allclose(bags.sums(bags.weights * own.mean), predictive.mean, rtol=1e-6)
    np.testing.assert_allclose(predictive.mean, y, rtol=0.35, atol=3)
    again = bdr_stan.load((model.save(tmp_path / "fit.nc"), tmp_path / "fit.nc")[1])
    np.testing.assert_array_equal(again.predict_points(bags).mean, own.mean)
    # By name: some points of a bag, as an array, a column of a table, or bags of their own.
    some = bags.points[bags.offsets[3] : bags.offsets[4]]
    named = model.predict_points(some, district=["d3"] * len(some))
    np.testing.assert_allclose(named.mean, own.mean[bags.offsets[3] : bags.offsets[4]], rtol=1e-10)
    np.testing.assert_array_equal(model.predict_points(some).mean.shape, named.mean.shape)
    assert np.all((model.predict_points(some).mean < named.mean) == (ratio[3] > 1))
    part = Bags(bags.points, np.arange(len(bags.points) + 1), weights=bags.weights)
    district = np.repeat(bags.ids, bags.sizes)
    inside = model.predictive(part, district=district)
    added = bags.sums(inside.mean)
    np.testing.assert_allclose(added, predictive.mean, rtol=1e-6)
    if method != "optimize":
        lower, upper = own.interval(0.9)
        assert np.all(lower < upper)


def test_effects_by_nuts_are_those_of_training_bags():
    """Today's predictions of training bags drew new effects for them."""
    model, bags, y = with_effects("poisson", "exp", "nuts", bag_effects=True)
    np.testing.assert_allclose(model.predict(bags), y, rtol=0.35, atol=3)
    points = model.predict_points(bags)
    np.testing.assert_allclose(
        bags.sums(bags.weights * points.mean), model.predict(bags), rtol=1e-8
    )
    inside = model.predict(bags, district=False)
    assert np.corrcoef(inside, y)[0, 1] < np.corrcoef(model.predict(bags), y)[0, 1]


def test_bags_of_the_same_id_and_other_points_are_new():
    model, bags, _ = with_effects("negative binomial", "square", "laplace")
    later = Bags(bags.points + 0.1, bags.offsets, weights=bags.weights, ids=bags.ids)
    new = model.predictive(later, district=False)
    np.testing.assert_array_equal(model.predictive(later).mean, new.mean)
    known = model.predictive(later, district=bags.ids)
    effects = known.mean / new.mean
    assert np.mean(effects[1::2]) > 1.3 * np.mean(effects[::2])
