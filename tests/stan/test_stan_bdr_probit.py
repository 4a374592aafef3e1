"""stan/bdr_probit.stan against SciPy's densities at landmarks and simulated embeddings."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.regressions import Regression, joint_axes
from scipy import stats
from scipy.special import log_ndtr

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.shrinkage import joint_basis, shrinkage_factors
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.likelihoods import probit_likelihood
from bdr_stan.models.two_classes import bdr_probit_data, follow_latent_scale
from bdr_stan.posterior.whitening import whitened_coordinates

START = {"rho": 0.8, "eta": 0.5}
REGRESSION = Regression(reference.bdr_probit_log_density, START, uncertain=True)
# Stan's own slope of log Phi is a piecewise approximation, its value is not.
SLOPE_TOLERANCE = 1e-4


@pytest.fixture(scope="session")
def model():
    return compile_program("bdr_probit", progress=False)


@pytest.fixture(scope="session")
def problem():
    """25 bags of 4 sizes at 4 landmarks, the embeddings' prior kernel not that of the weights."""
    return random_problem(25, 4)


def random_problem(n, d, **options):
    return reference.random_classes(np.random.default_rng(31), n=n, d=d, **options)


def stan_data(p, *, whitened=True, use_likelihood=True):
    lam, V = joint_basis(p.Sigma, p.R)
    rows = rows_by_size((p.mu - p.m0) @ V, p.y, p.sizes)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    whitening = plain_coordinates(len(lam))
    if whitened:
        scales, mode = REGRESSION.mode(p, partial(probit_likelihood, rows, lam), factor)
        nu = scales["eta"] * (1 - shrinkage_factors(p.sizes, lam, scales["eta"]))
        whitening = follow_latent_scale(
            whitened_coordinates(mode, factor, scales["rho"]),
            nu @ mode.theta[:-1] ** 2,
            scales["rho"],
        )
    data = bdr_probit_data(rows, lam, factor, p.priors)
    return data | whitening | {"use_likelihood": int(use_likelihood)}


def plain_coordinates(d):
    return reference.plain_coordinates(d) | {"latent_spread": 0.0}


def test_data_are_what_the_program_declares(model, problem):
    data = stan_data(problem)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["N"], data["D"], data["G"]) == (25, 4, 4)
    counts = [np.sum(problem.sizes == size) for size in (1, 3, 10, 200)]
    np.testing.assert_array_equal(data["bag_size"], [1, 3, 10, 200])
    np.testing.assert_array_equal(data["length"], counts)
    np.testing.assert_array_equal(data["start"], 1 + np.cumsum([0, *counts[:-1]]))  # from 1
    order = np.argsort(problem.sizes, kind="stable")
    np.testing.assert_array_equal(data["y"], problem.y[order])
    assert data["y"].dtype.kind == "i"
    z = (problem.mu - problem.m0) @ joint_axes(problem)
    np.testing.assert_allclose(data["z"], z[order])
    assert data["lambda"].shape == (4,) and data["prior_factor"].shape == (4, 4)
    assert data["use_likelihood"] == 1
    assert stan_data(problem, use_likelihood=False)["use_likelihood"] == 0
    assert {name: data[name] for name in problem.priors} == problem.priors


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize(
    "n, d, options",
    [
        (25, 4, {}),
        (25, 4, {"same_kernel": True}),
        (30, 2, {"sizes": np.full(30, 5.0)}),
        (1, 1, {"sizes": [1.0]}),
        (12, 3, {"sizes": np.linspace(0.7, 99.3, 12)}),  # effective sizes of weighted points
    ],
)
def test_log_density(model, n, d, options, use_likelihood):
    p = random_problem(n, d, **options)
    data = stan_data(p, use_likelihood=use_likelihood)
    REGRESSION.check_density(model, p, data, use_likelihood=use_likelihood)


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_gradient(model, problem, use_likelihood):
    data = stan_data(problem, use_likelihood=use_likelihood)
    options = {"tolerance": SLOPE_TOLERANCE, "use_likelihood": use_likelihood}
    REGRESSION.check_gradient(model, problem, data, **options)


def test_tails_are_finite_and_right(model):
    """One bag at the average embedding: the latent value is the intercept, here up to 40 sds."""
    wide = {**reference.PRIORS, "intercept_location": 0.0, "intercept_scale": 1e100}
    wide.pop("sigma_scale")
    no_whitening = plain_coordinates(1)
    for label in (0, 1):
        rows = rows_by_size(np.zeros((1, 1)), np.array([label]), np.ones(1))
        data = bdr_probit_data(rows, np.zeros(1), np.eye(1), wide) | no_whitening
        latent = np.r_[-40, -37.6, -30, -20, -8, -3, -1, 0, 1, 2.5, 3.5, 8, 20, 40]
        found = [reference.log_density(model, data, {"t": [0, a], **START}) for a in latent]
        value, slope = np.array([v for v, _ in found]), np.array([s[1] for _, s in found])
        sign = 2 * label - 1
        expected = log_ndtr(sign * latent)
        at_zero = list(latent).index(0)
        np.testing.assert_allclose(
            value - value[at_zero], expected - expected[at_zero], rtol=1e-12, atol=1e-12
        )
        by_latent = sign * np.exp(stats.norm.logpdf(latent) - expected)
        np.testing.assert_allclose(slope, by_latent, rtol=1e-4, atol=1e-12)


