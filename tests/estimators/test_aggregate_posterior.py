"""Posteriors of rates: against formulas, NUTS and simulated surfaces."""

import pickle
import warnings

import numpy as np
import pytest
from builders.rates import country, fitted, labels, sums, surface, with_trials
from builders.totals import RATES
from sklearn.base import clone

import bdr_stan
from bdr_stan import AggregateRegressor, Bags
from bdr_stan.aggregate.rows import with_ones
from bdr_stan.kernels import RBF

METHODS = AggregateRegressor.methods


def test_a_point_may_lie_in_several_bags():
    """Overlapping catchments: what one bag says of the point, all its bags take."""
    rng = np.random.default_rng(4)
    points = rng.uniform(-2, 2, (60, 2))
    members = [rng.choice(60, 12, replace=False) for _ in range(25)]
    bags = Bags.from_list(
        [points[m] for m in members], weights=[rng.gamma(2, 1, 12) for _ in members]
    )
    model, _, _ = fitted(bags=bags, method="vb")
    rates = model.predict_points(points, n_draws=10_000).mean
    expected = [p @ rates[m] for p, m in zip(np.split(bags.weights, 25), members)]
    np.testing.assert_allclose(model.predict(bags), expected, rtol=1e-8)


@pytest.mark.parametrize(
    "likelihood, link", [("poisson", "square"), ("poisson", "exp"), ("binomial", "logit")]
)
def test_points_with_labels_of_their_own_sharpen_rates_near_them(likelihood, link):
    """Forty places east of 0.5, each a bag of one point, beside twenty districts."""
    rng = np.random.default_rng(3)
    places = np.column_stack([rng.uniform(0.5, 2, 40), rng.uniform(-2, 2, 40)])
    alone = country(20)
    both = Bags.concatenate(
        [alone, Bags.from_points(places, sizes=np.ones(40, int), weights=np.full(40, 20.0))]
    )
    axis = np.linspace(-2.4, 2.4, 7)  # close enough to leave next to nothing out
    options = {"landmarks": np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)}
    options["fit"] = {"draws": 4000}
    models = [fitted(likelihood, link, bags=bags, **options)[0] for bags in (alone, both)]

    def of_points(west, east):
        at = np.column_stack([rng.uniform(west, east, 200), rng.uniform(-2, 2, 200)])
        rates, truth = [model.predict_points(at) for model in models], RATES[link](surface(at))
        narrower = np.median(rates[1].sd / rates[0].sd)
        errors = [np.mean(np.abs(rate.mean - truth)) for rate in rates]
        return narrower, errors[1] / errors[0]

    narrower, nearer = of_points(0.7, 1.8)
    assert narrower < 0.5 and nearer < 1
    narrower, _ = of_points(-1.8, -0.7)  # far from them they tell next to nothing
    assert 0.8 < narrower < 1.2


def test_normal_means_are_totals_of_weights_one_over_n():
    """A bag's mean label says of f what its total says."""
    bags = country()
    share = Bags(bags.points, bags.offsets, weights=1.0 / np.repeat(bags.sizes, bags.sizes))
    whole = Bags(bags.points, bags.offsets, weights=np.ones(len(bags.points)))
    y = labels(whole, "normal", "identity")
    model = AggregateRegressor(
        "normal", n_landmarks=6, kernel=RBF(1.0), learn_kernel=False, method="vb", random_state=1,
        prior={
            "intercept_location": 1.5, "intercept_scale": 1.0, "rho_median": 1.0, "sigma_scale": 1.0
        },
    )  # fmt: skip
    of_totals, of_means = clone(model).fit(whole, y), clone(model).fit(share, y / bags.sizes)
    at = bags.points[::20]
    np.testing.assert_allclose(
        of_means.predict_points(at).mean, of_totals.predict_points(at).mean, rtol=1e-4
    )
    np.testing.assert_allclose(
        of_means.predict(share), of_totals.predict(whole) / bags.sizes, rtol=1e-4
    )
    sd = [m.predict(b, return_std=True)[1] for m, b in ((of_means, share), (of_totals, whole))]
    np.testing.assert_allclose(sd[0], sd[1] / bags.sizes, rtol=1e-3)


def test_exact_posterior_of_normal_totals():
    """Given sigma and rho: that of a linear regression on the points' features."""
    model, bags, y = fitted("normal", method="vb", fit={"draws": 20_000})
    posterior, priors = model.idata["posterior"], model.priors(as_table=False)
    sigma, rho = (float(posterior[name][0, 0]) for name in ("sigma", "rho"))
    X = np.array(
        [
            p @ with_ones(model.feature_map_)(points)
            for p, points in zip(np.split(bags.weights, bags.offsets[1:-1]), bags)
        ]
    )
    noise = sigma**2 * sums(bags, bags.weights)
    precision = np.diag(np.r_[np.full(8, rho**-2.0), priors["intercept_scale"] ** -2.0])
    H = (X.T / noise) @ X + precision
    at = np.linalg.solve(
        H, (X.T / noise) @ y + precision @ np.r_[np.zeros(8), priors["intercept_location"]]
    )
    draws = np.column_stack([posterior["w"][0], posterior["intercept"][0]])
    sd = np.sqrt(np.diag(np.linalg.inv(H)))
    np.testing.assert_allclose((draws.mean(axis=0) - at) / sd, 0, atol=4.5 / np.sqrt(20_000))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.03)


