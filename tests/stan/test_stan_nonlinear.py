"""stan/nonlinear.stan against SciPy's densities at landmarks, point by point of each bag."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference
from scipy import integrate, stats
from scipy.linalg import block_diag

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.coordinates import joint_coordinates
from bdr_stan.models.bdr_probit import rows_by_size
from bdr_stan.models.curve import HALF_WIDTH, CurvedCoordinates, basis_frequencies, normal_points
from bdr_stan.models.nonlinear import nonlinear_data, nonlinear_likelihood
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.whitening import whitened_coordinates

SCALES = ("sigma", "rho")
CURVE = {"kappa": 0.8, "ell": 1.2}
B = 5


@pytest.fixture(scope="session")
def model():
    return compile_program("nonlinear", progress=False)


def random_problem(n=25, d=4, *, Q=0, **options):
    rng = np.random.default_rng(31)
    p = reference.random_problem(rng, n=n, d=d, **options)
    p = reference.with_covariates(rng, p, Q) if Q else p
    priors = {name: v for name, v in p.priors.items() if not name.startswith("eta")}
    return replace(p, priors=priors)


def coordinates(p, q):
    plain = joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)
    return CurvedCoordinates(**vars(plain), frequencies=basis_frequencies(q, B))


def stan_data(p, q, *, whitened=True, use_likelihood=True):
    at = coordinates(p, q)
    x = np.zeros((len(p.y), 0)) if p.x is None else p.x
    rows = rows_by_size(np.column_stack([at.transform(p.mu), x]), p.y, p.sizes)
    n_weights = len(at.lam) + len(at.frequencies)
    factor = block_diag(at.prior_factor, np.eye(len(at.frequencies)))
    whitening = reference.plain_coordinates(n_weights)
    if whitened:
        mode = find_mode(
            nonlinear_likelihood(rows, at, sigma=0.5, **CURVE),
            factor,
            (p.priors["intercept_location"], p.priors["intercept_scale"]),
            rho=0.8,
            gamma_scales=[p.priors["gamma_scale"]] * x.shape[1] if x.size else [],
        )
        whitening = whitened_coordinates(mode, factor, 0.8)
    return nonlinear_data(rows, at, CURVE, p.priors, use_likelihood=use_likelihood) | whitening


def curve(u, v, frequencies):
    """g at one u, from its definition, basis function by basis function."""
    if not len(v):
        return 0.0
    q, value = len(u), 0.0
    for v_b, omega in zip(v, frequencies, strict=True):
        density = (2 * np.pi) ** (q / 2) * CURVE["ell"] ** q
        density *= np.exp(-(CURVE["ell"] ** 2) * omega @ omega / 2)
        phi = 1.0
        for u_k, omega_k in zip(u, omega, strict=True):
            inside = min(max(u_k, -HALF_WIDTH), HALF_WIDTH)
            phi *= np.sin(omega_k * (inside + HALF_WIDTH)) / np.sqrt(HALF_WIDTH)
        value += CURVE["kappa"] * np.sqrt(density) * v_b * phi
    return value


def given_leading(p, q, i, alpha, v):
    """Mean and sd of the leading coordinates of bag i; mean and variance of f given these."""
    at = coordinates(p, q)
    M, C = reference.embedding_posterior(p.mu[i], p.sizes[i], p.m0, p.Sigma, p.R, 1.0)
    lead = at.basis[:, :q]
    centre, covariance = lead.T @ (M - p.m0), lead.T @ C @ lead
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-10)
    gain = np.linalg.solve(covariance, lead.T @ C @ alpha)
    variance = alpha @ C @ alpha - gain @ covariance @ gain

    def mean(u):
        return (M - p.m0) @ alpha + gain @ (u - centre) + curve(u, v, at.frequencies)

    return centre, np.sqrt(np.diag(covariance)), mean, variance


def log_likelihood(p, q, alpha, v, intercept, sigma, gamma=()):
    """Each label's density, averaged over the points of the bag's leading coordinates."""
    beside = intercept + np.broadcast_to(reference.of_covariates(p, gamma), len(p.y))
    value = 0.0
    for i, y in enumerate(p.y):
        centre, sd, mean, variance = given_leading(p, q, i, alpha, v)
        means = [beside[i] + mean(centre + sd * e) for e in normal_points(q)]
        value += np.log(np.mean(stats.norm.pdf(y, means, np.sqrt(variance + sigma**2))))
    return value


def log_density(p, q, alpha, v, intercept, sigma, rho, gamma=(), use_likelihood=True):
    value = reference.log_prior_of_scales(p.priors, intercept, sigma, rho, gamma=gamma)
    value += stats.multivariate_normal.logpdf(alpha, cov=rho**2 * np.linalg.inv(p.K))
    value += stats.norm.logpdf(v, 0, rho).sum()
    return value + use_likelihood * log_likelihood(p, q, alpha, v, intercept, sigma, gamma)


def prior_points(p, q, number=6):
    """Parameters drawn from the prior, but for noise too small for a density to compare."""
    rng = np.random.default_rng(7)
    Q = 0 if p.x is None else p.x.shape[1]
    for _ in range(number):
        drawn = reference.draw_scales(rng, p.priors, with_eta=False, Q=Q)
        drawn["sigma"] += 0.2
        covariance = drawn["rho"] ** 2 * np.linalg.inv(p.K)
        drawn["alpha"] = rng.multivariate_normal(np.zeros(len(p.K)), covariance)
        yield drawn | {"v": rng.normal(0, drawn["rho"], B if q else 0)}


def stan_parameters(p, q, data, point):
    weights = np.r_[np.linalg.solve(coordinates(p, q).basis, point["alpha"]), point["v"]]
    t = reference.whiten(data, weights, point["intercept"], point["rho"], point.get("gamma", ()))
    return {"t": t, **{name: point[name] for name in SCALES}}


def density_of_weights(model, p, q, data, point):
    parameters = stan_parameters(p, q, data, point)
    value, _ = reference.log_density(model, data, parameters)
    return value - reference.unwhiten_all(data, parameters["t"], parameters["rho"])[1]


@pytest.mark.parametrize("q", [0, 1, 2])
def test_data_are_what_the_program_declares(model, q):
    p = random_problem()
    data = stan_data(p, q)
    assert set(data) == set(model.src_info()["inputs"])
    shape = [data[name] for name in ("N", "D", "Q", "G", "K", "M", "B")]
    assert shape == [25, 4, 0, 4, q, 32 if q else 1, B if q else 0]
    order = np.argsort(p.sizes, kind="stable")
    np.testing.assert_array_equal(data["rows"][:, -1], p.y[order])
    assert {name: data[name] for name in p.priors} == p.priors
    assert stan_data(p, q, use_likelihood=False)["use_likelihood"] == 0


@pytest.mark.parametrize("use_likelihood", [True, False])
@pytest.mark.parametrize(
    "q, options",
    [
        (1, {}),
        (2, {}),
        (3, {"n": 8}),
        (1, {"Q": 2}),
        (1, {"n": 1, "d": 1, "sizes": [1.0]}),
        (1, {"n": 12, "d": 3, "sizes": np.linspace(0.7, 99.3, 12)}),  # weighted points
    ],
)
def test_log_density(model, q, options, use_likelihood):
    p = random_problem(**options)
    data = stan_data(p, q, use_likelihood=use_likelihood)
    points = list(prior_points(p, q))
    stan = [density_of_weights(model, p, q, data, x) for x in points]
    ours = [log_density(p, q, **x, use_likelihood=use_likelihood) for x in points]
    gap = np.subtract(ours, stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-7, rtol=1e-11)


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_gradient(model, use_likelihood):
    q, p = 1, random_problem(n=8, d=3)
    data = stan_data(p, q, use_likelihood=use_likelihood)
    V = coordinates(p, q).basis

    def function(x):
        theta, jacobian = reference.unwhiten_all(data, x[:-2], np.exp(x[-1]))
        sigma, rho = np.exp(x[-2:])
        density = log_density(
            p, q, V @ theta[:3], theta[3:-1], theta[-1], sigma, rho, use_likelihood=use_likelihood
        )
        return density + jacobian + np.sum(x[-2:])  # and that of the logarithms

    for point in prior_points(p, q, 2):
        parameters = stan_parameters(p, q, data, point)
        x = np.r_[parameters["t"], np.log([parameters[name] for name in SCALES])]
        _, gradient = reference.log_density(model, data, parameters, jacobian=True)
        np.testing.assert_allclose(gradient, reference.gradient(function, x), rtol=1e-5, atol=1e-4)


def test_without_leading_coordinates_it_is_bdr_at_eta_1(model):
    p = random_problem()
    data = stan_data(p, 0)
    gaps = []
    for x in prior_points(p, 0):
        expected = reference.log_prior_of_scales(p.priors, x["intercept"], x["sigma"], x["rho"])
        covariance = x["rho"] ** 2 * np.linalg.inv(p.K)
        expected += stats.multivariate_normal.logpdf(x["alpha"], cov=covariance)
        expected += reference.bdr_log_likelihood(p, x["alpha"], x["intercept"], x["sigma"], 1.0)
        gaps.append(expected - density_of_weights(model, p, 0, data, x))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-8)


def test_many_points_give_the_integral(model):
    """The label's density with the leading coordinate integrated by quadrature."""
    p = random_problem(n=6, d=3)
    data = stan_data(p, 1)
    middles = (np.arange(4000) + 0.5) / 4000
    many = data | {"M": 4000, "points": stats.norm.ppf(middles)[:, None]}
    gaps = []
    for x in prior_points(p, 1, 4):
        # Labels that no u makes likely would say how far the points reach.
        x |= {"alpha": 0.2 * x["alpha"], "intercept": p.y.mean(), "sigma": 1.0}
        expected = log_density(p, 1, **x, use_likelihood=False)
        for i, y in enumerate(p.y):
            centre, sd, mean, variance = given_leading(p, 1, i, x["alpha"], x["v"])
            noise = np.sqrt(variance + x["sigma"] ** 2)

            def density(e, y=y, centre=centre, sd=sd, mean=mean, noise=noise, x=x):
                at = x["intercept"] + mean(centre + sd * e)
                return stats.norm.pdf(y, at, noise) * stats.norm.pdf(e)

            expected += np.log(integrate.quad(density, -8, 8, limit=200)[0])
        gaps.append(expected - density_of_weights(model, p, 1, many, x))
    np.testing.assert_allclose(gaps, gaps[0], atol=5e-3)


