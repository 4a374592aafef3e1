"""Coordinates in which the posterior of the weights is nearly standard normal."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.scales import INTERCEPT, blr_arguments, blr_closed_form, mode_at

from bdr_stan.embedding.compression import compress
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.mode import Mode, find_mode
from bdr_stan.posterior.whitening import whitened_coordinates, with_mode_shift


@pytest.mark.parametrize("rho", [0.5, 3.0])
def test_whitened_coordinates_are_standard_normal_where_the_mode_was_found(rng, rho):
    d = 4
    root, factor = rng.normal(size=(20, d + 1)), np.triu(rng.normal(size=(d, d))) + 3 * np.eye(d)
    precision = root.T @ root
    precision[:d, :d] += factor.T @ factor / rho**2
    mode = Mode(rng.normal(size=d + 1), precision, 0.0)
    data = whitened_coordinates(mode, factor, rho)

    def theta(t):
        w, intercept, _ = reference.unwhiten(data, t, rho)
        return np.r_[w, intercept]

    at_zero = theta(np.zeros(d + 1))
    np.testing.assert_allclose(at_zero, mode.theta, rtol=1e-9)
    B = np.transpose([theta(unit) - at_zero for unit in np.eye(d + 1)])
    np.testing.assert_allclose(B @ B.T, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)


def test_of_covariates_they_are_standard_normal_too(rng):
    """Three covariates: [w; gamma; intercept] at t = 0 is the mode, its spread the covariance."""
    d, Q, rho = 4, 3, 0.8
    D = d + Q + 1
    root = rng.normal(size=(30, D))
    precision = root.T @ root
    precision[:d, :d] += np.eye(d) / rho**2
    mode = Mode(rng.normal(size=D), precision, 0.0)
    data = whitened_coordinates(mode, np.eye(d), rho)
    assert set(data) == set(reference.plain_coordinates(d))

    def theta(t):
        return reference.unwhiten_all(data, t, rho)[0]

    np.testing.assert_allclose(theta(np.zeros(D)), mode.theta, rtol=1e-9)
    B = np.transpose([theta(unit) - theta(np.zeros(D)) for unit in np.eye(D)])
    np.testing.assert_allclose(B @ B.T, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(data["gamma_unit"], np.triu(data["gamma_unit"]))


def test_weights_of_several_samples_given_those_before_are_standard_normal(rng):
    """Three blocks with a rho each, one covariate: theta is mode + B t, B B' the covariance."""
    blocks, rho = (2, 3, 1), np.repeat([0.5, 2.0, 0.9], (2, 3, 1))
    d, D = 6, 8
    factor = np.zeros((d, d))
    for start, size in zip((0, 2, 5), blocks, strict=True):
        block = slice(start, start + size)
        factor[block, block] = np.triu(rng.normal(size=(size, size))) + 3 * np.eye(size)
    root = rng.normal(size=(30, D))
    precision = root.T @ root
    precision[:d, :d] += (factor / rho[:, None]).T @ (factor / rho[:, None])
    mode = Mode(rng.normal(size=D), precision, 0.0)
    data = whitened_coordinates(mode, factor, rho, blocks)

    def theta(t):
        q = data["information"] + rho**-2
        along = np.zeros(d)
        for k in range(d):  # its row of block_cross is of earlier blocks
            along[k] = (data["linear_term"][k] + data["block_cross"][k] @ along) / q[k]
            along[k] += t[k] / np.sqrt(q[k])
        w = data["axes"] @ along
        gamma = data["gamma_centre"] + data["gamma_slope"] @ w + data["gamma_unit"] @ t[d:-1]
        rest = np.r_[w, gamma]
        intercept = data["intercept_centre"] + data["intercept_slope"] @ rest
        return np.r_[rest, intercept + data["intercept_unit"] * t[-1]]

    np.testing.assert_allclose(theta(np.zeros(D)), mode.theta, rtol=1e-9)
    B = np.transpose([theta(unit) - theta(np.zeros(D)) for unit in np.eye(D)])
    np.testing.assert_allclose(B @ B.T, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("rho", [0.1, 0.9, 20.0])
def test_of_linear_regression_they_are_standard_normal_whatever_rho(rng, n, rho):
    """Found at one rho, exact at all others: mean and covariance of the closed form."""
    p = reference.random_problem(rng, n=n, d=4)
    mode = mode_at(blr_arguments(p), {"sigma": 0.5, "rho": 0.9})
    data = whitened_coordinates(mode, np.eye(4), 0.9)

    def theta(t):
        w, intercept, _ = reference.unwhiten(data, t, rho)
        return np.r_[w, intercept]

    mean, covariance = blr_closed_form(p, 0.5, rho)
    np.testing.assert_allclose(theta(np.zeros(5)), mean, rtol=1e-7, atol=1e-9)
    B = np.transpose([theta(unit) - theta(np.zeros(5)) for unit in np.eye(5)])
    np.testing.assert_allclose(B @ B.T, covariance, rtol=1e-7, atol=1e-10)


def test_without_labels_they_are_those_of_the_prior(rng):
    d, rho = 3, 0.8
    factor = np.triu(rng.normal(size=(d, d))) + 3 * np.eye(d)
    precision = np.zeros((d + 1, d + 1))
    precision[:d, :d] = factor.T @ factor / rho**2
    precision[d, d] = INTERCEPT[1] ** -2
    data = whitened_coordinates(Mode(np.r_[np.zeros(d), INTERCEPT[0]], precision, 0.0), factor, rho)
    np.testing.assert_allclose(data["information"], np.zeros(d), atol=1e-12)
    np.testing.assert_allclose(data["linear_term"], np.zeros(d), atol=1e-12)
    prior = data["axes"].T @ factor.T @ factor @ data["axes"]
    np.testing.assert_allclose(prior, np.eye(d), atol=1e-12)
    assert (data["intercept_centre"], data["intercept_unit"]) == pytest.approx(INTERCEPT)
    np.testing.assert_array_equal(data["intercept_slope"], np.zeros(d))
    assert set(data) == set(reference.plain_coordinates(d))


@pytest.mark.parametrize("followed", [("sigma", "eta"), ("sigma", "eta", "sigma_point")])
def test_drift_is_how_the_mode_moves_with_the_scales(rng, followed):
    """To second order: at scales changed by 1%, t of the mode there is mode_shift times that."""
    d, n = 4, 60
    sizes, lam = rng.choice([2.0, 7.0, 90.0], n), rng.gamma(2.0, size=d)
    z = rng.normal(size=(n, d))
    rows = compress(z, z @ rng.normal(size=d) + rng.normal(0, 0.3, n), sizes)
    likelihood, factor = partial(normal_likelihood, rows, lam), np.triu(rng.normal(size=(d, d)))
    factor += 2 * np.eye(d)
    scales = {"sigma": 0.4, "eta": 0.6, "rho": 0.8}
    scales |= {"sigma_point": 0.7} if "sigma_point" in followed else {}

    def mode_at(**scales):
        rho = scales.pop("rho")
        return find_mode(likelihood(**scales), factor, (0.0, 2.0), rho=rho)

    mode = mode_at(**scales)
    whitened = whitened_coordinates(mode, factor, scales["rho"])
    found = with_mode_shift(whitened, likelihood, factor, mode, scales, followed)
    np.testing.assert_array_equal(found["scale_at_mode"], [scales[name] for name in followed])
    for name, shift in zip(followed, found["mode_shift"].T, strict=True):
        up, down = (
            mode_at(**{**scales, name: scales[name] * np.exp(step)}).theta for step in (0.01, -0.01)
        )
        t = [reference.whiten(whitened, at[:d], at[-1], scales["rho"]) for at in (up, down)]
        np.testing.assert_allclose(shift, (t[0] - t[1]) / 0.02, rtol=5e-3, atol=5e-3)
