"""Rates inside bags, as a user meets them: fits, predictions, files, and what is refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from builders.totals import MODELS, RATES
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.pipeline import Pipeline

import bdr_stan
from bdr_stan import AggregateRegressor, Bags, SpatialBlocks
from bdr_stan.aggregate import training
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.rows import with_ones
from bdr_stan.kernels import RBF, Matern32
from bdr_stan.metrics import mse

EVERY = pytest.mark.parametrize("likelihood, link", MODELS)
METHODS = AggregateRegressor.methods
SHORT = {"chains": 2, "warmup": 150, "draws": 100, "seed": 1}
TRIALS = 200


def surface(points):
    """The function whose link is the rate; the second column does not matter."""
    return 1.5 + 0.8 * np.sin(1.5 * points[:, 0])


def country(n=30, size=10, seed=1, n_features=2):
    """Bags of weighted points around centres of their own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, n)
    centres = rng.uniform(-2, 2, (n, n_features))
    points = np.repeat(centres, sizes, axis=0) + 0.3 * rng.normal(size=(sizes.sum(), n_features))
    weights = rng.gamma(2, 1, len(points))
    return Bags.from_points(points, sizes=sizes, weights=weights)


def sums(bags, values):
    """sum_j p_j values_j of each bag."""
    return np.array(
        [p @ v for p, v in zip(*(np.split(x, bags.offsets[1:-1]) for x in (bags.weights, values)))]
    )


def labels(bags, likelihood, link, seed=2, f=surface):
    rng = np.random.default_rng(seed)
    mean = sums(bags, RATES[link](f(bags.points)))
    if likelihood == "normal":
        return mean + 0.2 * np.sqrt(sums(bags, bags.weights)) * rng.normal(size=len(bags))
    if likelihood == "exponential":
        return rng.exponential(mean)
    if likelihood == "gamma":
        return rng.gamma(1 / 0.3**2, 0.3**2 * mean)
    if likelihood == "binomial":
        return rng.binomial(TRIALS, mean / bags.totals)
    effect = rng.gamma(1 / 0.3**2, 0.3**2, len(bags)) if likelihood == "negative binomial" else 1
    return rng.poisson(mean * effect)


def with_trials(likelihood, n=None):
    return {"trials": np.full(n, TRIALS) if n else TRIALS} if likelihood == "binomial" else {}