@pytest.mark.parametrize("link", ["square", "exp"])
@pytest.mark.parametrize("method", ["laplace", "vb"])
def test_gamma_totals_are_calibrated(link, method):
    bags, new = country(120), country(300, seed=4)
    # Few landmarks would leave a part of the function to the dispersion.
    model, _, _ = fitted("gamma", link, method, bags=bags, n_landmarks=40, fit={"draws": 500})
    dispersion = model.idata["posterior"]["dispersion"]
    assert dispersion.mean() == pytest.approx(0.3, abs=0.06)  # three posterior sds
    predictive, y = model.predictive(new), labels(new, "gamma", link, seed=8)
    low, high = predictive.interval(0.8)
    assert 0.73 < np.mean((low < y) & (y < high)) < 0.87  # 0.8, three standard errors
    assert 0.41 < np.mean(predictive.cdf(y)) < 0.59
    assert f"Likelihood: gamma, link {link}; dispersion 0." in model.report()
    assert model.priors().loc["dispersion", "meaning"].endswith("variance dispersion^2 lambda^2")


@pytest.mark.parametrize("likelihood, link", [("poisson", "exp"), ("binomial", "logit")])
def test_thinning_and_its_error(likelihood, link, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models = [
            fitted(likelihood, link, thin=thin, fit={"draws": 40})[0] for thin in (2, 5, 100)
        ]  # bags have up to 19 points
    average = models[0].thinning_error_.mean()
    warned = [str(each.message) for each in caught if "thin=2 changes" in str(each.message)]
    assert len(warned) == (abs(average) > 0.02)
    assert not warned or f"by {average:+.1%} on average" in warned[0]
    errors = [np.abs(model.thinning_error_) for model in models]
    assert errors[0].shape == (20, 30)
    assert errors[0].max() > errors[1].max() > 0.001
    np.testing.assert_allclose(errors[2], 0, atol=1e-10)
    bags = country(7, seed=5)
    trials = with_trials(likelihood)
    exact = fitted(likelihood, link, fit={"draws": 40})[0].predict(bags, **trials)
    np.testing.assert_allclose(models[2].predict(bags, **trials), exact, rtol=1e-8)
    np.testing.assert_allclose(models[1].predict(bags, **trials), exact, rtol=0.2)  # 40 draws
    models[0].save(tmp_path / "fit.nc")
    kept = (bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(models[0])))
    for again in kept:
        np.testing.assert_array_equal(again.thinning_error_, models[0].thinning_error_)
    again = models[0].set_params(thin=None)
    again.fit(
        country(), labels(country(), likelihood, link), **with_trials(likelihood, 30), draws=10
    )
    assert not hasattr(again, "thinning_error_")


def test_the_mode_is_the_one_that_small_weights_lead_to():
    """A step from no weights at all ends at one where f crosses zero, of far lower evidence."""
    bags = country(100, size=15, seed=3)
    y = labels(bags, "negative binomial", "square")
    model = AggregateRegressor(
        "negative binomial", n_landmarks=15, kernel=RBF([1.0, 13.0]), learn_kernel=False
    )
    model.set_params(method="optimize").fit(bags, y, seed=1)
    truth = surface(bags.points) ** 2
    assert np.corrcoef(model.predict_points(bags, district=False).mean, truth)[0, 1] > 0.97


@pytest.fixture(scope="module")
def large():
    return country(100, size=15, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood, link",
    [
        ("poisson", "square"),
        ("poisson", "exp"),
        ("negative binomial", "square"),
        ("binomial", "logit"),
        ("normal", "identity"),
    ],
)
def test_nuts_finds_the_surface_and_approximations_come_near(large, likelihood, link):
    y, trials = labels(large, likelihood, link), with_trials(likelihood, len(large))
    model = AggregateRegressor(likelihood, link, n_landmarks=20, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # chains mix
        model.fit(large, y, **trials, warmup=500, draws=500)
    at = np.random.default_rng(8).uniform(-1.8, 1.8, (300, 2))
    truth, rates = RATES[link](surface(at)), model.predict_points(at)
    assert np.corrcoef(rates.mean, truth)[0, 1] > 0.97
    low, high = rates.interval(0.95)
    assert np.mean((low < truth) & (truth < high)) > 0.8  # points near each other are alike
    for method in METHODS[1:]:
        if (likelihood, method) == ("binomial", "vb"):
            continue
        near = clone(model).set_params(
            method=method, kernel=model.kernel_, learn_kernel=False, landmarks=model.landmarks_
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # k-hat
            near = near.fit(large, y, **trials, draws=1000).predict_points(at)
        off, width = np.abs(near.mean - rates.mean) / rates.sd, np.median(near.sd / rates.sd)
        assert np.mean(off) < 0.3, method
        if method in ("laplace", "vb"):
            assert (0.6 if (method, link) == ("vb", "exp") else 0.75) < width < 1.2, method


def test_means_beyond_their_intervals_are_told():
    """What three landmarks leave out of log rates of a large scale is far from symmetric."""
    bags = country()
    y = labels(bags, "poisson", "exp")
    large = {"rho_median": 8.0, "rho_log_sd": 0.01}
    model = AggregateRegressor("poisson", "exp", 3, RBF(0.2), learn_kernel=False, prior=large)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.set_params(method="laplace").fit(bags, y, draws=200, seed=1)
    with pytest.warns(UserWarning, match=r"mean lies above its own 95% interval at \d+% of"):
        rates = model.predict_points(bags)
    assert np.mean(rates.mean > rates.interval(0.95)[1]) > 0.5
