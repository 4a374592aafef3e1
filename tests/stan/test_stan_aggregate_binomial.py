"""stan/aggregate_binomial.stan against SciPy's densities."""

import cmdstanpy
import numpy as np
import pytest
import reference
from scipy import stats
from test_stan_aggregate_exp import point_rows, prior_points, start_at, whitening

from bdr_stan.estimators.aggregate import aggregate_data
from bdr_stan.cmdstan.programs import compile_program


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_binomial", progress=False)


def problem(has_effects=True, n=6, d=3):
    return reference.random_rates(
        np.random.default_rng(43), "binomial", "logit", n, d, has_effects
    )[0]


def stan_data(p, *, whitened=True, use_likelihood=True):
    rows = point_rows(p)
    data = aggregate_data(
        rows, p.y.astype(int), whitening(p, rows, whitened), p.priors,
        has_effects=p.has_effects, use_likelihood=use_likelihood,
    )  # fmt: skip
    return {**data, "trials": p.trials}


def stan_start(p):
    start = start_at(p)
    del start["dispersion"]
    return start


def density_of_weights(model, p, data, point):
    parameters = reference.rate_parameters(p, data, point)
    return reference.density_of_weights(model, data, parameters)


def test_data_are_what_the_program_declares(model):
    data = stan_data(problem())
    of_others = {"dispersion_scale", "grainsize"}
    assert set(data) - of_others == set(model.src_info()["inputs"])
    assert (data["A"], data["D"], data["T"]) == (6, 3, len(data["rows"]))


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("n, d", [(6, 3), (1, 1)])
def test_log_density(model, n, d, has_effects, use_likelihood):
    p = problem(has_effects, n, d)
    data, points = stan_data(p, use_likelihood=use_likelihood), prior_points(p, 5)
    stan = [density_of_weights(model, p, data, x) for x in points]
    ours = [reference.rate_log_density(p, **x, use_likelihood=use_likelihood) for x in points]
    gap = np.subtract(ours, stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("has_effects", [False, True])
def test_gradient(model, has_effects):
    p = problem(has_effects)
    data = stan_data(p)
    for point in prior_points(p, 2):
        parameters = reference.rate_parameters(p, data, point)
        _, slope = reference.log_density(model, data, parameters, jacobian=True)
        ours = reference.rate_gradient(p, data, point)
        np.testing.assert_allclose(slope, ours, rtol=1e-8, atol=1e-8)


def test_neither_whitening_nor_the_unit_of_weights_changes_the_density(model):
    p = problem()
    point, data = prior_points(p, 1)[0], stan_data(p)
    ways = [data, stan_data(p, whitened=False), data | {"weight": 1000 * data["weight"]}]
    density = [density_of_weights(model, p, way, point) for way in ways]
    np.testing.assert_allclose(density, density[0], rtol=1e-12)


def test_more_successes_than_trials_are_refused(model):
    p = problem()
    data = stan_data(p)
    data["y"][2] = data["trials"][2] + 1
    with cmdstanpy.disable_logging(), pytest.raises(RuntimeError) as error:
        model.optimize(data, inits=stan_start(p), seed=1)
    assert f"y[3] must be <= trials, found {data['y'][2]} > {data['trials'][2]}" in str(error.value)


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    p = problem()
    data = stan_data(p, whitened=False, use_likelihood=False)
    draws = reference.sample(model, data, stan_start(p), draws=4000)
    names = ["w", "intercept", "rho", "tau", "effect_raw"]
    rho = stats.lognorm(p.priors["rho_log_sd"], scale=p.priors["rho_median"])
    tau = stats.halfnorm(scale=p.priors["tau_scale"])
    mean = [0, 0, 0, p.priors["intercept_location"], rho.mean(), tau.mean()] + [0] * 6
    variance = [rho.moment(2)] * 3 + [p.priors["intercept_scale"] ** 2, rho.var(), tau.var()]
    draws, labels = reference.columns(draws, names)
    reference.assert_moments(draws, mean, variance + [1] * 6, labels)
