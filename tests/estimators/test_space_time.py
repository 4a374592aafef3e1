"""Fields in space and time: district-months as bags, forecasts, points beyond the box."""

import warnings

import numpy as np
import pytest
from builders.totals import MODELS

import bdr_stan
from bdr_stan import AggregateRegressor, Bags, Matern32
from bdr_stan.kernels import HilbertProduct, HilbertSpace

LAST = 12  # months of the fit
KM, MONTHS, VARIANCE = 6.0, 2.0, 0.3


def kernel(n_functions=40, horizon=4):
    space = HilbertSpace(Matern32(KM, ["x"]), n_functions=40)
    time = HilbertSpace(Matern32(MONTHS, ["month"]), n_functions=40, horizon=horizon)
    return HilbertProduct(space, time, VARIANCE, n_functions=n_functions)


def district_months(months):
    """Eight districts of four pixels each along a road, month after month."""
    points = [[x, month] for month in months for x in range(32)]
    names = [f"district {k} in {month}" for month in months for k in range(8)]
    offsets = np.arange(0, len(points) + 1, 4)
    return Bags(np.array(points, float), offsets, ids=names, features=["x", "month"])


def truth(bags, rng):
    """A draw of the field by its exact covariance, at points shape (N,)."""
    x, t = bags.points[:, :1], bags.points[:, 1:]
    covariance = VARIANCE * Matern32(KM)(x, x) * Matern32(MONTHS)(t, t)
    return np.linalg.cholesky(covariance + 1e-9 * np.eye(len(x))) @ rng.standard_normal(len(x))


def fitted(bags, y, k, likelihood="poisson", link="exp", method="laplace", **options):
    model = AggregateRegressor(likelihood, link, kernel=k, learn_kernel=False, method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(bags, y, seed=1, draws=200, **options)


@pytest.fixture(scope="module")
def data():
    bags = district_months(range(LAST))
    rng = np.random.default_rng(5)
    return bags, rng.poisson(bags.sums(20 * np.exp(truth(bags, rng))))


@pytest.fixture(scope="module")
def model(data):
    return fitted(*data, kernel())


@pytest.mark.filterwarnings("ignore:the features leave out")  # few functions
@pytest.mark.parametrize("likelihood, link", MODELS)
def test_every_likelihood_and_link_takes_a_product(data, likelihood, link, tmp_path):
    bags, y = data
    trials = {"trials": np.full(len(y), 2 * y.max())} if likelihood == "binomial" else {}
    model = fitted(bags, y, kernel(), likelihood, link, "optimize", **trials)
    rates = model.predict_points(bags).mean
    assert model.feature_map_.n_columns == 40 and np.isfinite(rates).all()
    assert np.corrcoef(bags.sums(rates), y)[0, 1] > 0.7
    assert len(model.priors())
    model.save(tmp_path / "model.nc")
    again = bdr_stan.load(tmp_path / "model.nc").predict_points(bags).mean
    np.testing.assert_array_equal(again, rates)


def test_months_beyond_the_horizon_warn(data, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(data[0])
        model.predict(district_months(range(LAST, LAST + 4)))
    message = (
        r"32 points have values of column 'month' from 40 to 40, but the functions of "
        r"HilbertSpace have the variance of the field only from .* fit with .*horizon="
    )
    for predict in (model.predict, model.predict_points):
        with pytest.warns(UserWarning, match=message):
            predict(district_months([40]))


@pytest.mark.parametrize("few", [kernel(6), HilbertSpace(Matern32(KM, ["x"]), n_functions=3)])
def test_too_few_functions_for_totals_warn(data, few):
    bags, _ = data
    rng = np.random.default_rng(0)
    y = rng.poisson(bags.sums(2000 * np.exp(truth(bags, rng))))
    model = AggregateRegressor(link="exp", kernel=few, learn_kernel=False, method="laplace")
    with pytest.warns(UserWarning, match="leave out a standard deviation of .* raise n_functions"):
        model.set_params(prior={"dispersion_scale": 0.01}).fit(bags, y, seed=1, draws=100)


def test_dispersion_is_not_that_of_weights_which_follow_every_label(data):
    """As by "vb", where the weights are integrated out: the joint density is highest elsewhere."""
    bags, _ = data
    rng = np.random.default_rng(3)
    expected = bags.sums(500 * np.exp(truth(bags, rng)))
    y = rng.poisson(expected * rng.gamma(4, 1 / 4, len(expected)))  # of standard deviation .5
    models = {
        method: fitted(bags, y, kernel(60), "negative binomial", method=method)
        for method in ("vb", "laplace", "optimize")
    }
    dispersion = {name: model.result_.draws("dispersion") for name, model in models.items()}
    assert 0.35 < dispersion["vb"][0] < 0.65
    for method in ("laplace", "optimize"):
        np.testing.assert_allclose(np.median(dispersion[method]), dispersion["vb"][0], rtol=2e-3)
        assert "(fixed at its marginal mode)" in models[method].report()


@pytest.mark.slow
def test_forecasts_of_totals_are_calibrated():
    """Six months of totals, of fields drawn by the exact covariance; not without a horizon."""
    every = district_months(range(LAST + 6))
    later = every.points[every.offsets[:-1], 1] >= LAST
    holds = {0: [], 6: []}
    for horizon, found in holds.items():
        for seed in range(8 if horizon else 3):
            rng = np.random.default_rng(seed)
            y = rng.poisson(every.sums(20 * np.exp(truth(every, rng))))
            model = fitted(every[~later], y[~later], kernel(200, horizon), "negative binomial")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # beyond the box
                low, high = model.predictive(every[later]).interval(0.95)
            found.append(np.mean((low <= y[later]) & (y[later] <= high)))
    assert 0.88 < np.mean(holds[6]) < 0.99
    assert np.mean(holds[0]) < 0.8
