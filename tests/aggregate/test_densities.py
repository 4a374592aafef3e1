"""Log likelihoods of weights given totals: values by SciPy, derivatives by differences."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference, totals
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.laguerre import laggauss
from scipy.special import roots_genlaguerre

from bdr_stan.aggregate.densities import aggregate_likelihood

EVERY = pytest.mark.parametrize("likelihood, link", totals.MODELS)


def function_of(p, scales, rows=None):
    rows = totals.point_rows(p) if rows is None else rows
    return aggregate_likelihood(rows, totals.labels_of(p), **scales)


def factors(p):
    """Rows without weights of the square link: sqrt(p) times the points', or their triangles."""
    rows = totals.point_rows(p)
    X = rows.rows * np.sqrt(rows.weights)[:, None]
    blocks = [np.linalg.qr(X[a : a + m], mode="r") for a, m in zip(rows.start, rows.length)]
    length = np.array([len(block) for block in blocks])
    triangles = replace(rows, rows=np.vstack(blocks), length=length, weights=None)
    return {"points": replace(rows, rows=X, weights=None), "triangles": triangles}


def some_thetas(number=4):
    """Weights and intercepts that keep f away from zero, where the logarithm of f^2 breaks."""
    return np.random.default_rng(8).normal([0, 0, 0, 1.5], 0.2, size=(number, 4))


@EVERY
def test_value_is_scipys(likelihood, link):
    p, scales, _ = totals.problem(likelihood, link)
    function = function_of(p, scales)
    for theta in some_thetas():
        expected = totals.log_likelihood(p, w=theta[:-1], intercept=theta[-1], **scales)
        assert function(theta)[0] == pytest.approx(expected, rel=1e-10)


@EVERY
def test_slope_is_that_of_the_value(likelihood, link):
    p, scales, _ = totals.problem(likelihood, link)
    function = function_of(p, scales)
    for theta in some_thetas():
        slope = reference.gradient(lambda x: function(x)[0], theta)
        np.testing.assert_allclose(function(theta)[1], slope, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("likelihood", ["negative binomial", "gamma"])
def test_errors_of_labels_add_to_the_dispersion(likelihood):
    p, scales, _ = totals.problem(likelihood, "exp")
    p = totals.with_errors(p)
    function = function_of(p, scales)
    for theta in some_thetas(2):
        expected = totals.log_likelihood(p, w=theta[:-1], intercept=theta[-1], **scales)
        value, slope, _, curvature = function(theta)
        assert value == pytest.approx(expected, rel=1e-10)
        by_theta = reference.gradient(lambda x: function(x)[0], theta)
        np.testing.assert_allclose(slope, by_theta, rtol=1e-7, atol=1e-7)
        second = [reference.gradient(lambda x, i=i: function(x)[1][i], theta) for i in range(4)]
        np.testing.assert_allclose(-curvature, second, rtol=1e-6, atol=1e-6)


@EVERY
def test_curvature_is_that_of_the_slope(likelihood, link):
    p, scales, _ = totals.problem(likelihood, link)
    function = function_of(p, scales)
    for theta in some_thetas():
        second = [reference.gradient(lambda x, k=k: function(x)[1][k], theta) for k in range(4)]
        np.testing.assert_allclose(function(theta)[3], -np.array(second), rtol=1e-6, atol=1e-6)


@EVERY
def test_information_is_the_expected_curvature_and_square_of_the_slope(likelihood, link):
    """Label by label, over all that the label may be; continuous ones by Gaussian quadrature."""
    p, scales, theta = totals.problem(likelihood, link, n=3)
    squared, curved = np.zeros((2, 4, 4))
    for a in range(3):
        one = replace(
            p, psi=p.psi[a : a + 1], weights=p.weights[a : a + 1],
            residual_variance=p.residual_variance[a : a + 1],
            trials=None if p.trials is None else p.trials[a : a + 1],
        )  # fmt: skip
        law = totals.law_of_labels(one, w=theta[:-1], intercept=theta[-1], **scales)
        if likelihood == "exponential":  # slope and curvature are linear in y: ten nodes do
            labels, shares = laggauss(10)
            labels = labels * law.mean()
        elif likelihood == "gamma":
            shape = scales["dispersion"] ** -2
            labels, shares = roots_genlaguerre(10, shape - 1)
            labels, shares = labels * law.mean() / shape, shares / shares.sum()
        elif likelihood == "normal":
            labels, shares = hermegauss(10)
            labels, shares = law.mean() + law.std() * labels, shares / shares.sum()
        else:
            labels = np.arange(law.ppf(1 - 1e-15).item() + 1)
            shares = law.pmf(labels)
        for y, share in zip(labels, shares):
            _, slope, _, curvature = function_of(replace(one, y=np.array([y])), scales)(theta)
            squared += share * np.outer(slope, slope)
            curved += share * curvature
    information = function_of(p, scales)(theta)[2]
    np.testing.assert_allclose(squared, information, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(curved, information, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("likelihood", [name for name, link in totals.MODELS if link == "square"])
@pytest.mark.parametrize("rows", ["points", "triangles"])
def test_factors_do_as_well_as_points(likelihood, rows):
    p, scales, _ = totals.problem(likelihood, "square")
    one, other = function_of(p, scales), function_of(p, scales, factors(p)[rows])
    for theta in some_thetas():
        for ours, theirs in zip(one(theta), other(theta), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)