def test_one_point_at_the_mean_ignores_the_size_in_the_leading_coordinate(model):
    p = random_problem(n=6, d=1)
    one = stan_data(p, 1) | {"M": 1, "points": np.zeros((1, 1))}
    frequencies = coordinates(p, 1).frequencies
    gaps = []
    for x in prior_points(p, 1):
        expected = log_density(p, 1, **x, use_likelihood=False)
        for i, y in enumerate(p.y):
            centre, _, mean, _ = given_leading(p, 1, i, x["alpha"], np.zeros(0))
            at = x["intercept"] + mean(centre) + curve(centre, x["v"], frequencies)
            expected += stats.norm.logpdf(y, at, x["sigma"])
        gaps.append(expected - density_of_weights(model, p, 1, one, x))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-8)


def test_whitening_keeps_the_density(model):
    p = random_problem(Q=1)
    data, plain = stan_data(p, 1), stan_data(p, 1, whitened=False)
    plain |= {
        "gamma_centre": np.zeros(1),
        "gamma_slope": np.zeros((1, 4 + B)),
        "gamma_unit": np.eye(1),
        "intercept_slope": np.zeros(4 + B + 1),
    }
    assert np.any(data["information"] > 0) and not np.any(plain["information"])
    gaps = [
        np.diff([density_of_weights(model, p, 1, of, x) for of in (data, plain)])[0]
        for x in prior_points(p, 1)
    ]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-7)


def test_order_of_the_bags_does_not_matter(model):
    p = random_problem()
    order = np.random.default_rng(5).permutation(25)
    other = replace(p, mu=p.mu[order], sizes=p.sizes[order], y=p.y[order])
    x = next(prior_points(p, 1))
    found = [
        density_of_weights(model, o, 1, stan_data(o, 1, whitened=False), x) for o in (p, other)
    ]
    np.testing.assert_allclose(*found, rtol=1e-10)