def fitted(likelihood="poisson", link=None, method="laplace", *, bags=None, fit=None, **options):
    """A small model, its bags and their labels."""
    bags = country() if bags is None else bags
    y = labels(bags, likelihood, link or LIKELIHOODS[likelihood].links[0])
    options = {"n_landmarks": 8, "kernel": RBF(1.0), "learn_kernel": False, **options}
    model = AggregateRegressor(likelihood, link, method=method, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains mix badly, and say so
        model.fit(bags, y, **with_trials(likelihood, len(bags)), **{**SHORT, **(fit or {})})
    return model, bags, y


# ---------------------------------------------------------------- fits


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
    assert np.corrcoef(rates.mean, truth)[0, 1] > (0.3 if likelihood == "exponential" else 0.8)
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
    models = [fitted(likelihood, link, bags=bags, **options)[0] for bags in (alone, both)]

    def of_points(west, east):
        at = np.column_stack([rng.uniform(west, east, 200), rng.uniform(-2, 2, 200)])
        rates, truth = [model.predict_points(at) for model in models], RATES[link](surface(at))
        narrower = np.median(rates[1].sd / rates[0].sd)
        errors = [np.mean(np.abs(rate.mean - truth)) for rate in rates]
        return narrower, errors[1] / errors[0]

    narrower, nearer = of_points(0.7, 1.8)
    assert narrower < 0.5 and nearer < 0.9
    narrower, _ = of_points(-1.8, -0.7)  # far from them they tell next to nothing
    assert 0.8 < narrower < 1.2


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


def test_landmarks_one_per_bag():
    model, bags, _ = fitted(landmarks="one per bag", n_landmarks=None, method="optimize")
    assert model.landmarks_.shape == (30, 2)
    for landmark, bag in zip(model.landmarks_, bags, strict=True):
        assert np.any(np.all(landmark == bag, axis=1))


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


# ---------------------------------------------------------------- effects and thinning


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
    np.testing.assert_allclose(mean, rates, rtol=0.5)
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


@pytest.mark.parametrize("likelihood, link", [("poisson", "exp"), ("binomial", "logit")])
def test_thinning_and_its_error(likelihood, link, tmp_path):
    models = [
        fitted(likelihood, link, thin=thin, fit={"draws": 40})[0] for thin in (2, 5, 100)
    ]  # bags have up to 19 points
    errors = [np.abs(model.thinning_error_) for model in models]
    assert errors[0].shape == (20, 30)
    assert errors[0].max() > errors[1].max() > 0.001
    np.testing.assert_allclose(errors[2], 0, atol=1e-10)
    bags = country(7, seed=5)
    trials = with_trials(likelihood)
    exact = fitted(likelihood, link, fit={"draws": 40})[0].predict(bags, **trials)
    np.testing.assert_allclose(models[2].predict(bags, **trials), exact, rtol=1e-8)
    np.testing.assert_allclose(models[1].predict(bags, **trials), exact, rtol=0.05)
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


# ---------------------------------------------------------------- kernels that are learned


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
    of_default, of_one = (mse(truth, fit.predict_points(bags).mean) for fit in (default, one))
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


# ---------------------------------------------------------------- folds and searches


@pytest.fixture
def survey():
    """Bags with people asked in each, in their metadata too, and how many said yes."""
    bags = country()
    asked = np.random.default_rng(6).integers(5, 300, len(bags))
    mean = sums(bags, RATES["logit"](surface(bags.points))) / bags.totals
    y = np.random.default_rng(7).binomial(asked, mean)
    metadata = pd.DataFrame({"asked": asked})
    bags = Bags(bags.points, bags.offsets, weights=bags.weights, metadata=metadata)
    return bags, y, asked


def of_survey(**options):
    options = {"n_landmarks": 5, "kernel": RBF(1.0), "learn_kernel": False, **options}
    return AggregateRegressor("binomial", method="optimize", random_state=1, **options)


def fold_by_fold(bags, y, asked, cv):
    """Predictions of held-out bags, each fold fitted and predicted by hand."""
    predicted = np.empty(len(y))
    for train, test in cv.split(bags):
        model = of_survey().fit(bags[train], y[train], trials=asked[train])
        predicted[test] = model.predict(bags[test], trials=asked[test])
    return predicted


def test_trials_of_a_column_go_with_the_bags(survey, tmp_path):
    bags, y, asked = survey
    cv = KFold(3)
    expected = fold_by_fold(bags, y, asked, cv)
    found = cross_val_predict(of_survey(), bags, y, cv=cv, params={"trials": "asked"})
    np.testing.assert_array_equal(found, expected)
    with config_context(enable_metadata_routing=True):
        routed = of_survey().set_fit_request(trials=True)
        found = cross_val_predict(routed, bags, y, cv=cv, params={"trials": "asked"})
    np.testing.assert_array_equal(found, expected)
    search = GridSearchCV(
        of_survey(), {"n_landmarks": [3, 5]}, cv=cv, scoring="neg_mean_squared_error"
    )
    search.fit(bags, y, trials="asked")
    errors = [np.mean((y[test] - expected[test]) ** 2) for _, test in cv.split(bags)]
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(-np.mean(errors))
    model = of_survey().fit(bags, y, trials="asked")
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags, trials=asked))
    twice = model.predict(bags, trials=2 * asked)  # what a call says comes first
    np.testing.assert_allclose(twice, 2 * again.predict(bags))


def test_trials_of_a_column_of_a_table(survey):
    bags, y, asked = survey
    rows = np.repeat(np.arange(len(bags)), bags.sizes)
    table = pd.DataFrame(bags.points, columns=["rain", "height"])
    table = table.assign(people=bags.weights, district=rows, asked=asked[rows])
    named = Bags.from_dataframe(
        table, "district", ["rain", "height"], weight="people", metadata=["asked"]
    )
    model = of_survey().fit(named, y, trials="asked")
    np.testing.assert_array_equal(model.predict(table), model.predict(named, trials=asked))


