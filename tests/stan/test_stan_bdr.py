"""stan/bdr.stan against SciPy's densities in landmark coordinates."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.regressions import Regression
from builders.terms import no_effects

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.embedding.size_nodes import at_size_nodes
from bdr_stan.models.bdr import bdr_data
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.whitening import whitened_coordinates

START = {"sigma": 0.4, "rho": 0.8, "eta": 0.5}
REGRESSION = Regression(reference.bdr_log_density, START, uncertain=True)


@pytest.fixture(scope="session")
def model():
    return compile_program("bdr", progress=False)


@pytest.fixture(scope="session")
def problem():
    """15 bags of 4 sizes at 4 landmarks, the embeddings' prior kernel not that of the weights."""
    return random_problem(15, 4)


def random_problem(n, d, **options):
    return reference.random_problem(np.random.default_rng(31), n=n, d=d, **options)


def stan_data(p, *, whitened=True, lossless=True, at_nodes=False, use_likelihood=True):
    lam, V = joint_basis(p.Sigma, p.R)
    rows = compress((p.mu - p.m0) @ V, p.y, p.sizes, lossless=lossless)
    rows = at_size_nodes(rows) if at_nodes else rows
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    whitening = reference.plain_coordinates(len(lam))
    if whitened:
        scales, mode = REGRESSION.mode(p, partial(normal_likelihood, rows, lam), factor)
        whitening = whitened_coordinates(mode, factor, scales["rho"])
    data = bdr_data(rows, lam, factor, p.priors) | {"use_likelihood": int(use_likelihood)}
    return data | whitening | no_effects(len(lam) + 1)


def test_data_are_what_the_program_declares(model, problem):
    data = stan_data(problem)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["D"], data["G"]) == (4, 4)
    assert data["rows"].shape == (data["T"], 6) and data["T"] == sum(data["length"])
    np.testing.assert_array_equal(data["bag_size"], [1, 3, 10, 200])
    np.testing.assert_array_equal(
        data["n_bags"], [np.sum(problem.sizes == s) for s in (1, 3, 10, 200)]
    )
    assert data["start"][0] == 1  # Stan counts from 1
    np.testing.assert_array_equal(data["start"][1:], 1 + np.cumsum(data["length"])[:-1])
    assert data["lambda"].shape == (4,) and data["prior_factor"].shape == (4, 4)
    assert data["information"].shape == (4,) and data["axes"].shape == (4, 4)
    assert data["use_likelihood"] == 1
    assert stan_data(problem, use_likelihood=False)["use_likelihood"] == 0
    assert {name: data[name] for name in problem.priors} == problem.priors


@pytest.mark.parametrize(
    "n, d, options",
    [
        (15, 4, {}),
        (15, 4, {"same_kernel": True}),
        (30, 2, {"sizes": np.full(30, 5.0)}),
        (1, 1, {"sizes": [1.0]}),
        (12, 3, {"sizes": np.linspace(0.7, 99.3, 12)}),  # effective sizes of weighted points
    ],
)
def test_log_density(model, n, d, options):
    p = random_problem(n, d, **options)
    REGRESSION.check_density(model, p, stan_data(p))


def test_mode_shift_changes_coordinates_and_nothing_else(model, problem):
    data = stan_data(problem)
    rng = np.random.default_rng(3)
    shifted = data | {
        "scale_at_mode": rng.gamma(3.0, size=2),
        "mode_shift": rng.normal(size=(5, 2)),
    }
    for point in REGRESSION.prior_points(problem, 4):
        parameters = REGRESSION.stan_parameters(problem, data, point)
        moved = {**parameters, "t": reference.less_mode_shift(shifted, parameters["t"], point)}
        found = [
            reference.log_density(model, of, at)[0]
            for of, at in ((data, parameters), (shifted, moved))
        ]
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_log_density_of_the_prior(model, problem):
    data = stan_data(problem, use_likelihood=False)
    REGRESSION.check_density(model, problem, data, use_likelihood=False)


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_gradient(model, problem, use_likelihood):
    data = stan_data(problem, use_likelihood=use_likelihood)
    REGRESSION.check_gradient(model, problem, data, use_likelihood=use_likelihood)


def test_whitening_keeps_the_density(model, problem):
    data, plain = stan_data(problem), stan_data(problem, whitened=False)
    assert not np.any(plain["information"]) and np.all(data["information"] > 0)
    REGRESSION.check_same_density(model, problem, data, plain)


def test_compression_keeps_the_density(model):
    p = random_problem(60, 4)
    data, one_by_one = stan_data(p), stan_data(p, lossless=False)
    assert data["T"] == 4 * 6 and one_by_one["T"] == one_by_one["G"] == 60
    REGRESSION.check_same_density(model, p, data, one_by_one)


def test_nodes_of_size_keep_density_and_gradient(model):
    sizes = np.exp(np.random.default_rng(2).uniform(0, 7, 900))  # all differ
    p = random_problem(900, 4, sizes=sizes)
    data, at_nodes = stan_data(p, lossless=False), stan_data(p, at_nodes=True)
    assert data["T"] == 900 and at_nodes["T"] < 200 and -1 in at_nodes["sign"]
    at_nodes |= {name: data[name] for name in ("information", "linear_term", "axes")}
    at_nodes |= {name: data[name] for name in data if name.startswith(("intercept_", "gamma_"))}
    for point in REGRESSION.prior_points(p):
        parameters = REGRESSION.stan_parameters(p, data, point)
        found = [reference.log_density(model, of, parameters) for of in (data, at_nodes)]
        assert found[1][0] == pytest.approx(found[0][0], rel=1e-9)
        gradient = found[0][1]
        np.testing.assert_allclose(
            found[1][1], gradient, rtol=1e-8, atol=1e-9 * np.abs(gradient).max()
        )


def test_order_of_the_bags_does_not_matter(model, problem):
    order = np.random.default_rng(5).permutation(15)
    other = reference.Problem(
        problem.mu[order], problem.sizes[order], problem.y[order],
        problem.Sigma, problem.R, problem.K,
    )  # fmt: skip
    point = next(REGRESSION.prior_points(problem))
    values = []
    for p in (problem, other):
        data = stan_data(p)
        values.append(REGRESSION.density_of_weights(model, p, data, point))
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_without_noise_within_bags_it_is_linear_regression(model, problem):
    """lambda = 0: no shrinkage and no added variance, whatever eta."""
    data = {**stan_data(problem), "lambda": np.zeros(4)}
    gap = []
    for x in REGRESSION.prior_points(problem):
        known = reference.blr_log_likelihood(problem, x["alpha"], x["intercept"], x["sigma"])
        prior = reference.bdr_log_density(problem, **x, use_likelihood=False)
        gap.append(known + prior - REGRESSION.density_of_weights(model, problem, data, x))
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)
