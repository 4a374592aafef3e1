"""Coordinates of embeddings: bases that make matrices diagonal, and what they leave as it is."""

import numpy as np
import pytest
from builders import reference

from bdr_stan.embedding.coordinates import Coordinates, joint_coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding


@pytest.fixture(params=[(1, 1), (3, 5), (40, 4)], ids=str)
def mean(request, rng):
    n, d = request.param
    return 2 + rng.normal(size=(n, d)) @ rng.normal(size=(d, d))


def coordinates_of(p):
    return joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)


def test_principal_axes_make_the_design_diagonal(mean):
    coordinates = principal_axes(Embedding(np.ones(len(mean)), mean, None))
    d = mean.shape[1]
    np.testing.assert_allclose(coordinates.m0, mean.mean(axis=0))
    np.testing.assert_allclose(coordinates.basis.T @ coordinates.basis, np.eye(d), atol=1e-12)
    squares = coordinates.transform(mean).T @ coordinates.transform(mean)
    np.testing.assert_allclose(squares, np.diag(np.diag(squares)), atol=1e-9 * (1 + squares.max()))
    assert np.all(np.diff(np.diag(squares)) <= 1e-9)
    np.testing.assert_array_equal(coordinates.lam, np.zeros(d))
    np.testing.assert_array_equal(coordinates.prior_factor, np.eye(d))


def test_principal_axes_keep_the_regression_and_its_prior(mean, rng):
    """beta = V w gives the same function, and N(0, rho^2 I) is that of beta as well."""
    coordinates = principal_axes(Embedding(np.ones(len(mean)), mean, None))
    w = rng.normal(size=mean.shape[1])
    function = (mean - mean.mean(axis=0)) @ (coordinates.basis @ w)
    np.testing.assert_allclose(coordinates.transform(mean) @ w, function, rtol=1e-10, atol=1e-12)
    away = mean - mean.mean(axis=0)
    np.testing.assert_allclose(
        coordinates.prior_variance(coordinates.transform(mean)),
        np.sum(away**2, axis=1),
        rtol=1e-10,
        atol=1e-20,
    )


@pytest.mark.parametrize("d", [1, 2, 7])
def test_joint_coordinates_make_both_covariances_diagonal(rng, d):
    p = reference.random_problem(rng, d=d)
    coordinates = coordinates_of(p)
    V = coordinates.basis
    np.testing.assert_allclose(coordinates.m0, p.mu.mean(axis=0))
    np.testing.assert_allclose(V.T @ p.R @ V, np.eye(d), atol=1e-11)
    np.testing.assert_allclose(
        V.T @ p.Sigma @ V, np.diag(coordinates.lam), atol=1e-10 * coordinates.lam[-1]
    )
    precision = (
        coordinates.prior_factor.T @ coordinates.prior_factor
    )  # of w where alpha = V w has K
    np.testing.assert_allclose(precision, V.T @ p.K @ V, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(coordinates.prior_factor, np.triu(coordinates.prior_factor))


def test_where_the_prior_kernel_is_that_of_the_weights_their_precision_is_one(rng):
    p = reference.random_problem(rng, same_kernel=True)
    coordinates = coordinates_of(p)
    np.testing.assert_array_equal(coordinates.prior_factor, np.eye(4))
    np.testing.assert_allclose(coordinates.basis.T @ p.K @ coordinates.basis, np.eye(4), atol=1e-11)
    # Equal, but not known to be.
    equal = joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.K.copy(), p.K)
    np.testing.assert_allclose(equal.prior_factor, np.eye(4), atol=1e-11)


def test_prior_variance_of_the_regression_function(rng):
    """That of (mu_i - m0)' alpha, alpha ~ N(0, K^-1), from the dense formula and from draws."""
    p = reference.random_problem(rng, n=6, d=3)
    coordinates, away = coordinates_of(p), p.mu - p.m0
    found = coordinates.prior_variance(coordinates.transform(p.mu))
    np.testing.assert_allclose(found, np.diag(away @ np.linalg.inv(p.K) @ away.T), rtol=1e-9)
    draws = rng.multivariate_normal(np.zeros(3), np.linalg.inv(p.K), 100_000) @ away.T
    np.testing.assert_allclose(found, draws.var(axis=0), rtol=0.03)


def test_coordinates_of_other_bags_are_taken_from_the_same_origin(rng):
    p = reference.random_problem(rng)
    coordinates = coordinates_of(p)
    np.testing.assert_allclose(coordinates.transform(p.m0[None]), np.zeros((1, 4)), atol=1e-12)
    np.testing.assert_allclose(
        coordinates.transform(p.mu[3:5]), coordinates.transform(p.mu)[3:5], rtol=1e-12
    )


def test_a_fit_keeps_the_coordinates(rng):
    coordinates = coordinates_of(reference.random_problem(rng))
    constants = coordinates.constants()
    for values, dimensions in constants.values():
        assert len(dimensions) == np.ndim(values)
    again = Coordinates.from_constants({name: values for name, (values, _) in constants.items()})
    for name in ("m0", "basis", "lam", "prior_factor"):
        np.testing.assert_array_equal(getattr(again, name), getattr(coordinates, name))


def test_prior_that_is_not_positive_definite(rng):
    p = reference.random_problem(rng)
    with pytest.raises(ValueError, match="prior kernel matrix .* is not positive definite"):
        joint_coordinates(p.mu.mean(axis=0), p.Sigma, -p.R, p.K)
