"""log_density: what a sampler of one's own needs of a fit."""

import doctest
import pickle
import sys

import numpy as np
import pytest
from builders import reference
from builders.training import labelled_bags

import bdr_stan
from bdr_stan import BLR, AggregateRegressor, RBFNetwork
from bdr_stan.estimators import posterior
from bdr_stan.posterior import stanli
from bdr_stan.posterior.log_density import LogDensity


@pytest.fixture
def data(rng):
    return labelled_bags(rng)


@pytest.fixture
def fit(data):
    return BLR(3).fit(*data, seed=1)


def test_gradient_is_that_of_the_value(fit, rng):
    density = fit.log_density()
    assert density.dimension == 3 + 1 + 2  # weights, intercept, sigma and rho
    for point in rng.normal(size=(3, density.dimension)):
        slope = reference.gradient(lambda q: density(q)[0], point)
        np.testing.assert_allclose(density(point)[1], slope, rtol=1e-6, atol=1e-7)


def test_own_sampler_finds_the_posterior_of_the_fit(fit, rng):
    """Importance sampling from a wide Student's t distribution, in the whitened coordinates."""
    density, n_points, df = fit.log_density(), 6000, 5
    drawn = fit.idata["posterior"]
    start = np.r_[np.zeros(4), [np.log(drawn[name].values.mean()) for name in ("sigma", "rho")]]
    wide = 1.2 * rng.normal(size=(n_points, 6)) / np.sqrt(rng.chisquare(df, (n_points, 1)) / df)
    log_q = -(df + 6) / 2 * np.log1p(np.sum((wide / 1.2) ** 2, axis=1) / df)
    points = start + wide
    log_weight = np.array([density(q)[0] for q in points]) - log_q
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    effective = 1 / np.sum(weight**2)
    assert effective > 300
    parameters = density.parameters(points)
    for name in ("intercept", "sigma", "w", "beta"):
        values = parameters[name]
        assert values.shape == (n_points, *drawn[name].shape[2:])
        mean, sd = drawn[name].values.mean((0, 1)), drawn[name].values.std((0, 1))
        found = np.tensordot(weight, values, 1)
        assert np.all(np.abs(found - mean) < 5 * sd / np.sqrt(effective)), name


def test_data_are_those_of_the_program(fit):
    data = fit.log_density().stan_input.data
    program = stanli.load("blr", data)
    point = np.full(6, 0.1)
    assert program.log_prob_grad(point)[0] == fit.log_density()(point)[0]
    assert data["D"] == 3


def test_impossible_points_have_no_density(fit):
    value, slope = fit.log_density()(np.full(6, 1e6))
    assert value == -np.inf and np.isnan(slope).all()


def test_a_fit_by_laplace_has_one(data):
    fit = BLR(3, method="laplace").fit(*data, draws=100, seed=1)
    near = fit.log_density().parameters(np.zeros(6))
    assert near["beta"].shape == (1, 3) and near["rho"].shape == (1,)


@pytest.mark.parametrize("shape", [(5,), (2, 6)])
def test_points_of_another_shape_are_refused(fit, shape):
    with pytest.raises(ValueError, match=r"points must have 6 unconstrained parameters .*\("):
        fit.log_density()(np.zeros(shape))
    if shape == (5,):
        with pytest.raises(ValueError, match="points must have 6 unconstrained parameters"):
            fit.log_density().parameters(np.zeros(shape))


def test_fits_without_the_data_of_a_program_say_so(data, fit, tmp_path, monkeypatch):
    message = "log_density needs the data of the Stan program, which this fit has not kept: fit"
    fit.save(tmp_path / "fit.nc")
    others = [
        bdr_stan.load(tmp_path / "fit.nc"),
        pickle.loads(pickle.dumps(fit)),
        fit.set_params(method="exact").fit(*data, seed=1),
    ]
    for other in others:
        with pytest.raises(ValueError, match=message):
            other.log_density()
    monkeypatch.setattr(posterior, "LARGEST_POINTWISE", 10)
    with pytest.raises(ValueError, match=message):
        BLR(3, method="laplace").fit(*data, draws=100, seed=1).log_density()


def test_it_needs_stanli(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "stanli", None)
    with pytest.raises(ImportError, match="log_density needs stanli, which is not installed: pip"):
        fit.log_density()


def test_example_gives_what_it_says():
    flags = doctest.NORMALIZE_WHITESPACE
    (example,) = (test for test in doctest.DocTestFinder().find(LogDensity) if test.examples)
    assert doctest.DocTestRunner(optionflags=flags).run(example).failed == 0


def test_rates_have_one(rng):
    bags = [rng.uniform(size=(15, 1)) for _ in range(20)]
    counts = rng.poisson([3 * bag.sum() for bag in bags])
    model = AggregateRegressor("poisson", n_landmarks=4, method="laplace")
    density = model.fit(bags, counts, draws=100, seed=1).log_density()
    point = rng.normal(size=density.dimension) / 2
    slope = reference.gradient(lambda q: density(q)[0], point)
    np.testing.assert_allclose(density(point)[1], slope, rtol=1e-5, atol=1e-6)
    assert density.parameters(point)["rho"].shape == (1,)


def test_other_estimators_have_none():
    assert not hasattr(RBFNetwork(), "log_density")