def test_trials_are_routed_and_sliced_with_the_bags(survey):
    bags, y, asked = survey
    cv = SpatialBlocks(3, columns=(0, 1))
    with config_context(enable_metadata_routing=True):
        model = of_survey().set_fit_request(trials=True).set_score_request(trials=True)
        scores = cross_validate(model, bags, y, cv=cv, params={"trials": asked})["test_score"]
        predicted = fold_by_fold(bags, y, asked, cv)
        expected = [r2_score(y[test], predicted[test]) for _, test in cv.split(bags)]
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        with parallel_config("threading"):  # processes would each import everything anew
            side_by_side = cross_validate(
                model, bags, y, cv=cv, params={"trials": asked}, n_jobs=2, error_score="raise"
            )
        np.testing.assert_allclose(side_by_side["test_score"], expected, rtol=1e-12)
        grid = {"n_landmarks": [3, 5]}
        search = GridSearchCV(model, grid, cv=cv, error_score="raise").fit(bags, y, trials=asked)
        assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(expected))


def test_trials_go_through_a_pipeline(survey):
    bags, y, asked = survey
    with config_context(enable_metadata_routing=True):
        model = of_survey().set_fit_request(trials=True)
        model.set_predict_request(trials=True).set_score_request(trials=True)
        line = Pipeline([("rates", pickle.loads(pickle.dumps(model)))])  # the requests stay
        line.fit(bags, y, trials=asked)
        plain = of_survey().fit(bags, y, trials=asked)
        expected = plain.predict(bags, trials=asked)
        np.testing.assert_array_equal(line.predict(bags, trials=asked), expected)
        assert line.score(bags, y, trials=asked) == r2_score(y, expected)
    weights = np.arange(1.0, len(y) + 1)
    score = plain.score(bags, y, weights, trials=asked)
    assert score == r2_score(y, expected, sample_weight=weights)


def test_folds_without_trials_say_how_to_hand_them_on(survey):
    bags, y, asked = survey
    how = r"name of a column of the bags' metadata, or .*set_config\(enable_metadata_routing=True\)"
    with pytest.raises(ValueError, match=how):
        cross_val_predict(of_survey(), bags, y, cv=3, params={"trials": asked})
    with pytest.raises(ValueError, match=how):
        cross_validate(of_survey(), bags, y, cv=3, params={"trials": asked}, error_score="raise")
    with pytest.raises(ValueError, match="trials='people' is no column .* which have 'asked'"):
        of_survey().fit(bags, y, trials="people")


# ---------------------------------------------------------------- what is refused


def fit_with(y=None, bags=None, trials=None, fit=None, **parameters):
    bags = country() if bags is None else bags
    y = np.arange(len(bags)) if y is None else y
    AggregateRegressor(**{"n_landmarks": 5, **parameters}).fit(
        bags, y, trials=trials, **(fit or {})
    )


def changed(values, i, value):
    values = np.array(values, float)
    values[i] = value
    return values


