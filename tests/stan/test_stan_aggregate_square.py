"""stan/aggregate_square.stan, and blr.stan of normal totals, against SciPy on the raw points."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from scipy import stats
from test_stan_aggregate_exp import LIKELIHOODS, point_rows, prior_points, start_at, whitening

from bdr_stan import Bags
from bdr_stan.aggregate.rows import square_factors, weighted_sums
from bdr_stan.estimators.aggregate import AggregateRegressor, aggregate_data
from bdr_stan.cmdstan.programs import compile_program

FORMS = ["packed", "factors", "points"]  # of what the program gets of the bags


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_square", progress=False)


class Given:
    """Points that are features already."""

    def __init__(self, d):
        self.landmarks = np.eye(d)

    def __call__(self, points):
        return np.column_stack([points, np.ones(len(points))])


def problem(likelihood="negative binomial", has_effects=True, n=6, d=3):
    rng = np.random.default_rng(43)
    return reference.random_rates(rng, likelihood, "square", n, d, has_effects)[0]


def compressed(p, compress):
    return compress(Bags.from_list(p.psi, weights=p.weights), Given(p.psi[0].shape[1]))


def stan_data(p, form=None, *, whitened=True, use_likelihood=True):
    """Data as the estimator gives them, or in a form of choice: they take the smaller one."""
    rows = compressed(p, square_factors)
    data = aggregate_data(
        rows, p.y, whitening(p, rows, whitened), p.priors,
        has_effects=p.has_effects, use_likelihood=use_likelihood,
    )  # fmt: skip
    data["likelihood"] = LIKELIHOODS[p.likelihood]
    if form is None:
        return data
    if form == "packed":
        packed, empty = rows.packed(), np.empty((0, data["D"] + 1))
        return data | {
            "P": packed.shape[1], "packed": packed, "T": 0, "rows": empty, "start": [], "length": []
        }  # fmt: skip
    if form == "points":
        rows = point_rows(p)
        rows = replace(rows, rows=rows.rows * np.sqrt(rows.weights)[:, None], weights=None)
    return data | {
        "P": 0, "packed": np.empty((0, 0)), "T": len(rows.rows), "rows": rows.rows,
        "start": rows.start + 1, "length": rows.length,
    }  # fmt: skip


def density_of_weights(model, p, data, point):
    return reference.density_of_weights(model, data, reference.rate_parameters(p, data, point))


@pytest.mark.parametrize("n, d, is_packed", [(6, 3, True), (6, 20, False)])
def test_data_are_what_the_program_declares(model, n, d, is_packed):
    p = problem(n=n, d=d)
    data = stan_data(p)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["A"], data["D"], data["has_effects"]) == (n, d, 1)
    assert (data["P"], data["T"] > 0) == (
        ((d + 1) * (d + 2) // 2, False) if is_packed else (0, True)
    )
    np.testing.assert_array_equal(data["y"], p.y)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_log_density(model, likelihood, has_effects, form):
    p = problem(likelihood, has_effects)
    data, points = stan_data(p, form), prior_points(p, 5)
    stan = [density_of_weights(model, p, data, x) for x in points]
    gap = np.subtract([reference.rate_log_density(p, **x) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("n, d", [(1, 1), (2, 12)])
def test_one_bag_and_more_weights_than_points(model, n, d):
    p = problem(n=n, d=d)
    data, points = stan_data(p), prior_points(p, 4)
    stan = [density_of_weights(model, p, data, x) for x in points]
    gap = np.subtract([reference.rate_log_density(p, **x) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("form", ["packed", "factors"])
def test_gradient(model, likelihood, has_effects, form):
    p = problem(likelihood, has_effects)
    data = stan_data(p, form)
    for point in prior_points(p, 2):
        parameters = reference.rate_parameters(p, data, point)
        _, slope = reference.log_density(model, data, parameters, jacobian=True)
        ours = reference.rate_gradient(p, data, point)
        np.testing.assert_allclose(slope, ours, rtol=1e-8, atol=1e-8)


def test_without_likelihood_the_density_is_the_prior(model):
    p = problem()
    data, points = stan_data(p, use_likelihood=False), prior_points(p, 4)
    stan = [density_of_weights(model, p, data, x) for x in points]
    ours = [reference.rate_log_density(p, **x, use_likelihood=False) for x in points]
    gap = np.subtract(ours, stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8)


def test_neither_whitening_nor_compression_changes_the_density(model):
    p = problem()
    whitened, plain = stan_data(p), stan_data(p, whitened=False)
    assert np.all(whitened["information"] > 0) and not np.any(plain["information"])
    for point in prior_points(p, 3):
        ways = [whitened, plain, *(stan_data(p, form) for form in FORMS)]
        density = [density_of_weights(model, p, way, point) for way in ways]
        np.testing.assert_allclose(density, density[0], rtol=1e-8)


def test_labels_do_not_tell_f_from_minus_f(model):
    p = problem("poisson", False)
    data, point = stan_data(p) | {"intercept_location": 0.0}, prior_points(p, 1)[0]
    turned = point | {"w": -point["w"], "intercept": -point["intercept"]}
    density = [density_of_weights(model, p, data, x) for x in (point, turned)]
    np.testing.assert_allclose(*density, rtol=1e-12)


# ---------------------------------------------------------------- normal totals


@pytest.mark.parametrize("n, d", [(12, 3), (3, 5), (1, 1)])
def test_density_of_normal_totals(n, d):
    p = reference.random_rates(np.random.default_rng(44), "normal", "identity", n, d)[0]
    model, program = AggregateRegressor("normal"), compile_program("blr", progress=False)
    rows = model._model_rows(compressed(p, weighted_sums), p.y, None)
    data = model._stan_data(rows, reference.plain_coordinates(d), p.priors)
    points, stan = prior_points(p, 5), []
    for point in points:
        parameters = {"t": reference.whiten(data, point["w"], point["intercept"], point["rho"])}
        parameters |= {name: point[name] for name in ("sigma", "rho")}
        stan.append(reference.density_of_weights(program, data, parameters))
    gap = np.subtract([reference.rate_log_density(p, **x) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    p = problem(n=3)
    data = stan_data(p, whitened=False, use_likelihood=False)
    draws = reference.sample(model, data, start_at(p), draws=2500)
    names = ["w", "intercept", "rho", "dispersion", "tau", "effect_raw"]
    rho = stats.lognorm(p.priors["rho_log_sd"], scale=p.priors["rho_median"])
    half = [stats.halfnorm(scale=p.priors[f"{name}_scale"]) for name in ("dispersion", "tau")]
    mean = [0, 0, 0, p.priors["intercept_location"], rho.mean(), *(h.mean() for h in half), 0, 0, 0]
    variance = [rho.moment(2)] * 3 + [p.priors["intercept_scale"] ** 2, rho.var()]
    draws, labels = reference.columns(draws, names)
    reference.assert_moments(draws, mean, variance + [h.var() for h in half] + [1] * 3, labels)
