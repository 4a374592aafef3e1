"""stan/fast/aggregate_exp.stan against SciPy's densities, with and without threads."""

import numpy as np
import pytest
from builders import reference, totals
from builders.totals import density_of_weights, prior_points, refusal, stan_data, start_at

from bdr_stan.cmdstan.programs import compile_program

LIKELIHOODS = [name for name, link in totals.MODELS if link == "exp"]


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_exp", progress=False)


def problem(likelihood="negative binomial", has_effects=True, n=6, d=3):
    rng = np.random.default_rng(41)
    return totals.random_rates(rng, likelihood, "exp", n, d, has_effects)[0]


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
    data, points = stan_data(p) | {"grainsize": 2}, prior_points(p, 5)
    totals.check_density(model, p, data, points)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
def test_gradient(model, likelihood, has_effects):
    p = problem(likelihood, has_effects)
    data = stan_data(p) | {"grainsize": 2}
    totals.check_gradient(model, p, data, prior_points(p, 2))


@pytest.mark.parametrize("likelihood", ["negative binomial", "gamma"])
def test_errors_of_labels_add_to_the_dispersion(model, likelihood):
    totals.check_errors_of_labels(model, problem(likelihood, False))


def test_without_likelihood_the_density_is_the_prior(model):
    p = problem()
    data = stan_data(p, use_likelihood=False)
    points = prior_points(p, 4)
    totals.check_density(model, p, data, points, use_likelihood=False)


def test_whitening_and_grains_keep_the_density(model):
    p = problem()
    point, data = prior_points(p, 1)[0], stan_data(p)
    ways = [data, stan_data(p, whitened=False), *(data | {"grainsize": k} for k in (2, 100))]
    density = [density_of_weights(model, p, way, point) for way in ways]
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
    data = stan_data(p) | {"grainsize": 1}
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


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("changes, says", totals.REFUSED_ROWS)
def test_rows_that_are_not_all_bags_in_turn(model, changes, says):
    p = problem("poisson", False)
    assert says in refusal(model, p, totals.changed(stan_data(p), changes))


@pytest.mark.parametrize("changes, says", totals.REFUSED_LABELS)
def test_labels_that_are_no_counts(model, changes, says):
    p = problem("poisson", False)
    data = totals.changed(stan_data(p), changes)
    assert says in refusal(model, p, data)


def test_fractions_are_positive_numbers(model):
    p = problem("exponential", False)
    data = totals.changed(stan_data(p), {"y": (2, 1.5)})
    assert np.isfinite(density_of_weights(model, p, data, prior_points(p, 1)[0]))


def test_points_of_no_weight_are_refused(model):
    p = problem("poisson", False)
    data = totals.changed(stan_data(p), {"weight": (1, 0.0)})
    assert "weight[2] must be > 0, found 0: leave the point out" in refusal(model, p, data)


@pytest.mark.parametrize(
    "scale", [{"intercept_scale": 0}, {"rho_log_sd": 0}, {"tau_scale": 0}, {"scale_prior": [0]}]
)
def test_scales_must_be_positive(model, scale):
    p = problem()
    said = refusal(model, p, stan_data(p) | scale)
    assert "tau_scale and scale_prior must be > 0, found [" in said


def test_effects_that_are_known_without_labels(model):
    totals.check_refusal_of_known_effects(model, problem())


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    totals.check_prior_comes_back(model, problem(), 4000)