COUNTS = np.arange(1, 31)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"likelihood": "beta"}, "likelihood must be one of 'poisson', .*found 'beta'"),
        ({"link": "log"}, "negative binomial likelihood takes the link 'square' or 'exp', found"),
        ({"likelihood": "normal", "link": "square"}, "normal likelihood takes the link 'identity'"),
        ({"likelihood": "binomial", "link": "exp"}, "binomial likelihood takes the link 'logit'"),
        ({"method": "exact"}, "AggregateRegressor has no method 'exact'; there are: .*vb"),
        ({"kernel": "gauss"}, "kernel must be a Kernel, 'auto' or one of 'rbf', .*found 'gauss'"),
        ({"y": changed(COUNTS, 3, 2.5)}, "label of bag 3 is 2.5 .* needs counts .*'normal' or"),
        ({"y": changed(COUNTS, 3, -1)}, "bag 3 is -1 .*negative binomial likelihood needs"),
        ({"y": changed(COUNTS, 3, 2.0**31)}, "label of bag 3 is 2147483648 .*up to 2147483647"),
        ({"y": changed(COUNTS, 3, np.nan)}, "label of bag 3 is nan"),
        ({"y": np.zeros(30)}, "all 30 labels are 0"),
        ({"y": COUNTS[:7]}, "y has 7 labels, but there are 30 bags"),
        ({"y": COUNTS - 1, "likelihood": "exponential"}, "bag 0 is 0 .*needs labels > 0"),
        ({"y": COUNTS - 1, "likelihood": "gamma"}, "bag 0 is 0 .*needs labels > 0"),
        ({"likelihood": "binomial"}, "the binomial likelihood needs trials, the people asked"),
        ({"likelihood": "binomial", "y": COUNTS, "trials": np.full(30, 20)},
         "label of bag 20 is 21, above its 20 trials"),
        ({"trials": COUNTS}, "trials belong to the binomial likelihood, not to 'negative"),
        ({"likelihood": "binomial", "method": "vb", "trials": COUNTS},
         "method='vb' has no bound for the binomial likelihood"),
        ({"bag_effects": True}, "the negative binomial likelihood has effects of bags already"),
        ({"bag_effects": True, "likelihood": "gamma"}, "cannot separate from an effect: leave out"),
        ({"bag_effects": True, "method": "laplace", "likelihood": "poisson"},
         "method='laplace' knows no bag_effects"),
        ({"bag_effects": True, "likelihood": "normal"}, "bag_effects go with counts"),
        ({"thin": 10}, "link 'square' needs no thinning: it is compressed without loss"),
        ({"thin": 10, "likelihood": "normal"}, "link 'identity' needs no thinning"),
        ({"thin": 0, "link": "exp"}, "thin must be an integer >= 1, found 0"),
        ({"thin": 2.5, "link": "exp"}, "thin must be an integer >= 1, found 2.5"),
        ({"method": "vb", "stan_file": "mine.stan"}, "method='vb' runs no Stan program"),
        ({"landmarks": "grid"}, "must be 'kmeans', 'random', 'one per bag' or an array"),
        ({"kernel": RBF(columns=[5])}, "RBF looks at the column 5, which the points do not have"),
        ({"kernel": RBF(columns=["rain"])}, "looks at the column 'rain', .*they have 0 to 1"),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, "bandwidth has 3 entries, but the points have 2"),
        ({"fit": {"draws": 0}}, "draws must be an integer >= 1, found 0"),
        ({"prior": {"sigma_scale": 1.0}, "learn_kernel": False},
         "prior has no number called 'sigma_scale'; this model has intercept_location"),
    ],
)  # fmt: skip
def test_what_a_fit_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_with(**{"y": COUNTS, **arguments})


@pytest.mark.parametrize("rate", [0.0, 0.7, -3.0])
def test_normal_totals_that_are_all_alike(rate):
    bags = country()
    with pytest.raises(ValueError, match=f"every label is {rate:g} times its bag's total weight"):
        fit_with(rate * bags.totals, likelihood="normal")


def test_kernels_that_are_none():
    with pytest.raises(
        ValueError, match="kernel must be a Kernel, 'auto' or one of 'rbf', .* found 3"
    ):
        fit_with(kernel=3)
    with pytest.raises(ValueError, match="RBF names the column 'rain' twice: name each once"):
        RBF(columns=["rain", "height", "rain"])


@pytest.mark.parametrize("value, said", [(np.nan, "value is nan"), (-3.4e38, "nodata marker")])
def test_missing_values(value, said, tmp_path):
    bags = country()
    points = bags.points.copy()
    points[bags.offsets[5] - 1, 1] = value
    np.save(tmp_path / "points.npy", points)
    with pytest.raises(ValueError, match=f"bag 4, point [0-9]+, column 1: .*{said}"):
        Bags(points, bags.offsets)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), bags.offsets)
    with pytest.raises(ValueError, match=f"bag 4, point [0-9]+, column 1: .*{said}"):
        fit_with(COUNTS, mapped)


