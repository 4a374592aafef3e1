"""Fields in rates inside bags: kernels that are sums, their parts, and what features leave out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from builders.totals import MODELS

import bdr_stan
from bdr_stan import AggregateRegressor, Bags
from bdr_stan.kernels import RBF, HilbertSpace, LinearEffects, Matern32, NormalScores, map_kernel
from bdr_stan.metrics import calibration
from data_gen.grid_country import COVARIATES, grid_country

SMALL = map_kernel(["z1", "z2"], n_functions=20)


@pytest.fixture(scope="module")
def country():
    return grid_country("bump", seed=2, side=40, n_districts=60)


@pytest.fixture(scope="module")
def model(country):
    kernel = map_kernel(COVARIATES, n_functions=60)
    return fitted(country, kernel, thin=15, learn_kernel=True)


def fitted(country, kernel, method="laplace", **options):
    model = AggregateRegressor(link="exp", kernel=kernel, n_landmarks=6, method=method)
    model.set_params(**{"learn_kernel": False, "random_state": 1, **options})
    short = {"nuts": {"chains": 2, "warmup": 150, "draws": 100}}.get(method, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains mix badly, and say so
        return model.fit(country.bags, country.y, **short)


@pytest.mark.parametrize("likelihood, link", MODELS)
def test_every_likelihood_and_link_takes_fields(country, likelihood, link):
    bags = country.bags[:25]
    y = country.y[:25]
    trials = {"trials": 2 * country.y[:25]} if likelihood == "binomial" else {}
    model = AggregateRegressor(likelihood, link, 4, SMALL, learn_kernel=False, method="optimize")
    model.fit(bags, y, **trials, seed=1)
    assert model.feature_map_.n_columns == 2 + 4 + 4 + 20
    assert np.isfinite(model.predict_points(bags).mean).all()
    assert "beta" not in model.idata["posterior"]


@pytest.mark.parametrize("method", ["nuts", "vb", "laplace"])
def test_other_methods_take_fields(country, method):
    model = fitted(country, SMALL, method, thin=10)
    rates = model.predict_points(country.bags).mean
    assert np.corrcoef(np.log(rates), np.log(country.rate))[0, 1] > 0.5


def test_pixels_of_a_bent_effect_are_found_and_their_intervals_hold(country, model):
    points = model.predict_points(country.bags)
    assert np.corrcoef(np.log(points.mean), np.log(country.rate))[0, 1] > 0.85
    holds = calibration(country.rate, points, (0.5, 0.95)).set_index("level")["coverage"]
    assert 0.35 < holds[0.5] < 0.7 and holds[0.95] > 0.85


def test_parts_add_up_to_the_log_rate(country, model):
    parts = model.predict_fields(country.bags)
    assert list(parts) == [
        "LinearEffects(z1, z2, z3, z4)",
        *(f"NormalScores({name})" for name in COVARIATES),
        "HilbertSpace(x, y)",
    ]
    rows = np.arange(0, 1600, 97)
    whole = model.predict_points(country.bags, district=False)
    for each in (whole, *parts.values()):
        each.rho = None  # without what is left out, which is drawn for each by itself
    log_rate = model.result_.draws("intercept")[:, None] + sum(
        part.draws(rows) for part in parts.values()
    )
    np.testing.assert_allclose(np.log(whole.draws(rows)), log_rate, rtol=1e-8, atol=1e-8)


def test_a_bump_is_seen_in_its_covariate(country, model):
    """The effect of z1 is that of the truth, up to a constant and its uncertainty."""
    parts = model.predict_fields(country.bags)
    slope = np.polyfit(country.bags.points[:, 0], parts["NormalScores(z1)"].mean, 1)
    curve = parts["NormalScores(z1)"].mean - np.polyval(slope, country.bags.points[:, 0])
    bump = np.exp(-((country.bags.points[:, 0] - 0.5) ** 2) / 0.32)
    bump -= np.polyval(np.polyfit(country.bags.points[:, 0], bump, 1), country.bags.points[:, 0])
    assert np.corrcoef(curve, bump)[0, 1] > 0.7
    assert parts["NormalScores(z4)"].mean.std() < parts["NormalScores(z1)"].mean.std() / 3


def test_what_is_left_out_enters_means_of_squares(country):
    """Of points and of bags, in training and after it, so that they add up."""
    kernel = Matern32(2.0, ["x", "y"])
    model = fitted(country, kernel, likelihood="poisson", link="square", n_landmarks=8)
    bags = country.bags
    known, alone = model.predict_points(bags), model.predict_points(bags)
    alone.rho = None
    residual_variance = model.feature_map_.residual_variance(
        bags.points, model.feature_map_(bags.points)
    )
    more = np.mean(model.result_.draws("rho") ** 2) * residual_variance
    np.testing.assert_allclose(known.mean, alone.mean + more, rtol=1e-8)
    assert more.mean() > 0.05 * known.mean.mean()
    added = bags.sums(bags.weights * known.mean)
    np.testing.assert_allclose(model.predict(bags), added, rtol=1e-8)
    draws = known.draws(np.arange(0, len(bags.points), 97))
    np.testing.assert_allclose(draws.mean(axis=0), known.mean[::97], rtol=0.05)
    # the fit knows of it: totals are those of the labels
    assert added.sum() == pytest.approx(country.y.sum(), rel=0.02)


def test_what_is_left_out_widens_intervals_of_points_and_nothing_else(country):
    model = fitted(country, HilbertSpace(Matern32(5.0, ["x", "y"]), 10), thin=10)
    known = model.predict_points(country.bags)
    alone = model.predict_points(country.bags)
    alone.rho = None
    assert np.all(known.sd > 1.2 * alone.sd)
    np.testing.assert_allclose(known.mean, alone.mean)
    added = country.bags.sums(country.bags.weights * known.mean)
    np.testing.assert_allclose(model.predict(country.bags), added, rtol=1e-8)


def test_fits_with_fields_are_saved_and_restored(country, model, tmp_path):
    model.save(tmp_path / "map.nc")
    again = bdr_stan.load(tmp_path / "map.nc")
    np.testing.assert_array_equal(again.landmarks_, model.landmarks_)
    np.testing.assert_array_equal(again.predict(country.bags), model.predict(country.bags))
    sd = (m.predict_points(country.bags[:3]).sd for m in (model, again))
    np.testing.assert_array_equal(next(sd), next(sd))


def test_few_features_are_told(country):
    model = AggregateRegressor(link="exp", kernel=Matern32(1.0, ["x", "y"]), n_landmarks=5)
    model.set_params(method="optimize", learn_kernel=False, thin=5)
    said = r"features of Matern32\(x, y\) leave out \d+% of its variance.* raise n_landmarks"
    with pytest.warns(UserWarning, match=said):
        model.fit(country.bags, country.y, seed=1)


def test_lines_alone_are_a_linear_model(country, tmp_path):
    """No landmark at all: weights are effects a standard deviation."""
    bags = country.bags
    z = (bags.points - bags.points.mean(axis=0)) / bags.points.std(axis=0)
    mean = bags.sums(bags.weights * np.exp(4 - 0.4 * z[:, 1] + 0.3 * z[:, 2]))
    counts = np.random.default_rng(1).poisson(mean)
    kernel = LinearEffects(columns=["z2", "z3"])
    model = fitted(type(country)(bags, counts, country.rate), kernel, "nuts", thin=20)
    assert model.landmarks_.shape == (0, 6)
    effects = model.result_.draws("w")
    np.testing.assert_allclose(effects.mean(axis=0), [-0.4, 0.3], atol=0.03)
    model.save(tmp_path / "lines.nc")
    again = bdr_stan.load(tmp_path / "lines.nc")
    np.testing.assert_array_equal(again.predict(country.bags), model.predict(country.bags))


def test_raw_columns_in_any_unit_and_order(country):
    """Dollars and years, shuffled rows, a skewed column and gaps in ids: the same map."""
    bags = country.bags
    frame = pd.DataFrame(np.array(bags.points), columns=bags.features)
    frame["income"] = np.exp(10 + frame.pop("z1"))
    frame["year"] = 1990 + 8 * frame.pop("z2")
    frame["people"], frame["id"] = bags.weights, 7 * np.repeat(np.arange(len(bags)), bags.sizes)
    shuffled = frame.sample(frac=1, random_state=2)
    raw = Bags.from_dataframe(shuffled, bag="id", weight="people")
    kernel = map_kernel(["income", "year"], n_functions=20)
    model = fitted(type(country)(raw, country.y, country.rate), kernel, thin=10)
    plain = fitted(country, SMALL, thin=10)
    a, b = (m.predict(x) for m, x in ((model, raw), (plain, bags)))
    assert np.corrcoef(np.log(a), np.log(b))[0, 1] > 0.98


def test_columns_that_are_not_there_are_refused(country):
    with pytest.raises(ValueError, match="LinearEffects depends on the column 'rain', which the"):
        fitted(country, map_kernel(["rain"]))
    with pytest.raises(ValueError, match="NormalScores takes one column"):
        fitted(country, NormalScores(RBF(1.0), columns=["z1", "z2"]))
