"""stan/fast/aggregate_binomial.stan against SciPy's densities."""

import numpy as np
import pytest
from builders import totals
from builders.totals import density_of_weights, prior_points, refusal, stan_data

from bdr_stan.cmdstan.programs import compile_program


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_binomial", progress=False)


def problem(has_effects=True, n=6, d=3):
    rng = np.random.default_rng(43)
    return totals.random_rates(rng, "binomial", "logit", n, d, has_effects)[0]


def test_data_are_what_the_program_declares(model):
    data = stan_data(problem())
    of_others = {"scale_location", "scale_prior", "error_variance", "grainsize"}
    assert set(data) - of_others == set(model.src_info()["inputs"])
    assert (data["A"], data["D"], data["T"]) == (6, 3, len(data["rows"]))


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("n, d", [(6, 3), (1, 1)])
def test_log_density(model, n, d, has_effects, use_likelihood):
    p = problem(has_effects, n, d)
    data, points = stan_data(p, use_likelihood=use_likelihood), prior_points(p, 5)
    totals.check_density(model, p, data, points, use_likelihood=use_likelihood)


@pytest.mark.parametrize("has_effects", [False, True])
def test_gradient(model, has_effects):
    p = problem(has_effects)
    data = stan_data(p)
    totals.check_gradient(model, p, data, prior_points(p, 2))


def test_neither_whitening_nor_the_unit_of_weights_changes_the_density(model):
    p = problem()
    point, data = prior_points(p, 1)[0], stan_data(p)
    ways = [data, stan_data(p, whitened=False), data | {"weight": 1000 * data["weight"]}]
    density = [density_of_weights(model, p, way, point) for way in ways]
    np.testing.assert_allclose(density, density[0], rtol=1e-12)


# ---------------------------------------------------------------- what is refused


def test_more_successes_than_trials(model):
    p = problem()
    data = stan_data(p)
    data["y"][2] = data["trials"][2] + 1
    says = f"y[3] must be <= trials, found {data['y'][2]} > {data['trials'][2]}"
    assert says in refusal(model, p, data)


@pytest.mark.parametrize("changes, says", totals.REFUSED_ROWS)
def test_rows_that_are_not_all_bags_in_turn(model, changes, says):
    p = problem()
    assert says in refusal(model, p, totals.changed(stan_data(p), changes))


def test_bags_of_no_weight(model):
    p = problem()
    data = stan_data(p)
    first = data["start"][2] - 1
    data["weight"] = data["weight"].copy()
    data["weight"][first : first + data["length"][2]] = 0
    assert "the weights of bag 3 must not all be 0" in refusal(model, p, data)


def test_scales_must_be_positive(model):
    p = problem()
    said = refusal(model, p, stan_data(p) | {"tau_scale": 0.0})
    assert "rho_log_sd and tau_scale must be > 0, found [" in said


def test_effects_that_are_known_without_labels(model):
    totals.check_refusal_of_known_effects(model, problem())


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    totals.check_prior_comes_back(model, problem(), 4000)