def test_bags_of_no_weight():
    bags = country()
    weights = bags.weights.copy()
    weights[bags.offsets[2] : bags.offsets[3]] = 0
    with pytest.raises(ValueError, match="all weights of bag 2 are zero"):
        Bags(bags.points, bags.offsets, weights=weights)


def test_what_predictions_refuse():
    model, bags, _ = fitted("binomial")
    with pytest.raises(ValueError, match="needs trials to predict a bag's label"):
        model.predict(bags)
    with pytest.raises(ValueError, match=r"trials has shape \(2,\), but there are 30 bags"):
        model.predict(bags, trials=[5, 5])
    with pytest.raises(ValueError, match="number of trials of bag 0 is 5.5 .*whole numbers"):
        model.predict(bags, trials=5.5)
    named = Bags(bags.points, bags.offsets, weights=bags.weights, features=["rain", "height"])
    with pytest.raises(
        ValueError, match="no column 'height', which the model was fitted to; it has"
    ):
        fitted(bags=named)[0].predict_points(pd.DataFrame({"rain": [0.5], "people": [3.0]}))
    with pytest.raises(
        ValueError, match="have 3 features per point, but the model was fitted to 2"
    ):
        model.predict_points(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="n_draws must be an integer >= 1, found 0"):
        model.predict_points(bags, n_draws=0)
    with pytest.raises(ValueError, match="value is nan"):
        model.predict_points(np.full((4, 2), np.nan))


# ---------------------------------------------------------------- slow


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
        model.fit(large, y, **trials)
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
            warnings.simplefilter("ignore", UserWarning)  # Pathfinder's k-hat
            near = near.fit(large, y, **trials, draws=1000).predict_points(at)
        off, width = np.abs(near.mean - rates.mean) / rates.sd, np.median(near.sd / rates.sd)
        assert np.mean(off) < 0.3, method
        if method != "optimize":
            assert (0.6 if (method, link) == ("vb", "exp") else 0.75) < width < 1.2, method


# ---------------------------------------------------------------- effects of bags


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
    assert (
        found["divergences"] == 0 and found["mean_n_steps"] < 40
    )  # 211 where all are centred at 0
    assert found["max_r_hat"] < 1.02 and found["min_ess_bulk"] > 400
    low, high = np.quantile(model.result_.draws("tau"), [0.001, 0.999])
    assert low < 0.3 < high


# ---------------------------------------------------------------- places in training districts


def with_effects(likelihood, link, method, **options):
    """Labels of three times, or a third of, what the points let one expect, in bags with ids."""
    bags = country(30)
    bags = Bags(bags.points, bags.offsets, weights=bags.weights, ids=[f"d{i}" for i in range(30)])
    mean = sums(bags, RATES[link](surface(bags.points)))
    y = np.round(mean * np.where(np.arange(30) % 2, 3, 1 / 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AggregateRegressor(likelihood, link, 8, RBF(1.0), learn_kernel=False, method=method)
        model.set_params(**options).fit(bags, y, **SHORT)
    return model, bags, y


def test_counts_are_negative_binomial_by_default():
    assert AggregateRegressor().likelihood == "negative binomial"
    model = AggregateRegressor(n_landmarks=6, method="optimize")
    model.fit(country(), np.arange(30), seed=1)
    assert "dispersion_scale" in model.priors(as_table=False)


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


def test_districts_that_cannot_be_used():
    model, bags, _ = with_effects("negative binomial", "square", "laplace")
    with pytest.raises(ValueError, match="district 'x' of bag 1 is no bag of the fit"):
        model.predict(bags[:2], district=["d0", "x"])
    with pytest.raises(ValueError, match=r"district has shape \(1,\), but there are 2 bags"):
        model.predict(bags[:2], district=["d0"])
    with pytest.raises(ValueError, match=r"district has shape \(1,\), but there are 3 points"):
        model.predict_points(bags.points[:3], district=["d0"])
    with pytest.raises(ValueError, match="the points have no column 'region'"):
        model.predict_points(bags.points[:3], district="region")
    poisson, bags, _ = fitted()
    with pytest.raises(ValueError, match="district goes with effects of training bags, which"):
        poisson.predict(bags[:1], district=[0])


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