def test_whitening_keeps_the_density(model, problem):
    data, plain = stan_data(problem), stan_data(problem, whitened=False)
    assert not np.any(plain["information"]) and np.all(data["information"] > 0)
    assert plain["latent_spread"] == 0 and data["latent_spread"] > 0.1
    REGRESSION.check_same_density(model, problem, data, plain)


def test_order_of_the_bags_does_not_matter(model, problem):
    order = np.random.default_rng(5).permutation(25)
    other = reference.Problem(
        problem.mu[order], problem.sizes[order], problem.y[order],
        problem.Sigma, problem.R, problem.K, problem.priors,
    )  # fmt: skip
    point = next(REGRESSION.prior_points(problem))
    values = [
        REGRESSION.density_of_weights(model, p, stan_data(p), point) for p in (problem, other)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_closed_form_is_the_average_over_embeddings(model, problem):
    """Phi of the latent function, averaged over draws of each bag's true embedding."""
    p, rng, n_draws = problem, np.random.default_rng(3), 40_000
    data, prior = stan_data(p), stan_data(p, use_likelihood=False)
    for point in REGRESSION.prior_points(p, 3):
        closed = REGRESSION.density_of_weights(model, p, data, point)
        closed -= REGRESSION.density_of_weights(model, p, prior, point)
        average, variance = 0.0, 0.0
        for mu, size, y in zip(p.mu, p.sizes, p.y):
            M, C = reference.embedding_posterior(mu, size, p.m0, p.Sigma, p.R, point["eta"])
            embeddings = rng.multivariate_normal(M, C, n_draws)
            latent = point["intercept"] + (embeddings - p.m0) @ point["alpha"]
            likelihood = stats.norm.cdf((2 * y - 1) * latent)
            average += np.log(likelihood.mean())
            variance += likelihood.var() / n_draws / likelihood.mean() ** 2
        assert variance < 0.05**2
        assert abs(average - closed) < 4.5 * np.sqrt(variance)


# ---------------------------------------------------------------- slow


def sample(model, data, start, **options):
    return reference.sample(model, data, start, **{"draws": 3000, "adapt_delta": 0.95, **options})


@pytest.mark.slow
def test_posterior_is_that_of_quadrature(model):
    """One weight: its posterior, the intercept's and the scales' on a grid."""
    p = random_problem(40, 1)
    data = stan_data(p)
    draws, labels = REGRESSION.landmark_columns(sample(model, data, REGRESSION.start_at(data)), p)
    mean, variance = grid_moments(p)
    reference.assert_moments(draws, mean, variance, labels)


def grid_moments(p):
    """Posterior mean and variance of [alpha; intercept; rho; eta] by summation over a grid.

    The likelihood does not know rho; weight and intercept are scanned over all their priors allow.
    """
    priors = p.priors
    alphas, intercepts = np.linspace(-9, 9, 121), np.linspace(-4, 6, 81)
    rhos = priors["rho_median"] * np.exp(priors["rho_log_sd"] * np.linspace(-4.5, 4.5, 61))
    etas = priors["eta_median"] * np.exp(priors["eta_log_sd"] * np.linspace(-4.5, 4.5, 41))
    A, B, E = np.meshgrid(alphas, intercepts, etas, indexing="ij")
    log_likelihood = np.zeros(A.shape)
    Sigma, R, m0 = p.Sigma[0, 0], p.R[0, 0], p.m0[0]
    for mu, size, y in zip(p.mu[:, 0], p.sizes, p.y):
        variance = 1 / (1 / (E * R) + size / Sigma)
        xi = B + A * (variance * (mu - m0) * size / Sigma)
        log_likelihood += log_ndtr((2 * y - 1) * xi / np.sqrt(1 + A**2 * variance))
    by_rho = stats.norm.pdf(alphas[:, None], 0, rhos / np.sqrt(p.K[0, 0]))
    by_rho = by_rho * stats.norm.pdf(np.linspace(-4.5, 4.5, 61))  # on the log scale
    prior = stats.norm.pdf(B, priors["intercept_location"], priors["intercept_scale"])
    prior = prior * stats.norm.pdf(np.linspace(-4.5, 4.5, 41))
    joint = np.exp(log_likelihood) * prior
    weights = {
        "alpha": (alphas, joint.sum(axis=(1, 2)) * by_rho.sum(axis=1)),
        "intercept": (intercepts, np.einsum("abe,ar->b", joint, by_rho)),
        "rho": (rhos, np.einsum("abe,ar->r", joint, by_rho)),
        "eta": (etas, np.einsum("abe,ar->e", joint, by_rho)),
    }
    mean = [np.average(x, weights=of) for x, of in weights.values()]
    variance = [np.average((x - m) ** 2, weights=of) for m, (x, of) in zip(mean, weights.values())]
    return mean, variance
