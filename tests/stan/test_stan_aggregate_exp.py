"""stan/aggregate_exp.stan against SciPy's densities, with and without threads."""

import cmdstanpy
import numpy as np
import pytest
import reference
from scipy import stats

from bdr_stan.aggregate.densities import aggregate_likelihood
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.posterior.evidence import find_mode, whitened_coordinates
from bdr_stan.estimators.aggregate import aggregate_data
from bdr_stan.cmdstan.programs import compile_program

LIKELIHOODS = {"poisson": 1, "negative binomial": 2, "exponential": 3}  # and their codes
RHO = 0.6


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_exp", progress=False)


def problem(likelihood="negative binomial", has_effects=True, n=6, d=3):
    rng = np.random.default_rng(41)
    return reference.random_rates(rng, likelihood, "exp", n, d, has_effects)[0]


def point_rows(p):
    """The points of all bags with their rows [psi, 1]."""
    length = np.array([len(weights) for weights in p.weights])
    psi = np.vstack(p.psi)
    total = np.array([weights.sum() for weights in p.weights])
    noise = np.array([np.linalg.norm(weights) for weights in p.weights])
    start = np.cumsum(length) - length
    rows = np.column_stack([psi, np.ones(len(psi))])
    return AggregateRows(rows, start, length, np.concatenate(p.weights), total, noise)


def whitening(p, rows, whitened=True):
    d = rows.rows.shape[1] - 1
    if not whitened:
        return reference.plain_coordinates(d)
    intercept = p.priors["intercept_location"], p.priors["intercept_scale"]
    dispersion = 0.5 if p.likelihood == "negative binomial" else 0.0
    likelihood = aggregate_likelihood(
        rows, p.y, p.likelihood, p.link, dispersion=dispersion, trials=p.trials
    )
    mode = find_mode(likelihood, np.eye(d), intercept, rho=RHO)
    return whitened_coordinates(mode, np.eye(d), RHO)


def stan_data(p, *, whitened=True, use_likelihood=True, grainsize=2):
    rows = point_rows(p)
    data = aggregate_data(
        rows, p.y, whitening(p, rows, whitened), p.priors,
        has_effects=p.has_effects, use_likelihood=use_likelihood,
    )  # fmt: skip
    return {**data, "likelihood": LIKELIHOODS[p.likelihood], "grainsize": grainsize}


def prior_points(p, number):
    rng = np.random.default_rng(7)
    return [reference.draw_rate_parameters(rng, p) for _ in range(number)]


def density_of_weights(model, p, data, point):
    return reference.density_of_weights(model, data, reference.rate_parameters(p, data, point))


def test_data_are_what_the_program_declares(model):
    p = problem()
    data = stan_data(p)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["A"], data["D"], data["T"]) == (6, 3, sum(map(len, p.psi)))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("n, d", [(6, 3), (1, 1)])
def test_log_density(model, likelihood, has_effects, n, d):
    p = problem(likelihood, has_effects, n, d)
    data, points = stan_data(p), prior_points(p, 5)
    stan = [density_of_weights(model, p, data, x) for x in points]
    gap = np.subtract([reference.rate_log_density(p, **x) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
def test_gradient(model, likelihood, has_effects):
    p = problem(likelihood, has_effects)
    data = stan_data(p)
    for point in prior_points(p, 2):
        parameters = reference.rate_parameters(p, data, point)
        _, slope = reference.log_density(model, data, parameters, jacobian=True)
        ours = reference.rate_gradient(p, data, point)
        np.testing.assert_allclose(slope, ours, rtol=1e-8, atol=1e-8)


def test_without_likelihood_the_density_is_the_prior(model):
    p = problem()
    data = stan_data(p, use_likelihood=False)
    points = prior_points(p, 4)
    stan = [density_of_weights(model, p, data, x) for x in points]
    ours = [reference.rate_log_density(p, **x, use_likelihood=False) for x in points]
    gap = np.subtract(ours, stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8)


def test_whitening_and_grains_keep_the_density(model):
    p = problem()
    point = prior_points(p, 1)[0]
    ways = [{}, {"whitened": False}, {"grainsize": 1}, {"grainsize": 100}]
    density = [density_of_weights(model, p, stan_data(p, **way), point) for way in ways]
    np.testing.assert_allclose(density, density[0], rtol=1e-12)


def test_points_count_by_their_weights(model):
    """A point of weight 3 is three points of weight 1; far below, exp(f) underflows."""
    one, three = problem("poisson", False), problem("poisson", False)
    one.psi[0], one.weights[0] = np.full((1, 3), 400.0), np.array([3.0])
    three.psi[0], three.weights[0] = np.full((3, 3), 400.0), np.ones(3)
    point = prior_points(one, 1)[0] | {"w": np.full(3, -1.0)}
    one.y[0] = three.y[0] = 0
    density = [
        density_of_weights(model, p, stan_data(p, whitened=False), point) for p in (one, three)
    ]
    assert np.isfinite(density[0])
    np.testing.assert_allclose(*density, rtol=1e-12)


def test_programs_that_call_reduce_sum_are_built_with_threads(model):
    assert model.exe_info()["STAN_THREADS"] == "true"


def test_draws_do_not_depend_on_the_number_of_threads(model):
    p = problem()
    data = stan_data(p, grainsize=1)
    one, two = (
        reference.sample(
            model, data, start_at(p), chains=2, warmup=50, draws=20, divergent=1,
            threads_per_chain=threads,
        )
        for threads in (1, 2)
    )  # fmt: skip
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
    assert not np.array_equal(one["w"][0], one["w"][1])  # two chains


def test_points_of_no_weight_are_refused(model):
    p = problem("poisson", False)
    data = stan_data(p)
    data["weight"] = data["weight"].copy()
    data["weight"][1] = 0
    with cmdstanpy.disable_logging(), pytest.raises(RuntimeError) as error:
        model.optimize(data, inits=start_at(p), seed=1)
    assert "weight[2] must be > 0, found 0: leave the point out" in str(error.value)


# ---------------------------------------------------------------- slow


def start_at(p):
    n = len(p.psi) if p.has_effects else 0
    return {
        "t": np.zeros(p.psi[0].shape[1] + 1),
        "rho": RHO,
        "dispersion": [0.5] if p.likelihood == "negative binomial" else [],
        "tau": [0.3] if p.has_effects else [],
        "effect_raw": np.zeros(n),
    }


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    p = problem()
    data = stan_data(p, whitened=False, use_likelihood=False)
    draws = reference.sample(model, data, start_at(p), draws=4000)
    names = ["w", "intercept", "rho", "dispersion", "tau", "effect_raw"]
    rho = stats.lognorm(p.priors["rho_log_sd"], scale=p.priors["rho_median"])
    half = [stats.halfnorm(scale=p.priors[f"{name}_scale"]) for name in ("dispersion", "tau")]
    mean = [0, 0, 0, p.priors["intercept_location"], rho.mean(), *(h.mean() for h in half)]
    variance = [rho.moment(2)] * 3 + [p.priors["intercept_scale"] ** 2, rho.var()]
    variance += [h.var() for h in half] + [1] * 6
    draws, labels = reference.columns(draws, names)
    reference.assert_moments(draws, mean + [0] * 6, variance, labels)
