"""The likelihood of the regression with a curve, and its model."""

import numpy as np
import pytest
from builders import reference
from builders.training import bags_of_one_size, labelled_bags, training_of

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models.bdr_probit import rows_by_size
from bdr_stan.models.curve import CurvedCoordinates, basis_frequencies, basis_functions, spectral_sd
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.models.nonlinear import (
    nonlinear_likelihood,
    nonlinear_model,
    nonlinear_predictive,
)
from bdr_stan.posterior.settings import SamplerSettings

RNG = np.random.default_rng(4)
N, D = 14, 3
SIZES = RNG.choice([1.0, 4.0, 60.0], N)
LAM = np.array([0.4, 1.0, 6.0])
Z = RNG.normal(size=(N, D)) * np.sqrt(1 + LAM / SIZES[:, None])
X = RNG.normal(size=(N, 2))
Y = 1 + Z @ [0.5, -0.3, 0.2] + 0.4 * Z[:, 0] ** 2 + RNG.normal(0, 0.3, N)
SCALES = {"sigma": 0.4, "kappa": 0.8, "ell": 1.1}


def coordinates(n_curved, n_functions=6):
    frequencies = basis_frequencies(n_curved, n_functions)
    return CurvedCoordinates(np.zeros(D), np.eye(D), LAM, np.eye(D), frequencies)


def likelihood_at(n_curved, **options):
    rows = rows_by_size(np.column_stack([Z, X]), Y, SIZES)
    return nonlinear_likelihood(rows, coordinates(n_curved), **SCALES, **options)


@pytest.mark.parametrize("n_curved", [0, 1, 2])
def test_derivatives(n_curved):
    likelihood = likelihood_at(n_curved, level=0.3)
    size = D + (6 if n_curved else 0) + 3
    theta = 0.5 * np.random.default_rng(n_curved).normal(size=size)
    _, slope, _, curvature = likelihood(theta)
    by_differences = reference.gradient(lambda t: likelihood(t)[0], theta)
    np.testing.assert_allclose(slope, by_differences, rtol=1e-6, atol=1e-6)
    for k in range(size):
        of_slope = reference.gradient(lambda t, k=k: likelihood(t)[1][k], theta)
        np.testing.assert_allclose(-curvature[k], of_slope, rtol=1e-6, atol=1e-6)


def test_without_a_curve_it_is_that_of_bdr_with_its_information():
    theta = np.random.default_rng(2).normal(size=D + 3)
    ours = likelihood_at(0, level=0.2)(theta)
    rows = compress(np.column_stack([Z, X]), Y, SIZES)
    for found, expected in zip(
        ours, normal_likelihood(rows, LAM, sigma=SCALES["sigma"], level=0.2)(theta), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_with_a_flat_curve_it_is_nearly_that_of_bdr():
    """The leading coordinate is then integrated by points what BDR integrates in closed form."""
    theta = np.r_[0.5, -0.3, 0.2, np.zeros(6), 0.1, -0.1, 1.0]
    found = likelihood_at(1)(theta)[0]
    rows = compress(np.column_stack([Z, X]), Y, SIZES)
    linear = normal_likelihood(rows, LAM, sigma=SCALES["sigma"])
    np.testing.assert_allclose(found, linear(np.delete(theta, np.s_[3:9]))[0], rtol=2e-3)


def test_eta_of_bags_of_one_size_is_the_moment_estimate():
    """By the linear model, which labels of such bags do not help to find it."""
    eta = nonlinear_model(*bags_of_one_size(), n_curved=1, n_functions=20).constants["eta"][0]
    assert eta == pytest.approx(1, rel=0.05)


def test_what_a_program_writes_of_its_rows_comes_back_in_the_order_of_the_bags(rng):
    bags, y = labelled_bags(rng)
    training = training_of(bags, "rbf", rng.normal(size=(4, 3)))
    model = nonlinear_model(training, y, n_curved=1, n_functions=20)
    of_rows = model.data["rows"][:, -1]
    assert not np.array_equal(of_rows, y)
    written = {name: np.zeros((2, 3)) for name in ("intercept", "sigma")} | {
        "w": np.zeros((2, 3, 4)), "c": np.zeros((2, 3, 1)), "log_lik": np.tile(of_rows, (2, 3, 1)),
    }  # fmt: skip
    drawn = model.read(written, SamplerSettings(stan_file="mine.stan"))
    np.testing.assert_array_equal(drawn["log_lik"], np.tile(y, (2, 3, 1)))


def test_moments_of_predictions_are_integrals_over_the_embedding(rng):
    """Its coordinates are N(s z, 1 - s) with s = N / (N + lambda); the curve is of the first."""
    S, at = 5, coordinates(1)
    draws = {
        "intercept": rng.normal(size=S), "w": rng.normal(size=(S, D)),
        "c": 0.5 * rng.normal(size=(S, 6)), "gamma": rng.normal(size=(S, 2)),
        "sigma": rng.gamma(2.0, size=S),
    }  # fmt: skip
    found = nonlinear_predictive(at, Embedding(SIZES, Z, None, covariates=X), **draws)
    s = SIZES[:, None] / (SIZES[:, None] + LAM)
    node, weight = np.polynomial.hermite_e.hermegauss(120)
    u = (s * Z)[:, 0] + np.sqrt(1 - s[:, 0]) * node[:, None]  # nodes by bags
    phi = basis_functions(u[..., None], at.frequencies)
    first = draws["w"][:, 0, None, None] * u + np.einsum("sb,mnb->smn", draws["c"], phi)
    rest = draws["intercept"][:, None] + draws["w"][:, 1:] @ (s * Z)[:, 1:].T
    rest = rest + draws["gamma"] @ X.T
    variance = draws["w"][:, 1:] ** 2 @ (1 - s[:, 1:]).T + draws["sigma"][:, None] ** 2
    share = (weight / weight.sum())[:, None]
    mean = np.sum(share * (first + rest[:, None]), axis=1)
    square = np.sum(share * (first + rest[:, None]) ** 2, axis=1) + variance
    np.testing.assert_allclose(found.mean, mean.mean(axis=0), atol=0.02)
    expected = np.sqrt(square.mean(axis=0) - mean.mean(axis=0) ** 2)
    np.testing.assert_allclose(found.sd, expected, rtol=0.01)


def test_information_is_that_of_normal_labels_of_the_same_moments():
    """sum_i dm_i dm_i' / V_i + dV_i dV_i' / (2 V_i^2), by differences of predictions."""
    at, theta = coordinates(1), 0.5 * np.random.default_rng(5).normal(size=D + 9)
    sd_of_c = SCALES["kappa"] * spectral_sd(at.frequencies, SCALES["ell"])

    def moments(theta):
        w, c, gamma, intercept = np.split(theta[None], [D, D + 6, D + 8], axis=1)
        found = nonlinear_predictive(
            at, Embedding(SIZES, Z, None, covariates=X), w=w, c=sd_of_c * c, gamma=gamma,
            intercept=intercept[0], sigma=np.array([SCALES["sigma"]]),
        )  # fmt: skip
        return np.concatenate([found.mean, found.sd**2])

    steps = 1e-5 * np.eye(len(theta))
    slopes = np.array([(moments(theta + h) - moments(theta - h)) / 2e-5 for h in steps])
    variance = moments(theta)[N:]
    precision = np.concatenate([1 / variance, 0.5 / variance**2])
    information = likelihood_at(1)(theta)[2]
    np.testing.assert_allclose(information, slopes * precision @ slopes.T, rtol=1e-5, atol=1e-6)
