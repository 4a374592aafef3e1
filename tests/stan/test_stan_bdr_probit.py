"""stan/bdr_probit.stan against SciPy's densities at landmarks and simulated embeddings."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from scipy import stats
from scipy.special import log_ndtr

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.shrinkage import joint_basis, shrinkage_factors
from bdr_stan.models.bdr_probit import bdr_probit_data, follow_latent_scale, rows_by_size
from bdr_stan.models.likelihoods import probit_likelihood
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.posterior.scales import maximise_evidence
from bdr_stan.posterior.whitening import whitened_coordinates

START = {"rho": 0.8, "eta": 0.5}
SCALES = ("rho", "eta")
# Stan's own slope of log Phi is a piecewise approximation, its value is not.
SLOPE = {"rtol": 1e-4, "atol": 1e-4}


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
        intercept = p.priors["intercept_location"], p.priors["intercept_scale"]
        log_prior = log_prior_of_scales(p.priors)
        at = partial(probit_likelihood, rows, lam)
        scales, mode, _ = maximise_evidence(at, factor, intercept, START, log_prior=log_prior)
        nu = scales["eta"] * (1 - shrinkage_factors(p.sizes, lam, scales["eta"]))
        whitening = follow_latent_scale(
            whitened_coordinates(mode, factor, scales["rho"]),
            nu @ mode.theta[:-1] ** 2,
            scales["rho"],
        )
    return bdr_probit_data(rows, lam, factor, p.priors, use_likelihood=use_likelihood) | whitening


def plain_coordinates(d):
    return reference.plain_coordinates(d) | {"latent_spread": 0.0}


def basis(p):
    """Landmark weights alpha are basis @ w."""
    return joint_basis(p.Sigma, p.R)[1]


def prior_points(p, number=8):
    """Parameters drawn from the prior: landmark weights and scales."""
    rng = np.random.default_rng(7)
    for _ in range(number):
        scales = reference.draw_scales(rng, p.priors)
        covariance = scales["rho"] ** 2 * np.linalg.inv(p.K)
        yield {"alpha": rng.multivariate_normal(np.zeros(len(p.K)), covariance), **scales}


def stan_parameters(p, data, point):
    w = np.linalg.solve(basis(p), point["alpha"])
    t = reference.whiten(data, w, point["intercept"], point["rho"])
    return {"t": t, **{name: point[name] for name in SCALES}}


def density_of_weights(model, p, data, point):
    return reference.density_of_weights(model, data, stan_parameters(p, data, point))


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
    z = (problem.mu - problem.m0) @ basis(problem)
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
    points = list(prior_points(p))
    stan = [density_of_weights(model, p, data, x) for x in points]
    ours = [reference.bdr_probit_log_density(p, **x, use_likelihood=use_likelihood) for x in points]
    gap = np.subtract(ours, stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_gradient(model, problem, use_likelihood):
    p, V = problem, basis(problem)
    data = stan_data(p, use_likelihood=use_likelihood)

    def function(x):
        w, intercept, jacobian = reference.unwhiten(data, x[:-2], np.exp(x[-2]))
        density = reference.bdr_probit_log_density(
            p, V @ w, intercept, *np.exp(x[-2:]), use_likelihood=use_likelihood
        )
        return density + jacobian + np.sum(x[-2:])  # and that of the logarithms

    for point in prior_points(p, 4):
        parameters = stan_parameters(p, data, point)
        x = np.r_[parameters["t"], np.log([parameters[name] for name in SCALES])]
        _, gradient = reference.log_density(model, data, parameters, jacobian=True)
        expected = reference.gradient(function, x)
        np.testing.assert_allclose(gradient, expected, **SLOPE)


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
    density = [
        [density_of_weights(model, problem, of, x) for of in (data, plain)]
        for x in prior_points(problem)
    ]
    np.testing.assert_allclose(*np.transpose(density), rtol=1e-8)


def test_order_of_the_bags_does_not_matter(model, problem):
    order = np.random.default_rng(5).permutation(25)
    other = reference.Problem(
        problem.mu[order], problem.sizes[order], problem.y[order],
        problem.Sigma, problem.R, problem.K, problem.priors,
    )  # fmt: skip
    point = next(prior_points(problem))
    values = [density_of_weights(model, p, stan_data(p), point) for p in (problem, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_closed_form_is_the_average_over_embeddings(model, problem):
    """Phi of the latent function, averaged over draws of each bag's true embedding."""
    p, rng, n_draws = problem, np.random.default_rng(3), 40_000
    data, prior = stan_data(p), stan_data(p, use_likelihood=False)
    for point in prior_points(p, 3):
        closed = density_of_weights(model, p, data, point)
        closed -= density_of_weights(model, p, prior, point)
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


def start_at(data):
    return {"t": np.zeros(data["D"] + 1), **START}


def landmark_columns(draws, p):
    """Landmark weights, intercept and scales side by side."""
    draws = {**draws, "alpha": draws["w"] @ basis(p).T}
    return reference.columns(draws, ["alpha", "intercept", *SCALES])


def sample(model, data, **options):
    return reference.sample(
        model, data, start_at(data), **{"draws": 3000, "adapt_delta": 0.95, **options}
    )


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model, problem):
    data = stan_data(problem, whitened=False, use_likelihood=False)
    draws, labels = landmark_columns(sample(model, data, draws=5000), problem)
    p = problem.priors
    rho, eta = (
        stats.lognorm(p[f"{name}_log_sd"], scale=p[f"{name}_median"]) for name in ("rho", "eta")
    )
    mean = [0, 0, 0, 0, p["intercept_location"], rho.mean(), eta.mean()]
    weights = rho.moment(2) * np.diag(np.linalg.inv(problem.K))
    variance = [*weights, p["intercept_scale"] ** 2, rho.var(), eta.var()]
    reference.assert_moments(draws, mean, variance, labels)


@pytest.mark.slow
def test_whitening_keeps_the_posterior(model, problem):
    samples = []
    for whitened in (True, False):
        data = stan_data(problem, whitened=whitened)
        draws, labels = landmark_columns(sample(model, data), problem)
        samples.append(draws)
    reference.assert_same_moments(*samples, labels)


@pytest.mark.slow
def test_posterior_is_that_of_quadrature(model):
    """One weight: its posterior, the intercept's and the scales' on a grid."""
    p = random_problem(40, 1)
    data = stan_data(p)
    draws, labels = landmark_columns(sample(model, data), p)
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
