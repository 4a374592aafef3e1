"""stan/fast/aggregate_joint.stan against SciPy's densities."""

import cmdstanpy
import numpy as np
import pytest
from builders import joint, reference, totals
from builders.joint import density_at, stan_data
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program

LIKELIHOODS = [name for name, link in totals.MODELS if link == "exp"]
FAMILIES = ["binomial", "beta_binomial"]


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_joint", progress=False)


def problem(likelihood="negative binomial", family="beta_binomial", has_effects=False, **size):
    return joint.random_joint(np.random.default_rng(41), likelihood, family, has_effects, **size)[0]


def prior_points(p, number):
    rng = np.random.default_rng(7)
    return [joint.draw_parameters(rng, p) for _ in range(number)]


def test_data_are_what_the_program_declares(model):
    p = problem()
    data = stan_data(p)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["A"], data["S"], data["D"]) == (6, 8, 3)
    assert (data["T"], data["V"]) == (sum(map(len, p.totals.psi)), sum(map(len, p.psi)))
    two = stan_data(problem(n_surveys=2))
    assert set(two) == set(data)
    assert (two["G"], two["n_places"].tolist()) == (2, [5, 3])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("has_effects, n_surveys", [(False, 1), (True, 1), (False, 2)])
def test_log_density(model, likelihood, family, has_effects, n_surveys):
    p = problem(likelihood, family, has_effects, n_surveys=n_surveys)
    data, points = stan_data(p) | {"grainsize": 2}, prior_points(p, 4)
    gap = [joint.log_density(p, **x) - density_at(model, p, data, x) for x in points]
    np.testing.assert_allclose(gap, gap[0], atol=1e-7, rtol=1e-10)


def test_log_density_of_one_bag_and_one_weight(model):
    p = problem(n=1, d=1)
    data, points = stan_data(p), prior_points(p, 4)
    gap = [joint.log_density(p, **x) - density_at(model, p, data, x) for x in points]
    np.testing.assert_allclose(gap, gap[0], atol=1e-7, rtol=1e-10)


@pytest.mark.parametrize("likelihood, family", list(zip(LIKELIHOODS, FAMILIES * 2)))
@pytest.mark.parametrize("n_surveys", [1, 2])
def test_gradient(model, likelihood, family, n_surveys):
    p = problem(likelihood, family, n_surveys=n_surveys)
    data = stan_data(p)
    for point in prior_points(p, 2):
        parameters = joint.stan_parameters(p, data, point)
        _, slope = reference.log_density(model, data, parameters, jacobian=True)
        np.testing.assert_allclose(slope, joint.gradient(p, data, point), rtol=1e-6, atol=1e-6)


def test_without_likelihood_the_density_is_the_prior(model):
    p = problem(has_effects=True, likelihood="poisson", n_surveys=2)
    data, points = stan_data(p, use_likelihood=False), prior_points(p, 4)
    ours = [joint.log_density(p, **x, use_likelihood=False) for x in points]
    gap = np.subtract(ours, [density_at(model, p, data, x) for x in points])
    np.testing.assert_allclose(gap, gap[0], atol=1e-8)


def test_whitening_keeps_the_density(model):
    p = problem()
    point = prior_points(p, 1)[0]
    ways = [stan_data(p), stan_data(p, whitened=False)]
    density = [density_at(model, p, way, point) for way in ways]
    np.testing.assert_allclose(*density, rtol=1e-12)


def test_extreme_log_odds_have_a_density(model):
    """Points at which a probability is below the smallest number."""
    p = problem("poisson", "binomial")
    data, point = stan_data(p, whitened=False), prior_points(p, 1)[0]
    far = point | {"survey_intercept": np.array([-900.0])}
    assert np.isfinite(density_at(model, p, data, far))


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"positives": (0, 1e3)}, "positives[1] must be <= examined, found 1000 >"),
        ({"positives": (1, 0.5)}, "y[2] must be a whole number up to"),
        ({"survey_weight": (0, 0.0)}, "weight and survey_weight must be > 0, found 0"),
        ({"survey_start": (0, 2)}, "start[1] must be 1, the first row that no bag before it has"),
        ({"survey_slope_scale": 0.0}, "survey_intercept_scale and survey_dispersion_scale must be"),
        ({"n_places": (0, 7)}, "n_places must add up to S, found 7 and 8"),
        ({"survey_family": 7}, "survey_family"),
        ({"examined": (0, 0)}, "examined[1]"),
    ],
)
def test_data_that_make_no_sense(model, changes, says):
    p = problem("poisson")
    data = totals.changed(stan_data(p), changes)
    with cmdstanpy.disable_logging(), pytest.raises(RuntimeError) as error:
        model.optimize(data, inits=joint.start_at(p), seed=1)
    assert says in str(error.value)


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    p = problem()
    data = stan_data(p, whitened=False, use_likelihood=False)
    draws = reference.sample(model, data, joint.start_at(p), draws=2000)
    names = ["w", "intercept", "rho", "scale", "survey_dispersion", *joint.LINE]
    prior = p.priors
    rho = stats.lognorm(prior["rho_log_sd"], scale=prior["rho_median"])
    half = [stats.halfnorm(scale=prior[f"{n}_scale"]) for n in ("dispersion", "survey_dispersion")]
    mean = [0, 0, 0, prior["intercept_location"], rho.mean(), *(h.mean() for h in half)]
    mean += [prior[f"{name}_location"] for name in joint.LINE]
    variance = [rho.moment(2)] * 3 + [prior["intercept_scale"] ** 2, rho.var()]
    variance += [h.var() for h in half] + [prior[f"{name}_scale"] ** 2 for name in joint.LINE]
    draws, labels = reference.columns(draws, names)
    reference.assert_moments(draws, mean, variance, labels)
